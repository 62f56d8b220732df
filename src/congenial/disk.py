"""What is on disk when a call returns, and what never gets there."""

import fcntl
import os
import resource
from contextlib import suppress
from pathlib import Path


def flush(handle: int) -> None:
    """See that the content of a file outlives a power cut; on macOS fsync alone leaves it in the drive's cache."""
    os.fsync(handle)
    whole = getattr(fcntl, "F_FULLFSYNC", None)
    if whole is not None:
        with suppress(OSError):  # not every file system has it; fsync is what there is then
            fcntl.fcntl(handle, whole)


def flush_folder(folder: Path) -> None:
    """See that names which were added to a folder, or taken from it, outlive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        flush(handle)
    finally:
        os.close(handle)


def no_core_file() -> None:
    """See that a crash leaves no picture of the memory, from here to the end of the process.

    The limit is 1 byte and not 0: Linux hands the picture to a program that collects them whatever the limit is, but
    for 1. It is not lifted again, because Python cannot wipe what was in memory.
    """
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (int(most != 0), most))
