"""The state of a workbench: the files that it may touch, its ledger and key, and the data that were read."""

import glob
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path, PurePosixPath
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any, Literal

from congenial.arrays import Ints
from congenial.bundle.file_registry import MANIFEST
from congenial.disk_and_gzip import flush, flush_folder
from congenial.errors import LedgerError, ReadingError, reason_of
from congenial.ledger import Ledger, open_ledger
from congenial.reading.files_and_columns import find_files
from congenial.reading.leaf_list import read_spine
from congenial.reading.tables_and_data_checks import read_leaves, read_records, read_together
from congenial.safe_text import first_hidden
from congenial.spec.load import parse_spec
from congenial.spec.spec_and_hierarchy import Spec
from congenial.spec.yaml_and_mistakes import parse
from congenial.table import CONFIDENTIAL, AreaTables, Table
from congenial.tree.areas_across import AreasAcross
from congenial.tree.tree_and_zeros import Tree, Zeros, check_leaves
from congenial.workbench.jobs_and_errors import BackgroundJob, Worker, error_message
from congenial.workload.records import Records

# Which files the workbench may touch: specs, data and bundles of one folder, each known by its name and place.
#
# A parameter of a request names a file of one kind, and a file of another kind is not shown, read or written: not the
# ledger, a private key, the key of a release under way, nor what is marked CONFIDENTIAL. No link is followed out.

FileKind = Literal["folder", "bundle", "spec", "data"]

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
class FolderListing:
    """What there is in a folder, by path from it: specs, data files by name only, and bundles."""

    specs: tuple[str, ...]
    data: tuple[str, ...]
    bundles: tuple[str, ...]
    is_cut: bool = False


def is_visible(name: str) -> bool:
    """Whether a name is not one of a hidden file, a file for the curator's eyes or a folder of keys.

    Some file systems do not tell small letters from capitals, so neither does this.

    Examples
    --------
    >>> [is_visible(name) for name in ("spec.yaml", ".spec.yaml", "confidential-p12.csv", "budget.db.keys")]
    [True, False, False, False]
    """
    folded = name.casefold()
    return not (folded.startswith((".", CONFIDENTIAL.casefold())) or folded.endswith(".keys") or first_hidden(name))


def file_kind(path: Path) -> FileKind | None:
    """Return what an entry of a folder is to the workbench; None is left alone, as every link is."""
    try:
        if not is_visible(path.name) or path.is_symlink():
            return None
        if path.is_dir():
            return "bundle" if (path / MANIFEST).is_file() else "folder"
        if not path.is_file():
            return None
    except OSError:  # it may not be looked at
        return None
    return "spec" if path.name.endswith(_SPECS) else "data" if path.name.endswith(_DATA) else None


def path_inside(folder: Path, name: str, kind: FileKind) -> Path:
    """Return the path of a spec, a data file or a bundle of the folder; everything else is refused alike.

    Examples
    --------
    >>> path_inside(Path("/tmp"), "a/../../etc/passwd", "bundle")
    Traceback (most recent call last):
    congenial.errors.ReadingError: 'a/../../etc/passwd' is no bundle of the workbench's folder: a folder with a...
    """
    path, root = PurePosixPath(name[:_LONGEST]), folder.resolve()
    is_plain = bool(path.parts) and not path.is_absolute() and len(name) < _LONGEST and "\\" not in name
    paths = [root / parent for parent in [path, *path.parents][:-1]] if is_plain else []
    if not paths or [file_kind(path) for path in paths] != [kind, *["folder"] * (len(paths) - 1)]:
        raise ReadingError(
            f"{name[:100]!r} is no {kind} of the workbench's folder: {_MEANING[kind]}, not hidden, not marked"
            f" {CONFIDENTIAL.rstrip('-')}, not in a bundle or a folder of keys, and no link"
        )
    return paths[0]


@lru_cache(maxsize=64)
def files_named(text: str) -> tuple[str, ...]:
    """Return the files that a spec names, of data and of public lists."""
    return tuple(_named_in(parse(text.encode("utf-8")).tree, {"path", "file"}))


@lru_cache(maxsize=64)
def bundles_named(text: str) -> tuple[str, ...]:
    """Return the folders of bundles that a spec names: of the release that its tables agree with."""
    return tuple(_named_in(parse(text.encode("utf-8")).tree, {"bundle"}))


