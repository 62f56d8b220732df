"""What the pages of one workbench share: its folder, its ledger and key, and the data that were read."""

import stat
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

from congenial.arrays import Ints
from congenial.disk import flush, flush_folder
from congenial.errors import LedgerError, ReadingError, reason_of
from congenial.hierarchy.leaves import check_leaves
from congenial.hierarchy.tree import Tree
from congenial.hierarchy.zeros import Zeros
from congenial.ledger import Ledger, open_ledger
from congenial.reading.files import find_files
from congenial.reading.spine import read_spine
from congenial.reading.tables import read_leaves, read_together
from congenial.spec.load import parse_spec
from congenial.spec.spec import Spec
from congenial.table import AreaTables, Table
from congenial.workbench.failure import failure_of
from congenial.workbench.places import Kind, check_named_files, files_named, inside
from congenial.workbench.work import AT_ONCE, Job, Work

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
        shape = (spec.data, spec.unit, spec.dimensions, spec.by, spec.kept_rows, spec.unpublished)
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
