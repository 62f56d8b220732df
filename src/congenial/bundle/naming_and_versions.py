"""Facts about a release: its names, row filters and public files, software versions, the digest of its plan."""

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import numpy as np

from congenial.bundle.canonical_json import budget_json, certificate_json, digest
from congenial.bundle.law_and_tree_json import law_as_json, tree_as_json
from congenial.conditions.base import Condition
from congenial.errors import BundleError
from congenial.law import PublicLaw
from congenial.plan import Plan
from congenial.privacy.certificate import Certificate
from congenial.safe_text import explain_hidden

# Which rows of the data were counted, where not all were, and what that means for whom is protected.

_SHOWN = 8  # values in a sentence; the manifest has all of them


@dataclass(frozen=True)
class RowFilter:
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


def membership_sentences(filters: Sequence[RowFilter], neighbours: str, unit: str) -> list[str]:
    """Return whose rows are counted, and whether that is protected; nothing where all are.

    Under bounded neighbours a record changes its value and stays, so whether it is counted cannot change: that must be
    public. Under unbounded neighbours it comes and goes, so whether it is counted is protected like the record.

    Examples
    --------
    >>> membership_sentences([RowFilter("state", ("01", "02"), True)], "bounded", "person")[0]
    'Only rows whose state is 01 or 02 were counted.'
    """
    if not filters:
        return []
    head = f"Only rows whose {' and whose '.join(row_filter.text for row_filter in filters)} were counted."
    if neighbours == "unbounded":
        return [head, f"Whether a {unit} is among them is protected as their record is: it is added or removed."]
    columns = ", ".join(row_filter.column for row_filter in filters)
    return [head, f"Whether a {unit} is among them is NOT protected: it is declared to be public ({columns})."]


def unpublished_sentences(areas: Sequence[str], name: str | None) -> list[str]:
    """Return which areas are left out of a release, as sentences; nothing where none is.

    Examples
    --------
    >>> unpublished_sentences(["Ashby"], "town")
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
        What areas are part of, to find them by, run-length encoded in the order of the areas.
    kept_rows : tuple of RowFilter
        Which rows are counted; empty where all are.
    unpublished : tuple of str
        Areas that are left out by name.
    replaces : str or None
        An earlier release of the dataset that this one is the corrected edition of.
    codes : tuple of (str, tuple of str)
        Of dimensions and areas whose labels are not what the data have: the code of each label, in their order.
    """

    release: str
    dataset: str
    title: str
    unit: str = "person"
    status: str = "confidential"
    public_files: tuple[PublicFile, ...] = ()
    parents: tuple[tuple[str, int], ...] = ()
    kept_rows: tuple[RowFilter, ...] = ()
    unpublished: tuple[str, ...] = ()
    replaces: str | None = None
    codes: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __post_init__(self) -> None:
        texts = [(name, getattr(self, name)) for name in ("release", "dataset", "title", "unit", "status")]
        texts += [(field.name, getattr(file, field.name)) for file in self.public_files for field in fields(file)]
        texts += [("parent", parent) for parent, _ in self.parents]
        texts += [("unpublished area", area) for area in self.unpublished]
        texts += [("kept row", text) for rows in self.kept_rows for text in (rows.column, *rows.values)]
        texts += [] if self.replaces is None else [("replaced release", self.replaces)]
        texts += [(f"code of {name}", code) for name, codes in self.codes for code in codes]
        for what, text in texts:
            if wrong := explain_hidden(text, f"the {what} {text!r}"):
                raise BundleError(wrong)


def runs_of(parents: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Return what areas are part of, those side by side together.

    Examples
    --------
    >>> runs_of(["Ohio", "Ohio", "Utah"])
    (('Ohio', 2), ('Utah', 1))
    """
    return tuple((parent, len(list(areas))) for parent, areas in groupby(parents))


# Versions of whatever decides a byte of a bundle.

PACKAGES = ("congenial", "numpy", "pyarrow", "jinja2")
SOFTWARE = ("python", *PACKAGES)
"""What a manifest records, in its order."""

_SOURCE = Path(__file__).parents[1]


def software_in_use() -> dict[str, str]:
    """Return the versions that are installed here."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def source_in_use() -> dict[str, str]:
    """Return what a version does not tell: digests of this package's own files, and the compiler of its kernels."""
    digests = {}
    for folder, inside, names in os.walk(_SOURCE):
        inside[:] = [name for name in inside if name != "__pycache__"]  # as many files again
        relative = os.path.relpath(folder, _SOURCE)
        for name in names:
            if name.endswith((".py", ".html")):
                content = Path(folder, name).read_bytes()
                digests[Path(relative, name).as_posix()] = digest(content)
    return {**dict(sorted(digests.items())), "numba": version("numba")}


def other_versions(recorded: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """Say of each of these packages whose recorded version is not the installed one what both are.

    Examples
    --------
    >>> other_versions({"congenial": "0.0.1"}, ["congenial"])[0].startswith("congenial 0.0.1 there and ")
    True
    """
    installed = software_in_use()
    return [
        f"{name} {recorded[name]} there and {installed[name]} here"
        for name in names
        if recorded[name] != installed[name]
    ]


# What a ledger keeps of a plan: a digest of everything that is settled before a table is drawn.


def plan_digest(naming: Naming, plan: Plan, conditions: Sequence[Condition], certificate: Certificate) -> str:
    """Return the SHA-256 of a plan. It holds the disclosed values and nothing else of the data."""
    names = asdict(naming)
    del names["codes"]  # labels say what is published; earlier plans had none
    values = {
        "names": names,
        "rows_per_unit": plan.rows_per_unit,
        "neighbours": plan.neighbours,
        "budget": budget_json(plan.budget),
        "conditions": [condition.as_json() for condition in conditions],
        "measured": [query.as_json() for query in plan.requested],
        "law": law_as_json(plan.law),
        "areas": areas_digest(plan.law),
        "certificate": certificate_json(certificate),
        **tree_as_json(plan),
    }
    return digest(json.dumps(values, sort_keys=True).encode())


def areas_digest(law: PublicLaw) -> str:
    """Return the SHA-256 of every area's label and values."""
    state = hashlib.sha256("\0".join(map(str, law.areas.labels)).encode())
    for group in law.areas.groups:
        state.update(np.ascontiguousarray(group.places, "<i8").tobytes())
        values = group.values
        state.update(repr(values.tolist()).encode() if values.dtype == object else values.astype("<i8").tobytes())
    return state.hexdigest()


def disclosed_below(plan: Plan) -> list[tuple[str, object]]:
    """Return what is exact in every unit of levels below the top of a tree."""
    return [
        (
            f"{condition.title}, of each {level}",
            f"in the bundle; SHA-256 of the tree with all values {plan.law.tree_digest}",
        )
        for level, conditions in plan.invariants_below.items()
        for condition in conditions
    ]
