"""Writes a bundle: a folder that appears whole or not at all, with the files that the registry lists."""

import hashlib
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

from congenial.bundle.areas_spine_and_level_files import measured_columns, write_level
from congenial.bundle.file_registry import (
    MANIFEST,
    MEASURED_LEVEL,
    MEASUREMENTS,
    REPORT,
    SIGNATURE,
    TABLE,
    TOO_LONG,
    BundleContents,
    BundleFile,
    Content,
    files_of,
    is_too_long,
    level_file,
    not_requested,
)
from congenial.bundle.manifest import Manifest
from congenial.bundle.measurement_files import write_parquet
from congenial.bundle.report_and_readme import PARTS
from congenial.bundle.signing import PrivateKey, sign
from congenial.disk_and_gzip import flush, flush_folder
from congenial.errors import BundleError, CongenialError, reason_of
from congenial.law import PublicLaw
from congenial.memory_and_threads import in_background
from congenial.progress_and_interrupts import Progress, silent
from congenial.tree.tree_and_zeros import TreeTables


class Unfinished:
    """A folder that nobody sees yet, and the files that are in it.

    Attributes
    ----------
    digests : dict from file name to SHA-256
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self.digests: dict[str, str] = {}

    def add(self, name: str, content: Content) -> None:
        """Write a file, and see it on disk; one that cannot be made to its end is not there."""
        path = self._place / name
        try:
            with path.open("xb") as out:
                hashed = _Hashed(out)
                if isinstance(content, bytes):
                    hashed.write(content)
                else:
                    content(hashed)  # type: ignore[arg-type]
                out.flush()
                flush(out.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        self.digests[name] = hashed.digest


class _Hashed(io.RawIOBase):
    """A file that is written, and the digest of what was."""

    def __init__(self, out: IO[bytes]) -> None:
        super().__init__()
        self._out, self._state = out, hashlib.sha256()

    def write(self, content: bytes, /) -> int:  # type: ignore[override]
        self._state.update(content)
        return self._out.write(content)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._out.tell()

    @property
    def digest(self) -> str:
        return self._state.hexdigest()


def check_new(folder: Path) -> None:
    """Refuse, before anything is spent, a place where the folder could not be written."""
    if os.path.lexists(folder):
        raise BundleError(f"{folder} is there already; a bundle is never overwritten. Name a new folder")
    parent = folder.absolute().parent
    if not os.path.isdir(parent):
        raise BundleError(f"the folder {parent} does not exist; make it, or name another place for the bundle")
    try:
        _temporary(folder).rmdir()
    except OSError as refused:
        raise BundleError(f"nothing can be written into {parent}: {reason_of(refused)}") from None


def write_folder(folder: Path, fill: Callable[[Unfinished], None]) -> None:
    """Fill a new folder: a hidden one beside it first, flushed to disk, then renamed.

    Whoever stops this at any moment leaves either the whole folder or none; a hidden remainder may stay.
    """
    check_new(folder)
    with _hidden_folder(folder, f"the bundle could not be written to {folder}") as outer:
        inner = outer / "bundle"  # the hidden folder is private; this one gets the usual permissions
        inner.mkdir()
        fill(Unfinished(inner))
        flush_folder(inner)
        inner.rename(folder)
        flush_folder(folder.absolute().parent)


@contextmanager
def _hidden_folder(folder: Path, failure: str) -> Iterator[Path]:
    """Give a hidden folder beside another, and remove it; where the disk refuses, say what has failed."""
    outer: Path | None = None
    try:
        outer = _temporary(folder)
        yield outer
    except OSError as refused:
        raise BundleError(f"{failure}: {reason_of(refused)}") from None
    finally:
        if outer is not None:
            shutil.rmtree(outer, ignore_errors=True)


def is_folder_of(folder: Path, fill: Callable[[Unfinished], None]) -> bool:
    """Return whether a folder holds, byte for byte, what `fill` would fill one with; that is made beside it."""
    with _hidden_folder(folder, f"{folder} could not be compared with the release") as outer:
        expected = Unfinished(outer)
        fill(expected)
    files = list(folder.iterdir()) if folder.is_dir() else []
    digests = {path.name: digest_of(path) if path.is_file() else "" for path in files}
    return digests == expected.digests


def remove_unfinished(folder: Path) -> None:
    """Remove the hidden remainders of runs that were stopped while they wrote this folder: they hold drawn tables."""
    parent = folder.absolute().parent
    if not parent.is_dir():  # and so nothing is in it
        return
    try:
        for path in parent.iterdir():
            is_remainder = path.name.startswith(_prefix(folder)) and path.is_dir() and not path.is_symlink()
            if is_remainder and path.stat().st_uid == os.geteuid():  # another user's cannot hold our tables
                shutil.rmtree(path)
        flush_folder(parent)
    except OSError as refused:
        raise BundleError(
            f"an unfinished bundle, {parent / _prefix(folder)}*, cannot be removed: {reason_of(refused)}. It holds"
            " drawn tables; make its folder writable, or remove it by hand, and try again"
        ) from None


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _temporary(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix=_prefix(folder), dir=folder.absolute().parent))


def _prefix(folder: Path) -> str:
    return f".{folder.name}.unfinished-"


# Every file of a bundle, from the manifest's facts and the drawn tables alone.


def measurement_files(out: Unfinished, law: PublicLaw, measured: TreeTables, progress: Progress = silent) -> None:
    """Write the measurements of every level: they are on disk before anything is decided from them."""
    out.add(MEASUREMENTS, partial(write_parquet, law, measured[0], progress=progress))
    for level, (name, codes) in enumerate(law.names_and_codes[1:], 1):
        facts = (codes, measured[level], measured_columns(law, level))
        out.add(level_file(level + 1, name, of=MEASURED_LEVEL), partial(write_level, *facts))


def bundle_files(
    out: Unfinished,
    manifest: Manifest,
    levels: TreeTables,
    outputs: tuple[str, ...],
    key: PrivateKey | None = None,
    progress: Progress = silent,
    measured: TreeTables = (),
) -> None:
    """Write the files of a bundle, as `congenial.bundle.file_registry` lists them.

    Nothing else goes in: with the same drawn tables, the same facts and the same clock, every byte is the same. What
    cannot be made besides the tables themselves is left out, with the reason.
    """
    left_out = not_requested(outputs) if manifest.has_tables else {}
    manifest = replace(manifest, left_out=left_out)  # what cannot be made is added below, before anything says so
    has_parts = manifest.has_tables and REPORT not in left_out
    with in_background(lambda: _parts(manifest, levels, left_out) if has_parts else {}) as parts:
        contents = BundleContents(manifest, levels, parts, progress, measured)
        if is_too_long(manifest):
            left_out[TABLE] = TOO_LONG

        def add(files: Iterable[BundleFile]) -> None:
            for file in files:
                with nullcontext() if file.is_required(manifest) else _or_left_out(left_out, file.name):
                    out.add(file.name, file.make(contents))

        files = [file for file in files_of(manifest) if file.name not in out.digests]
        with in_background(partial(add, [file for file in files if file.name == TABLE])) as table:
            add(file for file in files if file.name != TABLE)  # takes about as long
            table()
    if REPORT in left_out:
        for name in PARTS:
            left_out.pop(name, None)
    digests = {file.name: out.digests[file.name] for file in files_of(manifest)}  # in the order of the registry
    content = replace(manifest, files=digests).as_bytes()
    out.add(MANIFEST, content)
    if key is not None:
        out.add(SIGNATURE, sign(content, key))


def _parts(manifest: Manifest, levels: TreeTables, left_out: dict[str, str]) -> dict[str, object]:
    """Return what the report can do without, made while the tables are written; say why some of it could not be."""
    parts: dict[str, object] = {}
    for name, make in PARTS.items():
        with _or_left_out(left_out, name):
            parts[name] = make(manifest, levels)
    return parts


@contextmanager
def _or_left_out(left_out: dict[str, str], name: str) -> Iterator[None]:
    """Say why something is left out that cannot be made. What it is made from is public, and so is what goes wrong."""
    try:
        yield
    except OSError:  # of the disk: the bundle is written again elsewhere, or later
        raise
    except CongenialError as refused:
        left_out[name] = f"could not be made: {refused}"
    except Exception as failed:  # noqa: BLE001
        left_out[name] = f"could not be made ({type(failed).__name__})"
