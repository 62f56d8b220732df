"""Whether a system of rows is totally unimodular, by a theorem or by a complete search, never by a guess.

The extended lattice ``L = {(t, Qt) : At = 0, t integer}`` is regular (ZCDP, section 2) exactly when N is totally
unimodular, where ``(t, Qt) = [I; N] x`` writes everything in terms of the free cells x of the reduced form of A:

- N totally unimodular: L is the kernel lattice of ``[N, -I]``, which is totally unimodular too.
- L regular: let p in L have minimal support and gcd 1. A w in p + 2L with entries 0, 1, -1 lives on the odd entries
  of p, so w = p or -p: vectors of minimal support have entries 0, 1, -1. The columns of ``[I; N]`` are such vectors,
  for every choice of free cells, so every minor of N is 0, 1 or -1 (Tutte).

If the stack [A; Q] is totally unimodular, then so is N (pivoting). A soft row may be divided by the gcd of its
values on L: that is the same coordinate on another scale. A cell is never rescaled.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

import flint
import numpy as np
from numpy.typing import NDArray

from congenial.conditions.rows_and_intervals import Row, columns

Matrix: TypeAlias = NDArray[np.int8]

LARGEST_SEARCH = 13  # 3^13 = 1.6 million sign vectors, about a second
LARGEST_ELIMINATION = 2_000_000  # entries; 200 dense random rows of 3,000 cells take 7 seconds
LARGEST_FAMILY = 5_000  # rows compared in pairs


@dataclass(frozen=True)
class Unimodularity:
    """What is proven about a system of rows.

    Parameters
    ----------
    is_certified : bool
        The system is proven regular.
    is_refuted : bool
        The system is proven not regular. When neither holds, nothing is known.
    why : str
        The reason, for people.

    Examples
    --------
    >>> Unimodularity(True, False, "the rows are nested").is_certified
    True
    """

    is_certified: bool
    is_refuted: bool
    why: str


def certify_unimodular(hard: Sequence[Row], soft: Sequence[Row], cells: Sequence[int]) -> Unimodularity:
    """Prove or refute that a system is regular, or say that neither was possible.

    Parameters
    ----------
    hard : sequence of Row
        Rows whose value is fixed.
    soft : sequence of Row
        Rows that are measured or have a range.
    cells : sequence of int
        The cells that can move, in the order in which runs of cells are looked for.

    Examples
    --------
    >>> rows = [Row.of("total", range(4)), Row.of("female", [0, 1]), Row.of("voting age", [1, 3])]
    >>> certify_unimodular(rows, [], range(4)).why
    'the rows split into two nested families: {total, female} and {voting age}'
    >>> certify_unimodular([], [Row.of("ab", [0, 1]), Row.of("bc", [1, 2]), Row.of("ca", [0, 2])], range(3)).is_refuted
    True
    """
    rows, n_hard = _restricted(hard, soft, cells)
    if not rows:
        return Unimodularity(True, False, "no row ties several cells together")
    names, of_cell = [row.name for row in rows], columns(rows, max(cells) + 1)
    # Cells with identical columns are parallel elements: one of them decides for all.
    distinct = dict.fromkeys(of_cell[cell] for cell in cells if of_cell[cell])
    stack = np.zeros((len(rows), len(distinct)), object)
    for place, column in enumerate(distinct):
        stack[[number for number, _ in column], place] = [weight for _, weight in column]
    if why := _theorem(stack, names):
        return Unimodularity(True, False, why)
    verdicts = []
    for lines, places in _blocks(stack != 0):
        part = stack[np.ix_(lines, places)]
        if why := _theorem(part, [names[line] for line in lines]):
            verdicts.append(Unimodularity(True, False, why))
        else:
            verdicts.append(_eliminated(part, int((lines < n_hard).sum())))
    return _together(verdicts)


def _restricted(hard: Sequence[Row], soft: Sequence[Row], cells: Sequence[int]) -> tuple[list[Row], int]:
    """Return the rows over several moving cells, hard ones first, each over its gcd, and the number of hard ones."""
    moving = set(cells)
    while True:
        several: list[list[Row]] = [[], []]
        pinned: set[int] = set()
        for rows, out in zip((hard, soft), several, strict=True):
            for row in rows:
                terms = row.within(moving)
                if len(terms) > 1:
                    divisor = gcd(*terms.values())
                    name = row.name or f"row {len(several[0]) + len(several[1]) + 1}"
                    out.append(Row.weighted({cell: times // divisor for cell, times in terms.items()}, name))
                elif rows is hard:
                    pinned |= set(terms)
        if not pinned:
            return several[0] + several[1], len(several[0])
        moving -= pinned


def _together(verdicts: Sequence[Unimodularity]) -> Unimodularity:
    """Return the verdict on separate parts: all must be certified, one refuted part refutes."""
    for verdict in sorted(verdicts, key=lambda verdict: not verdict.is_refuted):
        if not verdict.is_certified:
            return verdict
    start = f"in {len(verdicts)} separate parts: " if len(verdicts) > 1 else ""
    return Unimodularity(True, False, start + "; ".join(dict.fromkeys(verdict.why for verdict in verdicts)))


def _eliminated(stack: NDArray[np.object_], n_hard: int) -> Unimodularity:
    """Decide by the exact matrix N of the module's introduction; the hard rows come first."""
    if stack.size > LARGEST_ELIMINATION:
        size = f"{stack.shape[0]:,} by {stack.shape[1]:,}"
        return Unimodularity(False, False, f"no theorem applies, and {size} is too large to eliminate exactly")
    lines: list[list[int]] = []
    pivots: list[int] = []
    if n_hard:
        reduced, denominator, rank = flint.fmpz_mat(stack[:n_hard].tolist()).rref()
        for line in reduced.tolist()[:rank]:
            numbers = [int(number) for number in line]
            pivots.append(next(place for place, number in enumerate(numbers) if number))
            if any(abs(number) not in {0, abs(int(denominator))} for number in numbers):
                return Unimodularity(False, True, "a cell does not move by 0, 1 or -1 when another one moves by 1")
            lines.append([number // int(denominator) for number in numbers])
    solved = np.array(lines, object).reshape(len(pivots), stack.shape[1])
    free = np.setdiff1d(np.arange(stack.shape[1]), pivots)
    queries = stack[n_hard:] - stack[n_hard:][:, pivots] @ solved
    # On the lattice a soft row takes multiples of the gcd only: the same coordinate on another scale.
    scales = np.array([gcd(*map(int, row)) or 1 for row in queries], object).reshape(-1, 1)
    matrix = np.vstack([-solved, queries // scales])[:, free]
    if (np.abs(matrix) > 1).any():
        return Unimodularity(False, True, "a row does not move by 0, 1 or -1 times its step when a cell moves by 1")
    small = _reduced(matrix.astype(np.int8))
    if not small.size:
        return Unimodularity(True, False, "after exact elimination, only copies and single cells are left")
    return _together([_decided(small[np.ix_(*block)]) for block in _blocks(small != 0)])


def _decided(matrix: Matrix) -> Unimodularity:
    if why := _theorem(matrix, None):
        return Unimodularity(True, False, f"after exact elimination, {why}")
    size = f"{matrix.shape[0]} by {matrix.shape[1]}"
    if min(matrix.shape) > LARGEST_SEARCH:
        return Unimodularity(False, False, f"no theorem applies to a part of {size}, too large for a complete search")
    holds = _search(matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T)
    negation = "" if holds else "not "
    return Unimodularity(holds, not holds, f"a complete search finds a part of {size} {negation}totally unimodular")


def _search(matrix: Matrix) -> bool:
    """Whether every set of rows can be signed so that all column sums are 0, 1 or -1 (Ghouila-Houri).

    The matrix is reduced: no zero or unit columns, no two equal up to sign. So it has at most n(n+1)/2 - n (Heller).
    """
    n_rows = len(matrix)
    if matrix.shape[1] > n_rows * (n_rows - 1) // 2:
        return False
    holds = np.zeros(2**n_rows, bool)
    powers = 3 ** np.arange(n_rows)
    for start in range(0, 3**n_rows, 2**16):
        codes = np.arange(start, min(start + 2**16, 3**n_rows))
        signs = codes[:, None] // powers % 3 - 1
        good = (np.abs(signs.astype(np.float32) @ matrix.astype(np.float32)) <= 1).all(axis=1)
        holds[(signs[good] != 0) @ (2 ** np.arange(n_rows))] = True
    return bool(holds.all())


def _reduced(matrix: Matrix) -> Matrix:
    """Drop zero and unit lines and copies up to sign, until nothing changes: none of it matters to unimodularity."""
    before = None
    while matrix.shape != before and matrix.size:
        before = matrix.shape
        for _ in range(2):
            matrix = matrix[np.count_nonzero(matrix, axis=1) > 1]
            if matrix.size:
                leading = matrix[np.arange(len(matrix)), (matrix != 0).argmax(axis=1)]
                _, first = np.unique(matrix * leading[:, None], axis=0, return_index=True)
                matrix = matrix[np.sort(first)]
            matrix = matrix.T
    return matrix


def _theorem(matrix: NDArray[np.object_] | Matrix, names: Sequence[str] | None) -> str:
    """Return a sentence if one of three theorems shows that a matrix is totally unimodular, else an empty one."""
    if (np.abs(matrix) > 1).any():
        return ""
    small = matrix.astype(np.int8)
    sets = _nonnegative(small)
    if sets is not None and (families := _families(sets)) is not None:
        if names is None:
            return "the rows split into at most two nested families"
        first, two = (_listed([name for name, side in zip(names, families, strict=True) if side == s]) for s in (0, 1))
        if not families.any():
            return f"the rows are nested: {first}"
        return f"the rows split into two nested families: {first} and {two}"
    if _is_network(small):
        return "every cell is in at most two rows, with signs as in a flow network"
    if _is_network(small.T):
        return "every row has at most two cells, with signs as in a flow network"
    if sets is not None:
        if _is_runs(sets):
            return "every row is a run of cells in their order"
        if _is_runs(sets.T):
            return "every cell is in a run of rows in their order"
    return ""


def _listed(names: Sequence[str]) -> str:
    return "{" + ", ".join(names[:6]) + (f", and {len(names) - 6} more}}" if len(names) > 6 else "}")


def _nonnegative(matrix: Matrix) -> NDArray[np.bool_] | None:
    """Return the nonzeros if signs of rows and columns can be flipped until no entry is negative."""
    rows, columns = matrix.nonzero()
    edges = np.column_stack([rows, columns + matrix.shape[0], matrix[rows, columns] < 0])
    return None if _colours(sum(matrix.shape), edges)[0] is None else matrix != 0


def _families(sets: NDArray[np.bool_]) -> NDArray[np.intp] | None:
    """Return the family of each row if two families, nested in themselves, hold all of them (Edmonds)."""
    if len(sets) > LARGEST_FAMILY:
        return None
    common, sizes = sets.astype(np.float32) @ sets.T.astype(np.float32), sets.sum(axis=1)
    crosses = (common > 0) & (common < sizes) & (common < sizes[:, None])
    first, second = np.triu(crosses).nonzero()
    return _colours(len(sets), np.column_stack([first, second, np.ones_like(first)]))[0]


def _is_network(matrix: Matrix) -> bool:
    """Whether columns have at most two entries and signed rows make them opposite (Heller and Tompkins)."""
    counts = np.count_nonzero(matrix, axis=0)
    if counts.max(initial=0) > 2:
        return False
    rows = matrix.T[counts == 2].nonzero()[1].reshape(-1, 2)
    is_same = matrix[:, counts == 2].sum(axis=0) != 0
    return _colours(len(matrix), np.column_stack([rows, is_same]))[0] is not None


def _is_runs(sets: NDArray[np.bool_]) -> bool:
    """Whether every row is one run of columns (consecutive ones)."""
    return bool(((sets & ~np.pad(sets, ((0, 0), (1, 0)))[:, :-1]).sum(axis=1) <= 1).all())


def _blocks(is_entry: NDArray[np.bool_]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return rows and columns of the connected parts of a matrix."""
    rows, columns = is_entry.nonzero()
    edges = np.column_stack([rows, columns + len(is_entry), np.zeros_like(rows)])
    _, roots = _colours(sum(is_entry.shape), edges)
    up, down = roots[: len(is_entry)], roots[len(is_entry) :]
    return [(np.flatnonzero(up == root), np.flatnonzero(down == root)) for root in np.unique(up)]


def _colours(n: int, edges: NDArray[np.intp]) -> tuple[NDArray[np.intp] | None, NDArray[np.intp]]:
    """Return two colours, different across edges marked 1 and equal across those marked 0 (or None), and the parts."""
    ends = np.concatenate([edges, edges[:, [1, 0, 2]]]).astype(np.intp)
    ends = ends[np.argsort(ends[:, 0], kind="stable")]
    bounds = np.searchsorted(ends[:, 0], np.arange(n + 1))
    colours, roots = np.full(n, -1), np.full(n, -1)
    for root in range(n):
        if roots[root] >= 0:
            continue
        colours[root], roots[root], queue = 0, root, [root]
        while queue:
            place = queue.pop()
            near = ends[bounds[place] : bounds[place + 1]]
            new = near[roots[near[:, 1]] < 0]
            roots[new[:, 1]] = root
            colours[new[:, 1]] = colours[place] ^ new[:, 2]
            queue += new[:, 1].tolist()
    is_broken = ((colours[edges[:, 0]] ^ colours[edges[:, 1]]) != edges[:, 2]).any()
    return (None if is_broken else colours), roots
