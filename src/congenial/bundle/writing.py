"""A folder that appears whole or not at all."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, BinaryIO

from congenial.disk import flush, flush_folder
from congenial.errors import BundleError, reason_of

Content = bytes | Callable[[BinaryIO], None]
"""What a file holds: bytes, or what writes them, where they are too many to have at once."""


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


class _Hashed:
    """A file that is written, and the digest of what was."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out, self._state = out, hashlib.sha256()
        self.closed = False

    def write(self, content: bytes) -> int:
        self._state.update(content)
        return self._out.write(content)

    def flush(self) -> None:
        self._out.flush()

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

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
    outer: Path | None = None
    try:
        outer = _temporary(folder)
        inner = outer / "bundle"  # the hidden folder is private; this one gets the usual permissions
        inner.mkdir()
        fill(Unfinished(inner))
        flush_folder(inner)
        inner.rename(folder)
        flush_folder(folder.absolute().parent)
    except OSError as refused:
        raise BundleError(f"the bundle could not be written to {folder}: {reason_of(refused)}") from None
    finally:
        if outer is not None:
            shutil.rmtree(outer, ignore_errors=True)


def is_folder_of(folder: Path, fill: Callable[[Unfinished], None]) -> bool:
    """Return whether a folder holds, byte for byte, what `fill` would fill one with; that is made beside it."""
    outer: Path | None = None
    try:
        outer = _temporary(folder)
        made = Unfinished(outer)
        fill(made)
    except OSError as refused:
        raise BundleError(f"{folder} could not be compared with the release: {reason_of(refused)}") from None
    finally:
        if outer is not None:
            shutil.rmtree(outer, ignore_errors=True)
    files = list(folder.iterdir()) if folder.is_dir() else []
    there = {path.name: digest_of(path) if path.is_file() else "" for path in files}
    return there == made.digests


def remove_unfinished(folder: Path) -> None:
    """Remove the hidden remainders of runs that were stopped while they wrote this folder: they hold drawn tables."""
    parent = folder.absolute().parent
    if not parent.is_dir():  # and so nothing is in it
        return
    try:
        for path in parent.iterdir():
            if path.name.startswith(_prefix(folder)) and path.is_dir() and not path.is_symlink():
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
