"""The parts of a spec that say what the table is and where its data are, checked against each other."""

from typing import TYPE_CHECKING

from congenial.bundle.kept_rows import KeptRows
from congenial.spec.levels import Levels, declared
from congenial.spec.mistakes import Mistakes
from congenial.spec.spec import DataFiles, PrivacyUnit
from congenial.spec.yaml_text import Path

if TYPE_CHECKING:
    from congenial.spec.model import SpecFile


def _is_noted(section: str, mistakes: Mistakes) -> bool:
    """Whether a section stands in the file and was taken out because something in it is wrong."""
    return bool(mistakes.document.tree.get(section))


def read_dimensions(file: "SpecFile", mistakes: Mistakes) -> list[Levels] | None:
    """Return every dimension; None when one of them is mistaken, so that nothing is said about them twice."""
    if not file.dimensions:
        if not _is_noted("dimensions", mistakes):
            mistakes.add(("dimensions",), "a spec needs `dimensions:`, such as {sex: [female, male]}")
        return None
    found = [declared(name, said, mistakes, ("dimensions", name)) for name, said in file.dimensions.items()]
    kept = [levels for levels in found if levels is not None]
    return kept if len(kept) == len(found) else None


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
    return declared(name, file.by, mistakes, ("by",))


def read_data(file: "SpecFile", mistakes: Mistakes) -> DataFiles | None:
    """Return where the data are."""
    said = file.data
    if said is None:
        if not _is_noted("data", mistakes):
            mistakes.add(("data",), "a spec needs `data:` with a path and a kind")
        return None
    paths = [said.path] if isinstance(said.path, str) else said.path
    if not paths:
        mistakes.add(("data", "path"), "data need a `path:`, the CSV or Parquet file")
    if said.kind is None:
        mistakes.add(("data", "kind"), "data need a `kind:`, counts (one row a cell) or microdata (one row a record)")
    if said.kind == "counts" and said.count is None:
        mistakes.add(("data", "count"), "counts need a `count:`, the column that holds them")
    if said.kind == "microdata":
        for key in ("count", "missing_cells"):
            if getattr(said, key) is not None:
                mistakes.add(("data", key), f"`{key}` goes with `kind: counts`; in microdata each row counts once")
    if not paths or said.kind is None:
        return None
    return DataFiles(tuple(paths), said.kind, said.count, said.status, said.missing_cells or "error", said.separator)


def read_kept(file: "SpecFile", mistakes: Mistakes) -> tuple[KeptRows, ...]:
    """Return which rows are counted; where a record changes its value, what keeps a row must be public."""
    public = [] if file.data is None else file.data.public_columns
    kept = []
    for column, said in file.keep_rows.items():
        values = tuple(dict.fromkeys([said] if isinstance(said, str) else said))
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
        kept.append(KeptRows(column, values, column in public))
    areas = [] if file.by is None or not file.by.unpublished else [file.by.column or file.by.name]
    for place, column in enumerate(public):
        if column not in (*file.keep_rows, *areas):
            mistakes.add(
                ("data", "public_columns", place),
                f"{column!r} is no column of `keep_rows:`, nor of areas of which some are unpublished; a public column"
                " says whose rows are counted, and nothing else",
            )
    return tuple(kept)


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
    said = file.unit
    if said is None:
        return None
    if said.one_row_per is None and said.id is None:
        mistakes.add(("unit",), "a unit needs `one_row_per`, a word such as person, or `id`, a column")
    if said.at_most is not None and said.id is None:
        mistakes.add(("unit", "at_most"), "`at_most` needs an `id:`, the column by which rows are counted")
    if said.one_row_per is not None and (said.at_most or 1) > 1:
        mistakes.add(("unit", "at_most"), f"one row per {said.one_row_per} contradicts at most {said.at_most} rows")
    return PrivacyUnit(said.one_row_per or "unit", said.id, said.at_most or 1)


def check_columns(
    mistakes: Mistakes,
    dimensions: list[Levels] | None,
    by: Levels | None,
    data: DataFiles | None,
    unit: PrivacyUnit | None,
) -> None:
    """Note columns of the data that the spec uses twice."""
    used: dict[str, str] = {}
    claims: list[tuple[str, str, Path]] = [
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
