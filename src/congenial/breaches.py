"""Where confidential tables break the conditions that are stated of them. An error names the condition only."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from congenial.conditions.areas import Area
from congenial.conditions.compile import claims_of
from congenial.mechanism import Mechanism, Tables
from congenial.table import Table


@dataclass(frozen=True)
class Breach:
    """One place where a table breaks a condition. Confidential, as the table is.

    Attributes
    ----------
    area : str or None
        Whose table it is; None where there is one.
    condition : str
        The condition in words, as the error names it.
    statistic : str
        The cell or the sum that breaks it.
    value : int
        The confidential count.
    needed : str
        What it must be, in words.
    """

    area: Area
    condition: str
    statistic: str
    value: int
    needed: str


def find_breaches(mechanism: Mechanism, tables: Tables) -> list[Breach]:
    """Return where tables break a mechanism's conditions, area by area; nothing when they obey all. Confidential.

    Parameters
    ----------
    tables : Table, or mapping from an area's label to its Table

    Examples
    --------
    >>> import congenial as cg
    >>> schema = cg.Schema({"sex": ["female", "male"]})
    >>> mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=[cg.bounds(0, 5)])
    >>> [breach.statistic for breach in find_breaches(mechanism, cg.Table(schema, [3, 9]))]
    ['sex=male']
    """
    return list(each_breach(mechanism, tables))


def each_breach(mechanism: Mechanism, tables: Tables) -> Iterator[Breach]:
    """Return the same one by one: there can be as many as there are cells. Confidential."""
    if isinstance(tables, Mapping):
        for area, table in tables.items():
            yield from _of_one(mechanism, area, table)
    else:
        yield from _of_one(mechanism, None, tables)


def _of_one(mechanism: Mechanism, area: Area, table: Table) -> Iterator[Breach]:
    counts = mechanism.counts_of(table).tolist()
    conditions = [condition.of_area(area) for condition in mechanism.invariants]
    for claim in claims_of(mechanism.schema, conditions, counts):
        for limited in claim.limits:
            value = limited.row.value(counts)
            if not limited.allows(value):
                needed = limited.limits.text.removeprefix("is ")
                yield Breach(area, claim.of, limited.row.name, value, needed)
