"""What a release will take and what it will cost, before any table is drawn. Public."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import sqrt
from textwrap import wrap
from typing import NamedTuple

import numpy as np

from congenial.arrays import Ints
from congenial.arrow_and_unit_codes import Codes
from congenial.conditions.areas_and_bounds import Area
from congenial.conditions.base import Condition
from congenial.conditions.queries import Query
from congenial.decided_tables import MeasuredTables, decide_and_learn, exact_sums_hold
from congenial.dry_run import dry_run
from congenial.errors import HierarchyError, PrivacyError, SamplingError
from congenial.law import AreaDrawing, MeasuredQuery, PublicLaw, check_invariants
from congenial.measured_tree_facts import tree_to_certify
from congenial.measurement import MeasurementDrawing, NoiseKind, drawing_of
from congenial.memory_and_threads import map_in_threads, parts_of
from congenial.noise import Noise
from congenial.privacy.budget import Budget, Spent, spent
from congenial.privacy.certificate import Certificate, shown, shown_below
from congenial.privacy.certificate_inputs import MEASURED, Structure
from congenial.privacy.closest_neighbours_and_unprotected import Neighbours
from congenial.privacy.compose_and_price_areas import PricedAreas, Pricing
from congenial.privacy.disclosure import Disclosure
from congenial.privacy.meaning_and_counterexample import Meaning, meaning
from congenial.privacy.measured_tree import measured_tree_certificate
from congenial.privacy.tree_loss import total_rho, tree_certificate
from congenial.progress_and_interrupts import DECIDING, DRAWING, Progress, silent
from congenial.randomness import LevelStreams, RandomStream, Streams, TreeStreams
from congenial.rules.rule_and_input import Learned
from congenial.sampling.sampler_and_registry import Sampler
from congenial.tree.disclosure import disclosures_of_levels
from congenial.tree.tree_and_zeros import TreeTables, check_leaves

AT_ONCE = 1_000
"""Areas that are drawn together: a few milliseconds to start with each time."""

_NAMED = 6  # exact sums in a sentence


@dataclass(frozen=True)
class Level:
    """One level of a release: its units, how much of the budget they have, their noise and what is exact in them.

    Attributes
    ----------
    codes : array (unit,)
    share : Fraction or None
        Of the budget; None where precisions were given, and where there is one level.
    noise : Noise
        Of the first measured query, before anything is conditioned on.
    exact : tuple of Condition
        What was stated to be exact in every unit, below the first level.
    """

    name: str
    codes: Codes
    share: Fraction | None
    noise: Noise
    exact: tuple[Condition, ...] = ()

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise."""
        return sqrt(float(self.noise.variance))


class LevelDrawing(NamedTuple):
    """One level of a measured release by itself. Public.

    Attributes
    ----------
    law : PublicLaw
        Of this level alone.
    drawing : MeasurementDrawing
    numbers : array (unit,)
        The kind of noise of each unit.
    """

    law: PublicLaw
    drawing: MeasurementDrawing
    numbers: Ints


