"""Which files the workbench may touch: those inside one folder, and nothing that a link leads out of it to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from congenial.bundle.file_names import MANIFEST
from congenial.errors import ReadingError
from congenial.plain_text import hidden_in
from congenial.spec.yaml_text import parse
from congenial.table import CONFIDENTIAL

_DATA = (".csv", ".csv.gz", ".parquet", ".pq")
_SPECS = (".yaml", ".yml")
_DEEPEST, _MOST = 3, 400  # folders below, and entries that are listed


@dataclass(frozen=True)
class Found:
    """What there is in a folder, by path from it: specs, data files by name only, and bundles."""

    specs: tuple[str, ...]
    data: tuple[str, ...]
    bundles: tuple[str, ...]
    is_cut: bool = False


def inside(folder: Path, named: str) -> Path:
    """Return a path of the folder; whatever leads out of it, by name or by a link, is refused.

    Examples
    --------
    >>> inside(Path("/tmp"), "a/../../etc/passwd")
    Traceback (most recent call last):
    congenial.errors.ReadingError: 'a/../../etc/passwd' is not a path inside the workbench's folder
    """
    parts = PurePosixPath(named).parts
    is_plain = bool(parts) and not any(part in {"..", "/"} for part in parts) and "\\" not in named
    if not is_plain or hidden_in(named) or len(named) > 1_000:
        raise ReadingError(f"{named[:100]!r} is not a path inside the workbench's folder")
    root = folder.resolve()
    path = root.joinpath(*parts)
    try:
        is_within = path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):
        is_within = False
    if not is_within:
        raise ReadingError(f"{named[:100]!r} leads out of the workbench's folder")
    return path


@lru_cache(maxsize=64)
def files_named(text: str) -> tuple[str, ...]:
    """Return the files that a spec names, of data and of public lists."""
    return tuple(_files_in(parse(text.encode("utf-8")).tree))


def check_stay_inside(folder: Path, beside: Path, files: Sequence[str]) -> None:
    """Refuse a spec that names files outside of the folder, before any of them is opened; it stands beside others."""
    root = folder.resolve()
    for named in files:
        target = beside / named
        start = Path(*[part for part in target.parts if not any(sign in part for sign in "*?[")])
        if not start.resolve().is_relative_to(root) or ".." in Path(named).parts:
            raise ReadingError(
                f"the spec names {named[:100]!r}, which is outside of the workbench's folder; start the workbench in a"
                " folder that holds both, or use the command line"
            )


def _files_in(value: Any, key: str = "") -> Iterator[str]:
    """Go through what stands after `path:` and `file:` anywhere in a spec."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _files_in(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _files_in(inner, key)
    elif key in {"path", "file"} and isinstance(value, str):
        yield value


def look_into(folder: Path) -> Found:
    """Return what a folder holds, some levels deep; files for the curator's eyes are left out."""
    specs, data, bundles = [], [], []
    pending, n_seen = [(folder, 0)], 0
    while pending and n_seen < _MOST:
        here, depth = pending.pop(0)
        try:
            entries = sorted(here.iterdir(), key=lambda path: path.name)
        except OSError:
            continue
        for path in entries:
            n_seen += 1
            name = path.relative_to(folder).as_posix()
            if path.name.startswith((".", CONFIDENTIAL)) or path.is_symlink() or hidden_in(name):
                continue
            if path.is_dir():
                if (path / MANIFEST).is_file():
                    bundles.append(name)
                elif depth < _DEEPEST and not path.name.endswith(".keys"):
                    pending.append((path, depth + 1))
            elif path.name.endswith(_SPECS):
                specs.append(name)
            elif path.name.endswith(_DATA):
                data.append(name)
    return Found(tuple(specs), tuple(data), tuple(bundles), bool(pending) or n_seen >= _MOST)
