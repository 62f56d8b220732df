"""From the text of a spec file to a `Spec`, or to every mistake in it at once."""

from bisect import bisect_left
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from congenial.conditions.compile import compile_conditions
from congenial.conditions.queries import Query, cells
from congenial.errors import ConditionError, CongenialError, Mistake, SpecError, UndecidedError, reason_of
from congenial.released import OUTPUTS
from congenial.schema import Schema
from congenial.spec import yaml_text
from congenial.spec.area_values import files_in, read_by_area
from congenial.spec.conditions import Reader, Statement
from congenial.spec.levels import Levels, declared, schema_of
from congenial.spec.mistakes import Mistakes, checked_format
from congenial.spec.public_csv import PublicRows
from congenial.spec.sections import check_columns, read_areas, read_data, read_dimensions, read_kept, read_unit
from congenial.spec.spec import DataFiles, PrivacyUnit, Spec
from congenial.spec.tree import check_levels_of, read_hierarchy, tree_noise
from congenial.spec.unpublished import read_unpublished

if TYPE_CHECKING:
    from congenial.spec.model import SpecFile

_LARGEST_BUDGET = 1_000
_MOST_DIMENSIONS = 32  # of an array, in older releases of numpy

Places = dict[yaml_text.Path, yaml_text.Path]


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
    data, unit, kept = read_data(file, mistakes), read_unit(file, mistakes), read_kept(file, mistakes)
    if file.release is None:
        mistakes.add(("release",), "a spec needs a `release:`, the name of this release")
    elif file.replaces == file.release:
        mistakes.add(
            ("replaces",), f"release {file.release!r} cannot replace itself; a corrected edition has a new name"
        )
    check_columns(mistakes, dimensions, by, data, unit)
    if not file.outputs and "outputs" in document.tree:
        mistakes.add(("outputs",), f"name at least one of {', '.join(map(repr, OUTPUTS))}, or leave outputs out")
    schema = _schema(dimensions, by, mistakes)
    measured: list[Query] = []
    invariants: list[Statement] = []
    conditions: list[Statement] = []
    if schema is not None:
        reader = Reader(tuple(dimensions or ()), schema)
        measured = _measured(file, reader, mistakes, places)
        invariants = _statements(file.invariants, "invariants", reader.invariant, mistakes, places, by)
        conditions = _statements(file.conditions, "conditions", reader.condition, mistakes, places, by)
        check_levels_of(invariants, file, schema, mistakes)
    else:
        _check_sound_entries(file, mistakes, places)
    unpublished = read_unpublished(file, by, invariants, schema, mistakes)
    hierarchy = read_hierarchy(file, measured, mistakes)
    if file.hierarchy is None:
        _check_budget(file, measured, mistakes)
    elif file.budget is None and "budget" not in document.tree:
        mistakes.add(("budget",), "a `budget:` is needed, such as {rho: 1/2}")
    n_stated = sum(len(document.tree.get(section, ())) for section in ("invariants", "conditions"))
    if schema is not None and len(invariants) + len(conditions) == n_stated:
        _check_clash(schema, [*invariants, *conditions], mistakes)
    mistakes.raise_all()
    spec = _spec(document, file, data, unit, tuple(dimensions or ()), by, measured, invariants, conditions)
    spec = replace(spec, kept_rows=kept, unpublished=unpublished)
    if hierarchy is not None:
        return replace(spec, hierarchy=hierarchy, noise=tree_noise(file, mistakes))
    with mistakes.at(("measure",)):  # what is left to find: queries that cannot be measured together
        _ = spec.mechanism
    mistakes.raise_all()
    return spec


