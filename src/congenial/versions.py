"""Versions of installed packages, from the names of the folders that installers leave.

`importlib.metadata` reads every package's description to find the version in it, and loads a parser of e-mail for that:
0.08 s of each command. The folder's name has the version as well; what has no such folder is looked up the long way.
"""

import re
import sys
from functools import cache
from pathlib import Path

_ENDING = ".dist-info"


def _plain(name: str) -> str:
    """Return a package's name as folders write it, whichever of ``-``, ``_`` and ``.`` it has."""
    return re.sub(r"[-_.]+", "_", name).lower()


@cache
def _in_folder(folder: str) -> dict[str, str]:
    """Return the versions in a folder of packages, by name."""
    try:
        found = [path.name.removesuffix(_ENDING) for path in Path(folder).iterdir() if path.name.endswith(_ENDING)]
    except OSError:  # an archive, or a folder that is not there
        return {}
    return {_plain(name): version for name, _, version in (one.partition("-") for one in found) if version}


def version_of(package: str) -> str:
    """Return the version of an installed package; the first on Python's path counts.

    Examples
    --------
    >>> version_of("python-flint") == __import__("flint").__version__
    True
    """
    name = _plain(package)
    for folder in sys.path:
        if (version := _in_folder(folder or ".").get(name)) is not None:
            return version
    from importlib.metadata import version as described

    return described(package)
