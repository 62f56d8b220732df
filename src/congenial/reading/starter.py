"""A commented spec to start from, made from the names of the columns alone.

Levels are never taken from confidential data: what they are is for the curator to declare. Each place to fill in says
so, and the spec is refused until none is left.
"""

import json
import os
import re
from pathlib import Path

from congenial.errors import ReadingError

_COUNTS = {"n", "count", "counts", "freq", "frequency", "value", "obs_value", "population", "number", "total"}
_AREA = re.compile(r"county|fips|geoid|district|region|area|state|nuts|municipality|tract", re.IGNORECASE)
_ID = re.compile(r"(^|_)(id|key|number|nr)$|^p?id$", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WORDS_OF_YAML = {"true", "false", "null", "yes", "no", "on", "off"}


def starter_spec(data_path: str | Path, folder: str | Path | None = None) -> str:
    """Return a spec for a data file with places to fill in.

    Parameters
    ----------
    data_path : path
        A CSV or Parquet file; only its header is looked at.
    folder : path, optional
        Where the spec will be, so that it finds the data; beside them when not given.
    """
    path = Path(data_path)
    beside = path.name if folder is None else os.path.relpath(path.absolute(), Path(folder).absolute())
    names, separator = columns_of(path)
    count, area, identity = guessed(names)
    dimensions = [name for name in names if name not in {count, area, identity}]
    parts = [
        _HEAD.format(release=_release_name(path)),
        _data(beside, separator, count, identity),
        _dimensions(dimensions),
        _areas(area),
        _TAIL,
    ]
    return "\n".join(part for part in parts if part)


def guessed(names: list[str]) -> tuple[str | None, str | None, str | None]:
    """Return which column looks like counts, like areas and like ids, by its name.

    Examples
    --------
    >>> guessed(["county", "sex", "n"])
    ('n', 'county', None)
    """
    count = next((name for name in names if name.casefold() in _COUNTS), None)
    area = next((name for name in names if _AREA.search(name) and name != count), None)
    identity = None if count is not None else next((name for name in names if _ID.search(name) and name != area), None)
    return count, area, identity


def columns_of(path: Path) -> tuple[list[str], str]:
    """Return the names of a data file's columns, and what separates them; nothing else of it is looked at."""
    from congenial.reading.duckdb_session_and_queries import read_sources, session
    from congenial.reading.files_and_columns import find_files, first_bytes, is_parquet, read_csv_columns

    files = find_files([path.name], path.parent.resolve())
    head = first_bytes(files[0])
    if is_parquet(files[0], head):
        with session(files) as database:
            return [column.name for column in read_sources(database, files, ",")[0].columns], ","
    refused: ReadingError | None = None
    for separator in (",", ";", "\t", "|"):
        try:
            return [column.name for column in read_csv_columns(files[0], head, separator)], separator
        except ReadingError as error:
            refused = refused or error
    raise refused or ReadingError(f"{path.name} has no header")


def _release_name(path: Path) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(path.name.removesuffix(".gz")).stem).strip("-._")[:60]
    return _quoted(name or "my-release")


def _quoted(text: str) -> str:
    """Return a text as YAML; JSON's double quotes are YAML's too."""
    is_plain = _PLAIN.fullmatch(text) and text.casefold() not in _WORDS_OF_YAML
    return text if is_plain else json.dumps(text)


_HEAD = """\
# What is released, how, and under which budget. Everything in this file is public.
# Fill in what says FILL IN, then run: congenial check
release: {release}    # the name of this release, unique for its dataset
# title: Age and sex in Demo County    # for the report
# dataset: my-dataset    # whose budget is charged; the release's name if left out
"""


def _data(path: str, separator: str, count: str | None, identity: str | None) -> str:
    kind = "microdata    # one row a record; counts: one row a cell" if count is None else "counts    # one row a cell"
    lines = ["data:", f"  path: {_quoted(path)}", f"  kind: {kind}"]
    if count is not None:
        lines.append(f"  count: {_quoted(count)}    # the column of counts")
        lines.append("  # missing_cells: zero    # if cells without a row are empty; they are an error otherwise")
    if separator != ",":
        names = {";": "semicolon", "\t": "tab", "|": "bar"}
        lines.append(f"  separator: {names[separator]}")
    lines.append("  status: confidential    # or public, or simulated")
    if count is None:
        lines += ["", "# Whose privacy is protected: each person has one row, or each id has at most so many.", "unit:"]
        if identity is None:
            lines.append('  one_row_per: "FILL IN"    # a word such as person')
        else:
            lines += [f"  id: {_quoted(identity)}", "  at_most: 1    # more is allowed, and costs privacy"]
    return "\n".join(lines) + "\n"


def _dimensions(names: list[str]) -> str:
    lines = [
        "# Each dimension declares all its levels, in their order; they are not taken from the data. Three ways:",
        "#   sex: [female, male]",
        '#   sex: {column: SEX, levels: {"1": female, "2": male}}    # codes in the data and their labels',
        "#   income: {cut: [0, 10000, 50000], empty: not stated}    # intervals of a numeric column, and no value",
        "# Take out the columns that the table does not need.",
        "dimensions:",
    ]
    return "\n".join([*lines, *(f'  {_quoted(name)}: ["FILL IN"]' for name in names or ["FILL IN"])]) + "\n"


def _areas(column: str | None) -> str:
    if column is None:
        return ""
    lines = ["# One table for each area; take this out if there is one table for all.", "by:"]
    return "\n".join([*lines, f"  name: {_quoted(column)}", '  levels: ["FILL IN"]']) + "\n"


_TAIL = """\
# What gets noise.
measure:
  - cells
# In place of `measure:`, several tables of the same records, which agree:
# tables:
#   by age and sex: [age, sex]
#   by age and status: [age, status]

# What comes out exactly, because a law or an earlier publication demands it.
invariants:
  - total
  # - margin: [sex]
  # - total: {age: voting, sex: female}
  #   mandate: Voting Rights Act, section 203

# What is known of every table without looking at the data.
# conditions:
#   - zeros: {age: 0-14, status: widowed}

noise: double_geometric    # or discrete_gaussian
budget: {epsilon: "FILL IN"}    # such as 1 or 1/2; or {rho: 1/2}, or {epsilon: 1, delta: 1e-10}
neighbours: bounded    # one record changes its value; unbounded: one is added or removed
outputs: [csv, parquet, report]
"""
