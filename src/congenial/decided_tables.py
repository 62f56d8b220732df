"""From measurements to tables, in public: the rule's input and seed, exact sums checked, decided tables to study.

Everything here takes measurements, or public tables, and public structure; nothing takes confidential ones.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from math import inf, lcm

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.areas_and_bounds import AreaGroup, Areas, quick_bounds
from congenial.conditions.constraints import Constraints
from congenial.conditions.grouped_cells_and_lattice import dependence
from congenial.conditions.rows_and_intervals import Interval, Limited, Row, row_values
from congenial.errors import ConditionError, SamplingError
from congenial.law import PublicLaw
from congenial.measurement import MeasurementDrawing, NoiseKind
from congenial.memory_and_threads import parts_of
from congenial.noise import Noise
from congenial.progress_and_interrupts import Progress, silent
from congenial.randomness import RandomStream, Streams
from congenial.rules.family_integers import ExactCellSums
from congenial.rules.further_rows import FurtherRows
from congenial.rules.nearest import NEAREST
from congenial.rules.registry import RuleInput, TableRule, TreeRule, rule_named
from congenial.rules.rule_and_input import FRACTION_BITS, Learned, Rule
from congenial.rules.tree_measurements import TreeMeasurements
from congenial.tree.tree_and_zeros import TreeTables
from congenial.tree_margins import measures_cells, tree_margins, why_no_margins


def cell_columns(law: PublicLaw) -> Ints | None:
    """Return the measured row of each cell by itself (cell,); None where some cell is measured in sums only."""
    columns = np.full(law.schema.n_cells, -1, np.int64)
    for number, query in enumerate(law.measured):
        if query.row.coefficients == (1,):
            columns[query.row.cells[0]] = number
    return None if (columns < 0).any() else columns


def exact_sums_hold(law: PublicLaw, drawing: MeasurementDrawing, numbers: Ints, measurements: Ints) -> bool:
    """Whether measurements (unit, row) have every exact sum that their noise keeps, and agree with each other.

    Each coordinate of the noise is read off a row that measures it alone. Then every equality that the noise keeps, and
    every other measured row less its coordinates, is a sum that exact numbers and pinned cells determine: compared in
    integers.
    """
    for number, kind in enumerate(drawing.kinds):
        places = np.flatnonzero(numbers == number)
        relations = _relations(kind) if len(places) else []
        for part in parts_of(len(places)):
            if not _holds(law, kind, relations, places[part], measurements[places[part]]):
                return False
    return True


def check_noise(law: PublicLaw, kind: NoiseKind, places: Ints, tables: Ints, words: Streams) -> None:
    """Add noise to public tables (unit, cell) of some units, and see that it keeps what it should: a dry run."""
    measurements = row_values(kind.rows, tables) + kind.noise(words, len(tables))
    if not _holds(law, kind, _relations(kind), places, measurements):
        raise SamplingError("internal: noise does not keep what is public; nothing is charged, please report this")


@dataclass(frozen=True)
class _Relation:
    """A combination of measured rows, and what it is as one of exact sums and pinned cells, over a common divisor."""

    measured: tuple[tuple[int, int], ...]
    known: tuple[tuple[int, int], ...]


def _relations(kind: NoiseKind) -> list[_Relation]:
    """Return what the measurements of a kind have in common with public numbers, as integer combinations."""
    if kind.rows_are_coordinates:
        reads, sums = list(range(len(kind.rows))), []
    else:
        places, numbers = np.nonzero(kind.answers.T)  # coordinate by coordinate
        is_single = (np.count_nonzero(kind.answers, axis=1) == 1) & (kind.answers.sum(axis=1) == 1)
        by_place = zip(places[is_single[numbers]].tolist(), numbers[is_single[numbers]].tolist(), strict=True)
        first = dict(reversed(list(by_place)))  # the first row that is the coordinate
        reads = [first[place] for place in range(kind.answers.shape[1])]
        sums = sorted(set(range(len(kind.rows))) - set(reads))
    combinations: list[dict[int, int]] = []
    for equality in kind.choice.system.equalities:
        combinations.append({reads[place]: times for place, times in equality.terms.items()})
    for number in sums:
        line = kind.answers[number]
        terms = {reads[place]: -int(line[place]) for place in np.flatnonzero(line).tolist()}
        combinations.append({**terms, number: 1})
    over_cells = []
    for combination in combinations:
        of_cells: dict[int, int] = {}
        for number, times in combination.items():
            for cell, part in kind.rows[number].terms.items():
                of_cells[cell] = of_cells.get(cell, 0) + times * part
        over_cells.append({cell: times for cell, times in of_cells.items() if times})
    known = [limited.terms for limited in kind.pattern.equalities] + [{cell: 1} for cell in kind.pinned]
    follows = dependence([*known, *over_cells]).follows
    out = []
    for place, combination in enumerate(combinations, len(known)):
        how = follows.get(place)
        if how is None or max(how, default=-1) >= len(known):  # `NoiseKind.check` has refused such before the charge
            raise SamplingError("internal: the noise keeps a sum that is not public; please report this")
        scale = lcm(*(times.denominator for times in how.values()))
        out.append(
            _Relation(
                tuple((number, scale * times) for number, times in combination.items()),
                tuple((number, int(scale * times)) for number, times in how.items()),
            )
        )
    return out


def _holds(law: PublicLaw, kind: NoiseKind, relations: Sequence[_Relation], places: Ints, measurements: Ints) -> bool:
    group = law.areas.groups[int(law.areas.group_numbers[places[0]])]
    some = AreaGroup(group.pattern, places, group.values[np.searchsorted(group.places, places)])
    pinned = quick_bounds(some).low[:, list(kind.pinned)]
    known = np.concatenate([some.values, pinned], axis=1)
    largest = max(int(np.abs(part).max(initial=0)) for part in (known, measurements))
    sizes = (sum(abs(times) for _, times in (*one.measured, *one.known)) for one in relations)
    if max(sizes, default=0) * largest >= 2**62:
        known, measurements = known.astype(object), measurements.astype(object)
    for relation in relations:
        sides = [
            sum(times * numbers[:, number] for number, times in terms)
            for terms, numbers in ((relation.measured, measurements), (relation.known, known))
        ]
        if np.any(sides[0] != sides[1]):
            return False
    return True


def measurements_digest(law: PublicLaw, measurements: Ints) -> bytes:
    """Return the SHA-256 of measurements (unit, row), with units and rows: the public seed of a rule's random order."""
    state = hashlib.sha256("\0".join(["congenial measurements", *map(str, law.areas.labels)]).encode())
    state.update("\0".join(query.row.name for query in law.measured).encode())
    for part in parts_of(len(measurements)):
        state.update(np.ascontiguousarray(measurements[part], "<i8").data)
    return state.digest()


