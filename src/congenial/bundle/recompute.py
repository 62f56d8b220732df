"""What follows from a bundle's tables, conditions and law, recomputed: the bundle is verified, or refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from congenial.arrays import Ints
from congenial.arrow_and_unit_codes import codes_as_texts
from congenial.bundle.canonical_json import first_difference
from congenial.bundle.manifest import Manifest, points_of
from congenial.bundle.naming_and_versions import other_versions
from congenial.bundle.read import OpenedBundle, memory_error_as_refusal
from congenial.conditions.areas_and_bounds import Area, Areas
from congenial.conditions.constraints import Constraints
from congenial.conditions.queries import Query, cells
from congenial.decided_tables import check_decided
from congenial.errors import BrokenError, BundleError, CongenialError, did_you_mean
from congenial.law import PublicLaw
from congenial.memory_and_threads import in_background
from congenial.plan import Plan
from congenial.privacy.certificate import Certificate
from congenial.privacy.disclosure import Disclosure
from congenial.request_to_plan import BudgetRequest, TreeRequest
from congenial.tree.exact_sums import TreeInvariants
from congenial.tree.tree_and_zeros import Tree, TreeTables

# A manifest recomputed from what it states and the released tables; the two must be the same.

_BROKEN = "the conditions that the manifest states do not hold in its tables"


def check_reproducible(manifest: Manifest, tables: Ints) -> tuple[list[str], tuple[Disclosure, ...]]:
    """Refuse a manifest that is not what follows from its tables (area, cell), its conditions and its precisions.

    Another version of `congenial` may prove a smaller bound, and say so in other words: then its figures are held to be
    bounds, which they must be, and what was not compared is returned, with what the exact numbers disclose.
    """
    others = other_versions(manifest.software, ["congenial"])
    recomputed = _recomputed(manifest, tables)
    not_checked = []
    if others and (recomputed.certificate, recomputed.sampler) != (manifest.certificate, manifest.sampler):
        check_figures(recomputed.certificate, manifest.certificate)
        recomputed = replace(recomputed, certificate=manifest.certificate, sampler=manifest.sampler)
        not_checked.append(f"the words of the certificate and of the sampler, for they are of {others[0]}")
    if others and recomputed.disclosure_summaries != manifest.disclosure_summaries:  # it may find more, or fewer
        recomputed = replace(recomputed, disclosure_summaries=manifest.disclosure_summaries)
        not_checked.append(f"what the exact numbers give away, for it was counted by {others[0]}")
    if difference := first_difference(manifest.as_json(), recomputed.as_json()):
        raise BundleError(
            "manifest.json has {1} at {0}, and from its tables, conditions and law follows {2}; get the bundle from its"
            " publisher again".format(*difference)
        )
    if (recomputed.exact_statistics, recomputed.law) != (manifest.exact_statistics, manifest.law):
        raise BundleError("areas.parquet states other numbers than the tables and conditions have")
    return not_checked + _check_precisions(manifest, others), recomputed.known_disclosures


def _recomputed(manifest: Manifest, tables: Ints) -> Manifest:
    plan = manifest.plan
    if plan.law.is_tree:
        plan = _tree_plan(manifest, tables)
    elif (law := _law(manifest, tables)).areas != plan.law.areas:  # else it is this very plan
        plan = Plan.of(law, plan.neighbours, plan.rows_per_unit, plan.budget, plan.requested)
    facts = (manifest.naming, manifest.made_at, plan, manifest.conditions, tables, manifest.receipt, manifest.software)
    try:
        recomputed = Manifest.of(*facts, decision=manifest.decision)
    except CongenialError as refused:
        raise BundleError(f"the published law has no certificate: {refused}") from None
    return replace(recomputed, files=manifest.files, left_out=manifest.left_out, version=manifest.version)


def _tree_plan(manifest: Manifest, tables: Ints) -> Plan:
    """Plan a tree again, from its budget and shares or its given precisions."""
    plan, law, budget = manifest.plan, manifest.law, manifest.plan.budget
    if budget is None and plan.requested != (cells(precision=law.queries[0].precision),):
        raise BundleError("a tree of given precisions measures every cell, and the manifest something else")
    options: dict[str, Any] = {"precisions": {level.name: level.noise.precision for level in plan.levels}}
    if budget is not None:
        options = {"rho": budget.rho, "epsilon": budget.epsilon, "delta": budget.delta, "measure": plan.requested}
        options["shares"] = {level.name: level.share for level in plan.levels}
        options["across"] = law.across
    try:
        request = TreeRequest(
            *(law.tree, law.schema),
            invariants={law.tree.levels[0]: manifest.conditions, **plan.invariants_below},
            noise=law.noise,
            neighbours=plan.neighbours,
            zeros=law.zeros,
            method=law.method,
            rule=law.rule,
            **options,
        )
        return request.plan(TreeInvariants(request.areas_of(tables), law.exact_below))
    except BrokenError:  # its words are about confidential data, and these tables are public
        raise BundleError(_BROKEN) from None
    except CongenialError as refused:
        raise BundleError(f"the tree that the manifest states cannot be planned: {refused}") from None


def _law(manifest: Manifest, tables: Ints) -> PublicLaw:
    """Compile the stated conditions at the released values; what is measured must be what was requested."""
    law, conditions = manifest.law, manifest.conditions
    _check_requested(manifest.plan.requested, law)
    try:
        if law.areas.name is None:
            areas = Areas.one(Constraints.of(law.schema, conditions, tables[0].tolist()))
        else:
            labels = [str(area) for area in law.areas]
            areas = Areas.of_counts(law.schema, conditions, labels, tables, name=law.areas.name)
    except CongenialError:
        raise BundleError(_BROKEN) from None
    return replace(law, areas=areas)


def _check_requested(requested: Sequence[Query], law: PublicLaw) -> None:
    """See that a law measures what was requested, at given precisions; a budget may divide the cells of one query."""
    if len(requested) not in {1, len(law.queries)}:
        raise BundleError(f"the manifest measures {len(requested)} queries, and its law {len(law.queries)}")
    pairs = zip(requested, law.queries, strict=False)
    if any(query.precision not in {None, measured_query.precision} for query, measured_query in pairs):
        raise BundleError("the manifest states another precision of a measured query than its law has")
    rows = [row for query in requested for row in query.rows(law.schema)]
    measured = [row for query in law.queries for row in query.rows]
    if len(rows) != len(measured) or set(rows) != set(measured):
        raise BundleError("the manifest measures other statistics than its law does")


def check_figures(ours: Certificate, theirs: Certificate) -> None:
    """See that what another version certified is a bound by this version's proofs."""
    bounds = (
        (ours.loss, theirs.loss),
        (ours.rho, theirs.rho),
        (ours.rho_at_all_orders, theirs.rho_at_all_orders),
    )
    is_right = all(stated is None or (proven is not None and proven <= stated) for proven, stated in bounds)
    is_right &= theirs.loss is not None or theirs.rho is not None
    is_right &= theirs.orders in {ours.orders, "integer"}
    plain = (ours.neighbours, ours.k, ours.loss_without_invariants)
    if not is_right or plain != (theirs.neighbours, theirs.k, theirs.loss_without_invariants):
        raise BundleError(
            f"the manifest's certificate says {theirs.amounts} for {theirs.per_record}, and its law has"
            f" {ours.amounts} for {ours.per_record}; get the bundle from its publisher again"
        )


