"""What releases of tables of the same records cost together, by kinds of change: docs/claims/measured-tables.md.

Losses of independent releases add up for each change; the maximum is over changes that keep all exact numbers together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from congenial.arrays import Ints
from congenial.errors import PrivacyError
from congenial.privacy.certificate import EXCHANGE, ONE_RECORD, shown
from congenial.privacy.workload import WorkloadFacts
from congenial.privacy.workload_certificate import (
    change_text,
    checked_names,
    joined,
    promised,
    records_apart,
    table_name,
)
from congenial.privacy.workload_changes import KindOfChange, any_records

_ALMOST = 1 - 1e-9  # far more than the rounding of sums of doubles


@dataclass(frozen=True)
class PriceTogether:
    """What changes of one kind cost over several releases at most. Public.

    Attributes
    ----------
    kind : str
    k : int
        How many records apart the pairs are, under the neighbour relation.
    epsilon : Fraction or None
        Pure; None where some release has Gaussian noise, or there is no such change.
    rho : Fraction or None
        At all orders; None where there is no such change.
    text : str
        The change in words.
    """

    kind: str
    k: int
    epsilon: Fraction | None
    rho: Fraction | None
    text: str

    def __str__(self) -> str:
        if self.rho is None:
            return f"{self.text}: there is no such change"
        amount = f"rho {shown(self.rho)}" if self.epsilon is None else f"epsilon {shown(self.epsilon)}"
        return f"{self.text}: {amount}"


@dataclass(frozen=True, repr=False)
class TablesTogether:
    """Several releases of tables of one dataset. Public.

    Attributes
    ----------
    prices : tuple of PriceTogether
        Of one record, of two that exchange an exact attribute, and of any two records.
    unaltered_attributes : tuple of str
        What of a record no change of it alone alters, as all exact numbers together stay.
    unaltered_tables : tuple of str
        Tables that no change of one record alters, those included that exact margins determine.
    """

    prices: tuple[PriceTogether, ...]
    unaltered_attributes: tuple[str, ...]
    unaltered_tables: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """What `status` and `plan` say of it."""
        tables = joined(self.unaltered_tables) if self.unaltered_tables else "nothing that is measured"
        last = f"no change of one record alters, as all exact numbers together stay: {tables}"
        return (*map(str, self.prices), last)

    def __repr__(self) -> str:
        return "\n".join(self.lines)


def compose_workloads(releases: Sequence[WorkloadFacts], names: Sequence[str] | None = None) -> TablesTogether:
    """Return what several releases of one dataset cost together, for changes that keep the exact numbers of all.

    Parameters
    ----------
    releases : sequence of WorkloadFacts
        Over the same attributes and levels; a release of one table is a workload of one table.
    names : sequence of str, optional
        Of attributes, for people.

    Examples
    --------
    >>> from congenial.privacy.workload import WorkloadTable
    >>> weight, noise, sizes = Fraction(1, 6), "discrete_gaussian", (39, 8, 2, 12)
    >>> first = WorkloadFacts(sizes, (WorkloadTable((0, 1, 2), 2 * weight),), noise, exact=((0,),))
    >>> tables = WorkloadTable((0, 3), weight), WorkloadTable((2, 3), weight)
    >>> second = WorkloadFacts(sizes, tables, noise, exact=((3,),))
    >>> print(compose_workloads([first, second], ["county", "age", "sex", "diagnosis"]))
    one record that keeps its county and diagnosis: rho 0.5
    two records that exchange county or diagnosis: rho 1.3334
    any 2 records: rho 2
    no change of one record alters, as all exact numbers together stay: county x diagnosis
    """
    together = union_of(releases)
    called = checked_names(together, names)
    kinds = [ONE_RECORD, EXCHANGE, any_records(2)]
    prices = tuple(_price(releases, together, kind, called) for kind in kinds)
    moved = promised(together, ONE_RECORD).largest
    still = [table_name(table.axes, called) for table, move in zip(together.tables, moved, strict=True) if not move]
    held = tuple(called[axis] for axis in sorted(together.held))
    return TablesTogether(prices, held, tuple(dict.fromkeys(still)))


def union_of(releases: Sequence[WorkloadFacts]) -> WorkloadFacts:
    """Return all tables and all exact numbers of several releases as one workload; its noise means nothing."""
    if not releases:
        raise PrivacyError("there is nothing to compose: give at least one release")
    first = releases[0]
    if any(release.sizes != first.sizes or release.neighbours != first.neighbours for release in releases):
        raise PrivacyError(
            "releases of one dataset have the same attributes and levels and one neighbour relation; state all"
            " attributes of the dataset in each"
        )
    return replace(
        first,
        tables=tuple(table for release in releases for table in release.tables),
        noise="discrete_gaussian",
        exact=tuple(dict.fromkeys(axes for release in releases for axes in release.exact)),
        sums=tuple(rows for release in releases for rows in release.sums),
        zeros=tuple(zeros for release in releases for zeros in release.zeros),
    )


def _absolutes(together: WorkloadFacts, kind: KindOfChange) -> Ints:
    """Return sums of absolute differences for rows of sums of squares."""
    if kind.n_records <= 2 and not together.comes:
        return np.minimum(kind.moves, 4)  # of two records: 0, 2, 4, 6, 8 squared are 0, 2, 4, 4, 4
    return promised(replace(together, noise="double_geometric"), kind.name).moves  # one row each


def _price(
    releases: Sequence[WorkloadFacts], together: WorkloadFacts, name: str, names: Sequence[str]
) -> PriceTogether:
    kind = promised(together, name)
    k, text = records_apart(together, kind.n_records), change_text(together, name, None, names)
    if kind.is_empty:
        return PriceTogether(name, k, None, None, text)
    absolutes = _absolutes(together, kind)
    ends = np.cumsum([len(release.tables) for release in releases]).tolist()
    parts = list(zip(releases, [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)], strict=True))
    is_pure = all(release.exponent == 1 for release in releases)
    rough, rough_pure = np.zeros(len(kind.moves)), np.zeros(len(kind.moves))
    for release, columns in parts:
        weights = np.array([float(p) for p in release.precisions])
        if release.exponent == 2:
            rough += kind.moves[:, columns] @ weights / 2
        else:
            rough += (absolutes[:, columns] @ weights) ** 2 / 2
            rough_pure += absolutes[:, columns] @ weights
    best = Fraction(0)
    for row in np.flatnonzero(rough >= rough.max() * _ALMOST).tolist():
        best = max(best, sum((_rho(r, kind.moves[row, c], absolutes[row, c]) for r, c in parts), Fraction(0)))
    pure = Fraction(0)
    for row in np.flatnonzero(rough_pure >= rough_pure.max() * _ALMOST).tolist() if is_pure else []:
        pure = max(pure, sum((_dot(r, absolutes[row, c]) for r, c in parts), Fraction(0)))
    return PriceTogether(name, k, pure if is_pure else None, best, text)


def _dot(release: WorkloadFacts, moves: Ints) -> Fraction:
    return sum((p * n for p, n in zip(release.precisions, moves.tolist(), strict=True)), Fraction(0))


def _rho(release: WorkloadFacts, squares: Ints, absolutes: Ints) -> Fraction:
    return _dot(release, squares) / 2 if release.exponent == 2 else _dot(release, absolutes) ** 2 / 2
