"""What released tables add up to: expected error and bias of sums over all areas, of margins, and by size of count.

Computed from the law around public tables. Where counts cannot be negative, noise on cells that are 0 can only add, and
what hardly shows in one area does in the sum of thousands.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.bundle.expected_error import class_text, size_classes
from congenial.conditions.queries import margin, total
from congenial.conditions.rows import Row, dense
from congenial.conditions.where import cell_names
from congenial.plan import Plan
from congenial.randomness import RandomStream, replay_rng
from congenial.resources import n_processors
from congenial.sampling.exact_errors import exact_errors
from congenial.sampling.system import System
from congenial.schema import Schema

SIZES = (0, 1, 5, 10, 50, 100, 1_000)
"""Where classes of counts begin."""

EXACTLY = 24
"""Up to so many areas have their moments computed without a draw, at some 30 milliseconds each."""

_SECONDS = 0.6  # of draws, by the samplers' own estimate, which is about twice what they take
_NUMBERS = 4_000_000  # kept at a time: of areas that are drawn around, times sums
_FEWEST_AREAS, _MOST_DRAWS = 25, 5_000
_MOST_LEVELS = 60


@dataclass(frozen=True)
class SumError:
    """What to expect of one sum of cells: in an area, and over all areas.

    Attributes
    ----------
    count : int
        The sum over all areas of the tables that errors are computed around.
    bias, size : float
        In one area, on average: mean error, and root mean squared error.
    bias_of_all, size_of_all : float
        The same of the sum over all areas.
    doubt : float
        Standard error of `bias_of_all` where it comes from draws, or from some of the areas.
    """

    text: str
    n_cells: int
    count: int
    bias: float
    size: float
    bias_of_all: float
    size_of_all: float
    doubt: float

    @property
    def is_biased(self) -> bool:
        """Whether its sum over areas is off to one side by more than noise: a hundredth of the count and above it."""
        deviation = sqrt(max(self.size_of_all**2 - self.bias_of_all**2, 0.0))
        least = max(3 * self.doubt, deviation, 0.01 * abs(self.count), 1.0)
        return abs(self.bias_of_all) > least


@dataclass(frozen=True)
class ClassError:
    """Mean error and root mean squared error of single cells whose count is from `low` on, and below `high`."""

    low: int
    high: int | None
    n_cells: int
    bias: float
    size: float

    @property
    def text(self) -> str:
        """The class in words."""
        return class_text(self.low, self.high)


@dataclass(frozen=True)
class AddingUp:
    """Errors and biases to expect if the confidential tables were these.

    Attributes
    ----------
    reference : str
        Which tables errors are computed around, in words.
    n_areas, n_looked_at : int
        How many areas there are, and how many of them stand for all.
    sums : tuple of SumError
        All cells together, each level of each dimension, each cell.
    classes : tuple of ClassError
        Single cells by the size of their count.
    is_made_up : bool
        Whether the tables are made up: then which sums are small means nothing.
    rare : tuple of (str, SumError)
        Where the tables are made up: of each dimension, the level that comes out most too large if nobody has it.
    """

    reference: str
    n_areas: int
    n_looked_at: int
    sums: tuple[SumError, ...]
    classes: tuple[ClassError, ...]
    is_made_up: bool = False
    rare: tuple[tuple[str, SumError], ...] = ()

    @property
    def biased(self) -> tuple[SumError, ...]:
        """Sums over areas that come out wrong to one side, the worst for its count first; cells where no level does."""
        found = [one for one in self.sums if self.n_areas > 1 and one.is_biased]
        wide = [one for one in found if one.n_cells > 1]
        return tuple(sorted(wide or found, key=lambda one: -abs(one.bias_of_all) / max(abs(one.count), 1)))


def adding_up(
    plan: Plan,
    tables: Ints,
    reference: str,
    *,
    places: Ints | None = None,
    rows: Sequence[Row] | None = None,
    rng: RandomStream | None = None,
) -> AddingUp:
    """Return what to expect of sums over all areas of a plan, around tables (area, cell).

    Where there are very many areas, some stand for all: every so-manieth by size.

    Parameters
    ----------
    places : array (area,), optional
        Which areas the tables are of, if they are of some only.
    rows : sequence of Row, optional
        The sums; if not given, `statistics`, and then cells by the size of their count as well.
    rng : RandomStream, optional
        A public and repeatable one if not given.

    Examples
    --------
    >>> import congenial as cg
    >>> schema = cg.Schema({"group": ["large", "rare"]})
    >>> mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=[cg.total()])
    >>> counts = {f"block {n}": [20, n % 2] for n in range(10)}
    >>> tables = {name: cg.Table(schema, own) for name, own in counts.items()}
    >>> plan = mechanism.plan(mechanism.disclose(tables, area="block"))
    >>> found = adding_up(plan, np.array(list(counts.values())), "public tables")
    >>> [(one.text, one.count, round(one.bias_of_all, 1), one.is_biased) for one in found.sums]
    [('total', 205, 0.0, False), ('group=large', 200, -1.0, False), ('group=rare', 5, 1.0, False)]
    """
    of_areas = np.arange(len(tables)) if places is None else places
    rows, n_areas = rows or statistics(plan.law.schema), len(plan.law.areas)
    if len(tables) <= EXACTLY and (found := _exact(plan, tables, of_areas, rows)) is not None:
        return _summed_up(rows, tables, *found, np.zeros(len(rows)), reference, n_areas)
    groups = zip(plan.law.areas.groups, plan.samplers, strict=True)
    seconds = sum(len(group.places) * sampler.seconds for group, sampler in groups) / n_areas
    chosen = evenly(tables.sum(axis=1), int(max(_FEWEST_AREAS, min(_SECONDS / 2 / seconds, _NUMBERS / len(rows)))))
    n_draws = int(np.clip(_SECONDS / seconds / len(chosen), 2, max(2, _MOST_DRAWS // len(chosen))))
    bias, square = _drawn(plan, tables[chosen], of_areas[chosen], rows, n_draws, rng or replay_rng("adding up"))
    doubt = np.maximum(square - bias**2, 0.0).sum(axis=0) / (n_draws - 1)
    made = _summed_up(rows, tables[chosen], bias, square, doubt, reference, n_areas)
    return made if places is not None else _with_counts(made, rows, tables)


def statistics(schema: Schema) -> list[Row]:
    """Return the sums that are looked at: all cells, each level where these are not many, each cell."""
    cells = [Row.of(name, [cell]) for cell, name in enumerate(cell_names(schema, range(schema.n_cells)))]
    levels = [row for name in schema.names for row in margin(name).rows(schema)]
    return [*total().rows(schema), *(levels if len(levels) <= _MOST_LEVELS and len(schema.names) > 1 else []), *cells]


def _exact(plan: Plan, tables: Ints, places: Ints, rows: Sequence[Row]) -> tuple[Floats, Floats] | None:
    """Return mean error and mean squared error of every sum in every area, without a draw; None where that is slow."""
    out = []
    for place, table in zip(places.tolist(), tables, strict=True):
        constraints = plan.law.areas[plan.law.areas.labels[place]]
        found = exact_errors(System.of(constraints, plan.law.measured), table, rows)
        if found is None:
            return None
        out.append(found)
    return np.stack([one.bias for one in out]), np.stack([one.size for one in out]) ** 2


def evenly(sizes: Ints, most: int) -> Ints:
    """Return at most so many places, ascending, spread evenly over the ranks of their sizes.

    Examples
    --------
    >>> evenly(np.array([5, 1, 9, 7, 3, 8]), 3)
    array([2, 3, 4])
    """
    if len(sizes) <= most:
        return np.arange(len(sizes))
    ranked = np.argsort(sizes, kind="stable")
    return np.sort(ranked[((np.arange(most) + 0.5) * len(sizes) / most).astype(np.int64)])


def _drawn(
    plan: Plan, tables: Ints, places: Ints, rows: Sequence[Row], n_draws: int, rng: RandomStream
) -> tuple[Floats, Floats]:
    """Return mean error and mean squared error of every sum in every area (area, statistic), from draws."""
    matrix = dense(rows, tables.shape[1]).T.astype(np.float64)
    once, twice = np.zeros((2, len(tables), matrix.shape[1]))
    for group, sampler in zip(plan.law.areas.groups, plan.samplers, strict=True):
        own = np.flatnonzero(np.isin(places, group.places))
        for _ in range(n_draws if len(own) else 0):
            gaps = (sampler.draw_each(tables[own], rng, n_threads=n_processors()) - tables[own]) @ matrix
            once[own] += gaps
            twice[own] += gaps**2
    return once / n_draws, twice / n_draws


def _summed_up(
    rows: Sequence[Row], tables: Ints, bias: Floats, square: Floats, doubt: Floats, reference: str, n_areas: int
) -> AddingUp:
    """Add the errors of areas up, which are independent; some areas stand for all.

    Parameters
    ----------
    bias, square : arrays (area, statistic)
    doubt : array (statistic,)
        Variance that draws leave in the summed bias.
    """
    n_cells, times = tables.shape[1], n_areas / len(tables)
    deviation = np.maximum(square.sum(axis=0) - (bias**2).sum(axis=0) + doubt, 0.0)  # variances of areas add up
    # Areas were taken at even steps of size: how much those of neighbouring sizes differ is what the steps leave open.
    by_size = bias[np.argsort(tables.sum(axis=1), kind="stable")]
    steps = np.diff(by_size, axis=0) if times > 1 else np.zeros((1, len(rows)))
    between = len(tables) * (steps**2).mean(axis=0) / 2
    of_all = times * bias.sum(axis=0)
    doubts = times * np.sqrt(doubt + between * (1 - 1 / times))
    squares = of_all**2 + times * deviation
    counts = tables @ dense(rows, n_cells).T
    sums = [
        SumError(
            text=row.name,
            n_cells=len(row.cells),
            count=round(times * int(counts[:, place].sum())),
            bias=float(bias[:, place].mean()),
            size=float(np.sqrt(square[:, place].mean())),
            bias_of_all=float(of_all[place]),
            size_of_all=float(np.sqrt(squares[place])),
            doubt=float(doubts[place]),
        )
        for place, row in enumerate(rows)
    ]
    of_cells = slice(len(rows) - n_cells, None)
    found = classes(tables, bias[:, of_cells], square[:, of_cells], times) if len(rows) > n_cells else ()
    return AddingUp(reference, n_areas, len(tables), tuple(sums), tuple(found))


def _with_counts(found: AddingUp, rows: Sequence[Row], tables: Ints) -> AddingUp:
    """Return the same with the counts of all areas, where only some were drawn around."""
    counts = (tables.sum(axis=0) @ dense(rows, tables.shape[1]).T).tolist()
    sums = tuple(replace(one, count=count) for one, count in zip(found.sums, counts, strict=True))
    own = tuple(replace(one, n_cells=int(_in_class(tables, one.low, one.high).sum())) for one in found.classes)
    return replace(found, sums=sums, classes=own)


def _in_class(tables: Ints, low: int, high: int | None) -> NDArray[np.bool_]:
    return (tables >= low) & (tables < (np.inf if high is None else high))


def classes(tables: Ints, bias: Floats, square: Floats, times: float = 1.0) -> Sequence[ClassError]:
    """Return the errors of single cells (area, cell) by the size of their count."""
    out = []
    for low, high in size_classes(SIZES):
        own = _in_class(tables, low, high)
        if own.any():
            size = float(np.sqrt(square[own].mean()))
            out.append(ClassError(low, high, round(times * int(own.sum())), float(bias[own].mean()), size))
    return out
