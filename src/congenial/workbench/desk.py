"""What the pages of one workbench share: its folder, its ledger and key, and the data that were read."""

import glob
import signal
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from itertools import count
from multiprocessing import get_context
from pathlib import Path, PurePosixPath
from queue import PriorityQueue
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any, Literal, TypeVar

from congenial.arrays import Ints
from congenial.bundle.parquet import MANIFEST
from congenial.disk import flush, flush_folder
from congenial.errors import LedgerError, ReadingError, reason_of
from congenial.ledger import Ledger, open_ledger
from congenial.progress import Progress, cancellation
from congenial.reading.files import find_files
from congenial.reading.tables import read_leaves, read_together
from congenial.reading.tree import read_spine
from congenial.spec.load import parse_spec
from congenial.spec.spec import Spec
from congenial.spec.yaml_text import parse
from congenial.table import CONFIDENTIAL, AreaTables, Table
from congenial.text import first_hidden
from congenial.tree.tree import Tree, Zeros, check_leaves
from congenial.workbench.failure import failure_of

# Which files the workbench may touch: specs, data and bundles of one folder, each known by its name and place.
#
# A parameter of a request names a file of one kind, and a file of another kind is not shown, read or written: not the
# ledger, a private key, the key of a release under way, nor what is marked CONFIDENTIAL. No link is followed out.

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
    return not (own.startswith((".", CONFIDENTIAL.casefold())) or own.endswith(".keys") or first_hidden(name))


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


# One thread that computes, so that two tabs never plan, draw or charge at the same time.
#
# Arithmetic in balls keeps its working precision in one place for the whole process, and a ledger's charge is one at
# a time anyway. What a person waits for goes first; what is computed ahead goes when nobody waits. What takes a
# minute and needs no confidential table has a process of its own, so that no other page waits for it.

Made = TypeVar("Made")

AT_ONCE, SOON, AHEAD = 0, 1, 2
"""Somebody waits for it; it arrives later on a page; it is computed in case it will be asked for."""


class _GivesWayError(Exception):
    """Something more urgent waits; this is done again later."""


class Work:
    """A thread with a queue of things to do, the urgent ones first; a long proof gives way to them."""

    def __init__(self) -> None:
        self._queue: PriorityQueue[tuple[int, int, Callable[[], None] | None]] = PriorityQueue()
        self._number = count()
        self._thread = threading.Thread(target=self._run, name="workbench", daemon=True)
        self._thread.start()
        self._apart: ProcessPoolExecutor | None = None

    def do(self, make: Callable[[], Made], urgency: int = AT_ONCE) -> "Future[Made]":
        """Return the promise of what a function makes."""
        promise: Future[Made] = Future()

        number = next(self._number)

        def check() -> None:
            if urgency > AT_ONCE and self._queue.queue and self._queue.queue[0][0] < urgency:
                raise _GivesWayError

        def run() -> None:
            if promise.cancelled():
                return
            try:
                with cancellation(check):
                    made = make()
            except _GivesWayError:
                self._queue.put((urgency, number, run))
            except BaseException as error:  # noqa: BLE001  whoever waits for it gets it
                promise.set_exception(error)
            else:
                promise.set_result(made)

        self._queue.put((urgency, number, run))
        return promise

    def do_apart(self, make: Callable[..., Made], *arguments: object) -> "Future[Made]":
        """Return the promise of what a function of a module makes of public arguments, in a process of its own."""
        for _ in range(2):
            if self._apart is None:
                own = get_context("spawn")  # a copy of a process with threads may hold their locks for ever
                self._apart = ProcessPoolExecutor(1, own, initializer=_leave_interrupts_alone)
            try:
                return self._apart.submit(make, *arguments)
            except BrokenProcessPool:  # somebody has ended it
                self._apart = None
        raise ReadingError("the process that draws for all areas does not start")

    def close(self) -> None:
        """Finish what is being done, such as a release that was charged, and nothing else."""
        if self._apart is not None:
            for process in list(self._apart._processes.values()):  # it draws for a minute, and nobody waits any more
                process.terminate()
            self._apart.shutdown(cancel_futures=True)
        self._queue.put((AT_ONCE - 1, next(self._number), None))
        self._thread.join()

    def _run(self) -> None:
        while (task := self._queue.get()[2]) is not None:
            with suppress(InvalidStateError):  # nobody waits for it any more
                task()


def _leave_interrupts_alone() -> None:
    """Leave Ctrl-C to the process that serves, which ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@dataclass
class Job:
    """Something that takes a while, and how far it is.

    Attributes
    ----------
    result : Any
        What came of it: an address to go to.
    error : str
        Why nothing came of it.
    """

    title: str
    step: str = "waiting"
    done: int = 0
    of: int = 0
    result: Any = None
    error: str = ""
    is_over: bool = False
    steps: list[str] = field(default_factory=list)

    @property
    def progress(self) -> Progress:
        """Takes note of the steps."""

        def tell(step: str, done: int = 0, of: int = 0, /) -> None:
            self.step, self.done, self.of = step, done, of
            if step not in self.steps:
                self.steps.append(step)

        return tell

    def as_json(self) -> dict[str, Any]:
        """Return plain values for a page that waits."""
        return {
            "step": self.step,
            "done": self.done,
            "of": self.of,
            "is_over": self.is_over,
            "error": self.error,
            "result": self.result,
        }


_MOST_KEPT, _MOST_TREES, _MOST_SPECS = 8, 2, 64  # data files, trees, and texts of specs, that are kept in memory


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves of a tree: who is part of whom, where nobody can be, and the confidential counts (leaf, cell)."""

    tree: Tree
    zeros: Zeros
    counts: Ints = field(repr=False)


