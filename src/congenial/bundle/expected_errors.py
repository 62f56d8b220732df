"""How large the error of a released number is expected to be: from the published law, around a public table."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import floor, log10, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.conditions.areas_and_bounds import Area
from congenial.conditions.queries import margin, total
from congenial.conditions.rows_and_intervals import Row, cell_names, dense
from congenial.law import PublicLaw
from congenial.memory_and_threads import n_processors, parts_of
from congenial.plan import Plan
from congenial.randomness import RandomStream, replay_rng
from congenial.sampling.error_moments import ErrorMoments, exact_errors
from congenial.sampling.target_and_system import System
from congenial.schema import Schema

# Draws are for what has no quick exact answer: their standard error is below one percent from 5,000 on, and the kernels
# that draw take longer to load (1 s) than the exact moments of 46 cells and 25 margins to compute (0.05 s).
NO_ERROR = 1e-6
"""Below it a number is exact, and what is left is of floating point."""

_MAX_CELL_DRAWS = 20_000
_FEWEST_DRAWS = 1_000
_MAX_DECIDED = 5_000  # tables that a rule decides: a percent off
_FEWEST_SLOW_DRAWS, _CELL_SECONDS = 50, 10.0  # a tenth off, where more would take long
_DECIDED_SECONDS = 2.0
_CELL_NUMBERS = 2_000_000
_MOST_MARGINS = 60


@dataclass(frozen=True)
class ExpectedError:
    """Root mean squared error of statistics of one table, if the confidential table were the reference.

    Attributes
    ----------
    reference : str
        Which public table stands in for the confidential one.
    cells : array (cell,)
        Zero where the invariants determine the cell.
    margins : tuple of (text, error)
        Sums over each level of each dimension.
    """

    reference: str
    area: Area
    cells: Floats
    margins: tuple[tuple[str, float], ...]


def expected_error(plan: Plan, area: Area, centre: Ints, reference: str) -> ExpectedError:
    """Return the errors of cells and one-way margins around a public table of one area."""
    schema = plan.law.schema
    rows = [row for name in schema.names for row in margin(name).rows(schema)]
    margins = rows if len(rows) <= _MOST_MARGINS and len(schema.names) > 1 else []
    moments = _moments(plan.law, area, centre, [*_cell_rows(schema), *margins])
    errors = _drawn_errors(plan, area, centre, margins) if moments is None else moments.size
    of_cells, of_margins = errors[: schema.n_cells], errors[schema.n_cells :].tolist()
    return ExpectedError(reference, area, of_cells, tuple(zip((row.name for row in margins), of_margins, strict=True)))


def quick_errors(law: PublicLaw, area: Area, centre: Ints) -> Floats | None:
    """Return the errors of single cells around a public table of one area; None where draws would be needed."""
    moments = _moments(law, area, centre, _cell_rows(law.schema))
    return None if moments is None else moments.size


def _moments(law: PublicLaw, area: Area, centre: Ints, rows: Sequence[Row]) -> ErrorMoments | None:
    """Return mean and size of errors without a draw; None where that is slow, or where a rule decides the table."""
    if law.is_measured:
        return None
    return exact_errors(System.of(law.areas[area], law.measured), centre, rows)


def _cell_rows(schema: Schema) -> list[Row]:
    return [Row.of(name, [cell]) for cell, name in enumerate(cell_names(schema, range(schema.n_cells)))]


def _drawn_errors(plan: Plan, area: Area, centre: Ints, rows: Sequence[Row]) -> Floats:
    """Estimate the errors of cells and rows from repeatable draws."""
    n_cells = plan.law.schema.n_cells
    sampler = plan.sampler_of(area)
    most = _MAX_DECIDED if plan.law.is_measured else _MAX_CELL_DRAWS
    n_draws = int(np.clip(_CELL_NUMBERS // n_cells, _FEWEST_DRAWS, most))
    most_seconds = _DECIDED_SECONDS if plan.law.is_measured else _CELL_SECONDS
    n_draws = max(_FEWEST_SLOW_DRAWS, min(n_draws, int(most_seconds / sampler.seconds)))
    gaps = sampler.at(centre).sample(n_draws, replay_rng("expected error")) - centre
    return np.concatenate([_size(gaps), _size(gaps @ dense(rows, n_cells).T)])


def _size(gaps: Ints) -> Floats:
    return np.asarray(np.sqrt((gaps.astype(np.float64) ** 2).mean(axis=0)))


def by_size(counts: Ints, edges: Sequence[int]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Go through the classes of counts that occur, each in words and with the counts that are in it.

    Examples
    --------
    >>> [(text, mask.tolist()) for text, mask in by_size(np.array([0, 3, 2]), (0, 1, 5, 20))]
    [('0', [True, False, False]), ('1 to 4', [False, True, True])]
    """
    for low, high in size_classes(edges):
        in_class = _in_class(counts, low, high)
        if in_class.any():
            yield class_text(low, high), in_class


