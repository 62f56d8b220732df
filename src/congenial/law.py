"""The law of a release, without and with the confidential table it is centred at, and the draw of its areas."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.arrays import Floats, Ints
from congenial.arrow_and_unit_codes import Codes, codes_as_texts
from congenial.conditions.areas_and_bounds import Area, Areas
from congenial.conditions.constraints import Constraints
from congenial.conditions.queries import Query
from congenial.conditions.rows_and_intervals import Row, cells_alike, row_values
from congenial.errors import (
    ConditionError,
    HierarchyError,
    NoiseError,
    SamplingError,
    TooLargeError,
    did_you_mean,
)
from congenial.memory_and_threads import parts_of
from congenial.noise import FAMILIES, Noise, make_noise
from congenial.noise.noise_and_discrete_noise import DiscreteNoise
from congenial.privacy.certificate_inputs import CONDITIONAL, MEASURED, METHODS
from congenial.randomness import RandomStream, Streams, secure_rng
from congenial.rules.nearest import NEAREST
from congenial.sampling.allocation_to_children.tilts_and_normaliser import level_noise
from congenial.sampling.elimination import sampler as exact
from congenial.sampling.enumeration import EnumeratedLaw
from congenial.sampling.sampler_and_registry import Drawer, Sampler, choose_sampler, sampler_of
from congenial.sampling.target_and_system import Measured, System, Target
from congenial.sampling.two_way.sampler_and_pilots import TwoWayRejectionAt
from congenial.schema import Schema
from congenial.tree.areas_across import AreasAcross
from congenial.tree.drawing import LevelStep, Subtree
from congenial.tree.exact_sums import ExactSums
from congenial.tree.tree_and_zeros import Tree, TreeTables, Zeros

_FAR = 100  # linear noise goes farther than 100 / precision with probability exp(-100)


@dataclass(frozen=True)
class MeasuredQuery:
    """Measured rows that all have noise of one precision; precision 0 is not measured.

    Attributes
    ----------
    zero_weight : Fraction
        Of single cells, what the weight of a cell's lower limit is multiplied by; 1 is the noise's own law.
    """

    text: str
    precision: Fraction
    rows: tuple[Row, ...]
    zero_weight: Fraction = Fraction(1)

    @property
    def weighted(self) -> str:
        """What is said of its zero_weight beside its precision."""
        return "" if self.zero_weight == 1 else f", zeros weighted {float(self.zero_weight):.4g}"


@dataclass(frozen=True)
class PublicLaw:
    """Schema, noise, measured queries with their precisions, and what the table of every area obeys. Public.

    A release has levels. The units of the first are the areas, or one table; each is drawn around its confidential
    table. A tree has further levels below it: the children of a unit with released table x have weights
    ``prod f(y - s)`` on the nonnegative tables that add up to x and have the exact sums of their level, around their
    confidential tables s, which need not add up to x themselves.

    Attributes
    ----------
    noise : str
        The family of the noise.
    queries : tuple of MeasuredQuery
        What is measured of each unit of the first level; below it every cell is.
    areas : Areas
        The constraints of every unit of the first level; of one table under the label None.
    tree_below : Subtree or None
        The tree, and how its levels below the first are drawn; None where there is one level.
    method : str
        ``conditional``: tables are drawn given all conditions. ``measured``: the measured rows are published with noise
        that is conditioned on the exact numbers alone, and tables are decided from them.
    rule : (str, int) or None
        Name and version of the public rule that decides the tables of a measured release.
    queries_below : tuple of tuples of MeasuredQuery
        Of a measured release, what is measured of each unit of every level below the first.
    across : AreasAcross or None
        Areas that cross a measured tree, which are measured as well.
    queries_across : tuple of MeasuredQuery
        What is measured of each of these areas.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> mechanism = p12_mechanism()
    >>> mechanism.calibrate(mechanism.disclose(p12_table()))
    law of one table on Schema(sex: 2, age: 23; 46 cells): every cell at precision 1/2, double_geometric noise
    """

    schema: Schema
    noise: str
    queries: tuple[MeasuredQuery, ...]
    areas: Areas
    tree_below: Subtree | None = field(default=None, compare=False, repr=False)
    method: str = CONDITIONAL
    rule: tuple[str, int] | None = None
    queries_below: tuple[tuple[MeasuredQuery, ...], ...] = ()
    across: AreasAcross | None = field(default=None, compare=False, repr=False)
    queries_across: tuple[MeasuredQuery, ...] = ()

    def __post_init__(self) -> None:
        if self.method not in METHODS or (self.rule is None) != (self.method == CONDITIONAL):
            raise SamplingError(f"a law is one of {', '.join(METHODS)}, and a measured one has a rule")
        may_cross = self.is_measured and self.is_tree
        if (self.across is None) != (not self.queries_across) or (self.across is not None and not may_cross):
            raise HierarchyError("areas that cross a tree are measured, in a measured release of a tree")
        if self.tree_below is not None:
            self._check_first_level(self.tree_below)
            if self.method == CONDITIONAL:
                self._check_reach(self.tree_below)

    def _check_first_level(self, below: Subtree) -> None:
        """Refuse a first level whose tables could not be shared out among the units below."""
        if len(self.areas) != len(below.tree.codes[0]):
            raise HierarchyError(
                f"the tree has {len(below.tree.codes[0])} units at the top, and the law of the top {len(self.areas)}"
            )
        if any((limit.low is None or limit.low < 0) for group in self.areas.groups for limit in group.pattern.limits):
            raise HierarchyError(
                "cells at the top of a tree are not negative: what is below zero cannot be shared out among counts;"
                " leave out bounds() that allow it"
            )
        # A cell that no child can have must be zero above, or the table there could not be shared out.
        masks = below.zeros.masks[0] if below.zeros.masks else np.zeros((len(self.areas), 0), np.bool_)
        for area, is_zero in zip(self.areas, masks, strict=True):
            limits = self.areas[area].limits
            if any((limits[cell].low, limits[cell].high) != (0, 0) for cell in np.flatnonzero(is_zero)):
                raise HierarchyError("a cell that is a structural zero of every part of a unit is not zero above it")

    def _check_reach(self, below: Subtree) -> None:
        """Refuse linear noise that is much coarser above than below: sums that it brings about are hardly ever drawn.

        Squared noise has no such limit: its centres can be moved as far as need be.
        """
        coarsest = min(precision for precision in self.precisions if precision)
        for name, noise in zip(below.tree.levels[1:], below.noises, strict=True):
            if noise.exponent == 1 and _FAR / coarsest > level_noise(noise).side:
                raise HierarchyError(
                    f"{noise.title} noise of precision {float(coarsest):.3g} above {name} is too coarse to be shared"
                    f" out at precision {float(noise.precision):.3g}: give levels shares that are nearer to each other,"
                    ' or use noise="discrete_gaussian"'
                )
            coarsest = min(coarsest, noise.precision)

    @cached_property
    def below(self) -> Subtree:
        """The levels below the first; of one table and of areas, a tree of one level, with no step below it."""
        return self.tree_below or Subtree(Tree.of_one_level(self.areas.name, self.areas.labels), ())

    @property
    def tree(self) -> Tree:
        """The units of every level; of one table and of areas, a tree of one level."""
        return self.below.tree

    @property
    def is_tree(self) -> bool:
        """Whether there are levels below the first."""
        return self.tree_below is not None and len(self.tree_below.tree.levels) > 1

    @cached_property
    def each_level(self) -> tuple["PublicLaw", ...]:
        """Of a measured release, every level by itself: its units with their exact numbers, and what is measured.

        By themselves the units of a level are areas, whose tables would be the nearest ones.
        """
        rule = NEAREST.name, NEAREST.version
        alone: dict[str, Any] = {"tree_below": None, "queries_below": (), "across": None, "queries_across": ()}
        first = replace(self, rule=rule, **alone) if self.is_tree else self
        return (
            first,
            *(
                replace(first, areas=self.below.areas_of(level, self.schema), queries=queries)
                for level, queries in enumerate(self.queries_below, 1)
            ),
        )

    @cached_property
    def measured_laws(self) -> tuple["PublicLaw", ...]:
        """All that is measured, each by itself: every level, and the areas that cross the tree."""
        if self.across is None:
            return self.each_level
        exact = self.exact_below[-1] if self.exact_below else None
        areas = self.across.areas(self.schema, exact, self.zeros)
        return (*self.each_level, replace(self.each_level[0], areas=areas, queries=self.queries_across))

    def measured_tables(self, tables: Sequence[Ints]) -> tuple[Ints, ...]:
        """Return the tables of all that is measured, from those of the levels of the tree."""
        return (*tables, *(() if self.across is None else [self.across.summed(tables[-1])]))

    @property
    def names_and_codes(self) -> tuple[tuple[str, Codes], ...]:
        """The name of each level and the codes of its units; then of the areas that cross the tree."""
        levels = tuple(zip(self.tree.levels, self.tree.codes, strict=True))
        return levels if self.across is None else (*levels, (self.across.name, self.across.codes))

    def part_of_tree(self, most_leaves: int) -> "PublicLaw":
        """Return the law of some units that stand together with all below them, of so many leaves if there are such.

        All of the tree where it is no larger; else units of a lower level are at the top, with what is exact in them.
        """
        tree = self.tree
        if tree.n_leaves <= most_leaves:
            return self
        level, n_units = len(tree.levels) - 2, 1
        for upper in range(1, len(tree.levels) - 1):
            firsts = np.arange(tree.n_units[upper] + 1)
            for families in tree.families[upper:]:
                firsts = families.starts[firsts]  # where the leaves of each unit begin
            if firsts[1] <= most_leaves:
                level, n_units = upper, int(np.searchsorted(firsts, most_leaves, side="right")) - 1
                break
        if level == 0:  # nothing but leaves below the top
            return self
        areas, queries = self.below.areas_of(level, self.schema), self.queries_of_levels
        below = self.below.under(level, 0, n_units)
        across = None if self.across is None else self.across.part(0, below.tree.n_leaves)
        return replace(
            self,
            areas=Areas(areas.name, areas.labels[:n_units], areas.first_groups(n_units)),
            queries=queries[level],
            queries_below=queries[level + 1 :],
            tree_below=below,
            across=across,
            queries_across=() if across is None else self.queries_across,
        )

    @property
    def queries_of_levels(self) -> tuple[tuple[MeasuredQuery, ...], ...]:
        """What is measured of the units of each level; of a conditional tree, of the first alone."""
        return (self.queries, *self.queries_below)

    @property
    def measured_queries(self) -> tuple[tuple[str, tuple[MeasuredQuery, ...]], ...]:
        """The same by the name of the level, with what is measured of areas that cross the tree."""
        names = [name for name, _ in self.names_and_codes]
        across = () if self.across is None else (self.queries_across,)
        return tuple(zip(names, (*self.queries_of_levels, *across), strict=False))

    @property
    def noises_below(self) -> tuple[DiscreteNoise, ...]:
        """The noise of every cell of each level below the first; none where each level is measured."""
        return self.below.noises

    @property
    def steps(self) -> tuple[LevelStep, ...]:
        """How each level below the first is drawn given the one above; none where each level is measured."""
        return self.below.steps

    @property
    def zeros(self) -> Zeros:
        """Structural zeros of the units of a tree."""
        return self.below.zeros

    @property
    def exact_below(self) -> tuple[ExactSums | None, ...]:
        """What is exact in the units of each level below the first; empty where nothing is anywhere."""
        return self.below.exact

    @cached_property
    def tree_digest(self) -> str:
        """SHA-256 of the tree: levels, codes of all units, whose parts they are, zeros, exact numbers, areas across."""
        tree = self.tree
        state = hashlib.sha256("\0".join(tree.levels).encode())
        for codes in tree.codes:
            state.update(len(codes).to_bytes(8, "little"))
            for part in parts_of(len(codes)):
                state.update("\0".join([*([""] if part.start else []), *codes_as_texts(codes[part])]).encode())
        for parents in tree.parents:
            state.update(np.ascontiguousarray(parents, "<i8").data)
        for mask in self.zeros.masks[-1:]:
            state.update(np.packbits(mask, axis=None).data)
        for sums in self.exact_below:
            if sums is not None:
                state.update(np.ascontiguousarray(sums.values, "<i8").data)
        if self.across is not None:
            state.update("\0".join([self.across.name, *codes_as_texts(self.across.codes)]).encode())
            state.update(np.ascontiguousarray(self.across.area_of_leaf, "<i8").data)
        return state.hexdigest()

    def log_probability(self, leaves: Ints, release: TreeTables) -> float:
        """Return the log probability of a release around confidential leaves (leaf, cell), both in the tree's order.

        It adds up over the units of the first level and over families: exactly but for rounding, by messages at the
        first level and by convolution below. Confidential.
        """
        tables = self.tree.summed(leaves)
        total = 0.0
        for place, area in enumerate(self.areas):
            total += float(Law(self, tables[0][place], area).log_probability(release[0][place : place + 1])[0])
        for level, step in enumerate(self.steps):
            if total == -np.inf:
                break
            total += float(step.log_probabilities(tables[level + 1], release[level], release[level + 1]).sum())
        return total

    @property
    def is_measured(self) -> bool:
        """Whether measurements are published, and tables are decided from them."""
        return self.method == MEASURED

    @property
    def family(self) -> type[Noise]:
        """The family of the noise."""
        return FAMILIES[self.noise]

    @property
    def precisions(self) -> tuple[Fraction, ...]:
        """The precision of each measured query."""
        return tuple(query.precision for query in self.queries)

    @property
    def zero_weights(self) -> tuple[Fraction, ...]:
        """The zero_weight of each measured query."""
        return tuple(query.zero_weight for query in self.queries)

    @property
    def classes(self) -> tuple[tuple[Row, ...], ...]:
        """The measured rows of each query; they share a precision."""
        return tuple(query.rows for query in self.queries)

    @cached_property
    def measured(self) -> tuple[Measured, ...]:
        """Every measured row with its noise."""
        return tuple(
            Measured(row, self.family(query.precision), query.zero_weight)
            for query in self.queries
            if query.precision
            for row in query.rows
        )

    @property
    def tables_text(self) -> str:
        """What is released, in words: one table, a table for each area, or a tree of them."""
        if self.is_tree:
            sizes = zip(self.tree.n_units, self.tree.levels, strict=True)
            return f"a tree of tables that add up, {', '.join(f'{_tables(n)} of a {name}' for n, name in sizes)},"
        if self.areas.name is None:
            return "one table"
        return f"{_tables(len(self.areas))}, one for each {self.areas.name},"

    def target(self, area: Area, centre: ArrayLike) -> Target:
        """Return the law of one area's table around a centre: the confidential table, or any other in S*."""
        if area not in self.areas:
            raise ConditionError(
                f"{area!r} is not an area of this law; {did_you_mean(str(area), map(str, self.areas))}"
            )
        return Target(self.areas[area], self.measured, np.asarray(centre, np.int64).reshape(-1))

    def __repr__(self) -> str:
        measured = ", ".join(f"{query.text} at precision {query.precision}{query.weighted}" for query in self.queries)
        precisions = [noise.precision for noise in self.noises_below]
        precisions += [next(query.precision for query in queries) for queries in self.queries_below]
        below = "".join(
            f"; {name} at precision {precision}"
            for name, precision in zip(self.tree.levels[1:], precisions, strict=True)
        )
        return f"law of {self.areas} on {self.schema}: {measured}, {self.noise} noise{below}"


