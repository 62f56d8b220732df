"""A bundle's files as they lie there: read, and held against their digests and their own conditions."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.areas_file import areas_of_parquet
from congenial.bundle.consistency import check_consistency
from congenial.bundle.file_names import (
    AREAS,
    EXACT_CELLS,
    EXPECTED_ERRORS,
    LARGEST,
    MANIFEST,
    PARQUET,
    README,
    REPORT,
    SIGNATURE,
    TABLE,
)
from congenial.bundle.manifest import Manifest, untouched_values
from congenial.bundle.signing import check_signature, read_public_key
from congenial.bundle.table_csv import check_csv, read_csv
from congenial.bundle.table_parquet import read_tables
from congenial.bundle.tree_files import SPINE, level_file, read_level, read_spine
from congenial.bundle.tree_json import StatedTree, TreeParts
from congenial.chunks import LINES
from congenial.errors import BundleError, SamplingError, reason_of
from congenial.hierarchy.disclosed import exact_sums
from congenial.hierarchy.tree import Tree
from congenial.plain_text import hidden_in
from congenial.progress import VERIFYING, Progress, no_news
from congenial.resources import what_cannot_be_held
from congenial.schema import Schema

_FILES = {TABLE, PARQUET, AREAS, SPINE, EXACT_CELLS, EXPECTED_ERRORS, REPORT, README}
_LEVEL = re.compile(r"level-[0-9]{1,3}\.parquet")


@dataclass(frozen=True, eq=False)
class OpenedBundle:
    """What a bundle's files hold. Public.

    Attributes
    ----------
    counts : array (area, cell)
    below : tuple of arrays (unit, cell)
        Of a tree, the tables of the levels below the top.
    signed_by : str or None
        The key that signed the manifest.
    """

    folder: Path
    manifest: Manifest
    counts: Ints
    below: tuple[Ints, ...]
    signed_by: str | None

    def check_other_table(self) -> None:
        """See that the tables which were read are in the other file too, where there are two."""
        if PARQUET in self.manifest.files and TABLE in self.manifest.files:
            with _opened(self.folder, TABLE) as file:
                check_csv(self.manifest.law, self.counts, file)

    def check_conditions(self) -> None:
        """See that every table obeys the published invariants, and that those of a tree add up."""
        areas, chain = self.manifest.law.areas, self.manifest.chain
        for number in np.flatnonzero(~areas.holds(self.counts))[:1]:
            area = areas.labels[number]
            where = "the table" if area is None else f"the table of {area!r}"
            raise BundleError(f"{where} does not obey the published invariants")
        if chain is not None:
            try:
                chain.check([self.counts, *self.below])
            except SamplingError:
                raise BundleError(
                    "the tables of the tree do not add up, or break a condition; get the bundle again"
                ) from None


@contextmanager
def memory_in_words() -> Iterator[None]:
    """Turn a lack of memory into words: what a bundle asks for is decided by whoever made it."""
    try:
        yield
    except MemoryError:
        raise BundleError(
            "the bundle takes more memory than this process can have. Verify a large bundle on a computer with more of"
            " it; a small one that asks for so much was not made by congenial"
        ) from None


@memory_in_words()
def open_bundle(folder: str | Path, *, key: str | Path | None = None, progress: Progress = no_news) -> OpenedBundle:
    """Read a bundle; refuses files that the manifest does not list, and tables that break the published conditions."""
    place = Path(folder)
    if not os.path.isdir(place):
        what = "is a file" if os.path.lexists(place) else "does not exist"
        raise BundleError(f"{place} {what}; a bundle is a folder with a {MANIFEST}")
    progress("reading the manifest")
    content = _read(place, MANIFEST)
    values = untouched_values(content)
    files = _listed(values)
    _check_files(place, files)  # before any of them is decoded
    signed_by = _signed_by(place, content, None if key is None else Path(key))
    manifest = Manifest.from_values(
        values,
        lambda n_exact: areas_of_parquet(_read(place, AREAS), n_exact),
        lambda stated, schema: read_tree(place, stated, schema),
    )
    check_consistency(manifest)
    _check_pages(place, files)
    progress(VERIFYING)
    counts = _tables(place, manifest, progress)
    below = () if manifest.chain is None else _tables_below(place, manifest.chain.law.tree, manifest.law.schema)
    opened = OpenedBundle(place, manifest, counts, below, signed_by)
    opened.check_conditions()  # before anything is computed around tables that no law allows
    return opened


def _tables(folder: Path, manifest: Manifest, progress: Progress) -> Ints:
    """Read the released tables (area, cell)."""
    law = manifest.law
    _check_room(len(law.areas), law.schema)
    if PARQUET not in manifest.files:
        with _opened(folder, TABLE) as file:
            return read_csv(law, file)
    with _opened(folder, PARQUET) as file:
        return read_tables(law, file, progress if len(law.areas) > LINES else no_news)


def read_tree(folder: Path, stated: StatedTree, schema: Schema) -> TreeParts:
    """Read a tree; exact numbers below the top are those of the released tables, and the manifest has their digest."""
    _check_room(sum(stated.units), schema)
    with _opened(folder, SPINE) as file:
        tree, zeros = read_spine(file, stated.levels, schema.n_cells, stated.units[-1])
    rows = stated.exact_rows(schema)
    return tree, zeros, exact_sums(rows, _tables_below(folder, tree, schema)) if rows else ()


def _check_room(n_tables: int, schema: Schema) -> None:
    """Refuse tables that cannot be in memory, before anything is read into them."""
    if wrong := what_cannot_be_held(n_tables * schema.n_cells, f"{n_tables:,} tables of {schema.n_cells:,} cells"):
        raise BundleError(wrong)


def _tables_below(folder: Path, tree: Tree, schema: Schema) -> tuple[Ints, ...]:
    found = []
    for number, codes in enumerate(tree.codes[1:], 2):
        with _opened(folder, level_file(number)) as file:
            found.append(read_level(file, number, codes, schema))
    return tuple(found)


@contextmanager
def _opened(folder: Path, name: str) -> Iterator[BinaryIO]:
    """Open a file of the bundle; refuses what is no ordinary file."""
    path = folder / name
    try:
        if path.is_symlink() or not path.is_file():
            raise BundleError(f"the bundle has no file {name}; it was cut short, or is not a bundle")
        with path.open("rb") as file:
            yield file
    except OSError as refused:
        raise BundleError(f"{name} cannot be read: {reason_of(refused)}") from None


def _read(folder: Path, name: str) -> bytes:
    with _opened(folder, name) as file:
        if os.fstat(file.fileno()).st_size > LARGEST:
            raise BundleError(f"{name} is larger than a gigabyte; no bundle has such a file")
        return file.read()


def _listed(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the files that a manifest lists, with their digests; refuses names that no file of a bundle has."""
    files = values.get("files")
    if not isinstance(files, dict) or not all(isinstance(stated, str) for stated in files.values()):
        raise BundleError("manifest.json cannot be read: a part is missing or has the wrong form")
    for name in files:
        if name not in _FILES and not _LEVEL.fullmatch(name):
            raise BundleError(f"manifest.json lists {name[:80]!r}, and no bundle has such a file")
    return files


