"""The work of a release in pieces: public structure travels with confidential tables, the key does not.

A task is some areas, or the subtrees under some units of a tree whose tables are released already. Its draw is a
function of the task, its confidential tables and the key: not of the tasks beside it, nor of the machine, nor of how
often it is tried. So a task that failed, or that runs twice, draws the same tables.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise

import numpy as np

from congenial.arrays import Ints
from congenial.arrow_and_unit_codes import CodeTexts, codes_as_texts
from congenial.bundle.areas_spine_and_level_files import cell_columns, distinct_names
from congenial.bundle.naming_and_versions import software_in_use, source_in_use
from congenial.conditions.areas_and_bounds import Area
from congenial.engines.key_location import KeyLocation
from congenial.errors import EngineError
from congenial.law import AreaDrawing, PublicLaw
from congenial.measurement import ONE_TABLE, MeasurementDrawing
from congenial.memory_and_threads import parts_of
from congenial.published_release import Release
from congenial.release import Prepared
from congenial.release_key import KeyFile, ReleaseKey
from congenial.tree.drawing import Subtree
from congenial.tree.tree_and_zeros import Tree, Zeros

_FEW_UNITS = 64  # of a level that is cut: enough for every core of a small cluster, and quickly drawn above it


@dataclass(frozen=True, eq=False)
class DrawnPiece:
    """Drawn tables (unit, cell) of units that stand together in a level, from the place `first` on."""

    level: int
    first: int
    codes: Sequence[str]
    tables: Ints


@dataclass(frozen=True, eq=False)
class DrawJob:
    """What all tasks of a release have in common. Public; it can be pickled.

    Attributes
    ----------
    key_name, commitment : str
        The name of the key's file, and the public number by which a key is known to be the right one.
    software : str
        A digest of the versions and sources that must be the same on every machine.
    drawings : tuple of AreaDrawing or MeasurementDrawing
        What draws the areas of the first level, or measures the units of every level.
    levels : tuple of str
        What the levels are called, and areas that cross the tree.
    columns : tuple of tuple of int
        For each of these the place of each drawn number among those of all levels; every level has all if not given.
    """

    release: str
    plan_digest: str
    place: KeyLocation
    key_name: str
    commitment: str
    software: str
    drawings: tuple[AreaDrawing | MeasurementDrawing, ...]
    levels: tuple[str, ...] = ("",)
    columns: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(cls, ready: Prepared, file: KeyFile, place: KeyLocation) -> "DrawJob":
        """Return the job of a release whose key is on disk."""
        if file.key is None:
            raise EngineError("internal: a release is drawn after its key was written")
        names, law = (ready.naming.release, ready.digest), ready.plan.law
        levels = tuple(name for name, _ in law.names_and_codes)
        software, columns = software_digest(), DrawnNumbers.of(law).columns
        return cls(*names, place, file.path.name, file.key.commitment, software, ready.plan.drawings, levels, columns)

    def key(self) -> ReleaseKey:
        """Fetch the key, on a machine that has the software of the release."""
        check_software(self.software)
        return self.place.key(self.key_name, self.commitment)


@dataclass(frozen=True, eq=False)
class AreaTask:
    """Areas, or units of a measured level, that stand together from the place `first` on. Public; can be pickled."""

    first: int
    labels: tuple[Area, ...]
    groups: Ints
    level: int = 0

    def draw(self, job: DrawJob, counts: Ints, key: ReleaseKey) -> Iterator[DrawnPiece]:
        """Draw the areas."""
        drawing = job.drawings[self.level]
        if isinstance(drawing, MeasurementDrawing):
            levels = key.measurement_streams(job.release, job.plan_digest, ONE_TABLE)
            words = levels.of_level(job.levels[self.level], self.labels, counts)
        else:
            words = key.streams(job.release, job.plan_digest, self.labels, counts)
        tables = drawing.draw(self.groups, counts, words)
        yield DrawnPiece(self.level, self.first, [label or "" for label in self.labels], tables)


@dataclass(frozen=True, eq=False)
class TreeTask:
    """What is below some units that stand together in a level, given their released tables. Public; can be pickled.

    Attributes
    ----------
    level : int
        The units' level.
    firsts : tuple of int
        Where its units begin in each level below.
    """

    level: int
    firsts: tuple[int, ...]
    subtree: Subtree
    released: Ints

    def draw(self, job: DrawJob, counts: Ints, key: ReleaseKey) -> Iterator[DrawnPiece]:
        """Draw all levels below the units."""
        words = key.tree_streams(job.release, job.plan_digest)
        drawn = self.subtree.draw(counts, self.released, words)
        for below, (first, tables) in enumerate(zip(self.firsts, drawn, strict=True), 1):
            yield DrawnPiece(self.level + below, first, self.subtree.tree.codes[below].astype(str).tolist(), tables)


Work = list[tuple[AreaTask | TreeTask, Ints]]
"""Tasks with the confidential tables of their areas or leaves."""


def cut_into_tasks(ready: Prepared, key: ReleaseKey, at_once: int) -> tuple[list[DrawnPiece], Work]:
    """Cut a release into tasks of about `at_once` areas or leaves; of a tree, draw the upper levels here."""
    law = ready.plan.law
    if law.steps:
        return _tree_work(ready, law.below, key, at_once)
    tables = law.measured_tables(law.tree.summed(ready.confidential))
    work: Work = []
    for level, (numbers, counts) in enumerate(zip(ready.plan.kinds_of_units, tables, strict=False)):
        # As `Plan.draw` has them.
        labels = CodeTexts(law.names_and_codes[level][1]) if law.is_tree else law.areas.labels
        for part in parts_of(len(counts), at_once):
            task = AreaTask(part.start, tuple(labels[part]), numbers[part], level)
            work.append((task, np.ascontiguousarray(counts[part])))
    return [], work


def _tree_work(ready: Prepared, below: Subtree, key: ReleaseKey, at_once: int) -> tuple[list[DrawnPiece], Work]:
    tree, words = below.tree, key.tree_streams(ready.naming.release, ready.digest)
    tables = tree.summed(ready.confidential)
    cut = next((n for n, units in enumerate(tree.codes[:-1]) if len(units) >= _FEW_UNITS), len(tree.levels) - 2)
    above = [ready.plan.draw_areas(tables[0], words.of_level(tree.levels[0], tree.codes[0], tables[0]))]
    if cut:
        above += _above(below, cut).draw(tables[cut], above[0], words)
    pieces = [DrawnPiece(level, 0, tree.codes[level].astype(str).tolist(), drawn) for level, drawn in enumerate(above)]
    work: Work = []
    for first, end in _runs(tree, cut, at_once):
        spans = [(first, end)]
        for families in tree.families[cut:]:
            start, stop = families.starts[list(spans[-1])].tolist()
            spans.append((start, stop))
        firsts = tuple(start for start, _ in spans[1:])
        task = TreeTask(cut, firsts, below.under(cut, first, end), above[cut][first:end])
        work.append((task, ready.confidential[slice(*spans[-1])]))
    return pieces, work


def _above(whole: Subtree, level: int) -> Subtree:
    """Return the levels down to one, whose units are taken for leaves."""
    tree = whole.tree
    upper = Tree(
        tree.levels[: level + 1],
        tree.codes[: level + 1],
        tree.parents[:level],
        np.arange(len(tree.codes[level]), dtype=np.int64),
    )
    return Subtree(upper, whole.noises[:level], Zeros(whole.zeros.masks[: level + 1]), whole.exact[:level])


def _runs(tree: Tree, level: int, at_once: int) -> Iterator[tuple[int, int]]:
    """Cut the units of a level into runs with about `at_once` leaves."""
    ends = np.arange(len(tree.codes[level]) + 1)
    for families in tree.families[level:]:
        ends = families.starts[ends]  # where the leaves of each unit begin
    cuts = np.unique(np.searchsorted(ends, [*range(0, tree.n_leaves, at_once), tree.n_leaves])).tolist()
    return pairwise(cuts)


def software_digest() -> str:
    """Return a digest of whatever decides what is drawn: versions of packages, and this package's own files."""
    versions = {**software_in_use(), **source_in_use()}
    return sha256(repr(sorted(versions.items())).encode()).hexdigest()