def rule_input(law: PublicLaw, measurements: Ints, seed: bytes | None = None) -> RuleInput:
    """Return what a rule decides from: measurements and public structure, nothing else."""
    return RuleInput(
        areas=law.areas,
        rows=tuple(query.row for query in law.measured),
        precisions=tuple(query.noise.precision for query in law.measured),
        exponent=law.family.exponent,
        measurements=measurements,
        seed=measurements_digest(law, measurements) if seed is None else seed,
    )


def rule_of(law: PublicLaw) -> TableRule:
    """Return the rule that the law of one table or of areas names."""
    rule = rule_named(*law.rule) if law.rule is not None else None
    if not isinstance(rule, TableRule):
        raise SamplingError("there is no rule for tables of units by themselves: they are drawn, or of a tree")
    return rule


def tree_rule_of(law: PublicLaw) -> TreeRule:
    """Return the rule that the law of a tree names."""
    rule = rule_named(*law.rule) if law.rule is not None else None
    if not isinstance(rule, TreeRule):
        raise SamplingError("there is no rule for the tables of a tree: they are drawn")
    return rule


def why_no_tables(law: PublicLaw) -> str | None:
    """Return why the rule of a law makes no tables of its measurements, whatever their values; None if it does."""
    if law.is_tree:
        rule, exact = tree_rule_of(law), _exact_sums(law)[0]
        if rule.measures_cells and not measures_cells(law):
            return f"some cells of a level are measured in sums only, and the rule {rule.name} is for measured cells"
        if not rule.measures_cells and (why := why_no_margins(law, exact)):
            return why
        starts = [families.starts for families in law.tree.families]
        why = rule.why_not(starts, law.schema.n_cells, exact, law.zeros.masks)
        why = _why_no_first(law, exact) if why is None else why
        return _why_too_noisy(rule, law.each_level[-1]) if why is None else why
    rows, precisions = [query.row for query in law.measured], [query.noise.precision for query in law.measured]
    why = rule_of(law).why_not(law.areas, rows, precisions)
    return _why_too_noisy(rule_of(law), law) if why is None else why