def _tables(number: int) -> str:
    return "1 table" if number == 1 else f"{number:,} tables"


def measured_rows(schema: Schema, queries: Sequence[Query], noise: object) -> tuple[tuple[Row, ...], ...]:
    """Check the measured queries and return their rows; rows of one query share a precision."""
    if not isinstance(noise, str) or noise not in FAMILIES:
        raise NoiseError(f"noise {noise!r} is not known; {did_you_mean(str(noise), FAMILIES)}")
    if not queries:
        raise ConditionError('measure at least one query, for example measure=[cells(precision="1/2")]')
    seen: dict[tuple[tuple[int, ...], tuple[int, ...]], Query] = {}
    out = []
    for query in queries:
        if not isinstance(query, Query):
            raise ConditionError(f"measure takes cells, total, margin or linear, not a {type(query).__name__}")
        if query.is_stated:
            raise ConditionError(
                f"{query.text} has a stated value, so it is exact, not measured; move it to invariants=[...]"
            )
        if query.precision:
            make_noise(noise, query.precision)  # raises when the noise does not go that far
        rows = tuple(query.rows(schema))
        for row in rows:
            other = seen.setdefault((row.cells, row.coefficients), query)
            if other is not query:
                raise ConditionError(
                    f"{row.name} is measured twice, by {other.how} and by {query.how};"
                    " measure it once, at the precision it should have in all"
                )
        out.append(rows)
    return tuple(out)


