"""What the release of a tree says of every unit: means, medians, whole numbers that add up, and intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.arrow_and_unit_codes import codes_as_texts
from congenial.bundle.areas_spine_and_level_files import cell_columns
from congenial.bundle.parquet import arrays_to_parquet
from congenial.conditions.constraints import Constraints
from congenial.conditions.rows_and_intervals import Row, cells_alike
from congenial.errors import InferenceError, did_you_mean
from congenial.inference.estimates_and_draw_quality import Estimate, check_level, estimates_of_draws, known_count
from congenial.inference.questions import Statistic, parse_query
from congenial.inference.tree.chain import TreeDraws, draw_tree, ends
from congenial.inference.tree.prior_and_child_laws import noise_quantile, noise_quantiles, noise_variances
from congenial.law import PublicLaw
from congenial.pages.matplotlib_figures import PanelOfUnits, as_svg, tree_estimates
from congenial.progress_and_interrupts import Progress, silent
from congenial.randomness import RandomStream, secure_rng
from congenial.tree.tree_and_zeros import TreeTables

if TYPE_CHECKING:
    from pathlib import Path

# Whole numbers that add up: near the medians of every unit, the children's to their parents', the top as published.

_NUMBERS_AT_ONCE = 1 << 22  # numbers in one array


def consistent_integers(law: PublicLaw, draws: TreeDraws) -> TreeTables:
    """Return tables of whole numbers (unit, cell) for every level: not negative, adding up, invariants kept."""
    from congenial.inference.tree.kernels_effects_and_normalisers import fit_children

    tops = draws.of_level(0)
    areas = [law.areas[area] for area in law.areas]
    levels = [np.stack([at_the_top(tops[:, place], constraints) for place, constraints in enumerate(areas)])]
    for level, families in enumerate(law.tree.families):
        n_units, n_cells = len(law.tree.codes[level + 1]), law.schema.n_cells
        out = np.zeros((n_units, n_cells), np.int64)
        is_open = ~law.zeros.masks[level + 1] if law.zeros.masks else np.ones((n_units, n_cells), np.bool_)
        most = max(1, _NUMBERS_AT_ONCE // (len(tops) * n_cells))  # children at once
        for some in np.split(np.arange(len(families)), _cuts(families.starts, most)):
            first, end = int(families.starts[some[0]]), int(families.starts[some[-1] + 1])
            starts = families.starts[some[0] : some[-1] + 2] - first
            ranked = np.sort(draws.of_level(level + 1, first, end), axis=0)
            fit_children(ranked, is_open[first:end], starts, levels[-1][some], out[first:end])
        levels.append(out)
    return tuple(levels)


def _cuts(starts: Ints, most: int) -> Ints:
    """Return where to cut a list of families so that no part has many more children than `most`."""
    return np.unique(np.searchsorted(starts, np.arange(most, int(starts[-1]), most)))


def at_the_top(draws: Ints, constraints: Constraints) -> Ints:
    """Return whole numbers for one table near the medians of its draws (draw, cell), which obey the same conditions.

    From the draw that is nearest to the medians on, single people change cells as long as that comes nearer; cells that
    no condition speaks of go to their medians.

    Examples
    --------
    >>> from congenial.conditions.queries import total
    >>> from congenial.schema import Schema
    >>> constraints = Constraints.of(Schema({"sex": ["f", "m"]}), [total(equals=9)])
    >>> at_the_top(np.array([[2, 7], [3, 6], [3, 6], [5, 4], [9, 0]]), constraints).tolist()
    [3, 6]
    """
    ranked = np.sort(draws, axis=0)
    median = ranked[(len(draws) - 1) // 2]
    chosen = draws[np.abs(draws - median).sum(axis=1).argmin()].copy()
    limits = constraints.cell_bounds.limits
    low = np.array([0 if limit.low is None else limit.low for limit in limits])
    high = np.array([2**62 if limit.high is None else limit.high for limit in limits])
    groups = cells_alike([limited.row for limited in constraints.rows], draws.shape[1])
    for column, cells in groups.items():
        places = np.array(cells)
        if not column:
            chosen[places] = np.clip(median[places], low[places], high[places])
            continue
        while True:
            more = 2 * (draws[:, places] <= chosen[places]).sum(axis=0) - len(draws)
            less = len(draws) - 2 * (draws[:, places] < chosen[places]).sum(axis=0)
            gain, loss = (
                np.where(chosen[places] < high[places], more, 2**40),
                np.where(chosen[places] > low[places], less, 2**40),
            )
            if gain.min() + loss.min() >= 0 or gain.argmin() == loss.argmin():
                break
            chosen[places[gain.argmin()]] += 1
            chosen[places[loss.argmin()]] -= 1
    return np.asarray(chosen, np.int64)


_MOST_DRAWS, FEWEST_DRAWS, _NUMBERS = 1_000, 100, 2_000_000
_AT_ONCE = 1 << 22  # numbers in one array

NOTICE = (
    "The release is a draw, not an estimate: for small areas use the estimate. It rests on a prior that is learned from"
    " the release itself. Raw noisy measurements would carry more information than a release that adds up."
)


@dataclass(frozen=True, eq=False)
class LevelEstimate:
    """The estimates of one level's units, in the order of the tree.

    Attributes
    ----------
    codes : tuple of str
    released, integers : array (unit, cell + 1)
        What was released, and whole numbers that add up over units; the last column is the total.
    mean, median, low, high : array (unit, cell + 1)
        Of the posterior; `low` and `high` are the ends of the intervals. `low` is 0 where noise alone may have brought
        about what was released.
    probability : float
        Of the intervals, one by one.
    """

    name: str
    codes: tuple[str, ...]
    released: Ints
    mean: Floats
    median: Ints
    integers: Ints
    low: Ints
    high: Ints
    probability: float


@dataclass(frozen=True, eq=False, repr=False)
class TreeEstimate:
    """Draws of all tables of a tree given its release, and what follows from them. Public.

    Made by `AnalystBundle.estimate`. See docs/estimates.md for what to ask, and when not to trust it.
    """

    law: PublicLaw
    release: TreeTables = field(repr=False)
    draws: TreeDraws = field(repr=False)

    @cached_property
    def integers(self) -> TreeTables:
        """Whole numbers for every level (unit, cell), the top first: children add up to parents."""
        return consistent_integers(self.law, self.draws)

    def level(self, name: str, probability: float = 0.9) -> LevelEstimate:
        """Return the estimates of a level's units, with intervals of a probability."""
        tree, number = self.law.tree, self.law.tree.level_of(name)
        check_level(probability)
        n_units = len(tree.codes[number])
        shape, most = (
            (n_units, self.law.schema.n_cells + 1),
            max(1, _AT_ONCE // (len(self.draws.leaves) * self.law.schema.n_cells)),
        )
        mean = np.empty(shape)
        low, median, high = (np.empty(shape, np.int64) for _ in range(3))
        for first in range(0, n_units, most):
            units = slice(first, min(n_units, first + most))
            tables = _with_total(self.draws.of_level(number, units.start, units.stop))
            mean[units] = tables.mean(axis=0)
            low[units], median[units], high[units] = ends(np.sort(tables, axis=0), probability)
        codes = tuple(tree.texts(number))
        released, integers = _with_total(self.release[number]), _with_total(self.integers[number])
        low[released <= self._noise_quantiles(number, (1 - probability) / 2)] = 0
        return LevelEstimate(name, codes, released, mean, median, integers, low, high, probability)

    def tables_of(self, units: str | Sequence[str], at: str | None = None) -> Ints:
        """Return the draws (draw, cell) of some units' sum: any units of any levels, each leaf counted once.

        Parameters
        ----------
        at : str, optional
            Their level, where a code stands at several.
        """
        chosen = self._leaves_of(units, at)
        return np.asarray(self.draws.leaves[:, chosen].sum(axis=1), np.int64)

    def interval(
        self,
        units: str | Sequence[str],
        query: str = "all",
        level: float = 0.9,
        *,
        minus: str | Sequence[str] | None = None,
        at: str | None = None,
    ) -> Estimate:
        """Return the estimate of a count, share or ratio of some units together, or less that of others.

        Parameters
        ----------
        units : str or sequence of str
            Codes of units, of any level; several are added up.
        query : str
            As in `congenial.inference.questions`.
        minus : str or sequence of str, optional
            Units to compare with: the difference is estimated.
        """
        check_level(level)
        statistics = parse_query(query, self.law.schema)
        if len(statistics) != 1:
            raise InferenceError(f"{query!r} asks for {len(statistics)} numbers; ask for one at a time")
        statistic, chosen = statistics[0], self._leaves_of(units, at)
        values, released, known = self._values(statistic, chosen)
        text, leaves = f"{statistic.text} of {_named(units)}", chosen
        if minus is not None:
            less = self._leaves_of(minus, at)
            others, there, known_there = self._values(statistic, less)
            leaves = np.union1d(chosen, less)
            values, released, text = values - others, released - there, f"{text} less {_named(minus)}"
            known = None if known is None or known_there is None else known - known_there
        if known is None and np.isnan(values).all():
            raise InferenceError(f"{text} is a share of nobody in every draw: there is nothing to estimate")
        n_chains, n_draws = self.draws.n_chains, len(values) // self.draws.n_chains
        drawn = self.draws.leaves[:, leaves].reshape(n_chains, n_draws, -1)
        n_moves = int((drawn[:, 1:] != drawn[:, :-1]).any(axis=2).sum())
        named, draws = replace(statistic, text=text), values.reshape(n_chains, n_draws)
        (estimate,) = estimates_of_draws([named], [draws], [released], [known], n_moves=n_moves, level=level)
        if known is not None or minus is not None or (minimum := statistic.definition.minimum) == -np.inf:
            return estimate
        is_noise = statistic.is_linear and released <= self._noise_quantile(statistic, chosen, (1 - level) / 2)
        return replace(estimate, low=minimum if is_noise else max(estimate.low, minimum))

    def _values(self, statistic: Statistic, chosen: Ints) -> tuple[Floats, float, float | None]:
        """Return the draws of a number of some leaves' sum, the released one, and its value if that is determined."""
        drawn = self.draws.leaves[:, chosen].sum(axis=1, dtype=np.int64)
        released = self.release[-1][chosen].sum(axis=0)
        known = statistic.of_known([self._known_count(row, chosen) for row in statistic.rows])
        return statistic.values(drawn), float(statistic.values(released[None, :])[0]), known

    def _known_count(self, row: Row, chosen: Ints) -> float | None:
        """Return a count of some leaves' sum that the invariants of the top and structural zeros determine.

        A cell of a unit at the top is shared out among leaves in ways that are not known: it is determined as far as
        none of the leaves that may have it are chosen, or all of them, or nobody has it at the top.
        """
        total, is_chosen = 0.0, np.zeros(self.law.tree.n_leaves, np.bool_)
        is_chosen[chosen] = True
        for place, area in enumerate(self.law.areas):
            constraints, taken = self.law.areas[area], []
            under = slice(*self._leaves_under(0, np.array(place)))
            for cell, times in zip(row.cells, row.coefficients, strict=True):
                is_inside = is_chosen[under]
                if self.law.zeros.masks:
                    is_inside = is_inside[~self.law.zeros.masks[-1][under, cell]]
                if is_inside.any() and is_inside.all():
                    taken.append((cell, times))
                elif is_inside.any() and constraints.quick_bounds.upper[cell] != 0:
                    return None
            known = known_count(constraints, Row(row.name, *zip(*taken, strict=True))) if taken else 0
            if known is None:
                return None
            total += float(known)
        return total

    @cached_property
    def _variances(self) -> tuple[Floats, ...]:
        return noise_variances(self.law)

    def _is_open(self, level: int) -> NDArray[np.bool_]:
        """Return which cells of a level's units (unit, cell) may have people."""
        bars = self.law.zeros.masks
        return ~bars[level] if bars else np.ones(self.release[level].shape, np.bool_)

    def _noise_quantiles(self, level: int, tail: float) -> Ints:
        """Return the largest counts (unit, cell + 1) of a level's units that noise alone noise_quantiles, totals last.

        -1 at the top, whose counts are large, and for leaves, which the prior has empty as a whole; but a leaf that is
        all of a unit above it is like that one.
        """
        tree = self.law.tree
        if level == 0:
            return np.full((len(tree.codes[0]), self.law.schema.n_cells + 1), -1)
        if level == len(tree.levels) - 1:
            parents = tree.parents[-1]
            is_only = (tree.families[-1].sizes == 1)[parents]
            return np.where(is_only[:, None], self._noise_quantiles(level - 1, tail)[parents], -1)
        n_cells = _with_total(self._is_open(level).astype(np.int64))
        variances = np.repeat(self._variances[level], n_cells.shape[1])
        return noise_quantiles(variances, n_cells.reshape(-1), tail).reshape(n_cells.shape)

    def _noise_quantile(self, statistic: Statistic, chosen: Ints, tail: float) -> int:
        """Return the largest count that noise alone reaches of leaves that make up units above them; else -1."""
        cells, is_remaining = list(statistic.above.cells), np.zeros(self.law.tree.n_leaves, np.bool_)
        is_remaining[chosen] = True
        cells_by_variance: dict[float, int] = {}
        for level in range(1, len(self.law.tree.levels) - 1):
            first, end = self._leaves_under(level, np.arange(len(self.law.tree.codes[level])))
            n_remaining = np.concatenate([[0], np.cumsum(is_remaining)])
            whole = np.flatnonzero(n_remaining[end] - n_remaining[first] == end - first)
            n_open = self._is_open(level)[whole][:, cells].sum(axis=1)
            for variance, n in zip(self._variances[level][whole].round(6).tolist(), n_open.tolist(), strict=True):
                cells_by_variance[variance] = cells_by_variance.get(variance, 0) + n
            for start, stop in zip(first[whole].tolist(), end[whole].tolist(), strict=True):
                is_remaining[start:stop] = False
        return -1 if is_remaining.any() else noise_quantile(cells_by_variance, tail)

    def _leaves_under(self, level: int, units: Ints) -> tuple[Ints, Ints]:
        """Return the first leaf of each of some units, and the one after the last."""
        first, end = units, units + 1
        for families in self.law.tree.families[level:]:
            first, end = families.starts[first], families.starts[end]
        return first, end

    def _leaves_of(self, units: str | Sequence[str], at: str | None) -> Ints:
        """Return the places of the leaves that are part of some units, each once."""
        tree = self.law.tree
        is_chosen = np.zeros(tree.n_leaves, np.bool_)
        for code in [units] if isinstance(units, str) else list(units):
            levels = range(len(tree.levels)) if at is None else [tree.level_of(at)]
            matches = [(level, place) for level in levels for place in tree.places_of_code(level, code).tolist()]
            if not matches:
                near = did_you_mean(
                    str(code), [known for codes in tree.codes[:-1] for known in codes_as_texts(codes[:10_000])]
                )
                raise InferenceError(f"{code!r} is no unit of the tree; {near}")
            if len(matches) > 1:
                names = " and a ".join(tree.levels[level] for level, _ in matches)
                raise InferenceError(f'{code!r} is a {names}; say which level is meant, such as at="{tree.levels[-1]}"')
            first, end = self._leaves_under(matches[0][0], np.array(matches[0][1]))
            is_chosen[first:end] = True
        return np.flatnonzero(is_chosen)

    def write(self, folder: "str | Path", probability: float = 0.9) -> None:
        """Write a Parquet file for each level, a summary and a picture into a new folder."""
        write_estimate(self, folder, probability)

    def __repr__(self) -> str:
        bad = sum(check.is_bad for check in self.draws.fit)
        fit = f"THE PRIOR DOES NOT FIT in {bad} figures" if bad else "the prior fits"
        return f"estimates for a {self.law.tree}: {len(self.draws.leaves):,} draws, {fit}"


def _with_total(tables: Ints) -> Ints:
    """Return tables with their totals as a last column."""
    return np.concatenate([tables, tables.sum(axis=-1, keepdims=True)], axis=-1)


def _named(units: str | Sequence[str]) -> str:
    if isinstance(units, str):
        return units
    named = list(units)
    return " + ".join(named) if len(named) <= 4 else f"{len(named):,} units"


def estimate_tree(
    law: PublicLaw,
    release: TreeTables,
    *,
    n_draws: int | None = None,
    n_chains: int = 2,
    rng: RandomStream | None = None,
    progress: Progress = silent,
) -> TreeEstimate:
    """Return estimates for every unit of a tree from what was released of it.

    Parameters
    ----------
    n_draws : int, optional
        Draws to keep, in all chains together: 1,000 for small trees, 100 for large ones if not given.
    progress : Progress
        Told what is being done.
    """
    few = min(_MOST_DRAWS, max(FEWEST_DRAWS, _NUMBERS // release[-1].size))
    n_kept = few - few % n_chains if n_draws is None else n_draws
    drawn = draw_tree(law, release, n_draws=n_kept, n_chains=n_chains, rng=rng or secure_rng(), progress=progress)
    return TreeEstimate(law, release, drawn)


# Estimates as files: a Parquet file for each level, a summary in words, a picture.

SUMMARY, PICTURE = "summary.txt", "estimates.svg"
STATISTICS = ("released", "mean", "median", "integers", "low", "high")


def estimate_file(number: int) -> str:
    """Return the name of a level's file; the top is level 1."""
    return f"estimate-{number}.parquet"


def check_new(folder: Path) -> None:
    """Refuse a folder that is there already."""
    if folder.exists():
        raise InferenceError(f"{folder} is there already; estimates are written into a new folder")


def write_estimate(estimate: "TreeEstimate", folder: str | Path, probability: float) -> None:
    """Write everything into a new folder: a row for each unit and cell, the unit's total among the cells."""
    place = Path(folder)
    check_new(place)
    place.mkdir(parents=True)
    cells = np.array([*cell_columns(estimate.law.schema), "total"], object)
    panels = []
    for number, name in enumerate(estimate.law.tree.levels, 1):
        level = estimate.level(name, probability)
        n_units = len(level.codes)
        columns: dict[str, Any] = {
            name if name not in {"cell", *STATISTICS} else "unit": np.repeat(np.array(level.codes, object), len(cells)),
            "cell": np.tile(cells, n_units),
        }
        columns |= {statistic: getattr(level, statistic).reshape(-1) for statistic in STATISTICS}
        (place / estimate_file(number)).write_bytes(arrays_to_parquet(columns))
        panels.append(
            PanelOfUnits(name, *(getattr(level, part)[:, -1] for part in ("released", "median", "low", "high")))
        )
    (place / SUMMARY).write_text("\n".join(summary(estimate, probability)) + "\n", encoding="utf-8")
    (place / PICTURE).write_text(as_svg(tree_estimates(panels, probability)), encoding="utf-8")


def summary(estimate: "TreeEstimate", probability: float) -> list[str]:
    """Return what a reader has to know, in lines."""
    n_draws, tree = len(estimate.draws.leaves), estimate.law.tree
    lines = [
        f"Estimates for a {tree}.",
        NOTICE,
        f"{probability:.0%} intervals, one by one, from {n_draws:,} draws in {estimate.draws.n_chains} chains.",
        "",
    ]
    for number, name in enumerate(tree.levels, 1):
        level = estimate.level(name, probability)
        moved = np.abs(level.released - level.median)
        width = level.high - level.low
        lines.append(
            f"{estimate_file(number)}: {len(level.codes):,} {name} units; the median lies {moved[:, :-1].mean():.2f}"
            f" from the release for a cell, {moved[:, -1].mean():.2f} for a total; mean width of the interval"
            f" {width[:, :-1].mean():.1f} and {width[:, -1].mean():.1f}"
        )
    lines += ["", "Chains, half of the numbers at least / split R-hat at most (but for one in twenty) / poor draws:"]
    lines += [
        f"  {name}: {ess:.0f} effective draws, {rhat:.2f}, {poor:.0%}"
        for name, (ess, rhat, poor) in estimate.draws.diagnosed.items()
    ]
    lines += ["", "Does the prior fit? Figures of the release beside those of releases as the prior would have them:"]
    lines += [f"  {'BAD FIT: ' if check.is_bad else ''}{check}" for check in estimate.draws.fit] or [
        "  too few units to say"
    ]
    return lines


def as_plain_values(estimate: "TreeEstimate", probability: float) -> dict[str, Any]:
    """Return the summary as plain values for JSON."""
    return {
        "levels": list(estimate.law.tree.levels),
        "units": [len(codes) for codes in estimate.law.tree.codes],
        "files": [estimate_file(number) for number in range(1, len(estimate.law.tree.levels) + 1)],
        "probability": probability,
        "draws": len(estimate.draws.leaves),
        "chains": estimate.draws.n_chains,
        "effective_draws": {name: ess for name, (ess, _, _) in estimate.draws.diagnosed.items()},
        "split_rhat": {name: rhat for name, (_, rhat, _) in estimate.draws.diagnosed.items()},
        "poor_draws": {name: poor for name, (_, _, poor) in estimate.draws.diagnosed.items()},
        "fit": [
            {
                "level": check.level,
                "figure": check.figure,
                "released": check.released,
                "expected": check.mean,
                "low": check.low,
                "high": check.high,
                "is_bad": check.is_bad,
            }
            for check in estimate.draws.fit
        ],
    }
