"""What a release will publish, cost and protect, computed before anything is spent. Public."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.bundle.expected_errors import (
    MOST_EXACT_AREAS,
    NO_ERROR,
    AggregateErrors,
    ExpectedError,
    aggregate_errors,
    expected_error,
    statistics,
    typical_places,
)
from congenial.bundle.report_and_readme import LevelError, level_errors, level_lines
from congenial.conditions.areas_and_bounds import Area
from congenial.conditions.rows_and_intervals import row_values
from congenial.curator.alternatives_and_target_error import (
    Alternative,
    ErrorTarget,
    MethodErrors,
    Price,
    TargetBudget,
    TreeAlternative,
    TreePrice,
    TreeTargetBudget,
    alternatives,
    errors_of_methods,
    find_budget,
    find_tree_budget,
    price_of,
    tree_alternatives,
    tree_price_of,
    ways_out_named,
)
from congenial.curator.base_preview import Preview
from congenial.curator.differences_from_earlier_releases import PlannedRelease
from congenial.curator.made_up_tables import UNIFORM, even_table, made_up_sums, reference_plan, typical_tables
from congenial.curator.pipeline import prepare
from congenial.curator.tree_estimate_errors import AcrossErrors, EstimateErrors, across_errors, tree_errors
from congenial.curator.tree_margin_errors import MarginErrors, margin_errors
from congenial.curator.workload_preview import check_options, workload_preview
from congenial.errors import CongenialError, StudyError, did_you_mean
from congenial.plan import Plan
from congenial.privacy.certificate_inputs import MEASURED
from congenial.privacy.disclosure import Disclosure
from congenial.progress_and_interrupts import Progress, silent
from congenial.randomness import replay_rng
from congenial.reading.files_and_columns import write_confidential_csv
from congenial.reading.reference import check_public, read_reference, read_reference_leaves
from congenial.release import Prepared, exact_texts
from congenial.request_to_plan import has_cells
from congenial.spec.spec_and_hierarchy import Spec
from congenial.table import CONFIDENTIAL, Table, tables_by_area
from congenial.tree.exact_sums import TreeInvariants
from congenial.tree.tree_and_zeros import TreeTables, check_leaves
from congenial.tree_margins import measures_cells

# What the invariants disclose: a file that lists every cell.


def write_disclosed_cells(spec: Spec, folder: Path, disclosures: Sequence[Disclosure]) -> str:
    """List every disclosed cell with its value, and return where, as the end of a sentence.

    The values are published with the release; until then they are confidential.
    """
    names = spec.schema.names
    header = ["level", "area", *names, "value"]
    file = folder / f"{CONFIDENTIAL}given-away-{spec.release}.csv"
    return write_confidential_csv(
        file, header, (row for review in disclosures for row in _rows(review, names)), most_rows=None
    )


def _rows(review: Disclosure, names: Sequence[str]) -> Iterator[tuple[object, ...]]:
    schema = review.schema
    parts = map(schema.labels_of, range(schema.n_cells))
    labels = [tuple(part.get(name, "") for name in names) for part in parts]  # of several tables, some dimensions each
    for area, cell, value in review.cells():
        yield review.summary.area or "", area or "", *labels[cell], value


_FEW_NUMBERS = 300  # cells of all areas together, up to which another method is planned and tried in seconds
_MOST_COMPARED = 2_000  # areas whose numbers a ledger lists one by one
_MADE_UP_SUMS = 1_000  # in 12 to 24 areas, computed without a draw: so `plan` need not load the kernels


@dataclass(frozen=True, repr=False)
class TablesPreview(Preview):
    """Of one table or of areas, with the error to expect around a public table."""

    errors: tuple[ExpectedError, ...]
    sums: AggregateErrors
    """What tables will add up to, around the reference or a made-up population."""
    around: Plan
    """The plan in whose areas errors are computed: this one, or that of a reference."""
    dry_run_lines: tuple[str, ...] = ()
    """What the dry run promises, where the time of a draw depends on more than the structure."""
    centre: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """The public table of the middle one of the areas whose errors are shown."""
    alternatives: tuple[Alternative, ...] = ()
    """The same release with invariants left out."""
    target_budget: TargetBudget | None = None
    """The budget that reaches a target error, where there is one."""
    methods: tuple[MethodErrors, ...] = ()
    """The errors to expect by this method and by the other; nothing where that takes long and was not asked for."""

    @property
    def is_quick(self) -> bool:
        """Whether a draw takes no time, or what it takes is known from trials and said elsewhere."""
        return (bool(self.dry_run_lines) and not self.plan.law.is_measured) or self.seconds < 1

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
    def planned(self) -> PlannedRelease:
        """What earlier releases are compared with."""
        areas, sums = self.plan.law.areas, self.sums.sums
        sizes = {error.text: error.size for error in sums}
        errors = {error.text: error.size_of_all for error in sums}  # of all areas together, as one table may have it
        if areas.name is None:
            errors |= dict(self.middle.margins)  # as they are shown
        elif len(areas) <= _MOST_COMPARED:
            errors |= {f"{areas.name} {area}: {text}": size for area in areas for text, size in sizes.items()}
        return self._compared(errors, tuple(self._kinds()))

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


def _as_read(tables: Mapping[Area, Table]) -> Table | Mapping[str, Table]:
    """Return one table as such, and tables of areas by their names."""
    return tables[None] if None in tables else cast("Mapping[str, Table]", tables)


def preview(
    spec: Spec,
    folder: Path,
    reference: Path | None = None,
    *,
    target: ErrorTarget | None = None,
    compare_methods: bool = False,
    progress: Progress = silent,
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
    compare_methods : bool
        Whether to compute what the other method would give, also where that takes long.
    """
    if spec.tables is not None:
        check_options(spec, reference, target, compare_methods=compare_methods)
        return workload_preview(spec, prepare(spec, folder, progress), target, progress)
    if reference is not None:
        check_public(spec, folder, reference)
    if target is not None:
        _check_target(spec, target)
    ready = prepare(spec, folder, progress)
    if ready.plan.law.is_tree:
        law = ready.plan.law
        is_priced = law.is_measured and measures_cells(law)
        others = tree_alternatives(spec, ready.plan, ready.confidential) if is_priced else ()
        target_budget = None if target is None else find_tree_budget(spec, ready.plan, target, progress)
        return replace(tree_preview(spec, ready, reference), alternatives=others, target_budget=target_budget)
    return _tables_preview(spec, ready, reference, target, progress, compare_methods=compare_methods)