def _check_precisions(manifest: Manifest, others: Sequence[str]) -> list[str]:
    """See that the precisions are those that were given, and the largest that the budget allows."""
    plan, law, budget = manifest.plan, manifest.law, manifest.plan.budget
    if budget is not None and not budget.covers(manifest.certificate):
        raise BundleError(f"the manifest's budget of {budget.text} does not cover its certificate")
    if law.is_tree and law.is_measured:  # its levels share one certificate, and were planned again together
        return []
    budget = plan.budget_of_first_level
    facts = (law.schema, law.noise, plan.requested, budget, plan.neighbours, plan.rows_per_unit)
    request = BudgetRequest(*facts, law.method, law.rule)
    try:
        is_largest = request.plan(law.areas).law.queries == law.queries
    except CongenialError:
        is_largest = False
    if is_largest:
        return []
    if budget is None:
        raise BundleError("the manifest states another precision or weight of a measured query than its law has")
    if not others:
        raise BundleError(f"the precisions of its law are not those that the manifest's budget of {budget.text} gives")
    return [f"whether the budget allows no larger precisions, for that is by {others[0]}"]


@dataclass(frozen=True, repr=False)
class Bundle:
    """A verified bundle: the manifest, and the released tables.

    Attributes
    ----------
    levels : tuple of arrays (unit, cell)
        The released tables of each level, in the order of its units; one table and areas are one level.
    signed_by : str or None
        The public key that signed the manifest, in hexadecimal digits.
    not_checked : tuple of str
        What this version could not compute as the one that made the bundle did. All numbers are checked always.
    measured_levels : tuple of arrays (unit, row)
        Of a measured release, the measurements of every level.
    """

    manifest: Manifest
    levels: TreeTables = field(repr=False)
    signed_by: str | None
    not_checked: tuple[str, ...] = ()
    measured_levels: TreeTables = field(default=(), repr=False)

    @property
    def measurements(self) -> Ints | None:
        """Of a measured release, the measurements (area, row) of its first level; None of a conditional one."""
        return self.measured_levels[0] if self.measured_levels else None

    @property
    def counts(self) -> Ints:
        """The released tables of the first level (area, cell), in the order of the areas."""
        return self.levels[0]

    @cached_property
    def tables(self) -> Mapping[Area, Ints]:
        """The released table of each area, cell by cell; of a tree, of each unit at the top."""
        return self.law.areas.by_label(self.counts)

    @property
    def tree(self) -> Tree:
        """The units of every level."""
        return self.law.tree

    def level(self, name: str) -> tuple[tuple[str, ...], Ints]:
        """Return the codes of a level's units and their released tables (unit, cell); or of areas across the tree."""
        if self.law.across is not None and name == self.law.across.name:
            return tuple(codes_as_texts(self.law.across.codes)), self.law.across.summed(self.levels[-1])
        number = self.tree.level_of(name)
        return tuple(self.tree.texts(number)), self.levels[number]

    @property
    def law(self) -> PublicLaw:
        """The law of the release, but for the confidential tables."""
        return self.manifest.law

    def released(self, area: Area = None) -> Ints:
        """Return the released table of an area, cell by cell."""
        if area not in self.tables:
            known = [name for name in self.tables if name is not None]
            hint = did_you_mean(str(area), known) if known else "it has one table: leave the area out"
            what = f"no area {area!r}" if area is not None else f"several tables; name one {self.law.areas.name}"
            raise BundleError(f"the bundle has {what}; {hint}")
        return self.tables[area]

    def __repr__(self) -> str:
        manifest = self.manifest
        kind = "" if manifest.is_for_release else ", a simulation, NOT FOR RELEASE"
        cells = f"{self.law.tables_text} of {manifest.law.schema.n_cells:,} cells"
        return f"bundle {manifest.naming.release!r} of dataset {manifest.naming.dataset!r}: {cells}{kind}"


@memory_error_as_refusal()
def check_bundle(opened: OpenedBundle) -> Bundle:
    """Compute again whatever follows from a bundle's tables, conditions and law; refuses one that says otherwise."""
    tables = opened.levels[0] if opened.levels else points_of(opened.manifest.law.areas)
    with in_background(opened.check_other_files) as compared:
        not_checked, disclosures = check_reproducible(opened.manifest, tables)
        check_decision(opened)
        compared()
    manifest = replace(opened.manifest, known_disclosures=disclosures)
    return Bundle(manifest, opened.levels, opened.signed_by, tuple(not_checked), opened.measured_levels)


def check_decision(opened: OpenedBundle) -> None:
    """See that the tables of a measured release are what its rule makes of its measurements."""
    decision, law = opened.manifest.decision, opened.manifest.law
    if decision is None or not opened.measured_levels or not opened.levels:
        return
    try:
        check_decided(replace(law, rule=decision.rule), opened.measured_levels, opened.levels, opened.learned)
    except CongenialError as wrong:
        raise BundleError(f"the tables are not those of the rule {decision.rule[0]!r}: {wrong}") from None
