"""From the text of a spec file to a `Spec`, or to every mistake in it at once."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from congenial.bundle.naming_and_versions import RowFilter
from congenial.conditions.base import Condition
from congenial.conditions.compile import compile_conditions
from congenial.conditions.queries import Query, cells
from congenial.errors import ConditionError, CongenialError, Mistake, SpecError, UndecidedError, did_you_mean, reason_of
from congenial.privacy.certificate_inputs import CONDITIONAL
from congenial.published_release import OUTPUTS
from congenial.schema import RecordSchema, Schema
from congenial.spec import yaml_and_mistakes as yaml_text
from congenial.spec.dimension_levels_and_public_lists import Levels, PublicRows, read_levels, schema_of
from congenial.spec.entries_and_sentences import Reader, Statement, files_in, read_by_area
from congenial.spec.spec_and_hierarchy import DataFiles, PrivacyUnit, Spec, check_levels_of, read_hierarchy, tree_noise
from congenial.spec.stated_tables import read_tables, record_schema_of
from congenial.spec.yaml_and_mistakes import KeyPath, Mistakes, checked_format

if TYPE_CHECKING:
    from congenial.spec.file_format import SpecFile

# The sections on dimensions, areas, data, row filters and privacy unit, checked against each other.


def _is_noted(section: str, mistakes: Mistakes) -> bool:
    """Whether a section stands in the file and was taken out because something in it is wrong."""
    return bool(mistakes.document.tree.get(section))


def read_dimensions(file: "SpecFile", mistakes: Mistakes) -> list[Levels] | None:
    """Return every dimension; None when one of them is mistaken, so that no mistake is reported twice."""
    if not file.dimensions:
        if not _is_noted("dimensions", mistakes):
            mistakes.add(("dimensions",), "a spec needs `dimensions:`, such as {sex: [female, male]}")
        return None
    levels_or_none = [
        read_levels(name, entry, mistakes, ("dimensions", name)) for name, entry in file.dimensions.items()
    ]
    complete = [levels for levels in levels_or_none if levels is not None]
    return complete if len(complete) == len(levels_or_none) else None


def read_areas(file: "SpecFile", mistakes: Mistakes) -> Levels | None:
    """Return the areas, if there is one table for each."""
    if file.by is None:
        return None
    if file.by.name is None and file.by.column is None:
        mistakes.add(("by", "name"), "areas need a `name:`, such as county")
        return None
    name = file.by.name or file.by.column or ""
    if name in file.dimensions:
        mistakes.add(("by", "name"), f"{name!r} is a dimension already; areas are not a dimension of their tables")
    return read_levels(name, file.by, mistakes, ("by",))


def read_data(file: "SpecFile", mistakes: Mistakes) -> DataFiles | None:
    """Return where the data are."""
    entry = file.data
    if entry is None:
        if not _is_noted("data", mistakes):
            mistakes.add(("data",), "a spec needs `data:` with a path and a kind")
        return None
    paths = [entry.path] if isinstance(entry.path, str) else entry.path
    if not paths:
        mistakes.add(("data", "path"), "data need a `path:`, the CSV or Parquet file")
    if entry.kind is None:
        mistakes.add(("data", "kind"), "data need a `kind:`, counts (one row a cell) or microdata (one row a record)")
    if entry.kind == "counts" and entry.count is None:
        mistakes.add(("data", "count"), "counts need a `count:`, the column that holds them")
    if entry.kind == "microdata":
        for key in ("count", "missing_cells"):
            if getattr(entry, key) is not None:
                mistakes.add(("data", key), f"`{key}` goes with `kind: counts`; in microdata each row counts once")
    if not paths or entry.kind is None:
        return None
    return DataFiles(
        tuple(paths), entry.kind, entry.count, entry.status, entry.missing_cells or "error", entry.separator
    )


def read_row_filters(file: "SpecFile", mistakes: Mistakes) -> tuple[RowFilter, ...]:
    """Return the row filters; under bounded neighbours, the column of a filter must be public."""
    public = [] if file.data is None else file.data.public_columns
    filters = []
    for column, entry in file.keep_rows.items():
        values = tuple(dict.fromkeys([entry] if isinstance(entry, str) else entry))
        if not values:
            mistakes.add(("keep_rows", column), "no value is named; name those that a kept row has")
        if column not in public and file.neighbours == "bounded":
            mistakes.add(
                ("keep_rows", column),
                f"column {column!r} is not declared public. Under bounded neighbours a record changes its value, and"
                " with another value here it would no longer be counted: the certificate does not cover that. If"
                f" everybody may know whose rows are kept, write `public_columns: [{column}]` under `data:`; if not,"
                " `neighbours: unbounded`, under which records come and go",
            )
        filters.append(RowFilter(column, values, column in public))
    areas = [] if file.by is None or not file.by.unpublished else [file.by.column or file.by.name]
    for place, column in enumerate(public):
        if column not in (*file.keep_rows, *areas):
            mistakes.add(
                ("data", "public_columns", place),
                f"{column!r} is no column of `keep_rows:`, nor of areas of which some are unpublished; a public column"
                " says whose rows are counted, and nothing else",
            )
    return tuple(filters)


def read_unit(file: "SpecFile", mistakes: Mistakes) -> PrivacyUnit | None:
    """Return whose privacy is protected; several rows a unit need a declared bound."""
    kind = None if file.data is None else file.data.kind
    if kind == "counts" and file.unit is not None:
        mistakes.add(("unit",), "`unit` goes with microdata; counts are taken to be counts of the units", at_key=True)
    if kind == "microdata" and file.unit is None and not _is_noted("unit", mistakes):
        mistakes.add(
            ("unit",),
            "microdata need a `unit:`, whose privacy is protected: {one_row_per: person} declares that each person has"
            " one row, {id: person_id, at_most: 3} bounds the rows of each id",
        )
    entry = file.unit
    if entry is None:
        return None
    if entry.one_row_per is None and entry.id is None:
        mistakes.add(("unit",), "a unit needs `one_row_per`, a word such as person, or `id`, a column")
    if entry.at_most is not None and entry.id is None:
        mistakes.add(("unit", "at_most"), "`at_most` needs an `id:`, the column by which rows are counted")
    if entry.one_row_per is not None and (entry.at_most or 1) > 1:
        mistakes.add(("unit", "at_most"), f"one row per {entry.one_row_per} contradicts at most {entry.at_most} rows")
    return PrivacyUnit(entry.one_row_per or "unit", entry.id, entry.at_most or 1)


def check_columns(
    mistakes: Mistakes,
    dimensions: list[Levels] | None,
    by: Levels | None,
    data: DataFiles | None,
    unit: PrivacyUnit | None,
) -> None:
    """Note columns of the data that the spec uses twice."""
    used: dict[str, str] = {}
    claims: list[tuple[str, str, KeyPath]] = [
        (levels.column, f"dimension {levels.name!r}", ("dimensions", levels.name, "column"))
        for levels in dimensions or ()
    ]
    if by is not None:
        claims.append((by.column, "the areas", ("by", "column")))
    if data is not None and data.count is not None:
        claims.append((data.count, "the counts", ("data", "count")))
    if unit is not None and unit.id_column is not None:
        claims.append((unit.id_column, "the unit's id", ("unit", "id")))
    for column, what, path in claims:
        if column in used:
            mistakes.add(path, f"column {column!r} is taken by {used[column]} already, and {what} needs its own")
        used.setdefault(column, what)


# Unpublished areas: where the certificate covers them, and nothing else discloses them.


def read_unpublished(
    file: "SpecFile", by: Levels | None, invariants: Sequence[Statement], schema: Schema | None, mistakes: Mistakes
) -> tuple[str, ...]:
    """Return the areas whose tables are not released; what makes that impossible is noted.

    Tables of areas do not add up to anything that is released, so the others say nothing of them but for one thing: a
    record that changes its area leaves the published tables. Under bounded neighbours no certificate covers that. It is
    out of the question where each published total is exact, for tables with other totals are not compared, and where
    the column is public.
    """
    if file.by is None or by is None or not file.by.unpublished:
        return ()
    left_out = tuple(dict.fromkeys(file.by.unpublished))
    for place, label in enumerate(file.by.unpublished):
        if label not in by.places:
            mistakes.add(
                ("by", "unpublished", place), f"{label!r} is not a {by.name}; {did_you_mean(label, by.labels)}"
            )
    if len(left_out) >= len(by.labels):
        mistakes.add(("by", "unpublished"), f"every {by.name} is left unpublished; nothing would be released")
    public = [] if file.data is None else file.data.public_columns
    if schema is None or file.neighbours != "bounded" or by.column in public:
        return left_out
    if not any(_fixes_total(statement.condition.of_area(by.labels[0]), schema) for statement in invariants):
        mistakes.add(
            ("by", "unpublished"),
            f"a person who moves to a {by.name} that is not published leaves the release, and under bounded neighbours"
            " the certificate does not cover that. Make the total of each exact (`invariants: [total]`); or write"
            f" `public_columns: [{by.column}]` under `data:`, if everybody may know who is where; or `neighbours:"
            " unbounded`, under which people come and go",
        )
    return left_out


def _fixes_total(query: Condition, schema: Schema) -> bool:
    """Whether sums that come out exactly add up to all cells."""
    rows = query.rows(schema) if isinstance(query, Query) and query.stated_range.is_free else []
    cells = [cell for row in rows if set(row.coefficients) == {1} for cell in row.cells]
    return sorted(cells) == list(range(schema.n_cells))


_LARGEST_BUDGET = 1_000
_MOST_DIMENSIONS = 32  # of an array, in older releases of numpy

Places = dict[KeyPath, KeyPath]


def load_spec(path: str | Path) -> Spec:
    """Read and check a spec file.

    Raises
    ------
    SpecError
        With every mistake in the file, each with its line and column.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            content = stream.read(yaml_text.LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "this is not a file name"
        message = f"the spec cannot be read: {reason}"
        raise SpecError([Mistake(str(path), 1, 1, "", message)]) from None
    return parse_spec(content, file.name, file.absolute().parent)


def parse_spec(content: bytes | str, file_name: str = "spec.yaml", folder: Path | None = None) -> Spec:
    """Check the text of a spec file.

    Parameters
    ----------
    folder : path, optional
        Where the public lists are that it names.

    Examples
    --------
    >>> spec = parse_spec('''
    ... release: demo
    ... data: {path: counts.csv, kind: counts, count: n}
    ... dimensions: {sex: [female, male], age: {levels: [0-17, 18-64, 65+], groups: {voting: {from: 18-64}}}}
    ... invariants: [total, total of voting]
    ... budget: {epsilon: 0.5}
    ... ''')
    >>> spec.mechanism
    Mechanism on Schema(sex: 2, age: 3; 6 cells)
      measured: cells() by budget, double_geometric noise
      exact: total(), total of voting
      budget: epsilon 0.5, bounded neighbours
    """
    document = yaml_text.parse(content, file_name, folder)
    mistakes = Mistakes(document)
    file, places = checked_format(document, mistakes)
    dimensions = read_dimensions(file, mistakes)
    by = read_areas(file, mistakes)
    data, unit, row_filters = read_data(file, mistakes), read_unit(file, mistakes), read_row_filters(file, mistakes)
    if file.release is None:
        mistakes.add(("release",), "a spec needs a `release:`, the name of this release")
    elif file.replaces == file.release:
        mistakes.add(
            ("replaces",), f"release {file.release!r} cannot replace itself; a corrected edition has a new name"
        )
    check_columns(mistakes, dimensions, by, data, unit)
    if not file.outputs and "outputs" in document.tree:
        mistakes.add(("outputs",), f"name at least one of {', '.join(map(repr, OUTPUTS))}, or leave outputs out")
    schema = _schema(dimensions, by, mistakes, is_of_records=bool(file.tables))
    measured: list[Query] = []
    invariants: list[Statement] = []
    conditions: list[Statement] = []
    if schema is not None:
        reader = Reader((*([by] if by is not None and file.tables else []), *(dimensions or ())), schema)
        measured = [] if file.tables else _measured(file, reader, mistakes, places)
        invariants = _statements(file.invariants, "invariants", reader.invariant, mistakes, places, by)
        conditions = _statements(file.conditions, "conditions", reader.condition, mistakes, places, by)
        check_levels_of(invariants, file, schema, mistakes)
    else:
        _check_sound_entries(file, mistakes, places)
    unpublished = read_unpublished(file, by, invariants, schema, mistakes)
    hierarchy = read_hierarchy(file, measured, mistakes)
    tables = read_tables(file, schema if isinstance(schema, RecordSchema) else None, mistakes)
    _check_amounts(file, mistakes)
    _check_rule(file, mistakes)
    if file.hierarchy is None and not file.tables:
        _check_budget(file, measured, mistakes)
    n_stated = sum(len(document.tree.get(section, ())) for section in ("invariants", "conditions"))
    if schema is not None and not file.tables and len(invariants) + len(conditions) == n_stated:
        _check_clash(schema, [*invariants, *conditions], mistakes)
    mistakes.raise_all()
    if data is None or file.release is None:  # noted as mistakes before
        raise SpecError([document.mistake((), "the spec is not complete")])
    spec = Spec(
        file_name=document.file_name,
        text=document.text,
        release=file.release,
        title=file.title or file.release,
        dataset=file.dataset or file.release,
        data=data,
        unit=unit,
        dimensions=tuple(dimensions or ()),
        by=by,
        measured=tuple(measured),
        invariants=tuple(invariants),
        conditions=tuple(conditions),
        noise=file.noise if hierarchy is None and tables is None else tree_noise(file, mistakes),
        epsilon=None if file.budget is None else file.budget.epsilon,
        delta=None if file.budget is None else file.budget.delta,
        rho=None if file.budget is None else file.budget.rho,
        neighbours=file.neighbours,
        outputs=tuple(dict.fromkeys(file.outputs)),
        hierarchy=hierarchy,
        row_filters=row_filters,
        unpublished=unpublished,
        replaces=file.replaces,
        method=file.method_in_use,
        rule=file.rule,
        tables=tables,
    )
    with mistakes.at(("measure",) if tables is None else ("tables",)):  # what cannot be measured together
        _ = spec.mechanism if tables is None else spec.workload
    mistakes.raise_all()
    return spec


def _check_rule(file: "SpecFile", mistakes: Mistakes) -> None:
    """Note a rule that there is not, or that the method has no use for."""
    if file.rule is None:
        return
    from congenial.rules.registry import rule_named

    with mistakes.at(("rule",)):
        if file.method_in_use == CONDITIONAL:
            raise ConditionError("a `rule` decides the tables of `method: measured`; a conditional release draws them")
        rule_named(file.rule)


def _schema(
    dimensions: list[Levels] | None, by: Levels | None, mistakes: Mistakes, *, is_of_records: bool
) -> Schema | None:
    if dimensions is None:
        return None
    names = [levels.name for levels in (*dimensions, *([] if by is None else [by]))]
    seen: dict[str, str] = {}
    for name in names:
        like = seen.setdefault(name.casefold(), name)
        if like != name:
            mistakes.add(
                ("dimensions",), f"{like!r} and {name!r} differ only in capitals, which Parquet readers mix up"
            )
    with mistakes.at(("dimensions",)):
        if len(dimensions) > _MOST_DIMENSIONS:
            raise ConditionError(f"there are {len(dimensions):,} dimensions and the limit is {_MOST_DIMENSIONS}")
        return record_schema_of(dimensions, by) if is_of_records else schema_of(dimensions)
    return None


def _measured(file: "SpecFile", reader: Reader, mistakes: Mistakes, places: Places) -> list[Query]:
    if file.measure is None:
        return [cells()]
    if not file.measure and "measure" in mistakes.document.tree and not places:
        mistakes.add(("measure",), "measure at least one query, such as `cells`, or leave `measure` out")
    queries: list[Query] = []
    for place, entry in enumerate(file.measure):
        with mistakes.at(places.get(("measure", place), ("measure", place))):
            queries.append(reader.measured(_plain_entry(entry)))
    open_ones = [query for query in queries if query.precision is None]
    if len({query.portion is None for query in open_ones}) > 1:
        mistakes.add(
            ("measure",),
            "some of the measured queries have a `portion` of the budget and others have none;"
            " give all of them a portion, or none",
        )
    return queries


def _statements(
    entries: Any, section: str, read: Any, mistakes: Mistakes, places: Places, by: Levels | None
) -> list[Statement]:
    statements = []
    for place, entry in enumerate(entries):
        path = places.get((section, place), (section, place))
        with mistakes.at(path):
            content = _plain_entry(entry)
            files: tuple[PublicRows, ...] = ()
            if not isinstance(content, str) and files_in(content):
                condition, files = read_by_area(content, read, by, mistakes.document.folder)
            else:
                condition = read(content)
            at = None
            if not isinstance(content, str):
                called, at = content.get("name") or condition.name, content.get("at")
                condition = replace(condition, name=called, mandate=content.get("mandate"))
            statements.append(Statement(condition, path, mistakes.document.values[path][0], at, files))
    return statements


def _check_sound_entries(file: "SpecFile", mistakes: Mistakes, places: Places) -> None:
    """Note mistakes of invariants while a dimension is mistaken: of those that name other dimensions, and no words."""
    sound = [
        levels
        for name, content in file.dimensions.items()
        if (levels := read_levels(name, content, Mistakes(mistakes.document), ("dimensions", name))) is not None
    ]
    unsure = set(file.dimensions) - {levels.name for levels in sound}
    if not sound or not unsure:  # what is wrong with all of them together is noted by itself
        return
    try:
        reader = Reader(tuple(sound), schema_of(sound))
    except CongenialError:
        return
    for place, entry in enumerate(file.invariants):
        content = _plain_entry(entry)
        where = None if isinstance(content, str) else content.get("total")
        if isinstance(where, dict) and not unsure & set(where) and not files_in(content):
            with mistakes.at(places.get(("invariants", place), ("invariants", place))):
                reader.invariant({"total": where})


def _plain_entry(entry: Any) -> Any:
    """Return an entry's words, or the keys that it has."""
    return entry if isinstance(entry, str) else {key: value for key, value in entry if value is not None}


def _check_amounts(file: "SpecFile", mistakes: Mistakes) -> None:
    """Refuse budgets that protect nobody, of tables and of trees."""
    for name in ("epsilon", "rho"):
        amount = None if file.budget is None else getattr(file.budget, name)
        if amount is not None and amount > _LARGEST_BUDGET:
            mistakes.add(("budget", name), f"a budget above {_LARGEST_BUDGET} protects nobody; most are below 10")


def _check_budget(file: "SpecFile", measured: list[Query], mistakes: Mistakes) -> None:
    from congenial.privacy.budget import Budget

    budget = file.budget
    is_open = any(query.precision is None for query in measured)
    if budget is None:
        if is_open and "budget" not in mistakes.document.tree:
            mistakes.add(("budget",), "a `budget:` is needed, such as {epsilon: 1}, or a `precision` for every query")
        return
    with mistakes.at(("budget",)):
        if Budget.of(epsilon=budget.epsilon, delta=budget.delta, rho=budget.rho, noise=file.noise) is None:
            raise ConditionError("a budget needs an `epsilon`, an `epsilon` and a `delta`, or a `rho`")
        if measured and not is_open:
            raise ConditionError("every measured query has a precision, so the budget has nothing to set; leave it out")


def _check_clash(schema: Schema, statements: list[Statement], mistakes: Mistakes) -> None:
    """Find stated values that no table obeys together, and point at the first statement that makes them clash."""
    stated = [statement for statement in statements if statement.condition.is_stated]
    error = _clash(schema, stated) if stated else None
    if error is None:
        return
    # Bounds first: one of them may allow the negative counts that another statement needs.
    n_bounding = sum(_bounds_cells(statement, schema) for statement in stated)
    ordered = sorted(stated, key=lambda statement: not _bounds_cells(statement, schema))
    counts = range(max(1, n_bounding), len(ordered))
    # More statements never mend a clash, so the first that makes one is found by halving.
    first = bisect_left(counts, True, key=lambda count: _clash(schema, ordered[:count]) is not None)
    mistakes.add(ordered[counts.start + first - 1].path, str(error))


def _bounds_cells(statement: Statement, schema: Schema) -> bool:
    return bool(statement.condition.bounded_cells(schema))


def _clash(schema: Schema, statements: list[Statement]) -> CongenialError | None:
    try:
        compile_conditions(schema, [statement.condition for statement in statements])
    except UndecidedError:  # the table will decide
        return None
    except CongenialError as error:
        return error
    return None
