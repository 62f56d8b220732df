"""What a flush asks of the system."""

import fcntl
import os
from pathlib import Path

import pytest

from congenial.disk_and_gzip import flush, flush_folder


def test_on_macos_a_flush_reaches_the_drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There fsync leaves bytes in the drive's cache; a file system without the stronger call is no failure."""
    asked = []

    def unknown(handle: int, command: int) -> None:
        asked.append((os.fstat(handle).st_ino, command))
        raise OSError(45, "Operation not supported")

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", unknown)
    with (tmp_path / "file").open("wb") as out:
        flush(out.fileno())
    flush_folder(tmp_path)
    assert asked == [((tmp_path / "file").stat().st_ino, 51), (tmp_path.stat().st_ino, 51)]
