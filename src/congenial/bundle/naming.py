"""What a release is called, and whose privacy it protects."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import groupby

from congenial.bundle.kept_rows import KeptRows
from congenial.errors import BundleError
from congenial.plain_text import what_is_hidden

STATUSES = ("confidential", "public", "simulated")


@dataclass(frozen=True)
class PublicFile:
    """A public file that a spec names.

    Attributes
    ----------
    gives : str
        What it is a list of, in words.
    name : str
        Without its folder.
    sha256 : str
    """

    gives: str
    name: str
    sha256: str


@dataclass(frozen=True)
class Naming:
    """What a release is called, whose privacy it protects, and which files and rows it is made from.

    Attributes
    ----------
    release, dataset, title : str
    unit : str
        What a protected unit is called, such as person.
    status : str
        Of the data: confidential, public or simulated.
    public_files : tuple of PublicFile
    parents : tuple of (str, int)
        What areas are part of, to find them by: so many of them, in their order, of this one, then of the next.
    kept_rows : tuple of KeptRows
        Which rows are counted; empty where all are.
    unpublished : tuple of str
        Areas that are left out by name.
    replaces : str or None
        An earlier release of the dataset that this one is the corrected edition of.
    """

    release: str
    dataset: str
    title: str
    unit: str = "person"
    status: str = "confidential"
    public_files: tuple[PublicFile, ...] = ()
    parents: tuple[tuple[str, int], ...] = ()
    kept_rows: tuple[KeptRows, ...] = ()
    unpublished: tuple[str, ...] = ()
    replaces: str | None = None

    def __post_init__(self) -> None:
        named = [(name, getattr(self, name)) for name in ("release", "dataset", "title", "unit", "status")]
        named += [(field.name, getattr(file, field.name)) for file in self.public_files for field in fields(file)]
        named += [("parent", parent) for parent, _ in self.parents]
        named += [("unpublished area", area) for area in self.unpublished]
        named += [("kept row", text) for rows in self.kept_rows for text in (rows.column, *rows.values)]
        named += [] if self.replaces is None else [("replaced release", self.replaces)]
        for what, text in named:
            if wrong := what_is_hidden(text, f"the {what} {text!r}"):
                raise BundleError(wrong)


def runs_of(parents: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Return what areas are part of, those side by side together.

    Examples
    --------
    >>> runs_of(["Ohio", "Ohio", "Utah"])
    (('Ohio', 2), ('Utah', 1))
    """
    return tuple((parent, len(list(areas))) for parent, areas in groupby(parents))
