"""Districts of a measured tree: leaves put together at will, read off the measurements of all levels.

A unit that lies in a district as a whole has been measured itself, and its parts have been, with independent noise.
What reads the district with the smallest noise is a public matter: it goes by precisions and by which units there are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.arrow_and_unit_codes import codes_as_texts
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import InferenceError
from congenial.inference.frequentist import Confidence
from congenial.inference.measurement_intervals import LinearReading, Measurements, confidences_of
from congenial.inference.questions import Statistic
from congenial.tree.tree_and_zeros import Tree


@dataclass(frozen=True, eq=False)
class District:
    """Some leaves of a measured tree, of which sums are asked. Public.

    Attributes
    ----------
    tree : Tree
    levels : tuple of Measurements
        Of each level by itself, the first one first.
    leaves : array (leaf,)
        Which leaves are in it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import congenial as cg
    >>> tree = cg.Tree.of_prefixes(["1a", "1b", "2a", "2b"], {"county": 1}, "block")
    >>> schema = cg.Schema({"sex": ["f", "m"]})
    >>> hierarchy = cg.Hierarchy(tree, schema, invariants={"county": [cg.total()]}, rho="1", method="measured")
    >>> with TemporaryDirectory() as place:
    ...     ledger = cg.open_ledger(f"{place}/budget.db", create=True)
    ...     _ = ledger.create_dataset("town", rho="2", neighbours="bounded", who="Ada")
    ...     _ = hierarchy.release([[30, 40], [20, 10], [0, 1], [2, 2]], ledger=ledger, dataset="town", release="one",
    ...                           who="Ada", folder=f"{place}/one")
    ...     district = cg.load_bundle(f"{place}/one").district(["1a", "1b", "2a"])
    >>> district.units_in_use("all")
    {'county': 1, 'block': 1}
    >>> (interval,) = district.confidence("all")
    >>> interval.low >= 100, interval.coverage >= 0.9
    (True, True)
    """

    tree: Tree
    levels: tuple[Measurements, ...]
    leaves: NDArray[np.bool_]

    @classmethod
    def of(cls, tree: Tree, levels: Sequence[Measurements], codes: Sequence[str]) -> "District":
        """Return the district of some leaves, by their codes."""
        if not len(codes):
            raise InferenceError(f"a district has at least one {tree.levels[-1]}, and this has none")
        leaves = np.zeros(tree.n_leaves, np.bool_)
        leaves[tree.places(tree.levels[-1], codes)] = True
        return cls(tree, tuple(levels), leaves)

    @cached_property
    def _whole(self) -> list[NDArray[np.bool_]]:
        """Which units of each level lie in it as a whole."""
        whole = [self.leaves]
        for families in reversed(self.tree.families):
            whole.append(np.logical_and.reduceat(whole[-1], families.starts[:-1]))
        return whole[::-1]

    def _variances(self, row: Row) -> list[Floats]:
        """Return about how large the noise of a row is in each unit of each level, 0 where it is exact."""
        out = []
        for level in self.levels:
            of_rows = [float(query.noise.variance) for query in level.law.measured]
            of_units = np.full(len(level.law.areas), np.inf)
            for number in range(len(level.drawing.kinds)):
                reading = level.reading(number, row, ())
                if reading is not None:
                    size = sum(times * times * of_rows[place] for place, times in reading.measured)
                    of_units[level.numbers == number] = size / reading.divisor**2 if any(reading.noise) else 0.0
            out.append(of_units)
        return out

    def chosen(self, row: Row) -> list[Ints]:
        """Return where the units of each level stand whose measurements add up to the district with least noise."""
        variances = self._variances(row)
        least = [np.where(self.leaves, variances[-1], 0.0)]
        by_itself = [self.leaves]
        for level in range(len(self.levels) - 2, -1, -1):
            parts = np.add.reduceat(least[-1], self.tree.families[level].starts[:-1])
            is_better = self._whole[level] & (variances[level] <= parts)
            least.append(np.where(is_better, variances[level], parts))
            by_itself.append(is_better)
        chosen, is_covered = [], np.zeros(len(self.tree.codes[0]), np.bool_)
        for level, is_better in enumerate(reversed(by_itself)):
            if level:
                is_covered = is_covered[self.tree.parents[level - 1]]
            chosen.append(np.flatnonzero(is_better & ~is_covered))
            is_covered = is_covered | is_better
        return chosen

    def number(self, row: Row) -> LinearReading | None:
        """Return what a row of the tables adds up to in the district; None where some of it is not measured."""
        total = None
        for level, places in zip(self.levels, self.chosen(row), strict=True):
            if len(places):
                codes = _labels(level, places)
                part = level.number(dict.fromkeys(codes, row))
                if part is None:
                    return None
                total = part if total is None else total + part
        return total

    def units_in_use(self, query: str) -> Mapping[str, int]:
        """Return how many units of each level answer a query: public, and the same whatever was measured."""
        (statistic,) = self._statistics(query)
        chosen = zip(self.tree.levels, self.chosen(statistic.above), strict=True)
        return {name: len(places) for name, places in chosen if len(places)}

    def confidence(
        self, query: str | Sequence[str], *, level: float = 0.9, is_simultaneous: bool = False
    ) -> list[Confidence]:
        """Return the exact interval of each number in the district, or the reason why there is none."""

        def reading(_: Statistic, row: Row) -> LinearReading | None:
            return self.number(row)

        return confidences_of(self._statistics(query), reading, level=level, is_simultaneous=is_simultaneous)

    def _statistics(self, query: str | Sequence[str]) -> list[Statistic]:
        from congenial.inference.questions import parse_queries

        return parse_queries(query, self.levels[0].law.schema)


def _labels(level: Measurements, places: Ints) -> list[str | None]:
    labels = level.law.areas.labels
    codes = getattr(labels, "codes", None)
    return [labels[place] for place in places.tolist()] if codes is None else [*codes_as_texts(codes[places])]