def check_software(digest: str) -> None:
    """Refuse to draw where the software is not that of the release."""
    import platform

    if software_digest() != digest:
        raise EngineError(
            f"{platform.node()} has other versions of congenial, Python, NumPy or numba than the driver of the release;"
            " install the same ones, from the same requirements.lock, on every machine"
        )


# Drawn pieces put together: every unit exactly once, whichever machine it came from and in whatever order.


class GatheredTables:
    """The drawn tables of a release, as they come in; public once they are released."""

    def __init__(self, ready: Prepared) -> None:
        kinds = ready.plan.law.names_and_codes
        self.columns = DrawnNumbers.of(ready.plan.law).columns
        self._tables = [
            np.empty((len(codes), len(own)), np.int64) for (_, codes), own in zip(kinds, self.columns, strict=True)
        ]
        self._n_times = [np.zeros(len(codes), np.int64) for _, codes in kinds]

    def add(self, pieces: Iterable[DrawnPiece]) -> None:
        """Take drawn tables of units that stand together."""
        for piece in pieces:
            self.put(piece.level, np.arange(piece.first, piece.first + len(piece.tables)), piece.tables)

    def put(self, level: int, places: Ints, tables: Ints) -> None:
        """Take drawn tables (unit, number) of some units of a level."""
        self._tables[level][places] = tables
        np.add.at(self._n_times[level], places, 1)

    @property
    def tables(self) -> tuple[Ints, ...]:
        """All of them, level by level; refuses tables that are missing or were drawn twice."""
        if any((n_times != 1).any() for n_times in self._n_times):
            raise EngineError("internal: some units were drawn not once; nothing is published, please report this")
        return tuple(self._tables)


