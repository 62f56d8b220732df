"""What is on disk when a call returns."""

import os
from pathlib import Path


def flush_folder(folder: Path) -> None:
    """See that names which were added to a folder, or taken from it, outlive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