def _check_target(spec: Spec, target: ErrorTarget) -> None:
    """Refuse a target that is not for what the spec releases, before any data are read."""
    if spec.hierarchy is None:
        if target.level is not None:
            raise StudyError("--level is for a tree, and the spec has no `hierarchy:`")
        return
    if spec.method != MEASURED:
        raise StudyError(
            "--target-error of a tree needs `method: measured`, whose errors follow from public structure alone; those"
            " of a chain of draws are not known without drawing it: try shares and budgets one by one"
        )
    if target.of != "cells":
        raise StudyError(f"of a tree an error can be asked for of the cells of a level, not of {target.of}")
    if spec.measured and not has_cells(spec.measured):
        raise StudyError(
            "--target-error of a tree is for measured cells, and this one measures margins: `congenial plan` prints the"
            " error of each at every level; errors of estimates go with one over the square root of a rho"
        )
    if target.level is not None and target.level not in spec.hierarchy.names:
        raise StudyError(
            f"{target.level!r} is not a level of the tree; {did_you_mean(target.level, spec.hierarchy.names)}"
        )


def _facts(spec: Spec, ready: Prepared) -> tuple[Spec, Plan, str, tuple[Disclosure, ...], tuple[tuple[str, str], ...]]:
    return spec, ready.plan, ready.digest, ready.disclosures, exact_texts(ready)


