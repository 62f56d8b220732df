"""Machine code of kernels on disk: one file for a kernel, the kind of its arguments, and all that it is made from.

A file's key is a digest of the kernel's code and of what it calls, of the compiler and of the processor, so that code
of anything else is never found. It lies beside the sources, or in ``NUMBA_CACHE_DIR``, or else in the user's folder for
such files. Whoever can write there can have this program do anything, as with Python's own translated files: files of
others, or that others can write, are not taken, nor is a folder used that is another's or that everybody can write.
"""

import hashlib
import json
import os
import stat
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType

from congenial.sampling.kernels.machine_code import MachineCode, processor
from congenial.sampling.kernels.made_from import digest_of
from congenial.versions import version_of

ENDING = ".kernel"
_KNOWN = "0.68."
_OTHERS_WRITE, _EVERYBODY_WRITES = 0o022, 0o002
_FOLDER = "NUMBA_CACHE_DIR"
_COMPILER = (
    *("compiler", "inner_code", "known_types", "lines_type", "packed_type", "vector_code", "no_linear_algebra"),
    *("packed", "machine_code", "made_from", "kept_code"),
)


def is_known() -> bool:
    """Return whether numba is the one whose own parts are taken here; another compiles as it always did, for longer."""
    return version_of("numba").startswith(_KNOWN)


@cache
def _compiler() -> str | None:
    """Return a digest of what makes code of kernels here; None where that cannot be read, as in an archive."""
    made = hashlib.sha256()
    try:
        for name in _COMPILER:
            made.update(hashlib.sha256(Path(__file__).with_name(f"{name}.py").read_bytes()).digest())
    except OSError:
        return None
    set_up = sorted((name, text) for name, text in os.environ.items() if name.startswith("NUMBA_") and name != _FOLDER)
    made.update(repr((version_of("numba"), version_of("llvmlite"), processor(), set_up)).encode())
    return made.hexdigest()


def _key(function: FunctionType, kinds: tuple[str, ...]) -> str | None:
    compiler = _compiler()
    if compiler is None:
        return None
    return hashlib.sha256("\n".join((compiler, digest_of(function), *kinds)).encode()).hexdigest()


def _is_safe(folder: Path) -> bool:
    """Return whether a folder is ours or the administrator's, and not one in which everybody can write."""
    found = folder.stat()
    return found.st_uid in {0, os.geteuid()} and not found.st_mode & _EVERYBODY_WRITES


def _made_safe(folder: Path) -> bool:
    """Make a folder, for its owner alone, if it is not there; return whether it is safe."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _is_safe(folder)
    except OSError:
        return False


def may_be_kept() -> bool:
    """Return whether numba may keep what it compiles where the environment says, if it does."""
    named = os.environ.get(_FOLDER)
    return not named or _made_safe(Path(named))


def _folders(function: FunctionType) -> list[Path]:
    """Return where code may lie, the first choice first."""
    if named := os.environ.get(_FOLDER):
        return [Path(named)]
    users, found = os.environ.get("XDG_CACHE_HOME", ""), [Path(function.__code__.co_filename).parent / "__pycache__"]
    with suppress(RuntimeError):  # nobody knows where this user's folder is
        found.append((Path(users) if os.path.isabs(users) else Path("~/.cache").expanduser()) / "congenial")
    return found


def find(function: FunctionType, kinds: tuple[str, ...]) -> MachineCode | None:
    """Return the code of a kernel for arguments of these kinds; None if none is kept."""
    if (key := _key(function, kinds)) is None:
        return None
    for folder in _folders(function):
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            if _is_safe(folder):
                return _read(folder / _name(function, key), key)
    return None


def _name(function: FunctionType, key: str) -> str:
    return f"{function.__name__}-{key[:32]}{ENDING}"


def _read(path: Path, key: str) -> MachineCode:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        is_ours = found.st_uid in {0, os.geteuid()} and not found.st_mode & _OTHERS_WRITE
        if not stat.S_ISREG(found.st_mode) or not is_ours:
            raise ValueError("it is no file, or others can write it")
        digest, content = file.readline().strip(), file.read()
    if hashlib.sha256(content).hexdigest().encode() != digest:
        raise ValueError("it was not written to its end")
    head, _, code = content.partition(b"\n")
    said = json.loads(head)
    if said["key"] != key:
        raise ValueError("it is another kernel's")
    return MachineCode(said["name"], said["returns"], code)


def keep(function: FunctionType, kinds: tuple[str, ...], made: MachineCode) -> None:
    """Keep code for the next process, where a folder can be written."""
    numba, key = sys.modules.get("numba"), _key(function, kinds)
    if key is None or numba is None or numba.__version__ != version_of("numba"):
        return
    content = json.dumps({"key": key, "name": made.name, "returns": made.returns}).encode() + b"\n" + made.code
    for folder in filter(_made_safe, _folders(function)):
        unfinished = folder / f"{_name(function, key)}.{os.getpid()}"
        with suppress(OSError):
            try:
                unfinished.unlink(missing_ok=True)
                handle = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
                with os.fdopen(handle, "wb") as file:
                    os.fchmod(handle, 0o644)
                    file.write(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
                unfinished.replace(folder / _name(function, key))
            finally:
                unfinished.unlink(missing_ok=True)
            return
