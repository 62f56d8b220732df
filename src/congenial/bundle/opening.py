"""A bundle's files as they lie there: read, and held against their digests and their own conditions."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import BinaryIO

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.areas_file import areas_of_parquet
from congenial.bundle.consistency import check_consistency
from congenial.bundle.file_names import AREAS, LARGEST, MANIFEST, PARQUET, SIGNATURE, TABLE
from congenial.bundle.manifest import Manifest
from congenial.bundle.signing import check_signature, read_public_key
from congenial.bundle.table_csv import check_csv, read_csv
from congenial.bundle.table_parquet import read_tables
from congenial.bundle.tree_files import SPINE, level_file, read_level, read_spine
from congenial.bundle.tree_json import TreeParts
from congenial.chunks import LINES
from congenial.errors import BundleError, SamplingError, reason_of
from congenial.hierarchy.disclosed import exact_sums
from congenial.hierarchy.exact_rows import ExactRows
from congenial.hierarchy.tree import Tree
from congenial.progress import VERIFYING, Progress, no_news
from congenial.schema import Schema


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


def open_bundle(folder: str | Path, *, key: str | Path | None = None, progress: Progress = no_news) -> OpenedBundle:
    """Read a bundle; refuses files that the manifest does not list, and tables that break the published conditions."""
    place = Path(folder)
    if not os.path.isdir(place):
        what = "is a file" if os.path.lexists(place) else "does not exist"
        raise BundleError(f"{place} {what}; a bundle is a folder with a {MANIFEST}")
    progress("reading the manifest")
    content = _read(place, MANIFEST)
    manifest = Manifest.from_bytes(
        content,
        lambda n_exact: areas_of_parquet(_read(place, AREAS), n_exact),
        lambda levels, schema, rows: _tree(place, levels, schema, rows),
    )
    check_consistency(manifest)
    _check_files(place, manifest)
    signed_by = _signed_by(place, content, None if key is None else Path(key))
    progress(VERIFYING)
    counts = _tables(place, manifest, progress)
    below = () if manifest.chain is None else _tables_below(place, manifest.chain.law.tree, manifest.law.schema)
    opened = OpenedBundle(place, manifest, counts, below, signed_by)
    opened.check_conditions()  # before anything is computed around tables that no law allows
    return opened


def _tables(folder: Path, manifest: Manifest, progress: Progress) -> Ints:
    """Read the released tables (area, cell)."""
    law = manifest.law
    if PARQUET not in manifest.files:
        with _opened(folder, TABLE) as file:
            return read_csv(law, file)
    with _opened(folder, PARQUET) as file:
        return read_tables(law, file, progress if len(law.areas) > LINES else no_news)


def _tree(folder: Path, levels: tuple[str, ...], schema: Schema, rows: Sequence[ExactRows | None]) -> TreeParts:
    """Read a tree; exact numbers below the top are those of the released tables, and the manifest has their digest."""
    with _opened(folder, SPINE) as file:
        tree, zeros = read_spine(file, levels, schema.n_cells)
    return tree, zeros, exact_sums(rows, _tables_below(folder, tree, schema)) if rows else ()


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


def _check_files(folder: Path, manifest: Manifest) -> None:
    wrong = []
    for name, stated in manifest.files.items():
        try:
            with _opened(folder, name) as file:
                if file_digest(file, "sha256").hexdigest() != stated:  # type: ignore[arg-type]
                    wrong.append(f"{name} was changed")
        except BundleError as missing:
            wrong.append(str(missing))
    strange = sorted(path.name for path in folder.iterdir() if path.name not in {*manifest.files, MANIFEST, SIGNATURE})
    wrong += [f"{name!r} does not belong to the bundle" for name in strange]
    if wrong:
        raise BundleError(f"the bundle is not as it was published: {'; '.join(wrong)}")


def _signed_by(folder: Path, content: bytes, key: Path | None) -> str | None:
    public = None if key is None else read_public_key(key)
    if not os.path.lexists(folder / SIGNATURE):  # a link that leads nowhere is no missing file
        if public is not None:
            raise BundleError(f"the bundle is not signed: it has no {SIGNATURE}")
        return None
    return check_signature(content, _read(folder, SIGNATURE), public)