@dataclass(frozen=True, repr=False)
class Plan:
    """How a release is drawn, at which precisions, and the certificate of its loss.

    One table and many areas are one level; a tree has levels below it. What depends on rows and limits alone is made
    once for all areas that share them.

    Attributes
    ----------
    law : PublicLaw
    pricing : Pricing
        What the certificate of the first level is computed from.
    budget : Budget or None
        What was requested; None where every precision was given.
    requested : tuple of Query
        The measured queries of the first level as they were stated, each with its precision or its portion of the
        budget.
    shares : tuple of Fraction or None
        What each level of a tree gets of the budget, the first level first.
    invariants_below : mapping from level to conditions
        What was stated to be exact in every unit of levels below the first.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> mechanism = p12_mechanism()
    >>> print(mechanism.plan(mechanism.disclose(p12_table())))
    4 groups of cells, width 1, about 7,957 states, exact
    every cell at precision 0.5, double_geometric noise
    limited_cells: at most epsilon 1.4899 and rho 0.5, bounded neighbours, one record changed
      cells with limits, every limit measured at precision 0.5 or more: D = 1 plus 0.4899 for conditioning, which is
      less than log 2
      GM's factor of two would give 2
      proof and audit: docs/claims/conditional-loss.md
    """

    law: PublicLaw
    pricing: Pricing = field(repr=False)
    budget: Budget | None = None
    requested: tuple[Query, ...] = ()
    shares: tuple[Fraction, ...] | None = None
    invariants_below: Mapping[str, tuple[Condition, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pricing, law = self.pricing, self.law
        facts = (pricing.classes, pricing.noise, pricing.method), (law.classes, law.noise, law.method)
        if pricing.areas is not law.areas or facts[0] != facts[1]:
            raise PrivacyError("a plan prices the law that it draws from: make it by mechanism.plan(constraints)")

    @classmethod
    def of(
        cls,
        law: PublicLaw,
        neighbours: str,
        rows_per_unit: int = 1,
        budget: Budget | None = None,
        requested: tuple[Query, ...] = (),
    ) -> "Plan":
        """Return the plan of a law that is given, such as a published one."""
        pricing = Pricing(law.areas, law.classes, law.noise, neighbours, rows_per_unit, law.method)
        return cls(law, pricing, budget, requested)

    @property
    def neighbours(self) -> str:
        """The neighbour relation."""
        return self.pricing.neighbours

    @property
    def rows_per_unit(self) -> int:
        """How many records a privacy unit may have."""
        return self.pricing.rows_per_unit

    @property
    def budget_of_first_level(self) -> Budget | None:
        """What the first level may cost: its share of a tree's budget, or all of it."""
        if self.budget is None or self.shares is None:
            return self.budget
        return Budget(rho=self.shares[0] * total_rho(self.budget))

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The levels of the release, the first being that of the areas, or of one table."""
        law = self.law
        measured = [next(query.precision for query in queries if query.precision) for queries in law.queries_of_levels]
        noises = (*map(law.family, measured), *law.noises_below)
        shares = [None] * len(noises) if self.shares is None else self.shares
        return tuple(
            Level(name, codes, share, noise, self.invariants_below.get(name, ()))
            for name, codes, share, noise in zip(law.tree.levels, law.tree.codes, shares, noises, strict=True)
        )

    @property
    def noises(self) -> dict[str, Noise]:
        """The noise of everything that is measured, by what that is."""
        measured = {
            f"{query.text} of a {name}": self.law.family(query.precision)
            for name, queries in self.law.measured_queries
            for query in queries
            if query.precision
        }
        drawn = zip(self.law.tree.levels[1:], self.law.noises_below, strict=False)
        return measured | {f"every cell of a {name}": noise for name, noise in drawn}

    @cached_property
    def _drawings(self) -> tuple[tuple[AreaDrawing | MeasurementDrawing, Ints], ...]:
        """Of each level that is drawn from its own tables, what draws it, and which of its kinds each unit is."""
        if self.law.method == MEASURED:
            return tuple(map(drawing_of, self.law.measured_laws))
        return ((AreaDrawing.of(self.law), self.law.areas.group_numbers),)

    @property
    def drawings(self) -> tuple[AreaDrawing | MeasurementDrawing, ...]:
        """What draws the areas of the first level, or measures the units of every level."""
        return tuple(drawing for drawing, _ in self._drawings)

    @property
    def kinds_of_units(self) -> tuple[Ints, ...]:
        """Of each of these levels, which kind of its drawing every unit is (unit,)."""
        return tuple(numbers for _, numbers in self._drawings)

    @property
    def drawing(self) -> AreaDrawing | MeasurementDrawing:
        """All that draws the areas, or measures them, but the tables and the random words."""
        return self._drawings[0][0]

    @property
    def sampler_numbers(self) -> Ints:
        """Which of the samplers is that of each area (area,)."""
        return self._drawings[0][1]

    @property
    def measured_levels(self) -> list["LevelDrawing"]:
        """Of a measured release, all that is measured: its law, what measures its units, and the kind of each unit."""
        if not self.law.is_measured:
            return []
        return [
            LevelDrawing(law, drawing, numbers)
            for law, (drawing, numbers) in zip(self.law.measured_laws, self._drawings, strict=True)
            if isinstance(drawing, MeasurementDrawing)
        ]

    @cached_property
    def samplers(self) -> tuple[Sampler, ...]:
        """What draws the tables of areas that share all but values; of a measured release, what its tables come to."""
        if isinstance(self.drawing, MeasurementDrawing):
            return tuple(MeasuredTables(self.law.each_level[0], kind) for kind in self.drawing.kinds)
        return self.drawing.samplers

    @property
    def places_by_sampler(self) -> list[tuple[Ints, Sampler]]:
        """Where the areas of each sampler stand."""
        numbers = self.sampler_numbers
        return [(np.flatnonzero(numbers == number), sampler) for number, sampler in enumerate(self.samplers)]

    @property
    def seconds_per_area(self) -> float:
        """About how long the draw of an area takes on one core, on average."""
        total = sum(len(places) * sampler.seconds for places, sampler in self.places_by_sampler)
        return total / len(self.law.areas)

    @property
    def sampler(self) -> Sampler:
        """The sampler that takes longest; one that cannot draw its areas, if there is such."""
        return min(self.samplers, key=lambda sampler: (sampler.is_exact, -sampler.seconds))

    def sampler_of(self, area: Area) -> Sampler:
        """Return the sampler of one area's table."""
        return self.samplers[int(self.sampler_numbers[self.law.areas.places[area]])]

    @property
    def is_exact(self) -> bool:
        """Whether every area is drawn exactly, within memory and work limits."""
        return all(sampler.is_exact for sampler in self.samplers)

    def check_samplers(self) -> None:
        """Refuse a release that cannot be drawn, with the reason and the way out."""
        for sampler in self.samplers:
            sampler.check()

    def dry_run(self, progress: Progress = silent) -> list[str]:
        """Draw around made-up tables of each structure: what cannot be drawn here is found without any data.

        Returns what that promises, in sentences, where a sampler's time depends on more than the structure, and why a
        rule makes no tables.
        """
        return dry_run(self, progress)

    def draw(
        self,
        leaves: Ints,
        streams: LevelStreams,
        progress: Progress = silent,
        *,
        at_once: int | None = None,
        n_threads: int | None = None,
        always_refined: bool = False,
    ) -> TreeTables:
        """Return one release: the tables (unit, cell) of every level, in the order of the tree.

        Of a measured release, the measurements (unit, row), of areas that cross a tree after those of its levels;
        `decide` makes tables of them. Where every unit has words
        of its own, neither the number of units drawn together nor that of threads changes what is drawn.

        Parameters
        ----------
        leaves : array (leaf, cell)
            The confidential tables of the lowest level; of one level, of its areas.
        streams : LevelStreams
            The random words of all units; of one level, or to simulate, a single stream will do.
        progress : Progress
            Is told how many units are drawn, where there are many.
        at_once : int
            How many areas are drawn together; `AT_ONCE` if not given.
        n_threads : int, optional
            As many as this process has processors if not given.
        always_refined : bool
            Whether every decision below the first level is made in ball arithmetic: the same tables, slowly.
        """
        below = self.law.below
        if self.law.is_tree:  # tables of one level are checked where they are made, before anything is charged
            check_leaves(below.tree, self.law.schema.n_cells, below.zeros, leaves)
        tables = self.law.measured_tables(below.tree.summed(leaves.astype(np.int64, copy=False)))
        if isinstance(streams, TreeStreams) and not self.law.steps:
            raise SamplingError("internal: measurements and areas are drawn from words of their own")
        is_chain = self.law.is_tree and not self.law.is_measured
        words = TreeStreams.simulated(streams) if is_chain and isinstance(streams, RandomStream) else streams
        released = []
        for level, (name, codes) in enumerate(self.law.names_and_codes[: len(self._drawings)]):
            of_level = words.of_level(name, codes, tables[level])
            drawn = self.draw_areas(
                tables[level], of_level, progress, level=level, at_once=at_once, n_threads=n_threads
            )
            released.append(drawn)
        if is_chain:
            if not isinstance(words, TreeStreams):
                raise SamplingError("internal: a tree is drawn from words of its units")
            released += below.draw(
                leaves, released[0], words, n_threads=n_threads, always_refined=always_refined, progress=progress
            )
        self.check(released)
        return tuple(released)

    def draw_areas(
        self,
        tables: Ints,
        streams: Streams,
        progress: Progress = silent,
        *,
        level: int = 0,
        at_once: int | None = None,
        n_threads: int | None = None,
    ) -> Ints:
        """Return one draw for each unit of a level around its confidential table: (unit, cell or row).

        Levels below the first are drawn by themselves only where they are measured.
        """
        if level == 0:
            self.check_samplers()
        drawing, numbers = self._drawings[level]
        drawn = np.empty((len(tables), drawing.width), np.int64)

        def draw_part(part: slice) -> int:
            places = range(*part.indices(len(tables)))
            drawn[part] = drawing.draw(numbers[part], tables[part], streams.subset(places))
            return len(places)

        n_done, parts = 0, parts_of(len(tables), at_once or AT_ONCE)
        for n_areas in map_in_threads(draw_part, parts, n_threads if streams.has_stream_per_table else 1):
            n_done += n_areas
            if len(parts) > 1:
                progress(DRAWING, n_done, len(tables))
        return drawn

    @property
    def dropped_sums(self) -> tuple[str, ...]:
        """The exact sums that the measurements of a measured release do not have, in words; as a rule none."""
        return tuple(dict.fromkeys(name for kind in self._noise_kinds for name in kind.dropped))

    @property
    def untied_sums(self) -> tuple[str, ...]:
        """The measured sums whose noise is independent of that of their parts, in words; as a rule none."""
        return tuple(dict.fromkeys(name for kind in self._noise_kinds for name in kind.untied))

    @property
    def _noise_kinds(self) -> Iterator[NoiseKind]:
        """The kinds of noise of a measured release, of every level; none of a conditional one."""
        for drawing, _ in self._drawings:
            if isinstance(drawing, MeasurementDrawing):
                yield from drawing.kinds

    @property
    def dropped_lines(self) -> list[str]:
        """Say which sums the noise does not keep, and what that costs; nothing where it keeps all."""
        untied = []
        if self.untied_sums:
            more = len(self.untied_sums) - _NAMED
            listed = ", ".join([*self.untied_sums[:_NAMED], *([f"{more:,} more"] if more > 0 else [])])
            untied = [
                f"Measured with noise of their own, so that they are not the sums of measured parts: {listed}. No exact"
                " sampler fits noise that ties them all."
            ]
        return [*self._exact_sums_lost(), *untied]

    def _exact_sums_lost(self) -> list[str]:
        if not self.dropped_sums:
            return []
        names, n_more = list(self.dropped_sums[:_NAMED]), len(self.dropped_sums) - _NAMED
        names += [f"{n_more:,} more"] if n_more > 0 else []
        price = max(kind.price_of_dropping for kind in self._noise_kinds)
        return [
            "The measurements will not have these exact sums, because no exact sampler fits noise that keeps them all:"
            f" {', '.join(names)}; nor what follows only with their help. The table has all. That is safe, and makes"
            f" the variance of the noise {price:.2f} times what it would be."
        ]

    def has_exact_sums(self, measurements: Sequence[Ints]) -> bool:
        """Whether measurements (unit, row) of every level have every exact sum that their noise keeps."""
        if not self.law.is_measured:
            raise SamplingError("a conditional release has no measurements")
        levels = zip(self.measured_levels, measurements, strict=True)
        return all(exact_sums_hold(one.law, one.drawing, one.numbers, values) for one, values in levels)

    def decide(self, measurements: Sequence[Ints], progress: Progress = silent) -> TreeTables:
        """Return the tables (unit, cell) that the rule makes of the measurements of every level. Public."""
        return self.decide_and_learn(measurements, progress)[0]

    def decide_and_learn(self, measurements: Sequence[Ints], progress: Progress = silent) -> tuple[TreeTables, Learned]:
        """Return the tables, and what the rule learned from all units together: of most rules, nothing. Public."""
        progress(DECIDING)
        tables, learned = decide_and_learn(self.law, measurements, progress)
        self._check_tables(tables)
        return tables, learned

    def draw_tables(self, leaves: Ints, rng: RandomStream) -> TreeTables:
        """Return the tables that a release around public leaves (leaf, cell) would publish: to study errors."""
        drawn = self.draw(leaves, rng)
        return self.decide(drawn) if self.law.is_measured else drawn

    def check(self, released: Sequence[Ints]) -> None:
        """See that what was drawn of every level obeys its conditions and adds up: a mistake would be published."""
        if self.law.is_measured:
            check_invariants(self.has_exact_sums(released))
        else:
            self._check_tables(released)

    def _check_tables(self, tables: Sequence[Ints]) -> None:
        check_invariants(self.law.areas.holds(tables[0]))
        if not self.law.below.hold(tables):
            raise SamplingError("internal: published tables do not add up; nothing is published, please report this")

    @cached_property
    def certificate(self) -> Certificate:
        """What the release costs at most; raises `PrivacyError` when nothing can be certified."""
        if self.law.is_tree and self.law.is_measured:
            return self._measured_certificate()
        first = self.pricing.certificate(self.law.precisions, self.law.zero_weights)
        if not self.law.noises_below:
            return first
        if self.rows_per_unit != 1:
            raise HierarchyError("a tree of areas is certified for units with one record each")
        self._check_single_records()
        return tree_certificate(
            first,
            self.law.noise,
            [noise.precision for noise in self.law.noises_below],
            total_is_fixed=self.total_is_fixed,
            why=self._why_below,
        )

    def _measured_certificate(self) -> Certificate:
        if self.rows_per_unit != 1:
            raise HierarchyError("a tree of areas is certified for units with one record each")
        tree, k = tree_to_certify(self.law, self.neighbours)
        tree.check_noise(
            [
                [limited.row for group in level.law.areas.groups for limited in group.pattern.equalities]
                for level in self.measured_levels
            ]
        )
        return measured_tree_certificate(tree, k, cell_name=self.law.schema.cell_name)

    @property
    def total_is_fixed(self) -> bool:
        """Whether the number of records is published."""
        return all(structure.case.moves.total_is_fixed for structure in self.structures)

    def _check_single_records(self) -> None:
        """Refuse exact numbers that no change of one record keeps: charges are for one record (hierarchy.md, 2)."""
        if not self.law.exact_below or self._can_change_leaf():
            return
        if not any(structure.case.neighbourhood.has_cells_alike for structure in self.structures):
            raise PrivacyError(
                "no certificate: the exact numbers of all levels together leave no cell and no leaf that one record"
                " could change into; leave out some of them"
            )

    def _can_change_leaf(self) -> bool:
        """Whether a record of some cell can change its leaf: two leaves that may have it, inside one exact number."""
        law, tree = self.law, self.law.tree
        is_zero = law.zeros.of_level(-1)
        for cell in range(law.schema.n_cells):
            units = np.arange(tree.n_leaves)
            for parents, exact in zip(reversed(tree.parents), reversed(law.exact_below), strict=True):
                if exact is not None and any(cell in row.cells for row in exact.rows.rows):
                    break
                units = parents[units]
            is_open = np.ones(tree.n_leaves, np.bool_) if is_zero is None else ~is_zero[:, cell]
            if np.bincount(units[is_open], minlength=1).max() > 1:
                return True
        return False

    @property
    def _why_below(self) -> tuple[str, ...]:
        """What was proven of the rows of each level below the first."""
        if not self.law.exact_below:
            return ("below the top, rows are the parents' sums: no cell is in two of them, so they are unimodular",)
        reasons = []
        for name, exact in zip(self.law.tree.levels[1:], self.law.exact_below, strict=True):
            reason = "rows are the parents' sums, and no cell is in two of them"
            if exact is not None:
                reason = f"{exact.rows.names} exact in every unit; {exact.rows.certified(2).why}"
            reasons.append(f"{name}: {reason}")
        return tuple(reasons)

    def disclosures(self, conditions: Sequence[Condition]) -> tuple[Disclosure, ...]:
        """Return what the exact numbers disclose by themselves, for each level."""
        return disclosures_of_levels(self.law.areas, self.law.below, conditions)

    @property
    def spent(self) -> Spent:
        """What the release costs, in the budget's currency."""
        return spent(self.certificate, self.budget)

    @property
    def structures(self) -> tuple[Structure, ...]:
        """The areas by what a certificate can tell apart."""
        return self.pricing.structures

    @property
    def parts(self) -> tuple[PricedAreas, ...]:
        """The areas with their precisions, as `compose` takes them."""
        law = self.law
        return tuple(
            PricedAreas(structure.case, law.precisions, structure.n_areas, law.zero_weights)
            for structure in self.structures
        )

    @property
    def neighbourhood(self) -> Neighbours:
        """Which tables are neighbours, and what is no longer protected; of many areas, in most of them."""
        return max(self.structures, key=lambda structure: structure.n_areas).case.neighbourhood

    @cached_property
    def not_protected(self) -> Mapping[str, int]:
        """What of a record is not protected, each sentence with the number of areas it is true of.

        Which cells the published numbers disclose is counted in `congenial.privacy.disclosure`.
        """
        out: dict[str, int] = {}
        for structure in self.structures:
            for sentence in structure.case.neighbourhood.unprotected_records:
                out[sentence] = out.get(sentence, 0) + structure.n_areas
        return out

    @property
    def not_protected_text(self) -> list[str]:
        """The same as sentences, of several areas in how many; and what is exact below the first level."""
        n_all = len(self.law.areas)
        out = [
            sentence if n_areas == n_all else f"in {n_areas:,} of {n_all:,} areas, {sentence}"
            for sentence, n_areas in self.not_protected.items()
        ]
        out += [
            f"{condition.title}, of every {level}, and whatever follows from it"
            for level, conditions in self.invariants_below.items()
            for condition in conditions
        ]
        pinned = [
            name
            for name, exact in zip(self.law.tree.levels[1:], self.law.exact_below, strict=False)
            if exact is not None and all(part.is_held for part in exact.rows.parts)
        ]
        if pinned:
            out.append(f"{', '.join(pinned)}: not protected, no change of one record alters its {pinned[-1]}")
        return out

    @property
    def meaning(self) -> Meaning:
        """What the certificate means for one person."""
        return meaning(self.certificate, self.neighbourhood)

    def __repr__(self) -> str:
        return "\n".join([self.sampler.describe(), self._measured_text(), self._certified()])

    def _measured_text(self) -> str:
        parts = (
            f"{query.text} at precision {shown_below(query.precision)}{query.weighted}" for query in self.law.queries
        )
        return f"{', '.join(parts)}, {self.law.noise} noise"

    def _certified(self) -> str:
        try:
            return str(self.certificate)
        except PrivacyError as refused:
            return f"not certified: {str(refused).removeprefix('no certificate: ')}"

    def explain(self) -> str:
        """Return the whole account for a curator: cost, meaning, noise, what is not protected, proof, sampler."""
        parts = []
        if self.budget is not None:
            cost = self.budget.cost(self.certificate)
            parts.append(
                f"Budget: {self.budget.text}, {self.neighbours} neighbours;"
                f" certified cost {shown(cost) if cost is not None else 'none'} for {self.certificate.per_record}."
            )
        parts += [str(self.meaning), "\n".join(["Noise:", *(f"  {line}" for line in self.noise_lines())])]
        parts += [str(self.neighbourhood), f"Certificate {self._certified()}", f"Sampler: {self.sampler.describe()}"]
        if not self.is_exact:
            parts.append(
                "This CANNOT BE DRAWN by the exact sampler: measure fewer overlapping sums or state fewer invariants."
            )
        return "\n\n".join(_wrapped(part) for part in parts)

    @property
    def noise_text(self) -> list[str]:
        """Say of every measured query, and of every level below the first, how large its noise is."""
        below = list(self.noises.items())[sum(query.precision > 0 for query in self.law.queries) :]
        return [
            *(self._noise_of(query) for query in self.law.queries if query.precision),
            *(_noise_size(text, noise) for text, noise in below),
        ]

    def _noise_of(self, query: MeasuredQuery) -> str:
        noise = self.law.family(query.precision)
        weighted = ""
        if query.zero_weight == 1 / (1 - noise.base):
            weighted = ", clamped at a cell's lower limit"
        elif query.zero_weight != 1:
            weighted = (
                f"; a cell's lower limit has {float(query.zero_weight):.4g} times the weight that the noise gives it"
            )
        return _noise_size(query.text, noise) + weighted

    def noise_lines(self) -> list[str]:
        """Say of every query how large its noise is, and how large GM's halving would make it."""
        make = self.law.family
        moving = {soft.query_class for structure in self.structures for soft in structure.case.moves.soft}
        moving |= {
            c for structure in self.structures for group in structure.case.moves.groups for c, _ in group.queries
        }
        lines = list(self.dropped_lines)
        for number, query in enumerate(self.law.queries):
            if not query.precision:
                if self.law.is_measured and number in self.pricing.determined:
                    lines.append(f"{query.text}: not measured, for the exact numbers determine it")
                continue
            line = self._noise_of(query)
            if number not in moving:
                line += "; the invariants fix it already, so measuring it adds nothing"
            elif not self.law.is_measured and (halved := self._halved(query.precision)) is not None:
                line += f"; GM's halving would give precision {shown_below(halved)}"
                if halved >= make.least:
                    line += f", standard deviation {sqrt(float(make(halved).variance)):.3g}"
            lines.append(line)
        if self._is_capped:
            lines.append(
                "part of the budget is not used: precision never exceeds that of the same noise with no conditions at"
                f" all, nor {float(make.most):g}"
            )
        return lines

    def _halved(self, precision: Fraction) -> Fraction | None:
        """Return what GM's Theorem 2 allows: half of the budget, shared by k records; None if that is no less."""
        certificate, plain = self.certificate, self.certificate.loss_without_invariants
        is_pure = self.law.family.currency == "epsilon"
        if not is_pure or self.budget is None or self.budget.epsilon is None or not plain or not certificate.k:
            return None
        if any(weight != 1 for weight in self.law.zero_weights):  # classes have precisions of their own
            precision = max(self.law.precisions)
        halved = precision * self.budget.epsilon / (2 * certificate.k * plain)
        return halved if halved < precision else None

    @property
    def _is_capped(self) -> bool:
        """Whether noticeably less than the budget is spent."""
        if self.budget is None or self.certificate.k == 0:
            return False
        cost = self.budget.cost(self.certificate)
        return cost is not None and cost < self.budget.limit * Fraction(999, 1000)


def _noise_size(text: str, noise: Noise) -> str:
    return (
        f"{text}: {noise.title} noise of precision {shown_below(noise.precision)}, standard deviation"
        f" {sqrt(float(noise.variance)):.3g} before the invariants are imposed"
    )


def _wrapped(text: str) -> str:
    """Break lines at 100 characters, with the indentation of their beginning."""
    lines = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        lines += wrap(line, 100, subsequent_indent=indent + "  " * bool(indent), break_long_words=False) or [""]
    return "\n".join(lines)
