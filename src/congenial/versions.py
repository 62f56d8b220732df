"""Versions of installed packages, from the names of the folders that installers leave.

`importlib.metadata` reads every package's description to find the version in it, and loads a parser of e-mail for that:
0.08 s of each command. The folder's name has the version as well; what has no such folder is looked up the long way.
"""

import os
import re
import sys
from functools import cache
from pathlib import Path

_ENDING = ".dist-info"


def _plain(name: str) -> str:
    """Return a package's name as folders write it, whichever of ``-``, ``_`` and ``.`` it has."""
    return re.sub(r"[-_.]+", "_", name).lower()


@cache
def _in_folder(folder: str) -> dict[str, list[str]]:
    """Return what installers have left in a folder of packages, by the name of the package."""
    found: dict[str, list[str]] = {}
    if os.path.isdir(folder):
        for name in os.listdir(folder):
            if ending := next((ending for ending in (_ENDING, ".egg-info", ".egg") if name.endswith(ending)), None):
                found.setdefault(_plain(name.removesuffix(ending).partition("-")[0]), []).append(name)
    return found


def version_of(package: str) -> str:
    """Return the version of an installed package; the first on Python's path counts.

    Examples
    --------
    >>> version_of("python-flint") == __import__("flint").__version__
    True
    """
    name = _plain(package)
    for folder in sys.path:
        if os.path.isfile(folder):  # an archive
            break
        left = _in_folder(folder or ".").get(name)
        if left is not None:
            version = left[0].removesuffix(_ENDING).partition("-")[2]
            if len(left) == 1 and left[0].endswith(_ENDING) and os.path.isfile(Path(folder, left[0], "METADATA")):
                return version
            break
    from importlib.metadata import version as described

    return described(package)