def check_named_files(folder: Path, beside: Path, files: Sequence[str]) -> None:
    """Refuse a spec that names files which the workbench does not read, before any of them is opened.

    A pattern is looked up, and what data are read from is checked as if it were named.
    """
    root = folder.resolve()
    for name in files:
        try:
            is_allowed = all(_is_readable(root, path) for path in [beside / name, *_matches(beside, name)])
        except (OSError, ValueError, RuntimeError):
            is_allowed = False
        if not is_allowed:
            raise ReadingError(
                f"the spec names {name[:100]!r}, which is outside of the workbench's folder or no file that it reads:"
                f" {_MEANING['data']}, not hidden, not marked {CONFIDENTIAL.rstrip('-')} and not in a folder of keys."
                " Rename or move the file, or use the command line"
            )


def _matches(beside: Path, pattern: str) -> Iterator[Path]:
    """Go through the files that a pattern stands for, without those that it never takes for data."""
    if glob.has_magic(pattern) and not Path(pattern).is_absolute() and ".." not in Path(pattern).parts:
        for match in glob.iglob(pattern, root_dir=beside, recursive=True):
            if not Path(match).name.startswith(CONFIDENTIAL):
                yield beside / match


def _is_readable(root: Path, path: Path) -> bool:
    """Whether a path and the file that it leads to are under the root and visible, and the file is one of data."""
    target = path.resolve()
    is_within = all(
        place.is_relative_to(root) and all(map(is_visible, place.relative_to(root).parts)) for place in (path, target)
    )
    return is_within and ".." not in path.parts and (target.name.endswith(_DATA) or not target.is_file())


def _named_in(value: Any, keys: set[str], key: str = "") -> Iterator[str]:
    """Go through what stands after some keys, such as `path:` and `file:`, anywhere in a spec."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _named_in(inner, keys, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _named_in(inner, keys, key)
    elif key in keys and isinstance(value, str):
        yield value


def list_folder(folder: Path) -> FolderListing:
    """Return what a folder holds, some levels deep; files for the curator's eyes are left out."""
    names: dict[FileKind | None, list[str]] = {"spec": [], "data": [], "bundle": []}
    pending, n_seen = [(folder, 0)], 0
    while pending and n_seen < _MOST:
        here, depth = pending.pop(0)
        try:
            entries = sorted(here.iterdir(), key=lambda path: path.name)
        except OSError:
            continue
        for path in entries:
            n_seen += 1
            name, kind = path.relative_to(folder).as_posix(), file_kind(path)
            if kind == "folder" and depth < _DEEPEST:
                pending.append((path, depth + 1))
            elif kind in names:
                names[kind].append(name)
    specs, data, bundles = map(tuple, names.values())
    return FolderListing(specs, data, bundles, bool(pending) or n_seen >= _MOST)


