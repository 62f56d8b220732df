"""The mechanism: which queries are measured, with what noise, and what must come out exactly. Public, no data in it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Ints
from congenial.bundle.naming_and_versions import Naming
from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.base import Condition, as_list
from congenial.conditions.compile import check_conditions
from congenial.conditions.constraints import Constraints
from congenial.conditions.queries import Query
from congenial.conditions.rows_and_intervals import Row
from congenial.decided_tables import rule_of, why_no_tables
from congenial.errors import (
    ConditionError,
    HierarchyError,
    PrivacyError,
    SamplingError,
    SuppressedError,
    UndecidedError,
)
from congenial.law import Law, PublicLaw, measured_rows
from congenial.measurement import MeasurementDrawing
from congenial.noise import DEFAULT
from congenial.plan import Plan
from congenial.privacy import check_relation
from congenial.privacy.budget import Budget
from congenial.privacy.certificate import Certificate
from congenial.privacy.certificate_inputs import CONDITIONAL, MEASURED
from congenial.privacy.compose_and_price_areas import Pricing
from congenial.published_release import Release
from congenial.release import Prepared, charge_and_draw, check_first, resume_and_draw
from congenial.request_to_plan import USUAL_RULE, BudgetRequest, TreeRequest, rule_in_use
from congenial.schema import Schema
from congenial.table import AreaTables, Table

if TYPE_CHECKING:
    from congenial.ledger import Ledger

Tables = Table | Mapping[str, Table]
"""One confidential table, or one for each area."""

_MOST_COUNTED = 2**37  # people in a tree, for which a rule has room
_ROOMY = 1_000  # records in every cell of the made-up table that `explain` uses when no constraints are given


class Releasable(ABC):
    """What a ledger is charged for: planned around confidential data, drawn once, published."""

    neighbours: str
    budget: Budget | None

    @abstractmethod
    def prepare(self, data: Any, naming: Naming, *, area: str = "area") -> Prepared:
        """Plan a release of confidential data, and see that it can be drawn. Nothing is charged, nothing drawn."""

    def release(
        self,
        data: Any,
        *,
        ledger: "Ledger",
        dataset: str,
        release: str,
        who: str,
        folder: str | Path | None = None,
        title: str | None = None,
        area: str = "area",
        unit: str = "person",
        replaces: str | None = None,
    ) -> Release:
        """Charge a ledger and draw one table for each unit: exactly once, never refunded.

        All that can be refused is refused before the charge. The charge is on disk before anything is drawn. A process
        that stops after it goes on with `resume`. From the first release on, a process leaves no core file.

        Parameters
        ----------
        data : Table, mapping from an area's label to its Table, or array (leaf, cell)
            Confidential; of a tree, its leaves in the order in which they were listed when the tree was made.
        ledger : Ledger
            What `open_ledger` returns; the dataset must be in it.
        dataset, release, who : str
            Whose budget is charged, the name of this release (new for the dataset), and who asks.
        folder : path, optional
            Where to write the bundle, a new folder. Without one the tables are in memory alone when this returns, and
            if the process ends before `release.write` they are lost, with what they cost.
        title : str, optional
            For readers; the release's name when not given.
        area : str
            What an area is called, such as county; a tree has names of its levels.
        unit : str
            What a protected unit is called in the report.
        replaces : str, optional
            An earlier release of the dataset that this one is the corrected edition of.

        Returns
        -------
        release : Release
            The plan, the receipt and the drawn tables; `release.write(folder)` writes their bundle.
        """
        naming = Naming(release, dataset, title or release, unit, replaces=replaces)
        check_first(ledger, naming, neighbours=self.neighbours, budget=self.budget)
        return charge_and_draw(self.prepare(data, naming, area=area), ledger=ledger, who=who, folder=folder)

    def resume(
        self,
        data: Any,
        *,
        ledger: "Ledger",
        dataset: str,
        release: str,
        folder: str | Path | None = None,
        title: str | None = None,
        area: str = "area",
        unit: str = "person",
        replaces: str | None = None,
    ) -> Release:
        """Go on with a `release` that was stopped after its charge, called the same way: the same tables, no charge."""
        naming = Naming(release, dataset, title or release, unit, replaces=replaces)
        return resume_and_draw(self.prepare(data, naming, area=area), ledger=ledger, folder=folder)


@dataclass(frozen=True, init=False, repr=False)
class Mechanism(Releasable):
    """The congenial mechanism M*: the noise's own law, conditioned on the invariants.

    Parameters
    ----------
    schema : Schema
    measure : queries
        What gets noise: `cells`, `total`, `margin`, `linear`, each with a precision, or a portion of the budget.
    tables : None
        Several tables of the same records are a `Workload`, which takes them; here they are refused.
    invariants : conditions
        What every released table obeys: queries without a precision come out at the confidential value.
    noise : str
        ``"double_geometric"`` (the default), ``"discrete_gaussian"``, or ``"laplace"`` for study.
    epsilon, delta, rho : str, int or Fraction, optional
        The total budget: epsilon, epsilon at a delta, or rho. It sets the precisions that were not given.
    neighbours : str
        ``"bounded"`` (one record changes its value) or ``"unbounded"`` (one record is added or removed).
    orders : str
        At which Renyi orders a budget in rho is kept: ``"integer"`` (2, 3, ...; enough for every epsilon at a delta) or
        ``"all"`` (ordinary zCDP, for other accountants).
    rows_per_unit : int
        How many records one protected unit (a person, a household) may have; the certificate covers all of them.
    method : str
        ``"conditional"`` (the default): tables are drawn given all conditions. ``"measured"``: measurements are
        published, true counts plus noise that keeps the exact numbers, with a table that a public rule decides.
    rule : str, optional
        Of a measured release, the rule; ``"nearest"`` if not given.

    Examples
    --------
    >>> import congenial as cg
    >>> schema = cg.Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    >>> mechanism = cg.Mechanism(schema, measure=[cg.cells()], invariants=[cg.margin("sex")], epsilon="1")
    >>> table = cg.Table(schema, [[30, 41], [11, 25]])
    >>> mechanism.law(table).sample(1, cg.replay_rng(1)).sum()
    np.int64(107)
    >>> mechanism.plan(mechanism.disclose(table)).certificate.loss <= 1
    True
    """

    schema: Schema
    noise: str
    neighbours: str
    queries: tuple[Query, ...]
    invariants: tuple[Condition, ...]
    classes: tuple[tuple[Row, ...], ...]
    budget: Budget | None
    rows_per_unit: int
    method: str
    rule: tuple[str, int] | None

    def __init__(
        self,
        schema: Schema,
        *,
        measure: Iterable[Query] | None = None,
        tables: object = None,
        invariants: Iterable[Condition] = (),
        noise: str = DEFAULT,
        epsilon: object = None,
        delta: object = None,
        rho: object = None,
        neighbours: str = "bounded",
        orders: str = "integer",
        rows_per_unit: int = 1,
        method: str = CONDITIONAL,
        rule: str | None = None,
    ) -> None:
        if not isinstance(schema, Schema):
            raise ConditionError(f"a mechanism needs a Schema first, not a {type(schema).__name__}")
        if tables is not None:
            raise ConditionError(
                "a Mechanism releases one table, or one for each area; several tables of the same records are a"
                " Workload: cg.Workload(schema, tables=..., invariants=..., rho=...)"
            )
        if measure is None:
            raise ConditionError("say what is measured, such as measure=[cells()]")
        if type(rows_per_unit) is not int or rows_per_unit < 1:
            raise PrivacyError(f"rows_per_unit is a whole number of records from 1 on, not {rows_per_unit!r}")
        queries, conditions = as_list(measure, "measure"), as_list(invariants, "invariants")
        values = {
            "schema": schema,
            "noise": noise,
            "neighbours": check_relation(neighbours),
            "queries": queries,
            "invariants": conditions,
            "classes": measured_rows(schema, queries, noise),
            "budget": Budget.of(epsilon=epsilon, delta=delta, rho=rho, orders=orders, noise=noise),
            "rows_per_unit": rows_per_unit,
            "method": method,
            "rule": rule_in_use(method, rule, USUAL_RULE),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        _check_budget(self.queries, self.budget)
        check_conditions(schema, self.invariants)

    @property
    def is_suppressed(self) -> bool:
        """Whether every precision is 0: nothing but the invariants is released (GM's M0)."""
        is_stated = all(query.precision == 0 for query in self.queries)
        return is_stated or (self.budget is not None and self.budget.is_nothing)

    @overload
    def disclose(self, tables: Table, *, area: str = "area") -> Constraints: ...

    @overload
    def disclose(self, tables: Mapping[str, Table], *, area: str = "area") -> Areas: ...

    @overload
    def disclose(self, tables: Tables, *, area: str = "area") -> Constraints | Areas: ...

    def disclose(self, tables: Tables, *, area: str = "area") -> Constraints | Areas:
        """Return S*: the invariants at the confidential table's values. These values are public from here on.

        Parameters
        ----------
        tables : Table, or mapping from an area's label to its Table
        area : str
            What an area is called, such as county.
        """
        if not isinstance(tables, Mapping):
            return Constraints.of(self.schema, self.invariants, self.counts_of(tables).tolist())
        return Areas.of_counts(self.schema, self.invariants, tuple(tables), self._counts_of_areas(tables), name=area)

    def pricing(self, constraints: Constraints | Areas) -> Pricing:
        """Return what a release under these constraints costs at any precisions."""
        areas = self._own_areas(constraints)
        return Pricing(areas, self.classes, self.noise, self.neighbours, self.rows_per_unit, self.method)

    def calibrate(self, constraints: Constraints | Areas) -> PublicLaw:
        """Return the law with every precision set: the largest that the budget certifies under these constraints.

        Examples
        --------
        >>> from congenial.examples import p12_mechanism, p12_table
        >>> mechanism = p12_mechanism(epsilon="1")
        >>> float(mechanism.calibrate(mechanism.disclose(p12_table())).queries[0].precision)
        0.39576
        """
        return self._request.plan(self._own_areas(constraints)).law

    def certificate(self, constraints: Constraints | Areas) -> Certificate:
        """Return what a release under these constraints costs at most. Public; suppression included."""
        return self._request.plan(self._own_areas(constraints)).certificate

    def plan(self, constraints: Constraints | Areas) -> Plan:
        """Return how a release under these constraints is sampled, and what it costs. Public.

        Examples
        --------
        >>> from congenial.examples import p12_mechanism, p12_table
        >>> mechanism = p12_mechanism()
        >>> plan = mechanism.plan(mechanism.disclose(p12_table()))
        >>> plan.is_exact, plan.certificate.kind, round(float(plan.certificate.gamma), 4)
        (True, 'limited_cells', 0.4899)
        """
        self._check_suppressed()
        return self._request.plan(self._own_areas(constraints))

    def likely_law(self, constraints: Constraints | Areas) -> PublicLaw:
        """Return about the law of the plan: noise to three digits where a proof takes long. To compare choices only."""
        self._check_suppressed()
        return self._request.likely_law(self._own_areas(constraints))

    @property
    def _request(self) -> BudgetRequest:
        facts = (self.schema, self.noise, self.queries, self.budget, self.neighbours, self.rows_per_unit)
        return BudgetRequest(*facts, self.method, self.rule)

    def explain(self, constraints: Constraints | None = None) -> str:
        """Return the whole account in words: precisions, cost, comparison with GM's halving, neighbours, meaning.

        Parameters
        ----------
        constraints : Constraints, optional
            Without them the account is that of a made-up table with 1,000 records in every cell.
        """
        if self.is_suppressed:
            return (
                "Suppression: nothing but the invariants is released. The knowledge is vacuous: every set of tables"
                " that obey them, but none and all, has lower probability 0 and upper probability 1."
            )
        if constraints is not None:
            return self.plan(constraints).explain()
        try:
            roomy = Constraints.of(self.schema, self.invariants, np.full(self.schema.n_cells, _ROOMY).tolist())
        except ConditionError:
            raise ConditionError(
                "the stated conditions do not fit the made-up table that explain() would use;"
                " call explain(mechanism.disclose(table)), which is public"
            ) from None
        return f"For a table with {_ROOMY:,} records in every cell:\n{self.plan(roomy).explain()}"

    def law(self, table: Table) -> Law:
        """Return the law that a release of this table is drawn from. Confidential."""
        self._check_suppressed()
        if self.method == MEASURED:
            raise SamplingError(
                "a measured release has no law of tables: its measurements are the true table plus noise whose law is"
                " the same for every table; plan(constraints).drawing draws them"
            )
        areas = Areas.one(self.disclose(table))
        return Law(self._request.plan(areas).law, table.counts)

    def prepare(self, tables: Tables, naming: Naming, *, area: str = "area") -> Prepared:
        """Plan a release of these tables, and see that it can be drawn. Nothing is charged, nothing drawn.

        Parameters
        ----------
        tables : Table, or mapping from an area's label to its Table
            Confidential.
        area : str
            What an area is called, such as county.
        """
        self._check_suppressed()
        if isinstance(tables, Mapping):
            areas = self.disclose(tables, area=area)
            counts = self._counts_of_areas(tables)
        else:
            areas, counts = Areas.one(self.disclose(tables)), tables.counts[None, :]
        plan = self._request.plan(areas)
        if self.method == MEASURED and rule_of(plan.law).learns and (reason := why_no_tables(plan.law)):
            raise SamplingError(f"no table could be made of these measurements: {reason}")
        plan.check_samplers()
        if isinstance(plan.drawing, MeasurementDrawing):
            plan.drawing.check_counts(counts)
        return Prepared(plan, naming, self.invariants, counts)

    def _check_suppressed(self) -> None:
        if self.is_suppressed:
            raise SuppressedError(
                "every precision is 0, which is suppression: nothing but the invariants is released, and there is"
                " no law to draw from; give a measured query a precision above 0, or raise the budget"
            )

    def _own_areas(self, constraints: Constraints | Areas) -> Areas:
        """Check that constraints are of this mechanism's own invariants, and return them area by area."""
        if not isinstance(constraints, Constraints | Areas):
            raise ConditionError(
                f"constraints are needed here, not a {type(constraints).__name__}: write mechanism.disclose(table),"
                " which is public"
            )
        areas = constraints if isinstance(constraints, Areas) else Areas.one(constraints)
        for group in areas.groups:
            self._check_own(group.pattern)
        return areas

    def _check_own(self, constraints: Constraints) -> None:
        """Refuse constraints that another mechanism's invariants made: their certificate would not be of this law."""
        if constraints.schema != self.schema:
            raise ConditionError(f"the constraints speak of {constraints.schema}, the mechanism of {self.schema}")
        origin = constraints.origin
        if origin is not None and len(origin) == len(self.invariants) and all(map(is_, origin, self.invariants)):
            return
        try:
            point = constraints.point
        except UndecidedError:
            raise ConditionError(
                "it is not decided whether these constraints come from this mechanism's invariants; use"
                " mechanism.disclose(table)"
            ) from None
        try:
            expected = Constraints.of(self.schema, self.invariants, point)
        except ConditionError:
            expected = None
        if (
            expected is None
            or (expected.lower, expected.upper) != (constraints.lower, constraints.upper)
            or not expected.same_rows(constraints)
        ):
            raise ConditionError(
                "these constraints are not those of the mechanism's own invariants"
                f" ({', '.join(condition.text for condition in self.invariants) or 'none'});"
                " use mechanism.disclose(table) of this mechanism"
            )

    def counts_of(self, table: object) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """Return the cells of a table, if it is one of the mechanism's schema. Confidential."""
        if not isinstance(table, Table):
            raise ConditionError(f"a Table of the mechanism's schema is needed, not a {type(table).__name__}")
        if table.schema != self.schema:
            raise ConditionError(f"the table's schema {table.schema} is not the mechanism's {self.schema}")
        return table.counts

    def _counts_of_areas(self, tables: Mapping[str, Table]) -> Ints:
        """Return the cells of the tables of areas (area, cell). Confidential."""
        if isinstance(tables, AreaTables) and tables.schema == self.schema:
            return tables.counts
        counts = [self.counts_of(table) for table in tables.values()]
        return np.stack(counts) if counts else np.zeros((0, self.schema.n_cells), np.int64)

    def __repr__(self) -> str:
        if self.is_suppressed:
            how = "suppression: nothing but the invariants is released"
        else:
            how = ", ".join(query.how for query in self.queries) + f", {self.noise} noise"
        exact = ", ".join(condition.text for condition in self.invariants) or "nothing"
        lines = [f"Mechanism on {self.schema}", f"measured: {how}", f"exact: {exact}"]
        if self.rule is not None:
            lines.append(f"method: measured, tables by the rule {self.rule[0]}")
        if self.budget is not None:
            lines.append(f"budget: {self.budget.text}, {self.neighbours} neighbours")
        return "\n  ".join(lines)


def _check_budget(queries: Sequence[Query], budget: Budget | None) -> None:
    open_ones = [query for query in queries if query.precision is None]
    if budget is None and open_ones:
        raise ConditionError(
            f'{open_ones[0].text} needs a precision, such as precision="1/2", or the mechanism a budget, epsilon="1"'
        )
    if budget is not None and not open_ones:
        raise ConditionError(
            f"every measured query has a precision of its own, so the budget of {budget.text} has nothing to set;"
            " leave out the budget, or the precision of a query that should take what is left"
        )


class Hierarchy(TreeRequest, Releasable):
    """A release of a tree of areas: the same is measured of the units of every level. Public: it has seen no table.

    The parameters are those of `TreeRequest`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import congenial as cg
    >>> tree = cg.Tree.of_prefixes(["1a", "1b", "2a"], {"county": 1}, "block")
    >>> hierarchy = cg.Hierarchy(tree, cg.Schema({"sex": ["f", "m"]}), invariants=[cg.total()], rho="1")
    >>> with TemporaryDirectory() as place:
    ...     ledger = cg.open_ledger(f"{place}/budget.db", create=True)
    ...     _ = ledger.create_dataset("town", rho="2", neighbours="bounded", who="Ada")
    ...     blocks = [[3, 4], [0, 1], [2, 2]]  # confidential
    ...     release = hierarchy.release(blocks, ledger=ledger, dataset="town", release="tree", who="Ada",
    ...                                 folder=f"{place}/tree")
    ...     bundle = cg.load_bundle(f"{place}/tree")
    >>> codes, counties = bundle.level("county")
    >>> codes, int(counties.sum()), bool((bundle.level("block")[1][2] == counties[1]).all())
    (('1', '2'), 12, True)
    """

    def prepare(self, leaves: ArrayLike, naming: Naming, *, area: str = "") -> Prepared:  # noqa: ARG002
        """Plan a release of a tree, and see that it can be drawn. Nothing is charged, nothing drawn.

        Parameters
        ----------
        leaves : array (leaf, cell)
            Confidential, in the order in which the leaves were listed when the tree was made.
        """
        return self.prepare_ordered(self.counts_of(leaves), naming)

    def tables_at_top(self, counts: Ints) -> AreaTables:
        """Return the tables of the units at the top, from leaves in the order of the tree. Confidential."""
        return AreaTables(self.schema, self.tree.texts(0), self.tree.summed(counts)[0])

    def prepare_ordered(self, counts: Ints, naming: Naming) -> Prepared:
        """Plan the same of leaves that are checked and in the order of the tree: see `counts_of`."""
        plan = self.plan(self.disclose(counts))
        plan.check_samplers()
        _ = plan.certificate
        if self.method == MEASURED:
            self._check_measured(plan, counts)
        return Prepared(plan, naming, tuple(self.invariants), counts)

    def _check_measured(self, plan: Plan, counts: Ints) -> None:
        """Refuse, before anything is charged, what the rule makes no tables of."""
        if float(counts.sum(dtype=np.float64)) >= _MOST_COUNTED:
            raise HierarchyError(
                f"counts of a measured tree add up to less than {_MOST_COUNTED:,}: the rule computes with whole numbers"
                " of 64 bits, in parts of a millionth; release parts of the tree by themselves, or write"
                " method: conditional"
            )
        if reason := why_no_tables(plan.law):
            raise HierarchyError(f"the rule {(plan.law.rule or ('',))[0]} has no tables for this tree: {reason}")
