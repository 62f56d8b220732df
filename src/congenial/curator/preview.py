"""What a release will publish, cost and protect, computed before anything is spent. Public."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.bundle.encoding import certificate_json
from congenial.bundle.expected_errors import (
    EXACTLY,
    NO_ERROR,
    AddingUp,
    ExpectedError,
    adding_up,
    expected_error,
    statistics,
    typical_places,
)
from congenial.bundle.report import LevelError, level_errors, level_lines
from congenial.bundle.structure_files import counted_json
from congenial.conditions.areas import Area
from congenial.curator.alternatives import (
    Alternative,
    ErrorTarget,
    Price,
    Reached,
    alternatives,
    price_of,
    reach,
    ways_out_named,
)
from congenial.curator.earlier_releases import Planned
from congenial.curator.pipeline import prepare
from congenial.curator.reference_tables import UNIFORM, even_table, made_up_sums, reference_plan, typical_tables
from congenial.curator.section import Section, bare_section, cost_section
from congenial.plan import Plan
from congenial.privacy.disclosure import Review, level_sentences
from congenial.privacy.semantics import meaning
from congenial.progress import Progress, no_news
from congenial.randomness import replay_rng
from congenial.reading.confidential_csv import write_confidential_csv
from congenial.reading.reference import check_public, read_reference, read_reference_leaves
from congenial.release import exact_texts
from congenial.spec.spec import Spec
from congenial.table import CONFIDENTIAL, Table, tables_by_area
from congenial.tree.plan import ChainPlan
from congenial.tree.steps import ChainWords
from congenial.tree.tree import check_leaves

# What the invariants give away, for `plan`: sentences, plain values, and a file that lists every cell.


def given_away_lines(reviews: Sequence[Review], unit: str) -> list[str]:
    """Return what was found in every area, or at each level of a tree, in sentences."""
    return level_sentences(reviews, unit)


def given_away_json(reviews: Sequence[Review], unit: str) -> dict[str, Any]:
    """Return the sentences and the counts as plain values."""
    counts = [counted_json(found.counted) for found in reviews]
    return {"sentences": given_away_lines(reviews, unit), "counts": counts}


def write_given_away(spec: Spec, folder: Path, reviews: Sequence[Review]) -> str:
    """List every cell that is given away, with its value, and return where, as the end of a sentence.

    The values are published with the release; until then they are confidential.
    """
    dimensions = [found.name for found in spec.dimensions]
    header = ["level", "area", *dimensions, "value"]
    file = folder / f"{CONFIDENTIAL}given-away-{spec.release}.csv"
    return write_confidential_csv(file, header, (row for found in reviews for row in _rows(found)), most_rows=None)


def _rows(review: Review) -> Iterator[tuple[object, ...]]:
    schema = review.schema
    labels = [tuple(part.values()) for part in map(schema.labels_of, range(schema.n_cells))]
    for area, cell, value in review.cells():
        yield review.counted.area or "", area or "", *labels[cell], value


_MOST_COMPARED = 2_000  # areas whose numbers a ledger lists one by one
_MADE_UP_SUMS = 1_000  # in 12 to 24 areas, computed without a draw: so `plan` need not load the kernels


@dataclass(frozen=True, repr=False)
class Preview:
    """A plan with its meaning and the error to expect around a public table."""

    spec: Spec
    plan: Plan
    errors: tuple[ExpectedError, ...]
    digest: str
    reviews: tuple[Review, ...]
    """What the invariants give away by themselves."""
    sums: AddingUp
    """What tables will add up to, around the reference or a made-up population."""
    around: Plan
    """The plan in whose areas errors are computed: this one, or that of a reference."""
    rehearsed: tuple[str, ...] = ()
    """What attempts at made-up tables promise, where the time of a draw depends on more than the structure."""
    centre: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """The public table of the middle one of the areas whose errors are shown."""
    alternatives: tuple[Alternative, ...] = ()
    """The same release with invariants left out."""
    reached: Reached | None = None
    """The budget that reaches an error, where one was asked for."""
    exact: tuple[tuple[str, str], ...] = ()
    """What will be stated exactly, as a ledger records it; confidential until the release."""

    @property
    def middle(self) -> ExpectedError:
        """The errors of the table, or of the middle one of the areas that are shown."""
        return self.errors[len(self.errors) // 2]

    @cached_property
    def price(self) -> Price:
        """What the release has for its budget."""
        return price_of("as planned", self.around, self.middle.area, self.centre)

    @cached_property
    def prices(self) -> tuple[tuple[str, Price | None], ...]:
        """What the same budget would give with an invariant left out, and with all left out; None where unknown."""
        return tuple((other.text, other.price(self.middle.area, self.centre)) for other in self.alternatives)

    @property
    def seconds(self) -> float:
        """About how long a draw of all areas takes on one core, from its number of operations."""
        groups = zip(self.plan.law.areas.groups, self.plan.samplers, strict=True)
        return sum(len(group.places) * sampler.seconds for group, sampler in groups)

    @property
    def unit(self) -> str:
        """What a protected unit is called."""
        return "person" if self.spec.unit is None else self.spec.unit.word

    @property
    def planned(self) -> Planned:
        """What earlier releases are compared with."""
        areas, one = self.plan.law.areas, self.sums
        sizes = {own.text: own.size for own in one.sums}
        errors = {own.text: own.size_of_all for own in one.sums}  # of all areas together, as one table may have it
        if areas.name is None:
            errors |= dict(self.middle.margins)  # as they are shown
        elif len(areas) <= _MOST_COMPARED:
            errors |= {f"{areas.name} {area}: {text}": size for area in areas for text, size in sizes.items()}
        return Planned(self.spec.release, self.plan.certificate, self.exact, errors, tuple(self._kinds()))

    def _kinds(self) -> Iterator[tuple[str, float]]:
        """Go through single cells and the numbers by each dimension, with their errors; exact ones are left out."""
        kinds = [("a single cell", self.middle.cells.tolist())]
        margins = [value for _, value in self.middle.margins]
        for name in self.spec.schema.names if margins else ():
            n_levels = len(self.spec.schema.labels(name))
            kinds.append((f"a number by {name}", margins[:n_levels]))
            margins = margins[n_levels:]
        for text, errors in kinds:
            size = float(np.sqrt((np.array(errors) ** 2).mean()))
            if size > NO_ERROR:
                yield text, size

    @property
    def given_away(self) -> list[str]:
        """Cells and sums that the invariants give away, in words: no noise protects them."""
        return given_away_lines(self.reviews, self.unit)


def _as_read(tables: Mapping[Area, Table]) -> Table | Mapping[str, Table]:
    """Return one table as such, and tables of areas by their names."""
    return tables[None] if None in tables else cast("Mapping[str, Table]", tables)


def preview(
    spec: Spec,
    folder: Path,
    reference: Path | None = None,
    *,
    target: ErrorTarget | None = None,
    progress: Progress = no_news,
) -> Preview:
    """Return what a spec will do. Of its data, only what the invariants disclose enters.

    Parameters
    ----------
    folder : path
        The folder of the spec, where its paths start.
    reference : path, optional
        A public file of the data's shape, such as last year's: errors are computed around it. It has areas of its own,
        and its own values of the invariants.
    target : ErrorTarget, optional
        An error to find the budget for.
    """
    if reference is not None:
        check_public(spec, folder, reference)
    ready = prepare(spec, folder, progress)
    plan = ready.plan
    rehearsed: tuple[str, ...] = ()
    if not all(sampler.has_predictable_time for sampler in plan.samplers):
        # Before any draw around a reference, which would have no end where a system is out of reach.
        with ways_out_named(spec, _as_read(ready.tables), progress):
            rehearsed = tuple(plan.dry_run(progress))
    if reference is None:
        centres, around, tables = typical_tables(plan.law), plan, ready.tables
        sums = made_up_sums(plan, max(12, min(EXACTLY, _MADE_UP_SUMS // len(statistics(spec.schema)))))
    else:
        areas, counts = read_reference(spec, reference)
        around = reference_plan(spec, plan, areas, counts)
        labels = around.law.areas.labels
        tables = tables_by_area(spec.schema, labels, counts)
        centres = {labels[place]: counts[place] for place in typical_places(counts.sum(axis=1))}
        sums = adding_up(around, counts, reference.name)
    name = UNIFORM if reference is None else reference.name
    errors = []
    for number, (area, centre) in enumerate(centres.items()):
        progress("errors to expect", number, len(centres))
        errors.append(expected_error(around, area, centre, name))
    others = alternatives(spec, tables)
    reached = None if target is None else reach(spec, around.law.areas, centres, target, progress)
    middle = list(centres.values())[len(centres) // 2]
    return Preview(
        *(spec, plan, tuple(errors), ready.digest, ready.reviews, sums, around, rehearsed, middle, others, reached),
        exact=exact_texts(ready),
    )


# What the release of a tree will publish and cost, and the error to expect at each level. Public.

MADE_UP_TREE = "a made-up population: the top even, its people spread very unevenly over the leaves"
_ABOVE = ", and so of every unit above it"


@dataclass(frozen=True, repr=False)
class TreeReference:
    """A public population to compute around: its leaves (leaf, cell), and the tree planned with its exact numbers."""

    name: str
    chain: ChainPlan
    leaves: Ints


@dataclass(frozen=True, repr=False)
class TreePreview:
    """The plan of a tree, and the error to expect around a made-up population."""

    spec: Spec
    chain: ChainPlan
    digest: str
    reviews: tuple[Review, ...]
    """What the invariants give away by themselves, level by level."""
    reference: TreeReference | None = None
    exact: tuple[tuple[str, str], ...] = ()
    """What will be stated exactly, as a ledger records it; confidential until the release."""

    @property
    def planned(self) -> Planned:
        """What earlier releases are compared with: of the top, which is what a table without levels would be."""
        top = self.errors[0] if self.errors else None
        errors = {} if top is None else {"total": top.total}
        kinds = () if top is None else ((f"a cell of a {top.name}", top.cell),)
        return Planned(self.spec.release, self.chain.certificate, self.exact, errors, kinds)

    @cached_property
    def leaves(self) -> Ints:
        """A made-up population (leaf, cell) that obeys what is published."""
        law, tree = self.chain.law, self.chain.law.tree
        weights = self._weights()
        top = np.zeros(tree.n_leaves, np.int64)
        for parents in tree.parents:
            top = parents if parents is tree.parents[0] else top[parents]
        out = np.zeros((tree.n_leaves, law.n_cells), np.int64)
        bars = law.zeros.bars[-1] if law.zeros.bars else np.zeros(out.shape, np.bool_)
        for place, area in enumerate(law.areas):
            mine = np.flatnonzero(top == place)
            even = even_table(law.top, law.top.areas[area])
            for cell, people in enumerate(even.tolist()):
                out[mine, cell] = _shared(people, np.where(bars[mine, cell], 0.0, weights[mine]))
        if not law.exact:
            return out
        # A draw around it has the exact numbers of every unit.
        return self.chain.draw(out, ChainWords.simulated(replay_rng("made-up population")))[-1]

    def _weights(self) -> Floats:
        """Return how populous leaves are: very uneven, and in units with exact numbers as many as they have."""
        law, tree = self.chain.law, self.chain.law.tree
        weights: Floats = np.log(replay_rng("made-up population").uniforms(tree.n_leaves)) ** 2
        units = np.arange(tree.n_leaves)
        for level in range(len(law.exact) - 1, -1, -1):
            exact = law.exact[level]
            if exact is not None:
                sums = np.bincount(units, weights, minlength=len(exact.values))
                return np.asarray(weights / sums[units] * exact.values.max(axis=1)[units])
            units = tree.parents[level][units]
        return weights

    @property
    def _around(self) -> tuple[ChainPlan, Ints]:
        """What errors are computed around: a reference, or what is made up."""
        given = self.reference
        return (self.chain, self.leaves) if given is None else (given.chain, given.leaves)

    @cached_property
    def released(self) -> tuple[Ints, ...]:
        """The tables of each level (unit, cell) that errors are computed around."""
        chain, leaves = self._around
        return chain.law.tree.summed(leaves)

    @cached_property
    def errors(self) -> list[LevelError]:
        """What to expect at each level; nothing of a tree that is too large to draw once more."""
        return level_errors(self._around[0], self.released)

    @cached_property
    def lines(self) -> tuple[list[str], list[list[str]]]:
        """A header and a line for each level: how precise it is, and what that means."""
        errors: list[LevelError | None] = [*self.errors] or [None] * len(self.released)
        header = ["level", "units", "share of the budget", "noise", "error of a cell", "of a total", "bias by count"]
        rows = []
        for line, error in zip(level_lines(self.chain, self.released), errors, strict=True):
            found = ["not computed", "not computed", ""]
            if error is not None:
                bias = ", ".join(f"{size}: {mean:+,.2f}" for size, mean in error.biases)
                found = [f"{error.cell:,.2f}", f"{error.total:,.2f}", bias]
            rows.append([line[0], line[1], line[3], line[4], *found])
        return header, rows

    def screen(self, *, full: bool = False) -> list[Section]:
        """Return the sections of the first screen; with `full`, those for the expert as well."""
        spec, chain = self.spec, self.chain
        certificate, tree = chain.certificate, chain.law.tree
        exact = {
            level: [
                statement.condition.title for statement in spec.invariants if (statement.at or tree.levels[0]) == level
            ]
            for level in tree.levels
        }
        cells = f"{chain.law.n_cells:,} cells by {' and '.join(spec.schema.names)}"
        files = [
            f"{len(codes):,} {'table' if len(codes) == 1 else 'tables'} of a {name}"
            for name, codes in zip(tree.levels, tree.codes, strict=True)
        ]
        exactly = [
            f"Exactly, of each {level}{_ABOVE if level != tree.levels[0] else ''}: {'; '.join(titles)}."
            for level, titles in exact.items()
            if titles
        ]
        adding_up = f"A tree of tables that add up, of {cells}: {', '.join(files)}."
        bare = bare_section(chain.not_protected_text, given_away_lines(self.reviews, self.unit))
        sections = [
            *([] if bare is None else [bare]),
            Section("What will be published", [adding_up, *(exactly or ["Nothing of it exactly."])]),
            cost_section(chain, spec.dataset),
            Section("What stays protected", [*spec.membership, str(meaning(certificate, chain.top.neighbourhood))]),
        ]
        if not full:
            return sections
        drawn = [chain.top.sampler.describe(), *dict.fromkeys(step.title for step in chain.law.steps)]
        return [
            *sections,
            Section("For the expert: certificate", [certificate.statement, f"proof and audit: {certificate.page}"]),
            Section("For the expert: sampler", [*drawn, *(chain.dry_run() if chain.law.exact else ())]),
        ]

    @property
    def unit(self) -> str:
        """What a protected unit is called."""
        return "person" if self.spec.unit is None else self.spec.unit.word

    @property
    def title(self) -> str:
        """What the errors are computed around."""
        return f"Mean absolute error to expect, around {self.around}"

    @property
    def around(self) -> str:
        """What the errors are computed around."""
        return MADE_UP_TREE if self.reference is None else self.reference.name

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        header, rows = self.lines
        return {
            "release": self.spec.release,
            "dataset": self.spec.dataset,
            "levels": [dict(zip(header, row, strict=True)) for row in rows],
            "cells": self.chain.law.n_cells,
            "cost": {"currency": self.chain.spent.currency, "amount": str(self.chain.spent.amount)},
            "certificate": certificate_json(self.chain.certificate),
            "not_protected": self.chain.not_protected_text,
            "given_away": given_away_json(self.reviews, self.unit),
            "plan_digest": self.digest,
            "around": self.around,
        }


def _shared(people: int, weights: Floats) -> Ints:
    """Return whole numbers that add up, near the shares of weights."""
    if people == 0 or not weights.sum():
        return np.zeros(weights.size, np.int64)
    ideal = people * weights / weights.sum()
    out: Ints = np.floor(ideal).astype(np.int64)
    out[np.argsort(out - ideal, kind="stable")[: people - int(out.sum())]] += 1
    return out


def tree_preview(spec: Spec, folder: Path, reference: Path | None = None, progress: Progress = no_news) -> TreePreview:
    """Return what a spec with a hierarchy will do. Of its data, only what the invariants disclose enters.

    Parameters
    ----------
    reference : path, optional
        A public file of the data's shape, such as last year's: errors are computed around it.
    """
    if reference is not None:
        check_public(spec, folder, reference)
    ready = prepare(spec, folder, progress)
    if ready.chain is None:
        raise ValueError("the spec has no hierarchy")
    law = ready.chain.law
    given = None
    if reference is not None:
        leaves = read_reference_leaves(spec, law.tree, reference)
        check_leaves(law.tree, law.n_cells, law.zeros, leaves)
        hierarchy = spec.tree_mechanism(law.tree, law.zeros)
        given = TreeReference(reference.name, hierarchy.plan(hierarchy.disclose(leaves)), leaves)
    return TreePreview(spec, ready.chain, ready.digest, ready.reviews, given, exact_texts(ready))