# The conditional law of one confidential table: what a release is drawn from.


@dataclass(frozen=True)
class Marginal:
    """The exact distribution of one linear statistic. Confidential."""

    values: Ints
    probabilities: Floats

    @property
    def mean(self) -> float:
        """The expectation."""
        return float(self.values @ self.probabilities)

    @property
    def variance(self) -> float:
        """The variance."""
        return float(((self.values - self.mean) ** 2) @ self.probabilities)


@dataclass(frozen=True)
class Simulated:
    """A number by simulation. Confidential.

    Attributes
    ----------
    error : float
        One standard deviation of the simulation; 0 where the number is known without one.
    """

    value: float
    error: float


class Law:
    """A `PublicLaw` with a confidential centre: ``P(t | s)`` on S*. Confidential.

    Made by `Mechanism.law`. Everything here is exact: draws are independent and have this law, and the numbers come
    from the same messages, not from simulation.

    Examples
    --------
    >>> from congenial.examples import two_bins
    >>> law = two_bins()
    >>> law
    Law on Schema(bin: 2; 2 cells), 2 measured queries, centre confidential
    >>> round(law.log_normaliser(), 12)
    0.269859639543
    >>> law.mean().round(3)
    array([2.006, 2.994])
    """

    def __init__(self, public: PublicLaw, centre: ArrayLike, area: Area = None) -> None:
        self.public = public
        self.area = area
        self.target = public.target(area, centre)

    @property
    def constraints(self) -> Constraints:
        """What every table obeys. Public."""
        return self.target.constraints

    @cached_property
    def enumerated(self) -> EnumeratedLaw:
        """All tables with their exact probabilities, by brute force; refuses more than a million tables."""
        return EnumeratedLaw.of(self.target)

    @cached_property
    def _drawer(self) -> Drawer:
        return sampler_of(self.target).at(self.target.centre)

    def sample(self, n_draws: int, rng: RandomStream | None = None) -> Ints:
        """Return independent exact draws (draw, cell).

        Examples
        --------
        >>> from congenial.examples import p12_mechanism, p12_table
        >>> from congenial.randomness import replay_rng
        >>> p12_mechanism().law(p12_table()).sample(5, replay_rng(1)).sum(axis=1)
        array([256, 256, 256, 256, 256])
        """
        if type(n_draws) is not int or n_draws < 1:
            raise SamplingError(f"n_draws is a whole number from 1 on, not {n_draws!r}")
        if rng is not None and not isinstance(rng, RandomStream):
            raise SamplingError(f"rng is replay_rng(seed) or secure_rng(), not a {type(rng).__name__}")
        return self._drawer.sample(n_draws, rng or secure_rng())

    def log_normaliser(self) -> float:
        """Return ``log c(s)``, the log of the summed unnormalised weights; refused for systems too wide to sum up."""
        if not isinstance(self._drawer, TwoWayRejectionAt):
            return self._drawer.log_normaliser
        try:
            return exact.messages(self.target).log_normaliser
        except TooLargeError as refused:
            raise TooLargeError(
                f"{refused}. Rejection knows it by simulation: simulated_log_normaliser() returns it with its error"
            ) from None

    def simulated_log_normaliser(self, n_attempts: int = 10_000, rng: RandomStream | None = None) -> Simulated:
        """Return ``log c(s)`` by simulation, with its error.

        Examples
        --------
        >>> from congenial.examples import two_bins
        >>> two_bins().simulated_log_normaliser()
        Simulated(value=0.2698596395428722, error=0.0)
        """
        if isinstance(self._drawer, TwoWayRejectionAt):
            return Simulated(*self._drawer.simulated_log_normaliser(n_attempts, rng or secure_rng()))
        return Simulated(self._drawer.log_normaliser, 0.0)

    def log_probability(self, draws: ArrayLike) -> Floats:
        """Return the log probability of each draw (draw, cell); minus infinity outside S*."""
        tables, n_cells = np.asarray(draws), self.target.centre.size
        if tables.ndim != 2 or tables.shape[1] != n_cells or tables.dtype.kind not in "iu":
            raise SamplingError(
                f"draws are whole numbers of shape (draw, {n_cells}), not {tables.shape} {tables.dtype}"
            )
        tables = tables.astype(np.int64)
        inside = np.asarray(self.constraints.holds(tables))
        out = np.full(len(tables), -np.inf)
        out[inside] = self.target.log_weight(tables[inside]) - self.log_normaliser()
        return out

    def marginal(self, query: Query | Mapping[str, str]) -> Marginal:
        """Return the exact distribution of a total, a linear combination or a cell (given by its labels).

        Examples
        --------
        >>> from congenial.examples import two_bins
        >>> two_bins().marginal({"bin": "first"}).values
        array([0, 1, 2, 3, 4, 5])
        """
        schema = self.constraints.schema
        if isinstance(query, Mapping):
            return self.marginal_of(Row.of("", [schema.cell(query)]))
        if not isinstance(query, Query):
            raise ConditionError(
                f"a marginal is of total, linear or the labels of a cell, not of a {type(query).__name__}"
            )
        rows = query.rows(schema)
        if len(rows) != 1:
            raise ConditionError(f"{query.text} has {len(rows)} statistics; ask for one of them, with total or linear")
        return self.marginal_of(rows[0])

    def marginal_of(self, row: Row) -> Marginal:
        """Return the exact distribution of one row."""
        messages = exact.messages(self.target, [row])
        centre = row.value(self.target.centre.tolist())
        root = messages.root
        state = messages.layout.state
        if messages.layout.elimination.program.node_dim[-1] == 0:  # the invariants leave it one value
            return Marginal(np.array([centre]), np.ones(1))
        values = centre + int(state.node_low[-1, 0]) + np.arange(root.size)
        is_possible = root > 0
        return Marginal(values[is_possible], root[is_possible] / root.sum())

    @cached_property
    def _cell_moments(self) -> Floats:
        """Mean and variance of each cell (2, cell); cells that the law cannot tell apart are computed once."""
        system = System.of(self.constraints, self.target.measured)
        out = np.empty((2, self.target.centre.size))
        known: dict[object, tuple[float, float]] = {}
        rows = [*(limited.row for limited in self.constraints.rows), *(query.row for query in self.target.measured)]
        for group, cells in cells_alike([row for row in rows if len(row.cells) > 1], system.n_cells).items():
            for cell in cells:
                like = (group, self.target.centre[cell], system.weights[cell], self.constraints.limits[cell])
                if like not in known:
                    marginal = self.marginal_of(Row.of("", [cell]))
                    known[like] = (marginal.mean, marginal.variance)
                out[:, cell] = known[like]
        return out

    def mean(self) -> Floats:
        """Return the expectation of each cell."""
        return np.array(self._cell_moments[0])

    def variance(self) -> Floats:
        """Return the variance of each cell."""
        return np.array(self._cell_moments[1])

    def __repr__(self) -> str:
        schema = self.constraints.schema
        return f"Law on {schema}, {len(self.target.measured)} measured queries, centre confidential"


