"""Which rows of the data were counted, where not all were, and what that means for whom is protected."""

from collections.abc import Sequence
from dataclasses import dataclass

_SHOWN = 8  # values in a sentence; the manifest has all of them


@dataclass(frozen=True)
class KeptRows:
    """Rows are counted only if a column has one of some values.

    Attributes
    ----------
    is_public : bool
        Whether the column is declared public: everybody may know whose rows are kept by it.
    """

    column: str
    values: tuple[str, ...]
    is_public: bool

    @property
    def text(self) -> str:
        """The condition in words."""
        more = f" or one of {len(self.values) - _SHOWN:,} more" if len(self.values) > _SHOWN else ""
        return f"{self.column} is {' or '.join(self.values[:_SHOWN])}{more}"


def membership(kept: Sequence[KeptRows], neighbours: str, unit: str) -> list[str]:
    """Return whose rows are counted, and whether that is protected; nothing where all are.

    Under bounded neighbours a record changes its value and stays, so whether it is counted cannot change: that must be
    public. Under unbounded neighbours it comes and goes, so whether it is counted is protected like the record.

    Examples
    --------
    >>> membership([KeptRows("state", ("01", "02"), True)], "bounded", "person")[0]
    'Only rows whose state is 01 or 02 were counted.'
    """
    if not kept:
        return []
    head = f"Only rows whose {' and whose '.join(rows.text for rows in kept)} were counted."
    if neighbours == "unbounded":
        return [head, f"Whether a {unit} is among them is protected as their record is: it is added or removed."]
    columns = ", ".join(rows.column for rows in kept)
    return [head, f"Whether a {unit} is among them is NOT protected: it is declared to be public ({columns})."]


def left_unpublished(areas: Sequence[str], name: str | None) -> list[str]:
    """Return which areas are left out of a release, as sentences; nothing where none is.

    Examples
    --------
    >>> left_unpublished(["Ashby"], "town")
    ['Left unpublished: town Ashby. Its people are in none of the tables, and nothing here protects that they are not.']
    """
    if not areas:
        return []
    more = f" and {len(areas) - _SHOWN:,} more" if len(areas) > _SHOWN else ""
    whose = "Its" if len(areas) == 1 else "Their"
    return [
        f"Left unpublished: {name} {', '.join(areas[:_SHOWN])}{more}. {whose} people are in none of the tables, and"
        " nothing here protects that they are not."
    ]