def _why_too_noisy(rule: Rule, level: PublicLaw) -> str | None:
    """Return why the noise of cells is beyond a rule; None if it is not."""
    noises = [query.noise for query in level.measured if query.row.coefficients == (1,) and query.noise.precision > 0]
    if not noises:
        return None
    least = min(noises, key=lambda noise: noise.precision)
    return rule.why_too_noisy(level.schema.n_cells, least.precision, least.exponent)


def ways_of_tree(law: PublicLaw) -> list[str]:
    """Return how the rule of a measured tree decides the tables of each level, in words."""
    rule, (_, *middle, last) = tree_rule_of(law), exact_cell_sums(law)
    first = f"the nearest to the estimates, by the rule {NEAREST.name}, under all that is exact there"
    n_cells = law.schema.n_cells
    return [first, *(rule.way(rows, n_cells) for rows in middle), rule.way_at_leaves(last, n_cells)]


def decide_tables(law: PublicLaw, measurements: Sequence[Ints], progress: Progress = silent) -> TreeTables:
    """Return the tables (unit, cell) of every level that the rule of a law makes of the measurements of every level."""
    return decide_and_learn(law, measurements, progress)[0]


def decide_and_learn(
    law: PublicLaw, measurements: Sequence[Ints], progress: Progress = silent
) -> tuple[TreeTables, Learned]:
    """Return the tables of every level, and what the rule learned from all units together: of most rules, nothing."""
    if not law.is_tree:
        rule, areas = rule_of(law), rule_input(law, measurements[0])
        learned = rule.learn(areas)
        return (rule.decide_with(areas, learned, progress),), learned
    tree_rule, data = tree_rule_of(law), tree_measurements(law, measurements)
    tables = tree_rule.decide(data, partial(_decide_first, law, data), progress)
    return tables, tree_rule.learn(data, tables)


def check_decided(
    law: PublicLaw, measurements: Sequence[Ints], tables: Sequence[Ints], learned: Learned | None = None
) -> None:
    """Raise `ConditionError` unless tables are those of the rule of a law, given what it learned, and that as well."""
    rule, learned = tree_rule_of(law) if law.is_tree else rule_of(law), learned or {}
    if rule.learns != bool(learned):
        what = (
            "learns, and nothing is said to be learned"
            if rule.learns
            else "learns nothing, and something is said to be"
        )
        raise ConditionError(f"the rule {rule.name} {what}")
    if isinstance(rule, TreeRule):
        data = replace(tree_measurements(law, measurements), learned=learned)
        rule.check(data, tables, partial(_decide_first, law, data))
    else:
        rule.check_with(rule_input(law, measurements[0]), tables[0], learned)


