"""What a release will take and what it will cost, before any table is drawn. Public."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import sqrt
from textwrap import wrap

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.conditions.areas import Area, Areas
from congenial.conditions.constraints import Constraints
from congenial.conditions.queries import Cells, Query
from congenial.conditions.rows import Row, row_values
from congenial.errors import PrivacyError, SamplingError, UndecidedError
from congenial.law import MeasuredQuery, PublicLaw
from congenial.noise import FAMILIES
from congenial.privacy.budget import Budget, Spent, spent
from congenial.privacy.calibrate import precisions_of
from congenial.privacy.cases import Structure
from congenial.privacy.certificate import Certificate, shown, shown_below
from congenial.privacy.compose import Part, Pricing
from congenial.privacy.neighbours import Neighbours
from congenial.privacy.semantics import Meaning, meaning
from congenial.privacy.zero_weights.calibrate import clamped_floor, has_floor, weighted_cells
from congenial.progress import DRAWING, REHEARSING, Progress, no_news
from congenial.randomness import Streams, replay_rng
from congenial.resources import in_threads, parts_of
from congenial.sampling.registry import Sampler, choose_sampler
from congenial.sampling.system import System
from congenial.schema import Schema

# The draw of some areas, wherever it runs: public structure, confidential tables and words in, drawn tables out.


@dataclass(frozen=True, eq=False)
class Drawing:
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
    >>> drawing = Drawing.of(mechanism.calibrate(mechanism.disclose(table)))
    >>> drawing.draw(np.zeros(2, np.int64), np.stack([table.counts] * 2), replay_rng(1)).sum(axis=1)
    array([256, 256])
    """

    patterns: tuple[Constraints, ...]
    systems: tuple[System, ...]

    @classmethod
    def of(cls, law: PublicLaw) -> "Drawing":
        """Return what draws the areas of a law."""
        groups = law.areas.groups
        return cls(
            tuple(replace(group.pattern, origin=None) for group in groups),
            tuple(System.of(group.pattern, law.measured).over(group.ranges_of_values) for group in groups),
        )

    @cached_property
    def samplers(self) -> tuple[Sampler, ...]:
        """The sampler of each group of areas; made when first asked for, in every process anew."""
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
            own = np.flatnonzero(groups == number)
            is_all = len(own) == len(centres)
            chosen = centres if is_all else centres[own]
            drawn = self.samplers[number].draw_each(chosen, words if is_all else words.some(own))
            _check_drawn(self.patterns[number], chosen, drawn)
            out[own] = drawn
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
    if not answers.all():
        raise SamplingError("internal: a drawn table breaks an invariant; nothing is published, please report this")


AT_ONCE = 1_000
"""Areas that are drawn together: a few milliseconds to start with each time."""

_FEW, _MANY = 2, 12  # areas of a group that are rehearsed: where time is known from the structure, and elsewhere


