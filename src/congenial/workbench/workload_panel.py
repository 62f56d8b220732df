"""A draft of several tables of the same records: its tables and what they do, as a page shows them.

Errors are in closed form, and of the confidential records the exact numbers enter, as in `congenial plan`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from congenial.bundle.naming_and_versions import Naming
from congenial.curator.sections import Section
from congenial.curator.workload_errors import CellError, TableError
from congenial.curator.workload_preview import WorkloadPreview
from congenial.curator.workload_preview_text import (
    designs,
    errors,
    exactness,
    not_protected,
    privacy,
    protected,
    published,
    pure_epsilon,
    unmeasured,
)
from congenial.display import figure
from congenial.errors import ConditionError, CongenialError
from congenial.pages.svg_charts import Bar, error_bars
from congenial.privacy.certificate import Certificate, shown
from congenial.privacy.workload_certificate import workload_certificate
from congenial.progress_and_interrupts import checkpoint
from congenial.randomness import replay_rng
from congenial.release import Prepared
from congenial.rules.registry import Rule, rule_named
from congenial.spec.spec_and_hierarchy import Spec
from congenial.workbench.endpoints_and_templates import render
from congenial.workbench.spec_edit import budget_of
from congenial.workbench.workspace import digest_of
from congenial.workload.plan import WorkloadPlan
from congenial.workload.records import Records

SHARES_IN_WORDS = {
    "tables": "every table alike",
    "cells": "every cell alike",
    "portions": "by portions",
}
"""Ways to share a budget, as a page offers them."""

_MOST_BARS = 12
_WIDER = 1.25  # the picture's scale leaves that much room, so that a small change does not move it


@dataclass(frozen=True)
class StatedTable:
    """A table as a page lists it.

    Attributes
    ----------
    key : str or int
        Its name, or its place under `also_measure`.
    portion : str or None
        What it gets, as it is stated; None where nothing is to be stated.
    share : str
        What it gets of the precision of all tables, in words.
    """

    key: str | int
    name: str
    dimensions: tuple[str, ...]
    n_cells: str
    is_published: bool
    portion: str | None
    share: str
    typical: str


@dataclass(frozen=True)
class ProtectedChange:
    """A kind of change that the certificate can be for.

    Attributes
    ----------
    kind : str
        As a spec names it.
    text : str
        In words, with what it costs.
    is_charged : bool
        Whether the budget is for it.
    is_possible : bool
        Whether there is such a change.
    """

    kind: str
    text: str
    is_charged: bool
    is_possible: bool


def changes_of(plan: WorkloadPlan) -> list[ProtectedChange]:
    """Return what one record costs, two that exchange, and any so many."""
    pairs, charged = zip(plan.prices, plan.price_lines, strict=True), plan.certificate.change
    return [ProtectedChange(price.kind, line, price.kind == charged, price.amount is not None) for price, line in pairs]


@dataclass(frozen=True, repr=False)
class DraftPlan(WorkloadPlan):
    """A plan whose certificate is known before it is found how noise is drawn, which takes long for large tables."""

    @cached_property
    def certificate(self) -> Certificate:
        """What all tables cost at most together; a release looks at what its noise keeps as well."""
        return workload_certificate(self.facts, self.protects, self.law.schema.names)


def _facts(plan: WorkloadPlan) -> dict[str, Any]:
    return {fact.name: getattr(plan, fact.name) for fact in fields(plan) if fact.init}


@dataclass(frozen=True, repr=False)
class WorkloadPanel:
    """Everything that a page shows of a draft of several tables. Public: of the records it has the exact values alone.

    Attributes
    ----------
    is_bound : bool
        False: nothing is to be proven later.
    """

    preview: WorkloadPreview
    is_bound: bool = field(default=False, init=False)

    @property
    def spec(self) -> Spec:
        """The spec of the draft."""
        return self.preview.spec

    @property
    def plan(self) -> WorkloadPlan:
        """How tables are measured."""
        return self.preview.plan

    @property
    def n_numbers(self) -> int:
        """How many numbers all tables have together."""
        return sum(table.n_cells for table in self.preview.errors.tables)

    @property
    def rule(self) -> Rule:
        """What makes records of the measurements."""
        return rule_named(*self.plan.law.rule)

    @property
    def noise(self) -> str:
        """Standard deviation of the noise on a cell: of all tables, or the least and the most."""
        return _from_to([table.noise for table in self.preview.errors.tables if table.share])

    @property
    def error(self) -> str:
        """The typical error of a cell of what is published: of all tables, or the least and the most."""
        return _from_to([table.typical for table in self.preview.errors.tables if table.is_published])

    @property
    def tables(self) -> list[StatedTable]:
        """All tables that the spec states, with what each gets and how far it is off."""
        plan, stated = self.plan, self.spec.tables
        assert stated is not None  # noqa: S101
        keys: list[str | int] = [*stated.published, *range(len(stated.also_measured))]
        rows = zip(keys, plan.requested, self.preview.errors.tables, strict=True)
        return [
            StatedTable(
                key,
                table.name,
                table.dimensions,
                f"{table.n_cells:,}",
                table.is_published,
                self._portion(query.portion, table),
                f"{table.share:.0%}" if table.share else "not measured",
                "exact" if table.is_exact else figure(table.typical),
            )
            for key, query, table in rows
        ]

    def _portion(self, portion: Fraction | None, table: TableError) -> str | None:
        """Return the portion that is stated of a table; None where a page should not ask for one."""
        if self.plan.budget is None or (table.is_published and self.plan.shares_by != "portions"):
            return None
        return "" if portion is None else shown(portion)

    @property
    def changes(self) -> list[ProtectedChange]:
        """The kinds of changes that the certificate can be for, in order."""
        return changes_of(self.plan)

    @property
    def charged(self) -> list[str]:
        """What is charged, and a warning where that is much: what the section of privacy says below its prices."""
        return list(privacy(self.preview).lines[len(self.plan.price_lines) :])

    @property
    def unprotected(self) -> Section | None:
        """What the certificate does not promise in bold, then what the exact numbers give away."""
        return not_protected(self.preview)

    @property
    def sections(self) -> list[Section]:
        """What is known at once besides: what is a model, what another budget would give, what stays protected."""
        makers = (unmeasured, pure_epsilon, protected)
        return [section for make in makers if (section := make(self.preview)) is not None]

    @property
    def errors(self) -> Section:
        """How far cells of every table are off, and what lies inside them."""
        return errors(self.preview)

    @property
    def later_sections(self) -> list[Section]:
        """What takes longer: what exact numbers buy, other designs, and what is published with which noise."""
        return [section for make in (exactness, designs, published) if (section := make(self.preview)) is not None]

    def bars(self) -> list[Bar]:
        """Return the typical errors of a cell of every table, and of what lies inside them."""
        noisy = [one for one in (*self.preview.errors.tables, *self.preview.errors.margins) if not one.is_exact]
        return [(_title(one), one.typical, one.typical, 0.0) for one in noisy[:_MOST_BARS]]


def _title(error: CellError) -> str:
    return error.name if isinstance(error, TableError) else f"inside: {error.name}"


def _from_to(sizes: Sequence[float]) -> str:
    """Return sizes as the least and the most.

    Examples
    --------
    >>> _from_to([3.4641, 3.4641]), _from_to([1.63, 2.67, 2.61]), _from_to([])
    ('3.5', '1.6 to 2.7', '0')
    """
    low, high = figure(min(sizes, default=0.0)), figure(max(sizes, default=0.0))
    return low if low == high else f"{low} to {high}"


@dataclass(frozen=True)
class WorkloadDesign:
    """A spec of several tables with its records. Confidential.

    Attributes
    ----------
    folder : Path
        Of the spec: where the release is that its tables agree with.
    """

    spec: Spec
    records: Records = field(repr=False)
    folder: Path

    def panel(self) -> WorkloadPanel:
        """Compute what the spec does. Nothing is charged, nothing drawn."""
        workload = self.spec.workload_in(self.folder)
        plan = DraftPlan(**_facts(workload.plan(workload.disclose(self.records))))
        checkpoint()
        disclosures = plan.disclosures(tuple(workload.invariants))
        panel = WorkloadPanel(WorkloadPreview(self.spec, plan, "", disclosures, ()))
        _ = plan.certificate  # or refused
        return panel

    def prepare(self, naming: Naming) -> Prepared:
        """Plan the release. Nothing is charged, nothing drawn."""
        return self.spec.workload_in(self.folder).prepare(self.records, naming)

    def synthetic(self) -> "WorkloadDesign":
        """Return the design with made-up records that have the exact numbers of the data."""
        if self.spec.tables is not None and self.spec.tables.agree_with is not None:
            raise ConditionError(
                "tables that agree with an earlier release are not simulated, for made-up records have not its tables;"
                " congenial plan says what the release will do"
            )
        workload = self.spec.workload
        places = workload.plan(workload.disclose(self.records)).made_up_records(replay_rng("made-up records"))
        cells = np.ravel_multi_index(tuple(places.T), workload.schema.shape)
        return replace(self, records=Records.of_cells(workload.schema, cells))


def panel_json(panel: WorkloadPanel, draft: str) -> dict[str, Any]:
    """Return what a page shows of a draft, as plain values and pieces of HTML."""
    spec, plan = panel.spec, panel.plan
    currency, amount = budget_of(spec)
    return {
        "digest": digest_of(draft),
        "text": draft,
        "is_bound": panel.is_bound,
        "noise": panel.noise,
        "error": panel.error,
        "cost": plan.spent.text,
        "currency": currency,
        "amount": amount,
        "noise_family": spec.noise,
        "method": spec.method,
        "invariants": render("invariants.html", stated=spec.invariants, conditions=spec.conditions),
        "tables": render("stated_tables.html", **stated_values(panel)),
        "html": render(
            "workload_panel.html",
            panel=panel,
            certificate=plan.certificate,
            picture=error_bars(bars, _WIDER * max(bar[2] for bar in bars)) if (bars := panel.bars()) else "",
        ),
    }


def stated_values(panel: WorkloadPanel) -> dict[str, Any]:
    """Return what a page lists of the tables of a draft: values of the template ``stated_tables.html``."""
    stated = panel.spec.tables
    return {
        "tables": panel.tables,
        "shares_by": panel.plan.shares_by if panel.plan.budget is not None else "",
        "shares": SHARES_IN_WORDS,
        "changes": panel.changes,
        "protects": "" if stated is None else stated.protects or "",
    }


def later_json(panel: WorkloadPanel) -> dict[str, Any]:
    """Return what takes longer to compute, as pieces of HTML."""
    try:
        sections, refused = panel.later_sections, ""
        panel.plan.check_samplers()
    except CongenialError as error:
        sections, refused = [], str(error)
    return {
        "html": render("later_sections.html", sections=sections, refused=refused, panel=panel),
        "error": panel.error,
    }
