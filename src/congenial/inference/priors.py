"""What an analyst believes of the confidential table before seeing the release: a log density on tables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Floats, Ints
from congenial.errors import InferenceError, did_you_mean, import_extra
from congenial.label_widths import widths_of_labels
from congenial.schema import Schema

LogDensity = Callable[[Ints], Floats]


@dataclass(frozen=True)
class Prior:
    """A log density, up to a constant, of tables (draw, cell).

    Attributes
    ----------
    text : str
        What it says, in words.
    """

    text: str
    log_density: LogDensity

    def __call__(self, tables: Ints) -> Floats:
        """Return the log density of each table, checked to be one finite number or minus infinity each."""
        found = np.asarray(self.log_density(tables), np.float64)
        if found.shape != (len(tables),) or np.isnan(found).any() or (found == np.inf).any():
            raise InferenceError(
                f"the prior must give one number for each of {len(tables):,} tables (draw, cell), finite or minus"
                f" infinity and never NaN; it gave an array of shape {found.shape}"
            )
        return found


@dataclass(frozen=True)
class Smooth:
    """The default: Poisson counts whose log rates have main effects and shrunken interactions, smooth where ordered.

    It has no density to write down: its effects and their scales are drawn together with the tables.

    Attributes
    ----------
    ordered : mapping from dimension to widths
        Dimensions along which neighbours are alike, and how wide their levels are.
    """

    ordered: Mapping[str, tuple[float, ...]]

    @property
    def text(self) -> str:
        """What it says, in words."""
        along = f", smooth along {' and '.join(self.ordered)}" if self.ordered else ""
        return f"smooth: main effects and shrunken interactions on the log scale{along}"


def smooth(schema: Schema, ordered: Mapping[str, Sequence[float] | None] | None = None) -> Smooth:
    """Return the default prior of a schema.

    Parameters
    ----------
    ordered : mapping, optional
        Dimensions whose levels have an order, with the width of each level; None for what labels say, or else 1 each.
        Left out, those that the schema says, and those whose labels are intervals that follow upon each other, such as
        ages.

    Examples
    --------
    >>> smooth(Schema({"sex": ["female", "male"], "age": ["0-17", "18-64", "65+"]})).text
    'smooth: main effects and shrunken interactions on the log scale, smooth along age'
    """
    if ordered is None:
        found = {name: schema.ordered.get(name) or widths_of_labels(schema.labels(name)) for name in schema.names}
        return Smooth({name: tuple(map(float, widths)) for name, widths in found.items() if widths is not None})
    return Smooth({name: _widths(schema, name, given) for name, given in ordered.items()})


def _widths(schema: Schema, name: str, given: Sequence[float] | None) -> tuple[float, ...]:
    if name not in schema.names:
        raise InferenceError(f"{name!r} is not a dimension; {did_you_mean(str(name), schema.names)}")
    n_levels = len(schema.labels(name))
    said = schema.ordered.get(name) or widths_of_labels(schema.labels(name)) or (1,) * n_levels
    known = tuple(map(float, said if given is None else given))
    if len(known) != n_levels or not all(0 < width < float("inf") for width in known):
        raise InferenceError(f"the widths of {name!r} are {n_levels} numbers above 0, one for each level")
    return known


def flat() -> Prior:
    """Every table that fits the published numbers is equally likely."""
    return Prior("flat: every table that fits is equally likely", lambda tables: np.zeros(len(tables)))


def poisson(schema: Schema, rates: ArrayLike) -> Prior:
    """Return independent Poisson cells with given rates; given the total, this is the multinomial prior.

    Examples
    --------
    >>> prior = poisson(Schema({"bin": ["a", "b"]}), [1.0, 3.0])
    >>> prior(np.array([[1, 1], [0, 2]])).round(4).tolist()
    [1.0986, 1.5041]
    """
    known = _positive(schema, rates, "rates")
    gammaln = import_extra("scipy.special", "analysis").gammaln

    def log_density(tables: Ints) -> Floats:
        return np.asarray((tables * np.log(known) - gammaln(tables + 1.0)).sum(axis=1))

    return Prior("independent Poisson cells with given rates", _of_counts(log_density))


def dirichlet(schema: Schema, concentration: ArrayLike = 0.5) -> Prior:
    """Return multinomial cells whose probabilities have a Dirichlet law: cells may differ much, sharing nothing.

    A concentration of 1/2 is Jeffreys' prior; with 1, and the total published, it would be the flat prior.

    Where the total is not published, it is taken to be equally likely to be anything.
    """
    alpha = _positive(
        schema, np.broadcast_to(np.asarray(concentration, np.float64), (schema.n_cells,)), "concentration"
    )
    gammaln = import_extra("scipy.special", "analysis").gammaln

    def log_density(tables: Ints) -> Floats:
        total = tables.sum(axis=1)
        cells = gammaln(tables + alpha) - gammaln(tables + 1.0)
        return np.asarray(cells.sum(axis=1) + gammaln(total + 1.0) - gammaln(total + alpha.sum()))

    return Prior("multinomial cells, Dirichlet probabilities", _of_counts(log_density))


def independence(schema: Schema, concentration: float = 1.0) -> Prior:
    """Return multinomial cells whose dimensions are independent (log-linear), each with Dirichlet probabilities.

    Where the total is not published, it is taken to be equally likely to be anything.
    """
    if not concentration > 0:
        raise InferenceError(f"the concentration must be above 0, and it is {concentration}")
    gammaln = import_extra("scipy.special", "analysis").gammaln

    axes = range(len(schema.shape))

    def log_density(tables: Ints) -> Floats:
        cube = tables.reshape(len(tables), *schema.shape)
        total = tables.sum(axis=1)
        out = gammaln(total + 1.0) - gammaln(tables + 1.0).sum(axis=1)
        for axis in axes:
            sums = cube.sum(axis=tuple(other + 1 for other in axes if other != axis))
            alpha = np.full(schema.shape[axis], concentration)
            out = out + (gammaln(sums + alpha) - gammaln(alpha)).sum(axis=1) + gammaln(alpha.sum())
            out = out - gammaln(total + alpha.sum())
        return np.asarray(out)

    return Prior("multinomial cells with independent dimensions", _of_counts(log_density))


def _of_counts(log_density: LogDensity) -> LogDensity:
    """Give tables with a negative cell, which conditions may allow, no chance at all."""

    def checked(tables: Ints) -> Floats:
        counts = (tables >= 0).all(axis=1)
        out = np.full(len(tables), -np.inf)
        if counts.any():
            out[counts] = log_density(tables[counts])
        return out

    return checked


NAMED: dict[str, Callable[[Schema], Prior | Smooth]] = {
    "smooth": smooth,
    "flat": lambda _: flat(),
    "dirichlet": dirichlet,
    "independence": independence,
}


def prior_of(schema: Schema, given: "str | Prior | Smooth | LogDensity") -> Prior | Smooth:
    """Return the prior that is named, given, or made of a function of tables (draw, cell)."""
    if isinstance(given, Prior | Smooth):
        return given
    if isinstance(given, str):
        if given not in NAMED:
            raise InferenceError(f"prior {given!r} is not known; {did_you_mean(given, NAMED)}")
        return NAMED[given](schema)
    if callable(given):
        return Prior("given by the analyst", given)
    raise InferenceError(
        f"a prior is {', '.join(NAMED)}, a Prior, or a function of tables, not a {type(given).__name__}"
    )


def _positive(schema: Schema, values: ArrayLike, what: str) -> Floats:
    known = np.asarray(values, np.float64).reshape(-1)
    if known.shape != (schema.n_cells,) or not np.all(np.isfinite(known)) or not np.all(known > 0):
        raise InferenceError(f"{what} are {schema.n_cells} finite numbers above 0, one for each cell")
    return known
