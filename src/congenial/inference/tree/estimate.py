"""What the release of a tree says of every unit: means, medians, whole numbers that add up, and intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.arrow_codes import texts_of
from congenial.errors import InferenceError, did_you_mean
from congenial.hierarchy.law import ChainLaw
from congenial.hierarchy.tree import TreeTables
from congenial.inference.intervals import Estimate, check_level
from congenial.inference.question import Statistic, parse_query
from congenial.inference.tree.draws import TreeDraws, draw_tree, ends, sorted_draws
from congenial.inference.tree.integers import consistent_integers
from congenial.progress import Progress, no_news
from congenial.randomness import RandomStream, secure_rng

if TYPE_CHECKING:
    from pathlib import Path

_MOST_DRAWS, _FEWEST_DRAWS, _NUMBERS = 1_000, 100, 2_000_000
_AT_ONCE = 1 << 22  # numbers in one array

WORDS = (
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
        Of the posterior; `low` and `high` are the ends of the intervals.
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

    Made by `Bundle.estimate`. See docs/estimates.md for what to ask, and when not to trust it.
    """

    law: ChainLaw
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
        shape, most = (n_units, self.law.n_cells + 1), max(1, _AT_ONCE // (len(self.draws.leaves) * self.law.n_cells))
        mean = np.empty(shape)
        low, median, high = (np.empty(shape, np.int64) for _ in range(3))
        for first in range(0, n_units, most):
            own = slice(first, min(n_units, first + most))
            tables = _with_total(self.draws.of_level(number, own.start, own.stop))
            mean[own] = tables.mean(axis=0)
            low[own], median[own], high[own] = ends(sorted_draws(tables), probability)
        codes = tuple(tree.texts(number))
        released, integers = _with_total(self.release[number]), _with_total(self.integers[number])
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
            As in `congenial.inference.question`.
        minus : str or sequence of str, optional
            Units to compare with: the difference is estimated.
        """
        check_level(level)
        found = parse_query(query, self.law.top.schema)
        if len(found) != 1:
            raise InferenceError(f"{query!r} asks for {len(found)} numbers; ask for one at a time")
        values, released = self._values(found[0], units, at)
        text = f"{found[0].text} of {_named(units)}"
        if minus is not None:
            others, there = self._values(found[0], minus, at)
            values, released, text = values - others, released - there, f"{text} less {_named(minus)}"
        if np.isnan(values).any():
            values = values[~np.isnan(values)]
            if not values.size:
                raise InferenceError(f"{text} is a share of nobody in every draw: there is nothing to estimate")
        low, median, high = (float(end) for end in ends(np.sort(values), level))
        is_exact = bool(low == high == released) and not bool(np.ptp(values))
        return Estimate(text, released, float(values.mean()), median, low, high, level, is_exact, False)

    def _values(self, statistic: Statistic, units: str | Sequence[str], at: str | None) -> tuple[Floats, float]:
        chosen = self._leaves_of(units, at)
        drawn = self.draws.leaves[:, chosen].sum(axis=1, dtype=np.int64)
        released = self.release[-1][chosen].sum(axis=0)
        return statistic.values(drawn), float(statistic.values(released[None, :])[0])

    def _leaves_of(self, units: str | Sequence[str], at: str | None) -> Ints:
        """Return the places of the leaves that are part of some units, each once."""
        tree = self.law.tree
        is_chosen = np.zeros(tree.n_leaves, np.bool_)
        for code in [units] if isinstance(units, str) else list(units):
            levels = range(len(tree.levels)) if at is None else [tree.level_of(at)]
            found = [(level, place) for level in levels for place in tree.found(level, code).tolist()]
            if not found:
                near = did_you_mean(
                    str(code), [known for codes in tree.codes[:-1] for known in texts_of(codes[:10_000])]
                )
                raise InferenceError(f"{code!r} is no unit of the tree; {near}")
            if len(found) > 1:
                names = " and a ".join(tree.levels[level] for level, _ in found)
                raise InferenceError(f'{code!r} is a {names}; say which level is meant, such as at="{tree.levels[-1]}"')
            level, first = found[0]
            end = first + 1
            for families in tree.families[level:]:
                first, end = int(families.starts[first]), int(families.starts[end])
            is_chosen[first:end] = True
        return np.flatnonzero(is_chosen)

    def write(self, folder: "str | Path", probability: float = 0.9) -> None:
        """Write a Parquet file for each level, a summary and a picture into a new folder."""
        from congenial.inference.tree.writing import write_estimate

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
    law: ChainLaw,
    release: TreeTables,
    *,
    n_draws: int | None = None,
    n_chains: int = 2,
    rng: RandomStream | None = None,
    progress: Progress = no_news,
) -> TreeEstimate:
    """Return estimates for every unit of a tree from what was released of it.

    Parameters
    ----------
    n_draws : int, optional
        Draws to keep, in all chains together: 1,000 for small trees, 100 for large ones if not given.
    progress : Progress
        Told what is being done.
    """
    few = min(_MOST_DRAWS, max(_FEWEST_DRAWS, _NUMBERS // release[-1].size))
    asked = few - few % n_chains if n_draws is None else n_draws
    drawn = draw_tree(law, release, n_draws=asked, n_chains=n_chains, rng=rng or secure_rng(), progress=progress)
    return TreeEstimate(law, release, drawn)
