"""Durable writes, no core dumps, gzip files."""

import fcntl
import gzip
import os
import resource
import zlib
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

from congenial.errors import ReadingError


def flush(handle: int) -> None:
    """Flush a file so that it survives a power cut; on macOS fsync alone leaves it in the drive's cache."""
    os.fsync(handle)
    whole = getattr(fcntl, "F_FULLFSYNC", None)
    if whole is not None:
        with suppress(OSError):  # not every file system has it; fsync is what there is then
            fcntl.fcntl(handle, whole)


def flush_folder(folder: Path) -> None:
    """Flush a folder's entries so that added and removed names survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        flush(handle)
    finally:
        os.close(handle)


def disable_core_dumps() -> None:
    """Disable core dumps until the process ends.

    The limit is 1 byte and not 0: Linux pipes a core dump to a collecting program whatever the limit is, except at 1.
    It is not lifted again, because Python cannot wipe memory.
    """
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (int(most != 0), most))


# Files compressed by gzip: their content, and whether it is complete.

GZIP = b"\x1f\x8b"
_AT_ONCE = 1 << 20


def is_packed(path: Path) -> bool:
    """Whether a file says that it is packed by gzip; a name that says so must be right."""
    with path.open("rb") as stream:
        has_magic = stream.read(len(GZIP)) == GZIP
    if path.suffix == ".gz" and not has_magic:
        raise ReadingError(f"{path.name} is not packed by gzip, though its name says so")
    return has_magic


def open_unpacked(path: Path) -> BinaryIO:
    """Open a file to read its bytes, unpacked."""
    return cast("BinaryIO", gzip.open(path, "rb")) if is_packed(path) else path.open("rb")


def read_beginning(path: Path, length: int) -> bytes:
    """Return the first bytes of a file, unpacked."""
    with open_unpacked(path) as stream:
        try:
            return stream.read(length)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise _damaged(path) from None


def check_whole(path: Path) -> None:
    """Refuse a packed file that is cut short or damaged: DuckDB does not compare its checksum."""
    with open_unpacked(path) as stream:
        try:
            while stream.read(_AT_ONCE):
                pass
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise _damaged(path) from None


def _damaged(path: Path) -> ReadingError:
    return ReadingError(f"{path.name} is cut short or damaged: it does not unpack to what was packed; copy it again")
