"""Which files the workbench may touch: specs, data and bundles of one folder, each known by its name and place.

A parameter of a request names a file of one kind, and a file of another kind is not shown, read or written: not the
ledger, a private key, the key of a release under way, nor what is marked CONFIDENTIAL. No link is followed out.
"""

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from congenial.bundle.file_names import MANIFEST
from congenial.errors import ReadingError
from congenial.plain_text import hidden_in
from congenial.spec.yaml_text import parse
from congenial.table import CONFIDENTIAL

Kind = Literal["folder", "bundle", "spec", "data"]

_DATA = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq")
_SPECS = (".yaml", ".yml")
_MEANING = {
    "spec": "a file ending in .yaml or .yml",
    "data": f"a file ending in {', '.join(_DATA)}",
    "bundle": f"a folder with a {MANIFEST}",
    "folder": "a folder that is no bundle",
}
_DEEPEST, _MOST = 3, 400  # folders below, and entries that are listed
_LONGEST = 1_000


@dataclass(frozen=True)
class Found:
    """What there is in a folder, by path from it: specs, data files by name only, and bundles."""

    specs: tuple[str, ...]
    data: tuple[str, ...]
    bundles: tuple[str, ...]
    is_cut: bool = False


def is_open(name: str) -> bool:
    """Whether a name is not one of a hidden file, a file for the curator's eyes or a folder of keys.

    Some file systems do not tell small letters from capitals, so neither does this.

    Examples
    --------
    >>> [is_open(name) for name in ("spec.yaml", ".spec.yaml", "confidential-p12.csv", "budget.db.keys")]
    [True, False, False, False]
    """
    own = name.casefold()
    return not (own.startswith((".", CONFIDENTIAL.casefold())) or own.endswith(".keys") or hidden_in(name))


def kind_of(path: Path) -> Kind | None:
    """Return what an entry of a folder is to the workbench; None is left alone, as every link is."""
    try:
        if not is_open(path.name) or path.is_symlink():
            return None
        if path.is_dir():
            return "bundle" if (path / MANIFEST).is_file() else "folder"
        is_file = path.is_file()
    except OSError:  # it may not be looked at
        return None
    return "spec" if is_file and path.name.endswith(_SPECS) else "data" if is_file and _is_data(path.name) else None


def inside(folder: Path, named: str, kind: Kind) -> Path:
    """Return the path of a spec, a data file or a bundle of the folder; everything else is refused alike.

    Examples
    --------
    >>> inside(Path("/tmp"), "a/../../etc/passwd", "bundle")
    Traceback (most recent call last):
    congenial.errors.ReadingError: 'a/../../etc/passwd' is no bundle of the workbench's folder: a folder with a...
    """
    own, root = PurePosixPath(named[:_LONGEST]), folder.resolve()
    is_plain = bool(own.parts) and not own.is_absolute() and len(named) < _LONGEST and "\\" not in named
    paths = [root / parent for parent in [own, *own.parents][:-1]] if is_plain else []
    if not paths or [kind_of(path) for path in paths] != [kind, *["folder"] * (len(paths) - 1)]:
        raise ReadingError(
            f"{named[:100]!r} is no {kind} of the workbench's folder: {_MEANING[kind]}, not hidden, not marked"
            f" {CONFIDENTIAL.rstrip('-')}, not in a bundle or a folder of keys, and no link"
        )
    return paths[0]


@lru_cache(maxsize=64)
def files_named(text: str) -> tuple[str, ...]:
    """Return the files that a spec names, of data and of public lists."""
    return tuple(_files_in(parse(text.encode("utf-8")).tree))


def check_named_files(folder: Path, beside: Path, files: Sequence[str]) -> None:
    """Refuse a spec that names files which the workbench does not read, before any of them is opened.

    A pattern is looked up, and what data are read from is checked as if it were named.
    """
    root = folder.resolve()
    for named in files:
        try:
            is_right = all(_is_readable(root, path) for path in [beside / named, *_matches(beside, named)])
        except (OSError, ValueError, RuntimeError):
            is_right = False
        if not is_right:
            raise ReadingError(
                f"the spec names {named[:100]!r}, which is outside of the workbench's folder or no file that it reads:"
                f" {_MEANING['data']}, not hidden, not marked {CONFIDENTIAL.rstrip('-')} and not in a folder of keys."
                " Rename or move the file, or use the command line"
            )


def _matches(beside: Path, named: str) -> Iterator[Path]:
    """Go through the files that a pattern stands for, without those that it never takes for data."""
    if glob.has_magic(named) and not Path(named).is_absolute() and ".." not in Path(named).parts:
        for match in glob.iglob(named, root_dir=beside, recursive=True):
            if not Path(match).name.startswith(CONFIDENTIAL):
                yield beside / match


def _is_readable(root: Path, path: Path) -> bool:
    """Whether a path and the file that it leads to are under the root and open, and the file is one of data."""
    target = path.resolve()
    is_within = all(
        own.is_relative_to(root) and all(map(is_open, own.relative_to(root).parts)) for own in (path, target)
    )
    return is_within and ".." not in path.parts and (_is_data(target.name) or not target.is_file())


def _is_data(name: str) -> bool:
    return name.endswith(_DATA)


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
    names: dict[Kind | None, list[str]] = {"spec": [], "data": [], "bundle": []}
    pending, n_seen = [(folder, 0)], 0
    while pending and n_seen < _MOST:
        here, depth = pending.pop(0)
        try:
            entries = sorted(here.iterdir(), key=lambda path: path.name)
        except OSError:
            continue
        for path in entries:
            n_seen += 1
            name, kind = path.relative_to(folder).as_posix(), kind_of(path)
            if kind == "folder" and depth < _DEEPEST:
                pending.append((path, depth + 1))
            elif kind in names:
                names[kind].append(name)
    specs, data, bundles = map(tuple, names.values())
    return Found(specs, data, bundles, bool(pending) or n_seen >= _MOST)
