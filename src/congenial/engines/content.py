"""A digest of what released tables say, however their rows are spread over files."""

import json
from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from congenial.arrays import Ints
from congenial.release import Prepared
from congenial.released import Release


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
    >>> one = content_digest(["f", "m"], [("county", ["1", "2"], np.array([[3, 4], [0, 1]]))])
    >>> one == content_digest(["f", "m"], [("county", ["1", "2"], np.array([[3, 4], [0, 2]]))])
    False
    """
    state = sha256(json.dumps(list(cells)).encode())
    for name, codes, tables in levels:
        state.update(json.dumps([name, list(codes), list(tables.shape)]).encode())
        state.update(np.ascontiguousarray(tables, "<i8").tobytes())
    return state.hexdigest()


def released_content(made: Release) -> str:
    """Return the digest of what was released."""
    names, codes = units_of(made)
    tables = [made.counts, *made.below]
    return content_digest(cells_of(made), list(zip(names, codes, tables, strict=True)))


def cells_of(made: Release | Prepared) -> list[str]:
    """Return the names of the cells."""
    schema = made.plan.law.schema
    return [schema.cell_name(cell) for cell in range(schema.n_cells)]


def units_of(made: Release | Prepared) -> tuple[list[str], list[list[str]]]:
    """Return the name of each level, and the codes of its units; areas that are no tree are one level."""
    if made.chain is not None:
        tree = made.chain.law.tree
        return list(tree.levels), [codes.astype(str).tolist() for codes in tree.codes]
    areas = made.plan.law.areas
    return [areas.name or "table"], [[label or "" for label in areas.labels]]