@dataclass(frozen=True, repr=False)
class Plan:
    """How a release of one table or of many areas is drawn, at which precisions, and the certificate of its loss.

    What depends on rows and limits alone is made once for all areas that share them.

    Attributes
    ----------
    law : PublicLaw
    pricing : Pricing
        What the law's certificate is computed from.
    budget : Budget or None
        What was asked for; None where every precision was given.
    asked : tuple of Query
        The measured queries as they were stated, each with its precision or its portion of the budget.

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
    asked: tuple[Query, ...] = ()

    def __post_init__(self) -> None:
        pricing, law = self.pricing, self.law
        if pricing.areas is not law.areas or (pricing.classes, pricing.noise) != (law.classes, law.noise):
            raise PrivacyError("a plan prices the law that it draws from: make it by mechanism.plan(constraints)")

    @classmethod
    def of(
        cls,
        law: PublicLaw,
        neighbours: str,
        rows_per_unit: int = 1,
        budget: Budget | None = None,
        asked: tuple[Query, ...] = (),
    ) -> "Plan":
        """Return the plan of a law that is given, such as a published one."""
        return cls(law, Pricing(law.areas, law.classes, law.noise, neighbours, rows_per_unit), budget, asked)

    @property
    def neighbours(self) -> str:
        """The neighbour relation."""
        return self.pricing.neighbours

    @property
    def rows_per_unit(self) -> int:
        """How many records a privacy unit may have."""
        return self.pricing.rows_per_unit

    @cached_property
    def drawing(self) -> Drawing:
        """All that draws its areas, but the tables and the random words."""
        return Drawing.of(self.law)

    @property
    def samplers(self) -> tuple[Sampler, ...]:
        """The sampler of each group of areas, for the values of all of them; made when first asked for."""
        return self.drawing.samplers

    @property
    def sampler(self) -> Sampler:
        """The sampler that takes longest; one that cannot draw its areas, if there is such."""
        return min(self.samplers, key=lambda sampler: (sampler.is_exact, -sampler.seconds))

    def sampler_of(self, area: Area) -> Sampler:
        """Return the sampler of one area's table."""
        return self.samplers[self.law.areas.group_of(area)]

    @property
    def is_exact(self) -> bool:
        """Whether every area is drawn exactly, within memory and work limits."""
        return all(sampler.is_exact for sampler in self.samplers)

    def check_samplers(self) -> None:
        """Refuse a release that cannot be drawn, with the reason and the way out."""
        for sampler in self.samplers:
            sampler.check()

    def dry_run(self, progress: Progress = no_news) -> list[str]:
        """Draw around made-up tables of each structure: what cannot be drawn here is found without any data.

        Returns what that promises, in sentences, where a sampler's time depends on more than the structure.
        """
        self.check_samplers()
        out = []
        for group, sampler in zip(self.law.areas.groups, self.samplers, strict=True):
            if not sampler.has_predictable_time:
                progress(REHEARSING)
            chosen = _points_of_dry_run(group.values, _FEW if sampler.has_predictable_time else _MANY)
            labels = [self.law.areas.labels[group.places[place]] for place in chosen]
            try:
                points = np.array([self.law.areas[label].point for label in labels], np.int64)
            except UndecidedError:  # no table is known that obeys the conditions; the real one does
                if sampler.has_predictable_time:
                    continue
                raise SamplingError(
                    "no table that obeys the conditions was found within the search limit, so nobody knows how long a"
                    " draw takes; leave out ranges or coefficients other than 1"
                ) from None
            out.append(sampler.dry_run(points))
            for label, point in zip(labels, points, strict=True):  # one table and many take other ways
                drawn = sampler.draw_each(np.stack([point] * min(2, len(group.places))), replay_rng("rehearsal"))
                _check_invariants(self.law.areas[label].holds(drawn))
        return [sentence for sentence in dict.fromkeys(out) if sentence]

    def draw(
        self,
        tables: Ints,
        rng: Streams,
        progress: Progress = no_news,
        *,
        at_once: int | None = None,
        n_threads: int | None = None,
    ) -> Ints:
        """Return one draw for each area (area, cell) around its confidential table, in the declared order.

        Where every area has words of its own, neither the number of areas drawn together nor that of threads changes
        what is drawn.

        Parameters
        ----------
        progress : Progress
            Is told how many areas are drawn, where there are many.
        at_once : int
            How many areas are drawn together; `AT_ONCE` if not given.
        n_threads : int, optional
            As many as this process has processors if not given.
        """
        self.check_samplers()
        groups, drawn = self.law.areas.group_numbers, np.empty_like(tables)

        def draw_part(part: slice) -> int:
            places = range(*part.indices(len(tables)))
            drawn[part] = self.drawing.draw(groups[part], tables[part], rng.some(places))
            return len(places)

        n_done, parts = 0, parts_of(len(tables), at_once or AT_ONCE)
        for n_areas in in_threads(draw_part, parts, n_threads if rng.is_each_its_own else 1):
            n_done += n_areas
            if len(parts) > 1:
                progress(DRAWING, n_done, len(tables))
        self.check(drawn)
        return drawn

    def check(self, drawn: Ints) -> None:
        """See that a drawn table of each area (area, cell) obeys its conditions: a mistake here would be published."""
        _check_invariants(self.law.areas.holds(drawn))

    @cached_property
    def certificate(self) -> Certificate:
        """What the release costs at most; raises `PrivacyError` when nothing can be certified."""
        return self.pricing.certificate(self.law.precisions, self.law.floors)

    @property
    def spent(self) -> Spent:
        """What the release costs, in the budget's currency."""
        return spent(self.certificate, self.budget)

    @property
    def structures(self) -> tuple[Structure, ...]:
        """The areas by what a certificate can tell apart."""
        return self.pricing.structures

    @property
    def parts(self) -> tuple[Part, ...]:
        """The areas with their precisions, as `compose` takes them."""
        law = self.law
        return tuple(
            Part(structure.case, law.precisions, structure.n_areas, law.floors) for structure in self.structures
        )

    @property
    def neighbourhood(self) -> Neighbours:
        """Which tables are neighbours, and what is no longer protected; of many areas, in most of them."""
        return max(self.structures, key=lambda structure: structure.n_areas).case.neighbourhood

    @cached_property
    def not_protected(self) -> Mapping[str, int]:
        """What of a record is not protected, each sentence with the number of areas it is true of.

        Which cells the published numbers give away is counted in `congenial.privacy.disclosure`.
        """
        out: dict[str, int] = {}
        for structure in self.structures:
            for sentence in structure.case.neighbourhood.bare_records:
                out[sentence] = out.get(sentence, 0) + structure.n_areas
        return out

    @property
    def not_protected_text(self) -> list[str]:
        """The same as sentences; of several areas, in how many."""
        n_all = len(self.law.areas)
        return [
            sentence if n_areas == n_all else f"in {n_areas:,} of {n_all:,} areas, {sentence}"
            for sentence, n_areas in self.not_protected.items()
        ]

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
        """Say of every measured query how large its noise is."""
        return [self._noise_of(query) for query in self.law.queries if query.precision]

    def _noise_of(self, query: MeasuredQuery) -> str:
        noise = self.law.family(query.precision)
        weighted = ""
        if query.floor == 1 / (1 - noise.base):
            weighted = ", clamped at a cell's lower limit"
        elif query.floor != 1:
            weighted = f"; a cell's lower limit has {float(query.floor):.4g} times the weight that the noise gives it"
        return (
            f"{query.text}: {noise.title} noise of precision {shown_below(query.precision)}, standard deviation"
            f" {sqrt(float(noise.variance)):.3g} before the invariants are imposed{weighted}"
        )

    def noise_lines(self) -> list[str]:
        """Say of every query how large its noise is, and how large GM's halving would make it."""
        make = self.law.family
        moving = {soft.klass for structure in self.structures for soft in structure.case.moves.soft}
        moving |= {c for structure in self.structures for kind in structure.case.moves.kinds for c, _ in kind.own}
        lines = []
        for number, query in enumerate(self.law.queries):
            if not query.precision:
                continue
            line = self._noise_of(query)
            if number not in moving:
                line += "; the invariants fix it already, so measuring it adds nothing"
            elif (halved := self._halved(query.precision)) is not None:
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
        if any(floor != 1 for floor in self.law.floors):  # classes have precisions of their own
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


