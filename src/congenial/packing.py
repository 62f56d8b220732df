"""Files packed by gzip: their text, and whether all of it is there."""

import gzip
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from congenial.errors import ReadingError

GZIP = b"\x1f\x8b"
_AT_ONCE = 1 << 20


def is_packed(path: Path) -> bool:
    """Whether a file says that it is packed by gzip; a name that says so must be right."""
    with path.open("rb") as stream:
        found = stream.read(len(GZIP)) == GZIP
    if path.suffix == ".gz" and not found:
        raise ReadingError(f"{path.name} is not packed by gzip, though its name says so")
    return found


def opened(path: Path) -> BinaryIO:
    """Open a file to read its bytes, unpacked."""
    return cast("BinaryIO", gzip.open(path, "rb")) if is_packed(path) else path.open("rb")


def beginning(path: Path, length: int) -> bytes:
    """Return the first bytes of a file, unpacked."""
    with opened(path) as stream:
        try:
            return stream.read(length)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise _damaged(path) from None


def check_whole(path: Path) -> None:
    """Refuse a packed file that is cut short or damaged: DuckDB does not compare its checksum."""
    with opened(path) as stream:
        try:
            while stream.read(_AT_ONCE):
                pass
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise _damaged(path) from None


def _damaged(path: Path) -> ReadingError:
    return ReadingError(f"{path.name} is cut short or damaged: it does not unpack to what was packed; copy it again")