def _spec(
    document: yaml_text.Document,
    file: "SpecFile",
    data: DataFiles | None,
    unit: PrivacyUnit | None,
    dimensions: tuple[Levels, ...],
    by: Levels | None,
    measured: list[Query],
    invariants: list[Statement],
    conditions: list[Statement],
) -> Spec:
    if data is None or file.release is None:  # noted as mistakes before
        raise SpecError([document.mistake((), "the spec is not complete")])
    return Spec(
        file_name=document.file_name,
        text=document.text,
        release=file.release,
        title=file.title or file.release,
        dataset=file.dataset or file.release,
        data=data,
        unit=unit,
        dimensions=dimensions,
        by=by,
        measured=tuple(measured),
        invariants=tuple(invariants),
        conditions=tuple(conditions),
        noise=file.noise,
        epsilon=None if file.budget is None else file.budget.epsilon,
        delta=None if file.budget is None else file.budget.delta,
        rho=None if file.budget is None else file.budget.rho,
        neighbours=file.neighbours,
        outputs=tuple(dict.fromkeys(file.outputs)),
        replaces=file.replaces,
    )


def _schema(dimensions: list[Levels] | None, by: Levels | None, mistakes: Mistakes) -> Schema | None:
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
        return schema_of(dimensions)
    return None


def _measured(file: "SpecFile", reader: Reader, mistakes: Mistakes, places: Places) -> list[Query]:
    if file.measure is None:
        return [cells()]
    if not file.measure and "measure" in mistakes.document.tree and not places:
        mistakes.add(("measure",), "measure at least one query, such as `cells`, or leave `measure` out")
    queries: list[Query] = []
    for place, entry in enumerate(file.measure):
        with mistakes.at(places.get(("measure", place), ("measure", place))):
            queries.append(reader.measured(_said(entry)))
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
    found = []
    for place, entry in enumerate(entries):
        path = places.get((section, place), (section, place))
        with mistakes.at(path):
            said = _said(entry)
            files: tuple[PublicRows, ...] = ()
            if not isinstance(said, str) and files_in(said):
                condition, files = read_by_area(said, read, by, mistakes.document.folder)
            else:
                condition = read(said)
            at = None
            if not isinstance(said, str):
                called, at = said.get("name") or condition.name, said.get("at")
                condition = replace(condition, name=called, mandate=said.get("mandate"))
            found.append(Statement(condition, path, mistakes.document.values[path][0], at, files))
    return found


def _check_sound_entries(file: "SpecFile", mistakes: Mistakes, places: Places) -> None:
    """Note mistakes of invariants while a dimension is mistaken: of those that name other dimensions, and no words."""
    sound = [
        levels
        for name, said in file.dimensions.items()
        if (levels := declared(name, said, Mistakes(mistakes.document), ("dimensions", name))) is not None
    ]
    unsure = set(file.dimensions) - {levels.name for levels in sound}
    if not sound or not unsure:  # what is wrong with all of them together is noted by itself
        return
    try:
        reader = Reader(tuple(sound), schema_of(sound))
    except CongenialError:
        return
    for place, entry in enumerate(file.invariants):
        said = _said(entry)
        where = None if isinstance(said, str) else said.get("total")
        if isinstance(where, dict) and not unsure & set(where) and not files_in(said):
            with mistakes.at(places.get(("invariants", place), ("invariants", place))):
                reader.invariant({"total": where})


def _said(entry: Any) -> Any:
    """Return an entry's words, or the keys that it has."""
    return entry if isinstance(entry, str) else {key: value for key, value in entry if value is not None}


def _check_budget(file: "SpecFile", measured: list[Query], mistakes: Mistakes) -> None:
    for name in ("epsilon", "rho"):
        amount = None if file.budget is None else getattr(file.budget, name)
        if amount is not None and amount > _LARGEST_BUDGET:
            mistakes.add(("budget", name), f"a budget above {_LARGEST_BUDGET} protects nobody; most are below 10")
    from congenial.privacy.budget import Budget

    said = file.budget
    is_open = any(query.precision is None for query in measured)
    if said is None:
        if is_open and "budget" not in mistakes.document.tree:
            mistakes.add(("budget",), "a `budget:` is needed, such as {epsilon: 1}, or a `precision` for every query")
        return
    with mistakes.at(("budget",)):
        if Budget.of(epsilon=said.epsilon, delta=said.delta, rho=said.rho, noise=file.noise) is None:
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
