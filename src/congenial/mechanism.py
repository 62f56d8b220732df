"""The mechanism: which queries are measured, with what noise, and what must come out exactly. Public, no data in it."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from congenial.conditions.compile import compile_conditions
from congenial.conditions.constraints import Constraints
from congenial.conditions.queries import Bounds, Condition, Query, Share, as_list
from congenial.errors import ConditionError, SuppressedError, UndecidedError
from congenial.law import Law
from congenial.noise import FAMILIES, Suppression, make_noise
from congenial.sampling.layout import Engine
from congenial.sampling.plan import Plan
from congenial.sampling.system import System
from congenial.sampling.target import Measured, Target
from congenial.schema import Schema
from congenial.table import Table


class Mechanism:
    """The congenial mechanism M*: the noise's own law, conditioned on the invariants.

    Parameters
    ----------
    schema : Schema
    measure : queries
        What gets noise: `cells`, `total`, `margin`, `linear`, each with a precision.
    invariants : conditions
        What every released table obeys: queries without a precision come out at the confidential value.
    noise : str
        ``"double_geometric"`` (the default), ``"discrete_gaussian"``, or ``"laplace"`` for study.

    Examples
    --------
    >>> import congenial as cg
    >>> schema = cg.Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    >>> mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/2")], invariants=[cg.margin("sex")])
    >>> table = cg.Table(schema, [[3, 4], [1, 2]])
    >>> mechanism.law(table).sample(1, cg.replay_rng(1)).sum()
    np.int64(10)
    """

    def __init__(
        self,
        schema: Schema,
        *,
        measure: Iterable[Query],
        invariants: Iterable[Condition] = (),
        noise: str = "double_geometric",
    ) -> None:
        if not isinstance(schema, Schema):
            raise ConditionError(f"a mechanism needs a Schema first, not a {type(schema).__name__}")
        self.schema = schema
        self.noise = noise
        self.queries = as_list(measure, "measure")
        self.invariants = as_list(invariants, "invariants")
        self.measured = _measured(schema, self.queries, noise)
        _check_conditions(schema, self.invariants)

    @property
    def is_suppressed(self) -> bool:
        """Whether every precision is 0: nothing but the invariants is released (GM's M0)."""
        return not self.measured

    def disclose(self, table: Table) -> Constraints:
        """Return S*: the invariants at the confidential table's values. These values are public from here on."""
        return Constraints.of(self.schema, self.invariants, self._counts(table))

    def plan(self, constraints: Constraints) -> Plan:
        """Return how a release under these constraints is sampled, and what it takes. Public.

        Examples
        --------
        >>> from congenial.examples import p12_mechanism, p12_table
        >>> mechanism = p12_mechanism()
        >>> print(mechanism.plan(mechanism.disclose(p12_table())))
        4 groups of cells, width 1, about 7,957 states, exact
        """
        self._check_suppressed()
        return Engine.of(System.of(constraints, self.measured)).plan

    def _check_suppressed(self) -> None:
        if self.is_suppressed:
            raise SuppressedError(
                "every precision is 0, which is suppression: nothing but the invariants is released, and there is"
                " no law to draw from; give a measured query a precision above 0"
            )

    def law(self, table: Table) -> Law:
        """Return the law that a release of this table is drawn from. Confidential."""
        self._check_suppressed()
        return Law(Target(self.disclose(table), self.measured, table.counts))

    def _counts(self, table: Table) -> Sequence[int]:
        if not isinstance(table, Table):
            raise ConditionError(f"a Table of the mechanism's schema is needed, not a {type(table).__name__}")
        if table.schema != self.schema:
            raise ConditionError(f"the table's schema {table.schema} is not the mechanism's {self.schema}")
        return [int(count) for count in table.counts]

    def __repr__(self) -> str:
        if self.is_suppressed:
            how = "suppression: nothing but the invariants is released"
        else:
            how = ", ".join(f"{q.text} at precision {q.precision}" for q in self.queries) + f", {self.noise} noise"
        exact = ", ".join(condition.text for condition in self.invariants) or "nothing"
        return f"Mechanism on {self.schema}\n  measured: {how}\n  exact: {exact}"


def _measured(schema: Schema, queries: Sequence[Query], noise: str) -> tuple[Measured, ...]:
    if noise not in FAMILIES:
        make_noise(noise, 1)  # raises with the known names
    if not queries:
        raise ConditionError('measure at least one query, for example measure=[cells(precision="1/2")]')
    out: list[Measured] = []
    for query in queries:
        if not isinstance(query, Query):
            raise ConditionError(f"measure takes cells, total, margin or linear, not a {type(query).__name__}")
        if query.is_stated:
            raise ConditionError(
                f"{query.text} has a stated value, so it is exact, not measured; move it to invariants=[...]"
            )
        if query.precision is None:
            raise ConditionError(f'{query.text} needs a precision, for example precision="1/2"')
        law = make_noise(noise, query.precision)
        if not isinstance(law, Suppression):
            out += [Measured(row, law) for row in query.rows(schema)]
    return tuple(out)


def _check_conditions(schema: Schema, conditions: Sequence[Condition]) -> None:
    """Find what is wrong with the conditions before any table is seen: labels, shapes, stated values that clash."""
    stated: list[Condition] = []
    for condition in conditions:
        if isinstance(condition, Query) and not condition.is_stated:
            if condition.precision is None:
                condition.rows(schema)
                continue
        elif isinstance(condition, Share) and condition.equals is None:
            condition.part(schema)
            continue
        elif isinstance(condition, Bounds):
            schema.cells(condition.where)
        stated.append(condition)
    if stated:
        # What cannot be decided here is decided by the table, which must obey its own conditions.
        with suppress(UndecidedError):
            compile_conditions(schema, stated)
