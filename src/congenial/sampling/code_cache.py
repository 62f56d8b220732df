"""Where compiled kernels are kept: a folder of this user's that nobody else can write.

numba reads compiled code back by pickle, so a file that another user has put there runs as this user. The folder is
``$NUMBA_CACHE_DIR``, else ``$XDG_CACHE_HOME/congenial`` or ``~/.cache/congenial``, and in it one named by a digest of
the kernels' sources and of the compiler's versions: numba compares a kernel's own file alone, not those that it calls.
"""

import hashlib
import os
import stat
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_KERNEL_PACKAGES = ("sampling", "inference", "conditions")  # conditions: a constant of theirs
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def is_cached_source(file: str) -> bool:
    """Return whether the digest covers a source file: kernels of other files are compiled in memory."""
    return any(Path(file).is_relative_to(_PACKAGE / name) for name in _KERNEL_PACKAGES)


@cache
def _sources_digest() -> str | None:
    """Return a digest of the kernels' sources and of what compiles them; None where they cannot be read."""
    digest = hashlib.sha256(repr((sys.version, *map(version, ("numba", "llvmlite", "numpy")))).encode())
    try:
        for path in sorted(path for name in _KERNEL_PACKAGES for path in (_PACKAGE / name).rglob("*.py")):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    except OSError:
        return None
    return digest.hexdigest()[:20]


def _base_folder() -> Path | None:
    """Return the folder that holds those of all versions: absolute, and of the user's choice if there is one."""
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(named).absolute()
    users = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(users) if os.path.isabs(users) else Path.home() / ".cache") / "congenial"
    except RuntimeError:  # no home folder is known
        return None


def _is_trusted(folder: Path) -> bool:
    """Return whether nobody but this user and root can replace a folder: neither it nor a parent is open to others."""
    for place in (folder, *folder.parents):
        state = place.lstat()
        is_own = state.st_uid in {0, os.geteuid()} and stat.S_ISDIR(state.st_mode)
        if not is_own or (state.st_mode & _OTHERS_WRITE and not state.st_mode & stat.S_ISVTX):
            return False
    return True


def _is_private(folder: Path) -> bool:
    """Return whether a folder, and all that is in it, is this user's or root's, and closed to others."""
    if folder.stat().st_mode & 0o077:
        return False
    entries = [Path(inside, name) for inside, *names in os.walk(folder) for name in (*names[0], *names[1])]
    states = [entry.lstat() for entry in entries]
    return all(
        state.st_uid in {0, os.geteuid()} and (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode))
        for state in states
    )


@cache
def private_cache_folder() -> Path | None:
    """Return the folder of this version's compiled kernels, made if need be; None if it cannot be had safely."""
    base, digest = _base_folder(), _sources_digest()
    if base is None or digest is None:
        return None
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = base.resolve() / f"kernels-{digest}"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder if _is_trusted(folder) and _is_private(folder) else None
    except OSError:
        return None


def was_compiled(kernel: str) -> bool:
    """Return whether a kernel was compiled before, and kept."""
    folder = private_cache_folder()
    return folder is not None and (folder / kernel).exists()


def note_compiled(kernel: str) -> None:
    """Note that a kernel is compiled and kept."""
    folder = private_cache_folder()
    if folder is not None:
        with suppress(OSError):
            (folder / kernel).touch()
