"""The columns of a log-linear model: main effects, interactions, covariates, and an exposure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Floats
from congenial.errors import InferenceError, did_you_mean
from congenial.public_law import PublicLaw

INTERCEPT = "intercept"


@dataclass(frozen=True)
class Design:
    """The columns of a log-linear model, by name: a number for each cell.

    Attributes
    ----------
    matrix : array (cell, column)
    log_exposure : array (cell,)
        Added to every cell's log rate.
    """

    names: tuple[str, ...]
    matrix: Floats
    log_exposure: Floats

    def log_rates(self, theta: Floats) -> Floats:
        """Return the log rate of each cell (..., cell) at parameters (..., column)."""
        return np.asarray(theta @ self.matrix.T + self.log_exposure)

    @classmethod
    def of(
        cls,
        law: PublicLaw,
        terms: Sequence[str],
        covariates: Mapping[str, ArrayLike] | None = None,
        exposure: ArrayLike | None = None,
    ) -> "Design":
        """Return an intercept, main effects of dimensions (first level left out), and covariates of the cells.

        Parameters
        ----------
        terms : sequence of str
            Dimensions, or several joined by ``:`` for an interaction.
        covariates : mapping from name to a number for each cell, optional
        exposure : a positive number for each cell, optional
            Rates are for one unit of it: person-years, or people at risk.
        """
        schema = law.schema
        if isinstance(terms, str):
            raise InferenceError(f'terms are a list, such as ["{terms}"]')
        names, parts = [INTERCEPT], [np.ones(schema.n_cells)]
        indicators: dict[str, dict[str, Floats]] = {}
        for name in schema.names:
            indicators[name] = {}
            for label in schema.labels(name)[1:]:
                column = np.zeros(schema.n_cells)
                column[schema.cells({name: label})] = 1.0
                indicators[name][f"{name}={label}"] = column
        for term in terms:
            product: dict[str, Floats] = {"": np.ones(schema.n_cells)}
            parts_of_term = term.split(":")
            if len(set(parts_of_term)) != len(parts_of_term):
                raise InferenceError(f"the term {term!r} names a dimension twice; name each once, joined by ':'")
            for name in parts_of_term:
                if name not in indicators:
                    raise InferenceError(f"{name!r} is not a dimension; {did_you_mean(name, schema.names)}")
                product = {
                    f"{head}:{tail}" if head else tail: left * right
                    for head, left in product.items()
                    for tail, right in indicators[name].items()
                }
            names += product
            parts += product.values()
        for name, values in (covariates or {}).items():
            names.append(name)
            parts.append(_numbers(values, schema.n_cells, f"covariate {name!r}"))
        if len(set(names)) != len(names):
            raise InferenceError("a term or covariate is named twice")
        size = np.ones(schema.n_cells) if exposure is None else _numbers(exposure, schema.n_cells, "the exposure")
        if not np.all(size > 0):
            raise InferenceError("the exposure is above 0 in every cell; leave cells without any out of the table")
        return cls(tuple(names), np.stack(parts, axis=1), np.log(size))


def _numbers(values: ArrayLike, n_cells: int, what: str) -> Floats:
    column = np.asarray(values, np.float64).reshape(-1)
    if column.shape != (n_cells,) or not np.all(np.isfinite(column)):
        raise InferenceError(f"{what} needs {n_cells} finite numbers, one for each cell")
    return column