def _tables_preview(
    spec: Spec,
    ready: Prepared,
    reference: Path | None,
    target: ErrorTarget | None,
    progress: Progress,
    *,
    compare_methods: bool,
) -> TablesPreview:
    plan = ready.plan
    dry_run_lines: tuple[str, ...] = ()
    if plan.law.is_measured or not all(sampler.has_predictable_time for sampler in plan.samplers):
        # Before any draw around a reference, which would have no end where a system is out of reach.
        with ways_out_named(spec, _as_read(ready.tables), progress):
            dry_run_lines = tuple(plan.dry_run(progress))
    if reference is None:
        centres, around, tables = typical_tables(plan.law), plan, ready.tables
        sums = made_up_sums(plan, max(12, min(MOST_EXACT_AREAS, _MADE_UP_SUMS // len(statistics(spec.schema)))))
    else:
        areas, counts = read_reference(spec, reference)
        around = reference_plan(spec, plan, areas, counts)
        labels = around.law.areas.labels
        tables = tables_by_area(spec.schema, labels, counts)
        centres = {labels[place]: counts[place] for place in typical_places(counts.sum(axis=1))}
        sums = aggregate_errors(around, counts, reference.name)
    name = UNIFORM if reference is None else reference.name
    errors = []
    for number, (area, centre) in enumerate(centres.items()):
        progress("errors to expect", number, len(centres))
        errors.append(expected_error(around, area, centre, name))
    others = alternatives(spec, _as_read(tables))
    target_budget = None if target is None else find_budget(spec, around.law.areas, centres, target, progress)
    middle = list(centres.values())[len(centres) // 2]
    methods: tuple[MethodErrors, ...] = ()
    if compare_methods or len(around.law.areas) * spec.schema.n_cells <= _FEW_NUMBERS:
        progress("the other method")
        methods = errors_of_methods(spec, around, errors[len(errors) // 2].area, middle)
    return TablesPreview(
        *_facts(spec, ready), tuple(errors), sums, around, dry_run_lines, middle, others, target_budget, methods
    )


# What the release of a tree will publish and cost, and the error to expect at each level. Public.

MADE_UP_TREE = "a made-up population: the top even, its people spread very unevenly over the leaves"


@dataclass(frozen=True, repr=False)
class TreeReference:
    """A public population to compute around: its leaves (leaf, cell), and the tree planned with its exact numbers."""

    name: str
    plan: Plan
    leaves: Ints


@dataclass(frozen=True, repr=False)
class TreePreview(Preview):
    """Of a tree, with the error to expect at each level around a reference, or around a made-up population."""

    reference: TreeReference | None = None
    alternatives: tuple[TreeAlternative, ...] = ()
    """The same measured tree with exact numbers left out."""
    target_budget: TreeTargetBudget | None = None
    """The budget that reaches a target error, where there is one."""

    @property
    def planned(self) -> PlannedRelease:
        """What earlier releases are compared with: of the top, which is what a table without levels would be."""
        if self.of_margins:
            first = self.of_margins[0]
            return self._compared({"total": first.total}, ())
        if not self.estimates and not self.errors:
            return self._compared({}, ())
        top = (self.estimates or self.errors)[0]
        return self._compared({"total": top.total}, ((f"a cell of a {top.name}", top.cell),))

    @cached_property
    def estimates(self) -> tuple[EstimateErrors, ...]:
        """The errors of each level of a tree whose cells are measured, in closed form; nothing of another one."""
        law = self.plan.law
        return tree_errors(self.plan) if law.is_measured and measures_cells(law) else ()

    @cached_property
    def of_margins(self) -> tuple[MarginErrors, ...]:
        """The same of each measured margin where cells are not measured."""
        law = self.plan.law
        return margin_errors(self.plan) if law.is_measured and not measures_cells(law) else ()

    @cached_property
    def across(self) -> AcrossErrors | None:
        """The errors of areas that cross a measured tree; nothing where there are none."""
        return across_errors(self.plan)

    @cached_property
    def prices(self) -> tuple[tuple[str, TreePrice | None], ...]:
        """What a measured tree would have with exact numbers left out; None where that cannot be certified."""
        return tuple((other.text, other.price()) for other in self.alternatives)

    @cached_property
    def measured_instead(self) -> TreePrice | None:
        """What a chain would have by the other method; None where it is measured, or cannot be by that budget."""
        law = self.plan.law
        if law.is_measured:
            return None
        other = replace(self.spec, method=MEASURED, rule=None).tree_mechanism(law.tree, law.zeros)
        try:
            return tree_price_of(MEASURED, other.plan(TreeInvariants(law.areas, law.exact_below)))
        except CongenialError:
            return None

    @cached_property
    def dry_run_lines(self) -> tuple[str, ...]:
        """What the dry run promises; of a measured tree, why there will be no tables: nothing, as a rule."""
        return tuple(self.plan.dry_run())

    @cached_property
    def leaves(self) -> Ints:
        """A made-up population (leaf, cell) that obeys what is published."""
        law, tree = self.plan.law, self.plan.law.tree
        weights = self._weights()
        top = np.arange(tree.n_leaves)
        for parents in reversed(tree.parents):
            top = parents[top]
        out = np.zeros((tree.n_leaves, law.schema.n_cells), np.int64)
        is_zero = law.zeros.of_level(-1)
        mask = np.zeros(out.shape, np.bool_) if is_zero is None else is_zero
        for place, area in enumerate(law.areas):
            leaves = np.flatnonzero(top == place)
            even = even_table(law, law.areas[area])
            for cell, people in enumerate(even.tolist()):
                out[leaves, cell] = _shared(people, np.where(mask[leaves, cell], 0.0, weights[leaves]))
        if not law.exact_below:
            return out
        # A draw around it has the exact numbers of every unit, and so have the tables that a rule decides.
        if law.is_measured:
            tables = law.measured_tables(tree.summed(out))
            rows = [[query.row for query in each.measured] for each in law.measured_laws]
            return self.plan.decide([row_values(some, table) for some, table in zip(rows, tables, strict=True)])[-1]
        return self.plan.draw(out, replay_rng("made-up population"))[-1]

    def _weights(self) -> Floats:
        """Return how populous leaves are: very uneven, and in units with exact numbers as many as they have."""
        law, tree = self.plan.law, self.plan.law.tree
        weights: Floats = np.log(replay_rng("made-up population").uniforms(tree.n_leaves)) ** 2
        units = np.arange(tree.n_leaves)
        for parents, exact in zip(reversed(tree.parents), reversed(law.exact_below), strict=False):
            if exact is not None:
                sums = np.bincount(units, weights, minlength=len(exact.values))
                return np.asarray(weights / sums[units] * exact.values.max(axis=1)[units])
            units = parents[units]
        return weights

    @cached_property
    def released(self) -> TreeTables:
        """The tables of each level (unit, cell) that errors are computed around: a reference, or what is made up."""
        return self.plan.law.tree.summed(self.leaves if self.reference is None else self.reference.leaves)

    @cached_property
    def errors(self) -> list[LevelError]:
        """What to expect at each level; nothing of a tree that is too large to draw once more."""
        return level_errors(self.plan if self.reference is None else self.reference.plan, self.released)

    @cached_property
    def lines(self) -> tuple[list[str], list[list[str]]]:
        """A header and a line for each level: how precise it is, and what that means."""
        n_kinds = len(self.plan.law.names_and_codes)
        errors: list[LevelError | None] = [*self.errors] or [None] * n_kinds
        header = ["level", "units", "share of the budget", "noise", "error of a cell", "of a total", "bias by count"]
        rows = []
        files = [""] * n_kinds
        for line, error in zip(level_lines(self.plan, self.released, files), errors, strict=True):
            figures = ["not computed", "not computed", ""]
            if error is not None:
                bias = ", ".join(f"{size}: {mean:+,.2f}" for size, mean in error.biases)
                figures = [f"{error.cell:,.2f}", f"{error.total:,.2f}", bias]
            rows.append([line[0], line[1], line[3], line[4], *figures])
        return header, rows

    def level_table(self, *, full: bool = False) -> tuple[list[str], list[list[str]], str] | None:
        """Header, lines and title of errors drawn at each level.

        Those of a measured tree follow from its structure; drawn ones say what counts do to tables, around a reference.
        """
        if (self.estimates or self.of_margins) and self.reference is None and not full:
            return None
        return (*self.lines, f"Root mean squared error to expect, around {self.around}")

    @property
    def around(self) -> str:
        """What the errors are computed around."""
        return MADE_UP_TREE if self.reference is None else self.reference.name


def _shared(people: int, weights: Floats) -> Ints:
    """Return whole numbers that add up, near the shares of weights."""
    if people == 0 or not weights.sum():
        return np.zeros(weights.size, np.int64)
    ideal = people * weights / weights.sum()
    out: Ints = np.floor(ideal).astype(np.int64)
    out[np.argsort(out - ideal, kind="stable")[: people - int(out.sum())]] += 1
    return out


def tree_preview(spec: Spec, ready: Prepared, reference: Path | None = None) -> TreePreview:
    """Return what a prepared release of a tree will do.

    Parameters
    ----------
    reference : path, optional
        A public file of the data's shape, such as last year's: errors are computed around it.
    """
    if reference is None:
        return TreePreview(*_facts(spec, ready))
    law = ready.plan.law
    leaves = read_reference_leaves(spec, law.tree, reference)
    check_leaves(law.tree, law.schema.n_cells, law.zeros, leaves)
    request = spec.tree_mechanism(law.tree, law.zeros, law.across)
    around = TreeReference(reference.name, request.plan(request.disclose(leaves)), leaves)
    return TreePreview(*_facts(spec, ready), around)