def _check_files(folder: Path, files: Mapping[str, str]) -> None:
    """See that all files are there and have their digests, and that there are no others."""
    wrong = []
    for name, stated in files.items():
        try:
            with _opened(folder, name) as file:
                if file_digest(file, "sha256").hexdigest() != stated:  # type: ignore[arg-type]
                    wrong.append(f"{name} was changed")
        except BundleError as missing:
            wrong.append(str(missing))
    strange = sorted(path.name for path in folder.iterdir() if path.name not in {*files, MANIFEST, SIGNATURE})
    wrong += [f"{name!r} does not belong to the bundle" for name in strange]
    if wrong:
        raise BundleError(f"the bundle is not as it was published: {'; '.join(wrong)}")


def _check_pages(folder: Path, files: Mapping[str, str]) -> None:
    """Refuse pages for people with characters that do not show: they are not always made again and compared."""
    for name in (README, EXPECTED_ERRORS, REPORT):
        if name not in files:
            continue
        try:
            text = _read(folder, name).decode()
        except UnicodeDecodeError:
            raise BundleError(f"{name} is not UTF-8 text; get the bundle from its publisher again") from None
        if hidden := hidden_in(text.replace("\n", "")):
            raise BundleError(f"{name} holds {hidden}, which does not show; get the bundle from its publisher again")


def _signed_by(folder: Path, content: bytes, key: Path | None) -> str | None:
    public = None if key is None else read_public_key(key)
    if not os.path.lexists(folder / SIGNATURE):  # a link that leads nowhere is no missing file
        if public is not None:
            raise BundleError(f"the bundle is not signed: it has no {SIGNATURE}")
        return None
    return check_signature(content, _read(folder, SIGNATURE), public)