def tree_measurements(law: PublicLaw, measurements: Sequence[Ints]) -> TreeMeasurements:
    """Return what a rule for trees decides from: the measurements of every level and public structure, nothing else."""
    exact_rows, exact_values = _exact_sums(law)
    digests = [measurements_digest(one, values) for one, values in zip(law.measured_laws, measurements, strict=True)]
    seed = hashlib.sha256(b"".join([b"congenial tree", *digests])).digest()
    if not tree_rule_of(law).measures_cells:
        return tree_margins(law, measurements, _variances_of_margins(law), exact_rows, exact_values, seed)
    return TreeMeasurements(
        starts=tuple(families.starts for families in law.tree.families),
        measured=tuple(_of_cells(level, values) for level, values in zip(law.each_level, measurements, strict=False)),
        variances=tuple(map(_variance_of_cells, law.each_level)),
        exact_rows=exact_rows,
        exact_values=exact_values,
        zero_masks=law.zeros.masks,
        further=_further_rows(law, measurements),
        seed=seed,
        exponent=law.family(Fraction(1)).exponent,
    )


def _of_cells(level: PublicLaw, values: Ints) -> Ints:
    columns = cell_columns(level)
    if columns is None:
        raise ConditionError("some cells of a level are measured in sums only, and the rule is for measured cells")
    return values if np.array_equal(columns, np.arange(values.shape[1])) else np.ascontiguousarray(values[:, columns])


def _variance_of_cells(level: PublicLaw) -> float:
    return variance_in_rule(next(query.noise for query in level.measured if query.row.coefficients == (1,)))


def _variances_of_margins(law: PublicLaw) -> list[tuple[float, ...]]:
    return [
        tuple(variance_in_rule(law.family(query.precision)) if query.precision else inf for query in queries)
        for queries in law.queries_of_levels
    ]


def variance_in_rule(noise: Noise) -> float:
    """Return the variance of a measured sum as a rule has it, the same on every machine: from rational numbers."""
    if noise.exponent == 2:
        return float(1 / noise.precision)
    return float(2 * noise.base / (1 - noise.base) ** 2)


def _further_rows(law: PublicLaw, measurements: Sequence[Ints]) -> tuple[FurtherRows, ...]:
    """Return what is measured beside the cells of levels: sums of their units, and all of areas that cross the tree."""
    out = []
    for number, (each, values) in enumerate(zip(law.measured_laws, measurements, strict=True)):
        is_level = number < len(law.each_level)
        chosen = [n for n, query in enumerate(each.measured) if not is_level or query.row.coefficients != (1,)]
        if chosen:
            rows = tuple(each.measured[n].row for n in chosen)
            variances = tuple(variance_in_rule(each.measured[n].noise) for n in chosen)
            of_leaves = None if is_level or law.across is None else law.across.area_of_leaf
            some = np.ascontiguousarray(values[:, chosen])
            out.append(FurtherRows(rows, variances, some, number if is_level else None, of_leaves))
    return tuple(out)