def _points_of_dry_run(values: Ints, n_areas: int) -> list[int]:
    """Return some areas of a group (area, equality) to draw around: of typical sizes, and the most uneven ones."""
    sizes = values.astype(np.float64).sum(axis=1)
    uneven = np.argsort(-values.max(axis=1, initial=0) / np.maximum(sizes, 1), kind="stable")
    ranked = np.argsort(sizes, kind="stable")
    typical = [ranked[len(ranked) // 2], ranked[-1]]
    both = [place for pair in zip(uneven[:n_areas], ranked[::-1][:n_areas], strict=True) for place in pair]
    return [int(place) for place in dict.fromkeys([*typical, *both])][:n_areas]


def _check_invariants(answers: bool | NDArray[np.bool_]) -> None:
    if not np.all(answers):
        raise SamplingError("internal: a drawn table breaks an invariant; nothing is published, please report this")


def _wrapped(text: str) -> str:
    """Break lines at 100 characters, with the indentation of their beginning."""
    lines = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        lines += wrap(line, 100, subsequent_indent=indent + "  " * bool(indent), break_long_words=False) or [""]
    return "\n".join(lines)


# From what was asked to a plan: the precision and the floor of everything that is measured. Public.


@dataclass(frozen=True)
class Asked:
    """What a curator asks for, whatever the areas are.

    Attributes
    ----------
    queries : tuple of Query
        What is measured, each with its precision or its portion of the budget.
    """

    schema: Schema
    noise: str
    queries: tuple[Query, ...]
    budget: Budget | None
    neighbours: str
    rows_per_unit: int = 1

    def plan(self, areas: Areas) -> Plan:
        """Return the plan of a release for these areas: the largest precisions that the budget certifies."""
        return self._weighted(areas) or self._plain(areas)

    def likely_law(self, areas: Areas) -> PublicLaw:
        """Return about the law of the plan, to compare choices; where floors are weighted, without a proof."""
        is_pure = self._chooses_floors and self.budget is not None and self.budget.delta is None
        epsilon = None if self.budget is None else self.budget.epsilon
        law = self._by_class(areas, epsilon, is_likely=True) if is_pure and epsilon else None
        return self.plan(areas).law if law is None else law

    @property
    def _chooses_floors(self) -> bool:
        """Whether floors are for the budget to choose: every cell is measured once, and nothing is given."""
        query, budget = self.queries[0], self.budget
        is_open = len(self.queries) == 1 and isinstance(query, Cells) and (query.precision, query.zeros) == (None, None)
        if not is_open or query.where is not None or budget is None or budget.is_nothing:
            return False
        return FAMILIES[self.noise].exponent == 1

    def _plan(self, law: PublicLaw, pricing: Pricing) -> Plan:
        return Plan(law, pricing, self.budget, self.queries)

    def _pricing(self, areas: Areas, classes: Sequence[Sequence[Row]]) -> Pricing:
        return Pricing(areas, tuple(map(tuple, classes)), self.noise, self.neighbours, self.rows_per_unit)

    def _plain(self, areas: Areas) -> Plan:
        """Return the plan whose floors are those that were given, or 1."""
        classes = [tuple(query.rows(self.schema)) for query in self.queries]
        pricing = self._pricing(areas, classes)
        precisions = precisions_of(pricing, self.queries, self.budget)
        queries = tuple(
            MeasuredQuery(query.title, precision, rows, _floor(query) or Fraction(1))
            for query, precision, rows in zip(self.queries, precisions, classes, strict=True)
        )
        return self._plan(PublicLaw(self.schema, self.noise, queries, areas), pricing)

    def _weighted(self, areas: Areas) -> Plan | None:
        """Return the plan with floors that the budget chooses; None where there are none or they are not covered."""
        budget = self.budget
        if budget is None or not self._chooses_floors:
            return None
        law = self._clamped(areas) if budget.delta is not None else self._by_class(areas, budget.epsilon)
        if law is None:
            return None
        pricing = self._pricing(areas, law.classes)
        plain = pricing.one_record_without_invariants(law.precisions)
        is_covered = budget.covers_plain(plain, currency=law.family.currency)
        plan = self._plan(law, pricing)
        return plan if is_covered and budget.covers(plan.certificate) else None

    def _by_class(self, areas: Areas, epsilon: Fraction | None, *, is_likely: bool = False) -> PublicLaw | None:
        """Return the law for a budget in pure epsilon: each class of cells as precise as its theorem allows."""
        if epsilon is None:
            return self._clamped(areas)
        found = weighted_cells(areas, self.neighbours, epsilon / self.rows_per_unit, is_likely=is_likely)
        if found is None:
            return None
        rows = self.queries[0].rows(self.schema)
        queries = tuple(
            MeasuredQuery(part.text, part.precision, tuple(rows[cell] for cell in part.cells), part.floor)
            for part in found
        )
        return PublicLaw(self.schema, self.noise, queries, areas)

    def _clamped(self, areas: Areas) -> PublicLaw | None:
        """Return the law for a budget in rho, where every floor costs the same: noise clamped at lower limits."""
        (query,) = self._plain(areas).law.queries
        patterns = [group.pattern for group in areas.groups]
        if not all(has_floor(pattern, cell) for pattern in patterns for cell in range(self.schema.n_cells)):
            return None
        floor = clamped_floor(query.precision)
        return PublicLaw(
            self.schema, self.noise, (MeasuredQuery(query.text, query.precision, query.rows, floor),), areas
        )


def _floor(query: Query) -> Fraction | None:
    return query.zeros if isinstance(query, Cells) else None