_MOST_KEPT, _MOST_LARGE, _MOST_SPECS = 8, 2, 64  # data, large data, and texts of specs, that are kept in memory
_MANY_COUNTS = 1_000_000


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves of a tree: who is part of whom, where nobody can be, confidential counts, and areas across."""

    tree: Tree
    zeros: Zeros
    counts: Ints = field(repr=False)
    across: AreasAcross | None = None


Data = Table | AreaTables | Leaves | Records
"""The confidential counts that a spec names."""


@dataclass
class Workspace:
    """The state of a workbench.

    Attributes
    ----------
    folder : Path
        The only folder whose files are read and written, besides the ledger and the key.
    ledger_address : str or None
        As `open_ledger` takes it.
    key : Path or None
        A private key to sign releases with.
    who : str
        Who releases, for the ledger.
    """

    folder: Path
    ledger_address: str | None = None
    key: Path | None = None
    who: str = ""
    worker: Worker = field(default_factory=Worker)
    jobs: dict[str, BackgroundJob] = field(default_factory=dict)
    _data: dict[object, Data] = field(default_factory=dict, repr=False)
    _specs: dict[object, Spec] = field(default_factory=dict, repr=False)
    _scratch: "TemporaryDirectory[str] | None" = field(default=None, repr=False)

    def path(self, name: str, kind: FileKind = "spec") -> Path:
        """Return the path of a spec, a data file or a bundle of the folder, or refuse."""
        return path_inside(self.folder, name, kind)

    def ledger(self) -> Ledger:
        """Open the ledger that the workbench was started with."""
        if self.ledger_address is None:
            raise LedgerError(
                "this workbench was started without a ledger; stop it, and start it with --ledger budget.db (and before"
                " the first time: congenial ledger create DATASET --epsilon 4 --ledger budget.db)"
            )
        return open_ledger(self.ledger_address)

    def spec_text(self, file: str) -> str:
        """Return the text of a spec as it is on disk, line ends included."""
        path = self.path(file)
        try:
            return path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            raise ReadingError(f"{path.name} is not UTF-8 text") from None
        except OSError as refused:
            raise ReadingError(f"{path.name} cannot be read: {reason_of(refused)}") from None

    def spec(self, file: str, draft: str | None = None) -> Spec:
        """Return a spec of the folder, or a draft of it that is not saved yet."""
        path = self.path(file)
        text = self.spec_text(file) if draft is None else draft
        files = files_named(text)
        check_named_files(self.folder, path.parent, files)
        beside = PurePosixPath(file).parent
        for bundle in bundles_named(text):
            self.path((beside / bundle).as_posix(), "bundle")
        key = (str(path), text, _states(path.parent, files))
        if key not in self._specs:
            evict(self._specs, _MOST_SPECS)
            self._specs[key] = parse_spec(text.encode("utf-8"), path.name, folder=path.parent)
        return self._specs[key]

    def save(self, file: str, text: str, digest: str) -> None:
        """Write a spec, unless somebody else changed it since it was opened; a text that is the same is left alone."""
        path, before = self.path(file), self.spec_text(file)
        if digest_of(before) != digest:
            raise ReadingError(
                f"{path.name} was changed since this page was opened, in another tab or by an editor; nothing is"
                " written. Open it again to see it as it is now"
            )
        if before != text:
            _write(path, text.encode("utf-8"))

    def data(self, spec: Spec, file: str) -> Data:
        """Return the confidential counts of a spec, read once as long as data, dimensions and the tree stay."""
        key, folder = self.data_key(spec, file), self.path(file).parent
        if key not in self._data:
            data = _read(spec, folder)
            n_counts = data.n_lines if isinstance(data, Records) else data.counts.size
            evict(self._data, _MOST_KEPT if n_counts <= _MANY_COUNTS else _MOST_LARGE)
            self._data[key] = data
        return self._data[key]

    def data_key(self, spec: Spec, file: str) -> tuple[object, ...]:
        """Return what tells whether the data of a spec are others: its files and its tree's, and how they are read."""
        folder, tree = self.path(file).parent, spec.hierarchy
        files = find_files(spec.data.paths, folder)
        shape = (spec.data, spec.unit, spec.dimensions, spec.by, spec.row_filters, spec.unpublished)
        spine = () if tree is None else (repr(replace(tree, shares=None)), _states(folder, tree.lists))
        states = ((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in files)
        return (repr(shape), *spine, *states)

    def start(self, title: str, run: Callable[[BackgroundJob], Any]) -> str:
        """Begin something that takes a while; returns the number of the job, as text."""
        job, name = BackgroundJob(title), f"{len(self.jobs) + 1}"
        self.jobs[name] = job

        def execute() -> None:
            try:
                job.result = run(job)
            except Exception as error:  # noqa: BLE001  the text of what is unforeseen goes nowhere
                job.error = error_message(error)[1]
            job.is_over = True

        self.worker.submit(execute)
        return name

    @property
    def scratch(self) -> Path:
        """A folder of this process for bundles that are uploaded or simulated; it goes when the workbench ends."""
        if self._scratch is None:
            self._scratch = TemporaryDirectory(prefix="congenial-workbench-")
        return Path(self._scratch.name)

    def close(self) -> None:
        """Finish what is under way, and tidy up."""
        self.worker.close()
        if self._scratch is not None:
            self._scratch.cleanup()


def _read(spec: Spec, folder: Path) -> Data:
    if spec.tables is not None:
        return read_records(spec, folder)
    if spec.hierarchy is None:
        return read_together(spec, folder)
    tree, zeros, across = read_spine(spec.hierarchy, spec.schema.n_cells, folder)
    counts = read_leaves(spec, tree, folder)
    check_leaves(tree, spec.schema.n_cells, zeros, counts)
    return Leaves(tree, zeros, counts, across)


def digest_of(text: str) -> str:
    """Return what tells one text of a spec from another."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, with the rights of the one that it replaces."""
    part = None
    try:
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as out:
            part = Path(out.name)
            out.write(content)
            flush(out.fileno())
        part.chmod(stat.S_IMODE(path.stat().st_mode))
        part.replace(path)
        flush_folder(path.parent)
    except OSError as refused:
        if part is not None:
            part.unlink(missing_ok=True)
        raise ReadingError(f"{path.name} cannot be written: {reason_of(refused)}") from None


def _states(folder: Path, files: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Return what tells whether files that a spec names were changed; lists of levels are part of what it says."""
    paths = [folder / name for name in files]
    return tuple((state.st_mtime_ns, state.st_size) for state in (path.stat() for path in paths if path.exists()))


def evict(cache: dict[Any, Any], most: int) -> None:
    """Make room for one more: the oldest entries go, until there are fewer than `most`."""
    while len(cache) >= most:
        cache.pop(next(iter(cache)))
