"""The tables of the same records that a spec names: `tables:`, `also_measure:`, shares and what is protected."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from congenial.conditions.queries import Query, cells, margin
from congenial.errors import ConditionError, did_you_mean
from congenial.privacy.certificate_inputs import CONDITIONAL
from congenial.schema import RecordSchema
from congenial.spec.dimension_levels_and_public_lists import Levels
from congenial.spec.yaml_and_mistakes import Mistakes
from congenial.workload.later import REVISE

if TYPE_CHECKING:
    from congenial.spec.file_format import AgreeEntry, RecordTableEntry, SpecFile


@dataclass(frozen=True)
class StatedTables:
    """What a spec says of several tables of the same records.

    Attributes
    ----------
    published : mapping from name to margin
    also_measured : mapping from name to margin
        Measured and not published.
    shares : str or None
        ``tables``, ``cells`` or ``portions``.
    protects : str or None
        The kind of change that the certificate is for.
    agree_with : AgreeEntry or None
        The bundle of an earlier release, relative to the folder of the spec, and how tables agree with it.
    """

    published: dict[str, Query]
    also_measured: dict[str, Query]
    shares: str | None
    protects: str | None
    agree_with: "AgreeEntry | None" = None


def record_schema_of(dimensions: Sequence[Levels], by: Levels | None) -> RecordSchema:
    """Return the schema of records; where there are areas, the area is the first dimension."""
    known = [*([] if by is None else [by]), *dimensions]
    ordered = {levels.name: levels.widths for levels in known if levels.is_ordered}
    groups = {levels.name: levels.groups for levels in known}
    return RecordSchema({levels.name: levels.labels for levels in known}, groups, ordered)


def read_tables(file: "SpecFile", schema: RecordSchema | None, mistakes: Mistakes) -> StatedTables | None:
    """Return the tables of the same records, if there are some; what they cannot have is noted."""
    if not file.tables:
        for key in ("also_measure", "shares", "protects", "agree_with"):
            if getattr(file, key):
                mistakes.add((key,), f"`{key}` goes with `tables:`, several tables of the same records")
        return None
    if file.measure is not None:
        mistakes.add(
            ("measure",),
            "`tables:` says what is measured, so leave `measure:` out; what is measured and not"
            " published goes to `also_measure:`",
            at_key=True,
        )
    if file.hierarchy is not None:
        mistakes.add(
            ("hierarchy",),
            "several tables down a tree are margins under `measure:` beside `hierarchy:`, without `tables:`",
            at_key=True,
        )
    if file.method == CONDITIONAL:
        mistakes.add(("method",), "several tables of the same records are measured: leave `method: conditional` out")
    if file.by is not None and file.by.unpublished:
        mistakes.add(
            ("by", "unpublished"), "tables of the same records add up over areas, so that none can be left out"
        )
    if file.unit is not None and (file.unit.at_most or 1) > 1:
        mistakes.add(("unit", "at_most"), "several tables are certified for units with one row each")
    if schema is None:
        return None
    published: dict[str, Query] = {}
    for name, entry in file.tables.items():
        with mistakes.at(("tables", name)):
            _, published[name] = _stated(entry, schema)
    also: dict[str, Query] = {}
    for place, entry in enumerate(file.also_measure):
        with mistakes.at(("also_measure", place)):
            names, query = _stated(entry, schema)
            name = "all dimensions" if len(names) == len(schema.names) else " x ".join(names)
            if name in also:
                raise ConditionError(f"{name} is listed twice; measure it once")
            also[name] = query
    shares = None if file.shares is None else file.shares.by
    if (agree := file.agree_with) is not None:
        if agree.bundle is None or agree.how is None:
            mistakes.add(("agree_with",), "say with which `bundle:` tables agree, and `how:`, keep or revise")
        elif agree.how == REVISE and agree.records is None:
            mistakes.add(
                ("agree_with", "how"),
                "to revise, the measurements of both releases are taken for those of the same records: add `records:"
                " unchanged` if that is so, otherwise `how: keep`",
            )
    return StatedTables(published, also, shares, file.protects, agree)


def _stated(entry: "list[str] | RecordTableEntry", schema: RecordSchema) -> tuple[Sequence[str], Query]:
    """Return dimensions and query of an entry: a list of dimensions, or `margin:` with a portion or a precision."""
    if isinstance(entry, list):
        return entry, margin(*_known(entry, schema))
    if entry.portion is not None and entry.precision is not None:
        raise ConditionError("give a `portion` of the budget or a `precision`, not both")
    if (entry.margin is None) == (entry.cells is None):
        raise ConditionError("a table is a `margin:` of some dimensions, or `cells: all`; name one of them")
    if entry.cells is not None:
        if entry.cells != "all":
            raise ConditionError(f"`cells: all` measures every combination, and this says {str(entry.cells)[:40]!r}")
        return schema.names, cells(portion=entry.portion, precision=entry.precision)
    names = _known([entry.margin] if isinstance(entry.margin, str) else entry.margin or [], schema)
    return names, margin(*names, portion=entry.portion, precision=entry.precision)


def _known(names: Sequence[str], schema: RecordSchema) -> Sequence[str]:
    for name in names:
        if name not in schema.names:
            raise ConditionError(f"{name!r} is not a dimension; {did_you_mean(name, schema.names)}")
    if len(set(names)) < max(1, len(names)):
        raise ConditionError("a table is over one dimension or more, each named once")
    return names