def size_classes(edges: Sequence[int]) -> list[tuple[int, int | None]]:
    """Return where each class of counts begins and what it stays below; the last has no end."""
    return list(zip(edges, [*edges[1:], None], strict=True))


def class_text(low: int, high: int | None) -> str:
    """Return a class of counts in words."""
    if high is None:
        return f"{low:,} or more"
    return f"{low:,}" if high == low + 1 else f"{low:,} to {high - 1:,}"


def typical_places(sizes: Ints) -> list[int]:
    """Return where the smallest, the median and the largest of some tables stand, by size; of three or fewer, all."""
    ranked = np.argsort(sizes, kind="stable").tolist()
    return [ranked[0], ranked[len(ranked) // 2], ranked[-1]] if len(ranked) > 3 else ranked


# What released tables add up to: expected error and bias of sums over all areas, of margins, and by size of count.
#
# Computed from the law around public tables. Where counts cannot be negative, noise on cells that are 0 can only add,
# and what hardly shows in one area does in the sum of thousands.

SIZES = (0, 1, 5, 10, 50, 100, 1_000)
"""Where classes of counts begin."""

MOST_EXACT_AREAS = 24
"""Areas whose moments are computed without a draw, at most: some 30 milliseconds each."""

_SUM_SECONDS = 0.6  # of draws, by the samplers' own estimate, which is about twice what they take
_SUM_NUMBERS = 4_000_000  # kept at a time: of areas that are drawn around, times sums
_FEWEST_AREAS, _MAX_SUM_DRAWS = 25, 5_000
_AT_ONCE = 2_000  # tables of a measured release that are decided together
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
class AggregateErrors:
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
    is_measured : bool
        Whether the tables are decided from measurements, whose own sums are unbiased.
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
    is_measured: bool = False
    rare: tuple[tuple[str, SumError], ...] = ()

    @property
    def biased(self) -> tuple[SumError, ...]:
        """Sums over areas that come out wrong to one side, the worst for its count first; cells where no level does."""
        biased = [error for error in self.sums if self.n_areas > 1 and error.is_biased]
        wide = [error for error in biased if error.n_cells > 1]
        return tuple(sorted(wide or biased, key=lambda error: -abs(error.bias_of_all) / max(abs(error.count), 1)))


def aggregate_errors(
    plan: Plan,
    tables: Ints,
    reference: str,
    *,
    places: Ints | None = None,
    rows: Sequence[Row] | None = None,
    rng: RandomStream | None = None,
) -> AggregateErrors:
    """Return what to expect of sums over all areas of a plan, around tables (area, cell).

    Where there are very many areas, a systematic sample by size stands for all.

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
    >>> tables = {name: cg.Table(schema, cells) for name, cells in counts.items()}
    >>> plan = mechanism.plan(mechanism.disclose(tables, area="block"))
    >>> errors = aggregate_errors(plan, np.array(list(counts.values())), "public tables")
    >>> [(error.text, error.count, round(error.bias_of_all, 1), error.is_biased) for error in errors.sums]
    [('total', 205, 0.0, False), ('group=large', 200, -1.0, False), ('group=rare', 5, 1.0, False)]
    """
    of_areas = np.arange(len(tables)) if places is None else places
    rows, n_areas = rows or statistics(plan.law.schema), len(plan.law.areas)
    if len(tables) <= MOST_EXACT_AREAS and (moments := _exact(plan, tables, of_areas, rows)) is not None:
        return _summed_up(rows, tables, *moments, np.zeros(len(rows)), reference, n_areas)  # never of a measured one
    seconds = plan.seconds_per_area
    chosen = evenly_by_size(
        tables.sum(axis=1), int(max(_FEWEST_AREAS, min(_SUM_SECONDS / 2 / seconds, _SUM_NUMBERS / len(rows))))
    )
    n_draws = int(np.clip(_SUM_SECONDS / seconds / len(chosen), 2, max(2, _MAX_SUM_DRAWS // len(chosen))))
    bias, square = _drawn(plan, tables[chosen], of_areas[chosen], rows, n_draws, rng or replay_rng("adding up"))
    doubt = np.maximum(square - bias**2, 0.0).sum(axis=0) / (n_draws - 1)
    errors = _summed_up(rows, tables[chosen], bias, square, doubt, reference, n_areas)
    errors = replace(errors, is_measured=plan.law.is_measured)
    return errors if places is not None else _with_counts(errors, rows, tables)


def statistics(schema: Schema) -> list[Row]:
    """Return the sums that errors are computed of: all cells, each level where these are not many, each cell."""
    levels = [row for name in schema.names for row in margin(name).rows(schema)]
    return [
        *total().rows(schema),
        *(levels if len(levels) <= _MOST_LEVELS and len(schema.names) > 1 else []),
        *_cell_rows(schema),
    ]


def _exact(plan: Plan, tables: Ints, places: Ints, rows: Sequence[Row]) -> tuple[Floats, Floats] | None:
    """Return mean error and mean squared error of every sum in every area, without a draw; None where that is slow."""
    of_areas = []
    for place, table in zip(places.tolist(), tables, strict=True):
        moments = _moments(plan.law, plan.law.areas.labels[place], table, rows)
        if moments is None:
            return None
        of_areas.append(moments)
    return np.stack([moments.bias for moments in of_areas]), np.stack([moments.size for moments in of_areas]) ** 2


def evenly_by_size(sizes: Ints, most: int) -> Ints:
    """Return a systematic sample of places by size, ascending, of at most `most`.

    Examples
    --------
    >>> evenly_by_size(np.array([5, 1, 9, 7, 3, 8]), 3)
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
    for places_of_sampler, sampler in plan.places_by_sampler:
        in_group = np.flatnonzero(np.isin(places, places_of_sampler))
        # A rule decides many tables as quickly as one.
        at_once = max(1, _AT_ONCE // max(1, len(in_group))) if plan.law.is_measured else 1
        for part in parts_of(n_draws if len(in_group) else 0, at_once):
            centres = np.tile(tables[in_group], (len(range(*part.indices(n_draws))), 1))
            drawn = sampler.draw_each(centres, rng, n_threads=n_processors())
            gaps = ((drawn - centres) @ matrix).reshape(-1, len(in_group), matrix.shape[1])
            once[in_group] += gaps.sum(axis=0)
            twice[in_group] += (gaps**2).sum(axis=0)
    return once / n_draws, twice / n_draws


def _summed_up(
    rows: Sequence[Row], tables: Ints, bias: Floats, square: Floats, doubt: Floats, reference: str, n_areas: int
) -> AggregateErrors:
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
    by_class = classes(tables, bias[:, of_cells], square[:, of_cells], times) if len(rows) > n_cells else ()
    return AggregateErrors(reference, n_areas, len(tables), tuple(sums), tuple(by_class))


def _with_counts(errors: AggregateErrors, rows: Sequence[Row], tables: Ints) -> AggregateErrors:
    """Return the same with the counts of all areas, where only some were drawn around."""
    counts = (tables.sum(axis=0) @ dense(rows, tables.shape[1]).T).tolist()
    sums = tuple(replace(error, count=count) for error, count in zip(errors.sums, counts, strict=True))
    by_class = tuple(
        replace(error, n_cells=int(_in_class(tables, error.low, error.high).sum())) for error in errors.classes
    )
    return replace(errors, sums=sums, classes=by_class)


def _in_class(tables: Ints, low: int, high: int | None) -> NDArray[np.bool_]:
    return (tables >= low) & (tables < (np.inf if high is None else high))


def classes(tables: Ints, bias: Floats, square: Floats, times: float = 1.0) -> Sequence[ClassError]:
    """Return the errors of single cells (area, cell) by the size of their count."""
    out = []
    for low, high in size_classes(SIZES):
        in_class = _in_class(tables, low, high)
        if in_class.any():
            size = float(np.sqrt(square[in_class].mean()))
            out.append(ClassError(low, high, round(times * int(in_class.sum())), float(bias[in_class].mean()), size))
    return out


# Errors and biases of sums, for people: a warning where sums come out wrong, two tables, plain values.

TextTable = tuple[list[str], list[list[str]]]

_NAMED = 3  # sums in a warning
_MOST_CELLS = 16  # that have a line each

_WHY = "Counts are not negative: noise on cells that are 0 can only add, and larger ones make up for it."
_GIVE = "Which sums of yours are small, nobody knows here: give --reference FILE, a public file of the data's shape."
WAYS_OUT = (
    "Ways out: areas that add up (`hierarchy:` in the spec), so that sums have noise of their own; a coarser table,"
    " with fewer cells that are 0; more budget."
)


MEASURED_WAY_OUT = (
    "The measurements have no such bias: take sums over areas from them, as `congenial infer` does; the table is for"
    " single areas."
)


def _ways_out(errors: AggregateErrors) -> str:
    return MEASURED_WAY_OUT if errors.is_measured else WAYS_OUT


def warning_lines(errors: AggregateErrors) -> list[str]:
    """Say which sums over areas come out too large or too small, and what can be done; nothing where none does.

    Examples
    --------
    >>> rare = SumError("race=other", 2, 1_888, 0.4, 1.4, 9_810.0, 9_812.0, 200.0)
    >>> print(warning_lines(AggregateErrors("last-year.csv", 25_016, 25_016, (rare,), ()))[0])
    These 25,016 tables will add up to about 9,800 too many in race=other (there are 1,888). Counts are not negative: noise on cells that are 0 can only add, and larger ones make up for it.
    """  # noqa: E501
    if errors.is_made_up:
        is_wrong = errors.biased or any(error.is_biased for _, error in errors.rare)
        return [" ".join([*worst_case(errors), _WHY]), f"{_GIVE} {_ways_out(errors)}"] if is_wrong else []
    if not errors.biased:
        return []
    listed = [_off(error) for error in errors.biased[:_NAMED]]
    more = f"; {len(errors.biased) - _NAMED:,} more sums are off" if len(errors.biased) > _NAMED else ""
    return [
        f"These {errors.n_areas:,} tables will add up to {', '.join(listed)}{more}. {_WHY}",
        _ways_out(errors),
    ]


def worst_case(errors: AggregateErrors) -> list[str]:
    """Say what a level that hardly occurs comes out as over all areas: the most that sums are off in one direction.

    Examples
    --------
    >>> rare = SumError("race=other", 1, 0, 1.4, 2.0, 54.6, 56.0, 1.0)
    >>> worst_case(AggregateErrors("", 39, 12, (), (), is_made_up=True, rare=(("race", rare),)))[0]
    'A level that hardly occurs will come out about 55 too large over 39 areas.'
    """
    if not errors.rare:
        return []
    (name, most), *others = sorted(errors.rare, key=lambda error: -error[1].bias_of_all)
    listed = "".join(f", about {_rounded(error.bias_of_all):,} if of {other}" for other, error in others)
    of = f", if it is one of {name}{listed}" if others else ""
    size = f"about {_rounded(most.bias_of_all):,}"
    return [f"A level that hardly occurs will come out {size} too large over {errors.n_areas:,} areas{of}."]


def no_warning_lines(errors: AggregateErrors) -> list[str]:
    """Say what is known where nothing is warned of: without a reference table, no more than the worst case."""
    if not errors.is_made_up:
        return ["No sum over areas is off in one direction by much."]
    return [*worst_case(errors), _GIVE]


def _off(error: SumError) -> str:
    side = "too many" if error.bias_of_all > 0 else "too few"
    return f"about {_rounded(abs(error.bias_of_all)):,} {side} in {error.text} (there are {error.count:,})"


def _rounded(value: float) -> int:
    """Return two leading digits."""
    step: int = 10 ** max(0, floor(log10(max(value, 1.0))) - 1)
    return step * round(value / step)


def around(errors: AggregateErrors) -> str:
    """Say what the figures are computed around."""
    some = (
        ""
        if errors.n_looked_at == errors.n_areas
        else f"; {errors.n_looked_at:,} areas stand for all {errors.n_areas:,}"
    )
    return f"computed around {errors.reference}{some}"


def sums_table(errors: AggregateErrors) -> TextTable:
    """Return a header and a line for each sum: its count, then error and bias in one area and over all areas."""
    n_cells = sum(error.n_cells == 1 for error in errors.sums)
    shown = [error for error in errors.sums if error.n_cells > 1 or n_cells <= _MOST_CELLS]
    is_one = errors.n_areas == 1
    header = ["sum", "count", "error", "bias"]
    if not is_one:
        header = ["sum", "count, all areas", "error in one", "bias in one", "error, all areas", "bias, all areas"]
    rows = []
    for error in shown:
        in_one_area = [_error(error.size), _bias(error.bias, 0.0)]
        of_all = [_error(error.size_of_all), _bias(error.bias_of_all, error.doubt)]
        rows.append([error.text, f"{error.count:,}", *in_one_area, *([] if is_one else of_all)])
    return header, rows


def classes_table(errors: AggregateErrors) -> TextTable:
    """Return a header and a line for each class of counts: how many cells have such, their error and their bias."""
    rows = [[error.text, f"{error.n_cells:,}", _error(error.size), _bias(error.bias, 0.0)] for error in errors.classes]
    return ["cells whose count is", "cells", "error", "bias"], rows


def _error(size: float) -> str:
    return "exact" if size < NO_ERROR else _number(size)


def _bias(bias: float, doubt: float) -> str:
    """Write a mean error; what draws cannot tell from none is none."""
    if abs(bias) < max(NO_ERROR, 2 * doubt):
        return "0"
    return f"{'+' if bias > 0 else '-'}{_number(abs(bias))}"


def _number(value: float) -> str:
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def as_json(errors: AggregateErrors) -> dict[str, Any]:
    """Return everything as plain values."""
    return {
        "around": errors.reference,
        "areas": errors.n_areas,
        "areas_looked_at": errors.n_looked_at,
        "warnings": warning_lines(errors),
        "sums": [{**asdict(error), "is_biased": error.is_biased} for error in errors.sums],
        "by_count": [asdict(error) for error in errors.classes],
    }


def errors_csv(levels: Sequence[tuple[str, AggregateErrors]]) -> bytes:
    """Return expected-errors.csv: for each level single cells by class of count, then sums over all areas.

    Examples
    --------
    >>> from congenial.bundle.expected_errors import ClassError
    >>> rare = SumError("race=other", 2, 1_888, 0.4, 1.4, 9_810.0, 9_812.0, 200.0)
    >>> errors = AggregateErrors("", 25_016, 25_016, (rare,), (ClassError(1, 5, 700, -0.25, 2.0),))
    >>> print(errors_csv([("block", errors)]).decode(), end="")
    level,statistic,count_from,count_to,n,bias,error
    "block","one cell",1,4,700,-0.2500,2.0000
    "block","race=other",1888,1888,25016,9810.0000,9812.0000
    """
    lines = ["level,statistic,count_from,count_to,n,bias,error"]
    for level, errors in levels:
        name = _quoted(level)
        for in_class in errors.classes:
            end = "" if in_class.high is None else in_class.high - 1
            lines.append(
                f'{name},"one cell",{in_class.low},{end},{in_class.n_cells},{in_class.bias:.4f},{in_class.size:.4f}'
            )
        for error in errors.sums:
            if error.n_cells > 1:
                figures = f"{errors.n_areas},{error.bias_of_all:.4f},{error.size_of_all:.4f}"
                lines.append(f"{name},{_quoted(error.text)},{error.count},{error.count},{figures}")
    return ("\n".join(lines) + "\n").encode()


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
