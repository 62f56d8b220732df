"""The format of a spec file, key by key: what pydantic checks and what the JSON Schema for editors says.

Every scalar arrives as text. Keys that are needed are checked by meaning later, so that one broken part does not hide
what is wrong with the others; the JSON Schema does list them.
"""

import json
import re
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    create_model,
)

from congenial.conditions.base import OF_EVERY_ENTRY, Key, SpecList
from congenial.conditions.registry import kinds_of
from congenial.exact import exact_fraction, positive_fraction
from congenial.noise import DEFAULT, FAMILIES
from congenial.privacy import RELATIONS
from congenial.privacy.certificate_inputs import MEASURED, METHODS, USUAL_METHOD, USUAL_METHOD_OF_TREES
from congenial.published_release import OUTPUTS
from congenial.safe_text import LONGEST, explain_hidden

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
TO_FILL_IN = "FILL IN"
"""What the starter spec leaves open; it is refused wherever it stands."""


def _readable(text: str) -> str:
    if wrong := explain_hidden(text, f"{text[:40]!r}"):
        raise ValueError(wrong)
    if not text.strip():
        raise ValueError("this is empty; write some text")
    if TO_FILL_IN in text:
        raise ValueError("this is still to be filled in")
    if len(text) > LONGEST:
        raise ValueError(f"this text has {len(text):,} characters and the limit is {LONGEST:,}")
    return text


def _code(text: str) -> str:
    if not text:
        raise ValueError("an empty code is none; for rows without a value write `empty: not stated` beside `levels:`")
    return _readable(text)


def _name(text: str) -> str:
    if TO_FILL_IN in text:
        raise ValueError("this is still to be filled in")
    if not _NAME.fullmatch(text):
        raise ValueError(
            f"{text[:70]!r} is not a name of letters, digits, dots, dashes and underscores, at most 64, letter or digit"
            " first; it becomes part of file names"
        )
    return text


def _number(text: object) -> Fraction:
    if text == TO_FILL_IN:
        raise ValueError("this is still to be filled in")
    return exact_fraction(text, "this")


def _whole(text: object) -> object:
    if isinstance(text, str) and re.fullmatch(r"[+-]?[0-9]{1,19}", text, re.ASCII):
        return int(text)
    raise ValueError(f"{str(text)[:40]!r} is not a whole number such as 12")


def _positive(number: int) -> int:
    if number < 1:
        raise ValueError(f"{number} is below 1, the least that makes sense here")
    return number


def _limit(text: object) -> object:
    return text if text == "none" else _whole(text)


def _truth(text: object) -> object:
    if text in ("true", "false"):  # it may be a list, which no set can look up
        return text == "true"
    raise ValueError(f"{str(text)[:40]!r} is not one of 'true', 'false'")


def _separator(text: str) -> str:
    separator = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}.get(text)
    if separator is None:
        raise ValueError(f"{text[:40]!r} is not one of 'comma', 'semicolon', 'tab', 'bar'")
    return separator


_SCALAR = {"type": ["string", "number", "boolean"]}  # editors read 010 as a number; here it stays text
_NUMBER = {"type": ["string", "number"], "description": "an exact number: 1/2, 0.5 or 1e-10"}
_INTEGER = {"type": ["string", "integer"]}

Text = Annotated[str, AfterValidator(_readable), WithJsonSchema(_SCALAR)]
Name = Annotated[str, AfterValidator(_name), WithJsonSchema({**_SCALAR, "pattern": f"^{_NAME.pattern}$"})]
Number = Annotated[Fraction, BeforeValidator(_number), WithJsonSchema(_NUMBER)]
Positive = Annotated[Fraction, BeforeValidator(lambda text: positive_fraction(text, "this")), WithJsonSchema(_NUMBER)]
Whole = Annotated[int, BeforeValidator(_whole), WithJsonSchema(_INTEGER)]
AtLeastOne = Annotated[int, BeforeValidator(_whole), AfterValidator(_positive), WithJsonSchema(_INTEGER)]
Limit = Annotated[int | Literal["none"], BeforeValidator(_limit), WithJsonSchema(_INTEGER)]
Truth = Annotated[bool, BeforeValidator(_truth), WithJsonSchema({"type": "boolean"})]
Separator = Annotated[str, AfterValidator(_separator), WithJsonSchema({"enum": ["comma", "semicolon", "tab", "bar"]})]


def _shape(value: object) -> str:
    if isinstance(value, str):
        return "<text>"
    return "<list>" if isinstance(value, list) else "<mapping>"


def _levels_shape(value: object) -> str:
    return "<file>" if isinstance(value, dict) and "file" in value else _shape(value)