# The draw of some areas, wherever it runs: public structure, confidential tables and words in, drawn tables out.


@dataclass(frozen=True, eq=False)
class AreaDrawing:
    """All that draws the tables of a law's areas, but the tables and the random words. Public; it can be pickled.

    It knows the groups of areas, not the areas: a chunk of areas is given by the group of each, its confidential table,
    and its words. What is drawn depends on nothing else, so neither on the chunk nor on where it is drawn.

    Attributes
    ----------
    patterns : tuple of Constraints
        Of each group of areas, the constraints of one of them; others differ in the values of equalities.
    systems : tuple of System
        Of each group, the structure that all its areas fit.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> from congenial.randomness import replay_rng
    >>> mechanism, table = p12_mechanism(), p12_table()
    >>> drawing = AreaDrawing.of(mechanism.calibrate(mechanism.disclose(table)))
    >>> drawing.draw(np.zeros(2, np.int64), np.stack([table.counts] * 2), replay_rng(1)).sum(axis=1)
    array([256, 256])
    """

    patterns: tuple[Constraints, ...]
    systems: tuple[System, ...]

    @property
    def width(self) -> int:
        """How many numbers an area has."""
        return self.patterns[0].schema.n_cells

    @classmethod
    def of(cls, law: PublicLaw) -> "AreaDrawing":
        """Return what draws the areas of a law."""
        groups = law.areas.groups
        return cls(
            tuple(replace(group.pattern, origin=None) for group in groups),
            tuple(System.of(group.pattern, law.measured).over(group.ranges_of_values) for group in groups),
        )

    @cached_property
    def samplers(self) -> tuple[Sampler, ...]:
        """The sampler of each group of areas; made on first use, in every process anew."""
        return tuple(map(choose_sampler, self.systems))

    def draw(self, groups: Ints, centres: Ints, words: Streams) -> Ints:
        """Return one draw for each of some areas (area, cell), in their order.

        Parameters
        ----------
        groups : array (area,)
            The group of each area, from 0 on.
        centres : array (area, cell)
            Their confidential tables.
        words : UnitStreams, or one RandomStream
            The random words of each of these areas.
        """
        out = np.empty_like(centres)
        for number in np.unique(groups).tolist():
            in_group = np.flatnonzero(groups == number)
            is_all = len(in_group) == len(centres)
            chosen = centres if is_all else centres[in_group]
            drawn = self.samplers[number].draw_each(chosen, words if is_all else words.subset(in_group))
            _check_drawn(self.patterns[number], chosen, drawn)
            out[in_group] = drawn
        return out

    def __getstate__(self) -> dict[str, object]:
        return {"patterns": self.patterns, "systems": self.systems}  # samplers hold compiled functions

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)


def _check_drawn(pattern: Constraints, centres: Ints, drawn: Ints) -> None:
    """See that drawn tables obey limits and ranges, and have the sums that the confidential ones have."""
    answers = np.asarray(replace(pattern, rows=pattern.ranges).holds(drawn))
    rows = [limited.row for limited in pattern.equalities]
    if rows:
        answers &= (row_values(rows, drawn) == row_values(rows, centres)).all(axis=1)
    check_invariants(answers)


def check_invariants(answers: bool | NDArray[np.bool_]) -> None:
    """Refuse drawn tables of which some break an invariant."""
    if not np.all(answers):
        raise SamplingError("internal: a drawn table breaks an invariant; nothing is published, please report this")