def exact_cell_sums(law: PublicLaw) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Return the cells of the sums that are exact in all units of each level, with what follows from lower levels."""
    return _exact_sums(law)[0]


def _exact_sums(law: PublicLaw) -> tuple[tuple[tuple[tuple[int, ...], ...], ...], tuple[Ints, ...]]:
    """Return the exact sums of cells of each level (unit, sum): the cells, and the values.

    What is exact in all units of a level is so above, also where it follows from other sums there, and is listed. Of
    the first level also single cells, which are limits there and no rows.
    """
    cells, values = list[tuple[tuple[int, ...], ...]](), list[Ints]()
    for level, starts in zip(
        reversed(law.each_level), [None, *(f.starts for f in reversed(law.tree.families))], strict=True
    ):
        equalities, exact_values = level.areas.exact_rows
        chosen = [number for number, row in enumerate(equalities) if set(row.coefficients) == {1}]
        of_units, rows = exact_values[:, chosen], [equalities[number].cells for number in chosen]
        if starts is not None:
            missing = [number for number, some in enumerate(cells[-1]) if some not in rows]
            rows += [cells[-1][number] for number in missing]
            of_units = np.hstack([of_units, np.add.reduceat(values[-1][:, missing], starts[:-1], axis=0)])
        cells.append(tuple(rows))
        values.append(of_units)
    single, of_cells = _exact_cells(law)
    missing = [number for number, some in enumerate(single) if some not in cells[-1]]
    cells[-1] += tuple(single[number] for number in missing)
    values[-1] = np.hstack([values[-1], of_cells[:, missing]])
    return tuple(reversed(cells)), tuple(reversed(values))


def _exact_cells(law: PublicLaw) -> tuple[list[tuple[int, ...]], Ints]:
    """Return the cells that have one value in every unit of the first level and are no structural zeros there."""
    mask, groups = law.zeros.of_level(0), law.areas.groups
    is_open = [mask is None or not mask[:, cell].all() for cell in range(law.schema.n_cells)]
    exact = [n for n, some in enumerate(is_open) if some and all(group.pattern.is_fixed(n) for group in groups)]
    values = np.zeros((len(law.areas), len(exact)), np.int64)
    for group in groups:
        values[group.places] = [group.pattern.lower[cell] or 0 for cell in exact]
    return [(cell,) for cell in exact], values


def _cell_rows(law: PublicLaw) -> tuple[Row, ...]:
    return tuple(Row.of(law.schema.cell_name(cell), [cell]) for cell in range(law.schema.n_cells))


def _decide_first(law: PublicLaw, data: TreeMeasurements, estimates: Ints) -> Ints:
    """Return tables (unit, cell) of the first level of a tree: nearest to estimates, under all its conditions."""
    counts = (estimates + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS
    fractions = estimates - (counts << FRACTION_BITS)
    areas, rows = law.each_level[0].areas, _cell_rows(law)
    precisions = (Fraction(1),) * len(rows)
    tables = NEAREST.decide(RuleInput(areas, rows, precisions, 2, counts, data.seed, fractions))
    outside = np.flatnonzero(data.is_outside_at_top(tables))
    if len(outside):  # others are the nearest with these limits, too
        limited = _limited(areas, data.limits_at_top, outside)
        some = RuleInput(limited, rows, precisions, 2, counts[outside], data.seed, fractions[outside])
        tables[outside] = NEAREST.decide(some)
    return tables


def _why_no_first(law: PublicLaw, exact: Sequence[Sequence[tuple[int, ...]]]) -> str | None:
    """Return why the tables of the first level could not be decided, whatever ranges their free sums have."""
    rows = _cell_rows(law)
    free = [tied.free_cells for tied in ExactCellSums(tuple(exact[1]), len(rows)).free]
    groups = [
        replace(group, pattern=_with_limits(group.pattern, [(cells, Interval(0, None)) for cells in free]))
        for group in law.areas.groups
    ]
    return NEAREST.why_not(replace(law.areas, groups=tuple(groups)), rows, (Fraction(1),) * len(rows))


def _limited(areas: Areas, limits: Sequence[tuple[tuple[int, ...], Ints]], places: Ints) -> Areas:
    """Return what some units obey where sums of cells lie in ranges (unit, 2) besides."""
    groups = []
    for number, place in enumerate(places.tolist()):
        intervals = [(cells, Interval(*map(int, ranges[place]))) for cells, ranges in limits]
        pattern = _with_limits(areas.at(place), intervals)
        values = np.array([[limited.lower for limited in pattern.equalities]], np.int64)
        groups.append(AreaGroup(pattern, np.array([number]), values))
    return Areas(areas.name, tuple(areas.labels[place] for place in places.tolist()), tuple(groups))


def _with_limits(constraints: Constraints, limits: Sequence[tuple[tuple[int, ...], Interval]]) -> Constraints:
    """Return constraints with further ranges of sums of cells, those that the equalities do not determine."""
    rows = [Limited(Row.of("the free sum of cells below", cells), interval) for cells, interval in limits]
    implied = constraints.known.implied_each([limited.row for limited in rows])
    open_rows = (limited for limited, value in zip(rows, implied, strict=True) if value is None)
    return replace(constraints, rows=(*constraints.rows, *open_rows))


@dataclass(frozen=True, eq=False)
class MeasuredTables:
    """The tables of a measured release, as a sampler: noise around a public table, then the rule. To study errors.

    Of a rule that learns from all units, that of a unit alone: *nearest*.

    Attributes
    ----------
    kind : NoiseKind
    rows, precisions, exponent
        What is measured; see `RuleInput`.
    """

    law: PublicLaw
    kind: NoiseKind

    name = "measured"
    has_predictable_time = True

    @property
    def title(self) -> str:
        """What a manifest says of it."""
        dropped = f", without {', '.join(self.kind.dropped)}" if self.kind.dropped else ""
        return f"{self.kind.choice.sampler.title}{dropped}"

    @property
    def is_exact(self) -> bool:
        """Whether the noise has its law exactly, and fits into memory."""
        return self.kind.choice.sampler.is_exact

    def check(self) -> None:
        """Raise with the reason and the way out unless `is_exact`."""
        self.kind.check()

    @property
    def seconds(self) -> float:
        """About how long one table takes: its noise, and the rule."""
        return self.kind.choice.sampler.seconds + self._rule_seconds

    @cached_property
    def _rule_seconds(self) -> float:
        measured = self.law.measured
        rows, precisions = [query.row for query in measured], [query.noise.precision for query in measured]
        pattern = AreaGroup(self.kind.pattern, np.zeros(1, np.int64), np.zeros((1, 0), np.int64))
        return rule_of(self.law).alone.seconds(Areas(None, (None,), (pattern,)), rows, precisions)

    def describe(self) -> str:
        """Return its size, for people."""
        return self.kind.choice.sampler.describe()

    def dry_run(self, points: Ints) -> str:  # noqa: ARG002
        """Say what trials promise: nothing, for the noise is the same wherever it is added."""
        return ""

    def draw_each(self, centres: Ints, rng: Streams, *, n_threads: int = 1) -> Ints:
        """Return the table that each of some public tables (table, cell) would be released as."""
        law, pattern = self.law, self.kind.pattern
        rows = [query.row for query in law.measured]
        measurements = row_values(rows, centres) + self.kind.noise(rng, len(centres))
        values = row_values([limited.row for limited in pattern.equalities], centres)
        group = AreaGroup(pattern, np.arange(len(centres)), values)
        areas = Areas("table", tuple(map(str, range(len(centres)))), (group,))
        there = replace(law, areas=areas)
        return rule_of(law).alone.decide(rule_input(there, measurements), n_threads=n_threads)

    def at(self, centre: Ints) -> "MeasuredTablesAt":
        """Return the sampler at one public table."""
        return MeasuredTablesAt(self, centre)

    def log_normalisers(self, centres: Ints, rng: RandomStream) -> Floats:  # noqa: ARG002
        """Refuse: a decided table is no draw, and has no normaliser; the law is that of the measurements."""
        raise SamplingError("tables of a measured release have no normaliser; ask for the law of the measurements")


@dataclass(frozen=True, eq=False)
class MeasuredTablesAt:
    """The same at one public table."""

    sampler: MeasuredTables
    centre: Ints = field(repr=False)

    def sample(self, n_draws: int, rng: RandomStream) -> Ints:
        """Return the tables of independent releases (draw, cell)."""
        return self.sampler.draw_each(np.tile(self.centre, (n_draws, 1)), rng)

    @property
    def log_normaliser(self) -> float:
        """None: see `MeasuredTables.log_normalisers`."""
        raise SamplingError("tables of a measured release have no normaliser; ask for the law of the measurements")