@dataclass
class Desk:
    """The state of a workbench.

    Attributes
    ----------
    folder : Path
        The only folder whose files are read and written, besides the ledger and the key.
    ledger_place : str or None
        As `open_ledger` takes it.
    key : Path or None
        A private key to sign releases with.
    who : str
        Who releases, for the ledger.
    """

    folder: Path
    ledger_place: str | None = None
    key: Path | None = None
    who: str = ""
    work: Work = field(default_factory=Work)
    jobs: dict[str, Job] = field(default_factory=dict)
    _tables: "dict[object, Table | AreaTables]" = field(default_factory=dict, repr=False)
    _leaves: dict[object, Leaves] = field(default_factory=dict, repr=False)
    _specs: dict[object, Spec] = field(default_factory=dict, repr=False)
    _scratch: "TemporaryDirectory[str] | None" = field(default=None, repr=False)

    def path(self, named: str, kind: Kind = "spec") -> Path:
        """Return the path of a spec, a data file or a bundle of the folder, or refuse."""
        return inside(self.folder, named, kind)

    def ledger(self) -> Ledger:
        """Open the ledger that was given."""
        if self.ledger_place is None:
            raise LedgerError(
                "this workbench was started without a ledger; stop it, and start it with --ledger budget.db (and before"
                " the first time: congenial ledger create DATASET --epsilon 4 --ledger budget.db)"
            )
        return open_ledger(self.ledger_place)

    def spec_text(self, named: str) -> str:
        """Return the text of a spec as it is on disk, line ends included."""
        path = self.path(named)
        try:
            return path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            raise ReadingError(f"{path.name} is not UTF-8 text") from None
        except OSError as refused:
            raise ReadingError(f"{path.name} cannot be read: {reason_of(refused)}") from None

    def spec(self, named: str, text: str | None = None) -> Spec:
        """Return a spec of the folder, with another text than it has on disk if one is given."""
        path = self.path(named)
        said = self.spec_text(named) if text is None else text
        files = files_named(said)
        check_named_files(self.folder, path.parent, files)
        key = (str(path), said, _states(path.parent, files))
        if key not in self._specs:
            forget_some(self._specs, _MOST_SPECS)
            self._specs[key] = parse_spec(said.encode("utf-8"), path.name, folder=path.parent)
        return self._specs[key]

    def save(self, named: str, text: str, digest: str) -> None:
        """Write a spec, unless somebody else changed it since it was opened; a text that is the same is left alone."""
        path, before = self.path(named), self.spec_text(named)
        if digest_of(before) != digest:
            raise ReadingError(
                f"{path.name} was changed since this page was opened, in another tab or by an editor; nothing is"
                " written. Open it again to see it as it is now"
            )
        if before != text:
            _write(path, text.encode("utf-8"))

    def tables(self, spec: Spec, named: str) -> "Table | AreaTables":
        """Return the confidential tables of a spec, read once as long as data and dimensions stay."""
        key = self.data_key(spec, named)
        if key not in self._tables:
            forget_some(self._tables, _MOST_KEPT)
            self._tables[key] = read_together(spec, self.path(named).parent)
        return self._tables[key]

    def leaves(self, spec: Spec, named: str) -> Leaves:
        """Return the leaves of a spec's tree, read once as long as data, dimensions and the tree stay."""
        if spec.hierarchy is None:
            raise ReadingError("the spec has no hierarchy")
        folder, key = self.path(named).parent, self.data_key(spec, named)
        if key not in self._leaves:
            forget_some(self._leaves, _MOST_TREES)
            tree, zeros = read_spine(spec.hierarchy, spec.schema.n_cells, folder)
            counts = read_leaves(spec, tree, folder)
            check_leaves(tree, spec.schema.n_cells, zeros, counts)
            self._leaves[key] = Leaves(tree, zeros, counts)
        return self._leaves[key]

    def data_key(self, spec: Spec, named: str) -> tuple[object, ...]:
        """Return what tells whether the data of a spec are others: its files and its tree's, and how they are read."""
        folder, tree = self.path(named).parent, spec.hierarchy
        files = find_files(spec.data.paths, folder)
        shape = (spec.data, spec.unit, spec.dimensions, spec.by, spec.row_filters, spec.unpublished)
        spine = () if tree is None else (repr(replace(tree, shares=None)), _states(folder, (tree.file,)))
        states = ((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in files)
        return (repr(shape), *spine, *states)

    def start(self, title: str, run: Callable[[Job], Any]) -> str:
        """Begin something that takes a while; returns the name of the job to ask for."""
        job, name = Job(title), f"{len(self.jobs) + 1}"
        self.jobs[name] = job

        def doing() -> None:
            try:
                job.result = run(job)
            except Exception as error:  # noqa: BLE001  the text of what is unforeseen goes nowhere
                job.error = failure_of(error)[1]
            job.is_over = True

        self.work.do(doing, AT_ONCE)
        return name

    @property
    def scratch(self) -> Path:
        """A folder of this process for bundles that are dropped or made up; it goes when the workbench ends."""
        if self._scratch is None:
            self._scratch = TemporaryDirectory(prefix="congenial-workbench-")
        return Path(self._scratch.name)

    def close(self) -> None:
        """Finish what is under way, and tidy up."""
        self.work.close()
        if self._scratch is not None:
            self._scratch.cleanup()


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


def _states(beside: Path, files: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Return what tells whether files that a spec names were changed; lists of levels are part of what it says."""
    found = [beside / named for named in files]
    return tuple((own.st_mtime_ns, own.st_size) for own in (path.stat() for path in found if path.exists()))


def forget_some(kept: dict[Any, Any], most: int) -> None:
    """Make room for one more: the oldest go, until fewer than so many are kept."""
    while len(kept) >= most:
        kept.pop(next(iter(kept)))
