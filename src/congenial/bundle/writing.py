"""A folder that appears whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from congenial.disk import flush, flush_folder
from congenial.errors import BundleError, reason_of


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


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a new folder: into a hidden one beside it first, flushed to disk, then renamed.

    Whoever stops this at any moment leaves either the whole folder or none; a hidden remainder may stay.
    """
    check_new(folder)
    outer: Path | None = None
    try:
        outer = _temporary(folder)
        inner = outer / "bundle"  # the hidden folder is private; this one gets the usual permissions
        inner.mkdir()
        for name, content in files.items():
            with (inner / name).open("xb") as out:
                out.write(content)
                out.flush()
                flush(out.fileno())
        flush_folder(inner)
        inner.rename(folder)
        flush_folder(folder.absolute().parent)
    except OSError as refused:
        raise BundleError(f"the bundle could not be written to {folder}: {reason_of(refused)}") from None
    finally:
        if outer is not None:
            shutil.rmtree(outer, ignore_errors=True)


def _temporary(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix=f".{folder.name}.unfinished-", dir=folder.absolute().parent))