# A digest of what released tables say, however their rows are spread over files.


def content_digest(cells: Sequence[str], levels: Sequence[tuple[str, Sequence[str], Ints]]) -> str:
    """Return the SHA-256 of tables in their canonical order: levels, units and cells as the release declares them.

    Parameters
    ----------
    cells : sequence of str
        The names of the cells.
    levels : sequence of (name, codes, tables)
        Each level's name, the codes of its units, and their tables (unit, cell).

    Examples
    --------
    >>> digest = content_digest(["f", "m"], [("county", ["1", "2"], np.array([[3, 4], [0, 1]]))])
    >>> digest == content_digest(["f", "m"], [("county", ["1", "2"], np.array([[3, 4], [0, 2]]))])
    False
    """
    state = sha256(json.dumps(list(cells)).encode())
    for name, codes, tables in levels:
        state.update(json.dumps([name, list(codes), list(tables.shape)]).encode())
        state.update(np.ascontiguousarray(tables, "<i8").tobytes())
    return state.hexdigest()


UNIT = ("level", "place", "code")
"""The columns of a drawn unit before its numbers."""


@dataclass(frozen=True)
class DrawnNumbers:
    """The numbers that are drawn of units: cells, or the rows that are measured, which levels need not share.

    Attributes
    ----------
    names : tuple of str
        Of those of all levels together.
    columns : tuple of tuple of int
        For each level, and areas that cross the tree, the place of each of its own numbers among all.
    """

    names: tuple[str, ...]
    columns: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, law: PublicLaw) -> "DrawnNumbers":
        """Return the numbers of a release."""
        if not law.is_measured:
            names = cell_columns(law.schema)
            return cls(tuple(names), (tuple(range(len(names))),) * len(law.tree.levels))
        places: dict[tuple[str, tuple[int, ...], tuple[int, ...]], int] = {}
        columns = []
        for each in law.measured_laws:
            rows = [(query.row.name, query.row.cells, query.row.coefficients) for query in each.measured]
            columns.append(tuple(places.setdefault(row, len(places)) for row in rows))
        return cls(tuple(name for name, _, _ in places), tuple(columns))


def drawn_columns(law: PublicLaw) -> list[str]:
    """Return the names of the numbers that are drawn of a unit: its cells, or the rows that are measured."""
    return distinct_names(list(DrawnNumbers.of(law).names), UNIT)


def released_content(release: Release) -> str:
    """Return the digest of what was drawn: the tables, or the measurements."""
    kinds = release.plan.law.names_and_codes
    levels = [(name, codes_as_texts(codes), drawn) for (name, codes), drawn in zip(kinds, release.drawn, strict=True)]
    return content_digest(drawn_columns(release.plan.law), levels)
