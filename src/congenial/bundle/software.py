"""Versions of whatever decides a byte of a bundle."""

import os
import platform
from collections.abc import Iterable, Mapping
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("congenial", "numpy", "pyarrow", "jinja2")
SOFTWARE = ("python", *PACKAGES)
"""What a manifest records, in its order."""

_SOURCE = Path(__file__).parents[1]


def software_in_use() -> dict[str, str]:
    """Return the versions that are installed here."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def source_in_use() -> dict[str, str]:
    """Return what a version does not tell: digests of this package's own files, and the compiler of its kernels."""
    digests = {}
    for folder, inside, names in os.walk(_SOURCE):
        inside[:] = [name for name in inside if name != "__pycache__"]  # as many files again
        own = os.path.relpath(folder, _SOURCE)
        for name in names:
            if name.endswith((".py", ".html")):
                content = Path(folder, name).read_bytes()
                digests[Path(own, name).as_posix()] = sha256(content).hexdigest()
    return {**dict(sorted(digests.items())), "numba": version("numba")}


def other_versions(recorded: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """Say of each of these packages whose recorded version is not the installed one what both are.

    Examples
    --------
    >>> other_versions({"congenial": "0.0.1"}, ["congenial"])[0].startswith("congenial 0.0.1 there and ")
    True
    """
    here = software_in_use()
    return [f"{name} {recorded[name]} there and {here[name]} here" for name in names if recorded[name] != here[name]]
