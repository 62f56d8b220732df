"""Drawn pieces put together: every unit exactly once, whichever machine it came from and in whatever order."""

from collections.abc import Iterable

import numpy as np

from congenial.arrays import Ints
from congenial.engines.task import Piece
from congenial.errors import EngineError
from congenial.release import Prepared


class Gathered:
    """The drawn tables of a release, as they come in; public once they are released."""

    def __init__(self, ready: Prepared) -> None:
        n_cells = ready.plan.law.schema.n_cells
        tree = None if ready.chain is None else ready.chain.law.tree
        sizes = [len(ready.plan.law.areas)] if tree is None else [len(units) for units in tree.codes]
        self._tables = [np.empty((size, n_cells), np.int64) for size in sizes]
        self._n_times = [np.zeros(size, np.int64) for size in sizes]

    def add(self, pieces: Iterable[Piece]) -> None:
        """Take drawn tables of units that stand together."""
        for piece in pieces:
            self.put(piece.level, np.arange(piece.first, piece.first + len(piece.tables)), piece.tables)

    def put(self, level: int, places: Ints, tables: Ints) -> None:
        """Take drawn tables (unit, cell) of some units of a level."""
        self._tables[level][places] = tables
        np.add.at(self._n_times[level], places, 1)

    @property
    def tables(self) -> tuple[Ints, ...]:
        """All of them, level by level; refuses tables that are missing or were drawn twice."""
        if any((n_times != 1).any() for n_times in self._n_times):
            raise EngineError("internal: some units were drawn not once; nothing is published, please report this")
        return tuple(self._tables)


def check_drawn(ready: Prepared, tables: tuple[Ints, ...]) -> None:
    """See that drawn tables obey what they must: other machines made them, and they are about to be published."""
    ready.plan.check(tables[0])
    if ready.chain is not None:
        ready.chain.check(tables)