# A short and a long form of one thing; pydantic is told which by the shape, so that it complains about one only.
_SHAPE = Discriminator(_shape)
Texts = Annotated[Annotated[Text, Tag("<text>")] | Annotated[list[Text], Tag("<list>")], _SHAPE]
Selection = Annotated[Annotated[Text, Tag("<text>")] | Annotated[dict[Text, Texts], Tag("<mapping>")], _SHAPE]
_CODES = {"type": "object", "additionalProperties": _SCALAR, "not": {"required": ["file"]}}
Codes = Annotated[dict[Annotated[str, AfterValidator(_code)], Text], WithJsonSchema(_CODES)]


class SpecSection(BaseModel):
    """A section of the file: keys that it does not know are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class ListEntry(SpecSection):
    """A public file with a row for every level."""

    file: Text | None = Field(None, description="CSV, packed by gzip or not; from the folder of the spec")
    code: Text | None = Field(None, description="its column of codes, as the data have them; the name if not said")
    label: Text | None = Field(None, description="its column of labels; the codes if not said")
    separator: Separator = Field(",", description="between the columns of the file")


class AreaListEntry(ListEntry):
    """A public file with a row for every area."""

    parent: Text | None = Field(None, description="its column of what an area is part of, to find areas in the report")


def _levels_or(entry: Any) -> Any:
    listed, codes = Annotated[list[Text], Tag("<list>")], Annotated[Codes, Tag("<mapping>")]
    return Annotated[listed | codes | Annotated[entry, Tag("<file>")], Discriminator(_levels_shape)]


class DataEntry(SpecSection):
    """Where the confidential data are and how to read them."""

    path: Texts | None = Field(
        None, description="CSV, .csv.gz or Parquet: a file, a list of files, or a pattern with *"
    )
    kind: Literal["counts", "microdata"] | None = Field(None, description="one row a cell, or one row a record")
    count: Text | None = Field(None, description="the column of counts (kind: counts)")
    status: Literal["confidential", "public", "simulated"] = "confidential"
    missing_cells: Literal["zero", "error"] | None = Field(None, description="what a cell without a row means")
    separator: Separator = Field(",", description="between the columns of a CSV file")
    public_columns: list[Text] = Field([], description="columns of keep_rows: everybody may know whose rows are kept")


class UnitEntry(SpecSection):
    """Whose privacy is protected, and in how many rows of microdata one of them may appear."""

    one_row_per: Text | None = Field(None, description="a word such as person: declares that each has one row")
    id: Text | None = Field(None, description="the column that says who a row belongs to; it is checked")
    at_most: AtLeastOne | None = Field(None, description="rows that one id may have; 1 if not said")


class RangeEntry(SpecSection):
    """Levels from one to another, in the declared order."""

    start: Text | None = Field(None, alias="from")
    end: Text | None = Field(None, alias="to")


Group = Annotated[
    Annotated[Text, Tag("<text>")] | Annotated[list[Text], Tag("<list>")] | Annotated[RangeEntry, Tag("<mapping>")],
    _SHAPE,
]


class DimensionEntry(SpecSection):
    """One dimension of the table."""

    column: Text | None = Field(None, description="the column in the data; the dimension's name if not said")
    levels: _levels_or(ListEntry) | None = Field(  # type: ignore[valid-type]
        None, description="every level, a mapping from codes in the data to labels, or a file"
    )
    cut: list[Number] | None = Field(None, description="ends of half-open intervals of a numeric column")
    below: Truth = Field(False, description="whether values below the first cut are a level of their own")
    empty: Text | None = Field(None, description="the label of a last level, for rows that have no value")
    groups: dict[Text, Group] = Field({}, description="named sets of levels")
    ordered: Truth = Field(False, description="whether neighbouring levels are alike, as ages are")


class AreaEntry(SpecSection):
    """One table for each area."""

    name: Text | None = None
    column: Text | None = Field(None, description="the column in the data; the name if not said")
    levels: _levels_or(AreaListEntry) | None = Field(  # type: ignore[valid-type]
        None, description="every area, a mapping from codes in the data to labels, or a file"
    )
    empty: Text | None = Field(None, description="the label of a last area, for rows that name none")
    unpublished: list[Text] = Field([], description="labels of areas whose tables are not released")


class LevelEntry(SpecSection):
    """A level of a tree above its leaves."""

    prefix: AtLeastOne | None = Field(None, description="how many letters of a leaf's code are the unit's")
    column: Text | None = Field(None, description="the column of the file with the unit's code")


class AcrossEntry(SpecSection):
    """Areas that cross a tree, each some of its leaves: they are measured as well."""

    name: Text | None = Field(None, description="what an area is called, such as district")
    column: Text | None = Field(
        None, description="the column with each leaf's area, empty for none; the areas' name if not said"
    )
    file: Text | None = Field(None, description="a public list of leaves and areas; the list of leaves if not said")
    portion: Positive | None = Field(None, description="of the budget, a tenth if not said; the levels share the rest")


class TreeEntry(SpecSection):
    """A tree of areas that add up: one table for each unit of each level."""

    file: Text | None = Field(None, description="the public list of all leaves, those without anybody included")
    leaf: Text | None = Field(None, description="what a leaf is called, such as block")
    code: Text | None = Field(
        None, description="the column of the leaves' codes in the file; the leaf's name if not said"
    )
    column: Text | None = Field(
        None, description="the column of the leaves' codes in the data; the leaf's name if not said"
    )
    levels: dict[Text, LevelEntry] = Field({}, description="above the leaves, the top first")
    separator: Separator = Field(",", description="between the columns of the file")
    uninhabited: Text | None = Field(None, description="a column of the file: 1 or true where nobody can be")
    unpublished: list[Text] = Field([], description="not possible in a tree: what is left out is a difference")
    shares: dict[Text, Positive] | None = Field(None, description="of the budget by level; the leaves 0.3 if not said")
    across: AcrossEntry | None = Field(None, description="areas that cross the tree, which are measured as well")


class ValuesEntry(SpecSection):
    """Values that differ by area, in a public file."""

    file: Text | None = Field(None, description="CSV, packed by gzip or not; from the folder of the spec")
    code: Text | None = Field(None, description="its column of areas' codes; the name of the areas if not said")
    value: Texts | None = Field(None, description="its column of values; a list of columns for a margin")
    separator: Separator = Field(",", description="between the columns of the file")


def _or_values(plain: Any) -> Any:
    """Return a type of plain values, or a file of them."""
    shape = Discriminator(lambda value: "<file>" if _levels_shape(value) == "<file>" else "<text>")
    return Annotated[Annotated[plain, Tag("<text>")] | Annotated[ValuesEntry, Tag("<file>")], shape]


Stated = Annotated[Any, WithJsonSchema({"type": ["string", "number", "array"]})]


class TermEntry(SpecSection):
    """One term of a linear combination of cells."""

    times: Whole | None = None
    of: Selection | None = None


_SHAPES: dict[str, Any] = {
    "cells": Selection,
    "dimensions": Texts,
    "terms": list[TermEntry],
    "values": _or_values(Stated),
    "limit": _or_values(Limit),
    "positive": Positive,
    "number": Number,
    "text": Text,
}


def entry_model(stands_in: SpecList) -> type[SpecSection]:
    """Return the keys that an entry of a list may have, as the kinds of conditions name them."""
    keys: dict[str, tuple[Key, list[str]]] = {}
    kinds = kinds_of(stands_in)
    for kind in kinds:
        for name, key in kind.keys[stands_in].items():
            keys.setdefault(name, (key, []))[1].append(kind.word)
    words = [kind.word for kind in kinds]
    fields: dict[str, Any] = {}
    for name, (key, owners) in keys.items():
        beside = None if name in words or set(owners) == set(words) else f"with {' or '.join(owners)}"
        described = ": ".join(text for text in (beside, key.meaning) if text)
        fields[name] = (_SHAPES[key.shape] | None, Field(None, description=described or None))
    for name, key in OF_EVERY_ENTRY[stands_in].items():
        fields[name] = (_SHAPES[key.shape] | None, Field(None, description=key.meaning))
    title, about = _ENTRIES[stands_in]
    return create_model(title, __base__=SpecSection, __doc__=about, **fields)


_ENTRIES: dict[SpecList, tuple[str, str]] = {
    "measure": ("MeasuredEntry", "A query that gets noise."),
    "invariants": ("InvariantEntry", "What comes out exactly."),
    "conditions": ("ConditionEntry", "What is known of every table without looking at the data."),
}
ENTRY_MODELS: dict[str, type[SpecSection]] = {stands_in: entry_model(stands_in) for stands_in in _ENTRIES}


class RecordTableEntry(SpecSection):
    """One of several tables of the same records."""

    margin: Texts | None = Field(None, description="the dimensions of the table")
    cells: Text | None = Field(None, description="`all`, for every combination of all dimensions")
    portion: Positive | None = Field(
        None, description="of the budget, relative to those of other tables; under also_measure, of all of it"
    )
    precision: Number | None = Field(None, description="of its noise, in place of a budget")


class SharesEntry(SpecSection):
    """How several tables share the budget."""

    by: Literal["tables", "cells", "portions"] = Field(
        "tables", description="every table counts the same, or every cell; or each has the portion that it says"
    )


class AgreeEntry(SpecSection):
    """The earlier release that tables of the same records agree with."""

    bundle: Text | None = Field(None, description="the folder of its bundle, from the folder of the spec")
    how: Literal["keep", "revise"] | None = Field(
        None, description="keep: its published tables are held; revise: tables of both releases are computed anew"
    )
    records: Literal["unchanged"] | None = Field(
        None, description="declares that these are the records of the earlier release: measurements of both are used"
    )


class BudgetEntry(SpecSection):
    """What the release may cost in total."""

    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None


def _words_or(model: Any) -> Any:
    return Annotated[Annotated[Text, Tag("<text>")] | Annotated[model, Tag("<mapping>")], _SHAPE]


def _list_or(model: Any) -> Any:
    return Annotated[Annotated[list[Text], Tag("<list>")] | Annotated[model, Tag("<mapping>")], _SHAPE]


# A type checker cannot see through these.
_Relation: Any = Literal[RELATIONS]
_Output: Any = Literal[OUTPUTS]
_Method: Any = Literal[METHODS]
_Noise: Any = Literal[tuple(name for name, family in FAMILIES.items() if family.is_for_release)]


class SpecFile(SpecSection):
    """A release of tables under differential privacy with some numbers exact."""

    model_config = ConfigDict(json_schema_extra={"required": ["release", "data", "dimensions"]})

    release: Name | None = Field(None, description="the name of this release, unique for its dataset")
    title: Text | None = None
    dataset: Name | None = Field(None, description="whose budget is charged; the release's name if not said")
    replaces: Name | None = Field(None, description="the earlier release that this one is the corrected edition of")
    data: DataEntry | None = None
    keep_rows: dict[Text, Texts] = Field({}, description="columns of the data with the values that a counted row has")
    unit: UnitEntry | None = None
    dimensions: dict[
        Text, Annotated[Annotated[list[Text], Tag("<list>")] | Annotated[DimensionEntry, Tag("<mapping>")], _SHAPE]
    ] = {}
    by: AreaEntry | None = None
    hierarchy: TreeEntry | None = None
    tables: dict[Text, _list_or(RecordTableEntry)] = Field(  # type: ignore[valid-type]
        {}, description="several tables of the same records, by name: they are measured together, and agree"
    )
    also_measure: list[_list_or(RecordTableEntry)] = Field(  # type: ignore[valid-type]
        [], description="tables of the same records that are measured and not published"
    )
    shares: SharesEntry | None = None
    protects: Text | None = Field(
        None, description="with tables: one record, two that exchange, any 2 records; the certificate is for such"
    )
    agree_with: AgreeEntry | None = Field(None, description="with tables: an earlier release that they agree with")
    measure: list[_words_or(ENTRY_MODELS["measure"])] | None = None  # type: ignore[valid-type]
    invariants: list[_words_or(ENTRY_MODELS["invariants"])] = []  # type: ignore[valid-type]
    conditions: list[_words_or(ENTRY_MODELS["conditions"])] = []  # type: ignore[valid-type]
    method: _Method | None = Field(
        None,
        description="conditional: tables are drawn; measured: tables are decided. If not said, conditional, and"
        " measured with a hierarchy",
    )
    rule: Text | None = Field(
        None, description="how a measured release decides its tables; nearest if not said, gls with a hierarchy"
    )
    noise: _Noise = DEFAULT
    budget: BudgetEntry | None = None
    neighbours: _Relation = RELATIONS[0]
    outputs: list[_Output] = list(OUTPUTS)

    @property
    def method_in_use(self) -> str:
        """The method that the spec names, or the usual one."""
        if self.tables:
            return str(self.method or MEASURED)
        return str(self.method or (USUAL_METHOD if self.hierarchy is None else USUAL_METHOD_OF_TREES))


# The JSON Schema of spec files, for editors that complete and check YAML while it is written.


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a spec file.

    Examples
    --------
    >>> json_schema()["required"]
    ['release', 'data', 'dimensions']
    """
    from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

    class WithoutNull(GenerateJsonSchema):
        """A key that may be left out is not one that may be null."""

        def nullable_schema(self, schema: Any) -> JsonSchemaValue:
            return self.generate_inner(schema["schema"])

        def default_schema(self, schema: Any) -> JsonSchemaValue:
            inner = super().default_schema(schema)
            if inner.get("default", "") is None:
                del inner["default"]
            return inner

    generated = SpecFile.model_json_schema(by_alias=True, schema_generator=WithoutNull)
    return {"$schema": GenerateJsonSchema.schema_dialect, **generated, "title": "congenial spec"}


def json_schema_text() -> str:
    """Return the schema as it is published in ``docs/spec.schema.json``."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
