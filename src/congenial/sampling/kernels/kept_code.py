"""Machine code of kernels on disk: one file for a kernel, the kind of its arguments, and all that it is made from.

The file's name is a digest of the sources, the compiler's version and the processor, so that code of other sources is
never found. It lies beside the sources, or in ``NUMBA_CACHE_DIR``, or else in the user's folder for such files. Whoever
can write there can have this program do anything, as with Python's own translated files: one that others can write is
not taken.
"""

import hashlib
import json
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType

from congenial.sampling.kernels.machine_code import MachineCode, processor
from congenial.versions import version_of

_OTHERS_WRITE = 0o022
ENDING = ".kernel"
_KNOWN = "0.68."
_HERE = Path(__file__).parent
SHAPES = (_HERE, *(_HERE.parent / folder for folder in ("contraction", "look_ahead", "share_out")))
"""Where the kernels of samplers are, and the types which all kernels take."""


def is_known() -> bool:
    """Return whether numba is the one whose own parts are taken here; another compiles as it always did, for longer."""
    return version_of("numba").startswith(_KNOWN)


def source_digest(*folders: Path) -> str:
    """Return a digest of the sources in folders, and of the compiler."""
    made = hashlib.sha256(version_of("numba").encode())
    for path in sorted(path for folder in folders for path in folder.glob("*.py")):
        made.update(path.read_bytes())
    return made.hexdigest()


@cache
def _state(folder: Path) -> str:
    return f"{source_digest(folder, *SHAPES)} {version_of('llvmlite')} {processor()}"


def _name(function: FunctionType, kinds: tuple[str, ...]) -> str:
    folder = Path(function.__code__.co_filename).parent
    made = hashlib.sha256("\n".join((_state(folder), function.__module__, function.__qualname__, *kinds)).encode())
    return f"{function.__name__}-{made.hexdigest()[:32]}{ENDING}"


def _folders(function: FunctionType) -> list[Path]:
    """Return where code may lie, the first choice first."""
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        return [Path(named)]
    own = os.environ.get("XDG_CACHE_HOME")
    users = Path(own) if own else Path("~/.cache")
    with suppress(RuntimeError):  # nobody knows where this user's folder is
        return [Path(function.__code__.co_filename).parent / "__pycache__", users.expanduser() / "congenial"]
    return [Path(function.__code__.co_filename).parent / "__pycache__"]


def find(function: FunctionType, kinds: tuple[str, ...]) -> MachineCode | None:
    """Return the code of a kernel for arguments of these kinds; None if none is kept."""
    for folder in _folders(function):
        with suppress(OSError, ValueError, KeyError):
            return _read(folder / _name(function, kinds))
    return None


def _read(path: Path) -> MachineCode:
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        if found.st_uid not in {0, os.geteuid()} or found.st_mode & _OTHERS_WRITE:
            raise ValueError("others can write it")
        head, code = json.loads(file.readline()), file.read()
    if hashlib.sha256(code).hexdigest() != head["sha256"]:
        raise ValueError("it was not written to its end")
    return MachineCode(head["name"], head["returns"], code)


def keep(function: FunctionType, kinds: tuple[str, ...], made: MachineCode) -> None:
    """Keep code for the next process, where a folder can be written."""
    digest = hashlib.sha256(made.code).hexdigest()
    head = json.dumps({"name": made.name, "returns": made.returns, "sha256": digest}).encode()
    for folder in _folders(function):
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / _name(function, kinds)
            unfinished = path.with_suffix(f".{os.getpid()}")
            unfinished.unlink(missing_ok=True)
            handle = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            with os.fdopen(handle, "wb") as file:
                file.write(head + b"\n" + made.code)
                os.fchmod(handle, 0o644)
            unfinished.replace(path)
            return
