"""The levels of a dimension, or the areas, from a public file: a row a level. It is never made from the data."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from congenial.bundle.naming import PublicFile
from congenial.errors import SchemaError
from congenial.spec.public_csv import read_public_csv

if TYPE_CHECKING:
    from congenial.spec.model import ListEntry


@dataclass(frozen=True)
class Listed:
    """What a file lists, in its order.

    Attributes
    ----------
    parents : tuple of str
        What each area is part of; empty where the spec names no such column.
    path : Path
        Where the file is.
    file : PublicFile
        What the manifest says of it.
    """

    codes: tuple[str, ...]
    labels: tuple[str, ...]
    parents: tuple[str, ...]
    path: Path
    file: PublicFile


def read_list(said: "ListEntry", name: str, gives: str, folder: Path | None) -> Listed:
    """Read the list that a spec names.

    Parameters
    ----------
    name : str
        Of the dimension, or of what an area is: the column of codes if the spec names none.
    gives : str
        What it is a list of, in words.
    folder : path or None
        The folder of the spec, where paths start; None for a spec that is text alone.
    """
    if said.file is None:
        raise SchemaError("a list of levels needs its `file:`")
    code, parent = said.code or name, getattr(said, "parent", None)
    columns = [code, said.label or code, *([] if parent is None else [parent])]
    rows = read_public_csv(said.file, folder, columns, said.separator)
    rows.check_once(0, code, "list each level once")
    rows.check_once(1, columns[1], "take a column of names that differ, or leave `label` out")
    codes, labels, *parents = rows.columns
    return Listed(codes, labels, parents[0] if parents else (), rows.path, rows.as_fact(gives))
