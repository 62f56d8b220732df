"""The certifier against brute force by minors and by the definition of a regular lattice, and known systems."""

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from congenial.conditions.rows_and_intervals import Row
from congenial.examples import p12_schema
from congenial.privacy import unimodular
from congenial.privacy.unimodular import Unimodularity, certify_unimodular

IntMatrix = NDArray[np.int64]


def rows_of(matrix: Sequence[Sequence[int]] | IntMatrix) -> list[Row]:
    lines = [[(cell, int(w)) for cell, w in enumerate(line) if w] for line in matrix]
    return [Row(f"r{n}", tuple(c for c, _ in line), tuple(w for _, w in line)) for n, line in enumerate(lines)]


def is_unimodular(matrix: IntMatrix) -> bool:
    """Check all square minors."""
    for size in range(1, min(matrix.shape) + 1):
        for lines in combinations(range(matrix.shape[0]), size):
            for places in combinations(range(matrix.shape[1]), size):
                if abs(round(float(np.linalg.det(matrix[np.ix_(lines, places)])))) > 1:
                    return False
    return True


def is_regular(hard: IntMatrix, soft: IntMatrix, box: int = 2) -> bool:
    """Definition (H), on the lattice's points in a box: each class modulo 2L has a vector of 0, 1 and -1."""
    n = hard.shape[1]
    points = np.array(list(product(range(-box, box + 1), repeat=n)))
    points = points[(points @ hard.T == 0).all(axis=1)]
    values = np.hstack([points, points @ soft.T])
    small = values[(np.abs(values) <= 1).all(axis=1)]
    for p in values:
        near = [w for w in small if ((p - w) % 2 == 0).all()]
        # L is all integer points of a subspace, so p - w in 2L exactly when it is even.
        if not near:
            return False
    return True


def both(matrix: Sequence[Sequence[int]] | IntMatrix) -> Unimodularity:
    return certify_unimodular([], rows_of(matrix), range(np.array(matrix).shape[1]))


def margins(*shape: int) -> list[Row]:
    cells = np.arange(np.prod(shape)).reshape(shape)
    return [
        Row.of(f"m{axis}", line) for axis, n in enumerate(shape) for line in np.moveaxis(cells, axis, -1).reshape(-1, n)
    ]


@pytest.mark.parametrize("density", [0.4, 0.6, 0.9])
def test_soft_rows_agree_with_all_minors(density: float) -> None:
    rng = np.random.default_rng(7)
    seen = set()
    for trial in range(150):
        shape = rng.integers(2, 5, 2)
        matrix = rng.choice([1, 1, -1] if trial % 2 else [1], shape) * (rng.random(shape) < density)
        # A row over one cell is a cell bound and zero rows are empty: neither matters to the minors.
        verdict, truth = both(matrix), is_unimodular(matrix)
        assert (verdict.is_certified, verdict.is_refuted) == (truth, not truth), matrix
        seen.add(truth)
    assert seen == {True, False}


def test_each_theorem_and_the_search_agree_with_all_minors() -> None:
    rng = np.random.default_rng(11)
    said = {"theorem": 0, "search": 0}
    for trial in range(400):
        shape = rng.integers(2, 5, 2)
        signs = rng.choice([1, -1], shape) if trial % 2 else np.ones(shape, int)
        matrix = (signs * (rng.random(shape) < 0.6)).astype(np.int8)
        truth = is_unimodular(matrix.astype(np.int64))
        if unimodular._theorem(matrix, None):
            assert truth, matrix
            said["theorem"] += 1
        small = unimodular._reduced(matrix)
        found = unimodular._search(small if small.shape[0] <= small.shape[1] else small.T) if small.size else True
        assert found == truth, matrix
        said["search"] += small.size > 0
    assert min(said.values()) > 30


def test_hard_and_soft_rows_agree_with_the_definition() -> None:
    rng = np.random.default_rng(13)
    seen = set()
    for _ in range(80):
        hard, soft = rng.integers(-1, 2, (1, 4)), rng.integers(0, 2, (2, 4))
        verdict = certify_unimodular(rows_of(hard), rows_of(soft), range(4))
        truth = is_regular(hard, soft)
        seen.add(truth)
        if truth:
            assert verdict.is_certified, (hard, soft)
        elif verdict.is_certified:
            # Only a rescaled soft row may make the difference: it is even on the whole lattice.
            points = np.array(list(product(range(-2, 3), repeat=4)))
            points = points[(points @ hard.T == 0).all(axis=1)]
            assert any((points @ q % 2 == 0).all() and (points @ q).any() for q in soft), (hard, soft)
    assert seen == {True, False}


def test_p12() -> None:
    n = p12_schema().n_cells
    voting = [cell for cell in range(n) if cell % 23 >= 4]
    rows = [Row.of("total", range(n)), Row.of("female", range(23)), Row.of("voting age", voting)]
    sentence = "the rows split into two nested families: {total, female} and {voting age}"
    assert certify_unimodular(rows, [], range(n)) == Unimodularity(True, False, sentence)
    assert certify_unimodular(rows[:2], rows[2:], range(n)).why == sentence
    assert certify_unimodular(rows[:1], rows[1:2], range(n)).why == "the rows are nested: {total, female}"


R10 = [[1, 1, 0, 0, 1], [1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 1, 1], [1, 0, 0, 1, 1]]
R10_SIGNED = [[-1, 1, 0, 0, 1], [1, -1, 1, 0, 0], [0, 1, -1, 1, 0], [0, 0, 1, -1, 1], [1, 0, 0, 1, -1]]
FANO = [[1, 1, 0, 1], [1, 0, 1, 1], [0, 1, 1, 1]]


def test_r10_needs_the_complete_search() -> None:
    verdict = both(R10_SIGNED)
    assert verdict.is_certified
    assert "complete search" in verdict.why
    assert is_unimodular(np.array(R10_SIGNED))
    assert both(R10).is_refuted != is_unimodular(np.array(R10))


@pytest.mark.parametrize("matrix", [FANO, np.array(FANO).T, [[1, 1, 0], [0, 1, 1], [1, 0, 1]], [[1, 1], [1, -1]]])
def test_refuted(matrix: IntMatrix) -> None:
    assert both(matrix).is_refuted


def test_weights_and_scale() -> None:
    assert both([[2, 1]]).is_refuted
    assert certify_unimodular(rows_of([[2, 1]]), [], range(2)).is_refuted
    assert both([[2, 2]]).is_certified
    assert both([[2**70, 2**70]]).is_certified
    assert both([[2**70, 1]]).is_refuted
    assert certify_unimodular(rows_of([[1, -1]]), rows_of([[1, 1]]), range(2)).is_certified
    assert certify_unimodular(rows_of([[1, 1, 1]]), rows_of([[1, 2, 3]]), range(3)).is_refuted


def test_pinned_and_fixed_cells_are_left_out() -> None:
    triangle = rows_of([[1, 1, 0], [0, 1, 1], [1, 0, 1]])
    assert certify_unimodular([Row("", (0,), (3,))], triangle, range(3)).is_certified
    assert certify_unimodular([], triangle, [1, 2]).is_certified
    assert certify_unimodular([], [*triangle, Row.of("", [0])], range(3)).is_refuted
    assert certify_unimodular(triangle, [], range(3)).is_certified  # every cell is fixed
    assert certify_unimodular([], [], range(3)).is_certified


def test_parts_are_judged_one_by_one() -> None:
    whole = np.zeros((8, 9), int)
    whole[:5, :5], whole[5:, 5:8] = R10_SIGNED, [[1, 1, 0], [0, 1, 1], [1, 1, 1]]
    assert both(whole).is_certified
    whole[5:, 5:8] = [[1, 1, 0], [0, 1, 1], [1, 0, 1]]
    assert both(whole).is_refuted


def test_margins() -> None:
    assert certify_unimodular(margins(3, 4), [], range(12)).is_certified
    groups = [Row.of("two rows", range(8)), Row.of("two columns", [0, 1, 4, 5, 8, 9])]
    assert certify_unimodular(margins(3, 4), groups, range(12)).is_certified
    for shape in ((2, 2, 2), (2, 3, 3), (2, 4, 5)):
        assert certify_unimodular(margins(*shape), [], range(int(np.prod(shape)))).is_certified
    assert certify_unimodular(margins(3, 3, 3), [], range(27)).is_refuted


def test_trees_and_ranges() -> None:
    tree = [Row.of(f"{size}-{s}", range(s, s + size)) for size in (2, 4, 8, 16) for s in range(0, 16, size)]
    assert certify_unimodular(tree[:5], tree[5:], range(16)).is_certified
    ranges = [Row.of("", range(a, b)) for a in range(12) for b in range(a + 2, 13)]
    assert certify_unimodular([], ranges, range(12)).why == "every row is a run of cells in their order"
    assert certify_unimodular(ranges[:3], ranges[3:], range(12)).is_certified


def test_a_large_part_without_a_theorem_is_not_certified() -> None:
    n = 31
    matrix = np.array([np.roll([1, 1, 1] + [0] * (n - 3), k) for k in range(n)])
    verdict = both(matrix)
    assert (verdict.is_certified, verdict.is_refuted) == (False, False)
    assert "31 by 31" in verdict.why
    whole = np.zeros((34, 34), int)
    whole[:31, :31], whole[31:, 31:] = matrix, [[1, 1, 0], [0, 1, 1], [1, 0, 1]]
    assert both(whole).is_refuted  # one refuted part says more than one unknown part


def test_the_bound_on_columns_is_reached() -> None:
    runs = [[int(a <= cell < b) for cell in range(5)] for a in range(5) for b in range(a + 2, 6)]
    assert len(runs) == 10
    assert unimodular._search(np.array(runs, np.int8).T)


def test_many_cells_in_many_rows() -> None:
    cells = np.arange(3000).reshape(60, 50)
    rows = [Row.of("", line) for line in cells] + [Row.of("", line) for line in cells.T]
    rows += [Row.of("", cells[: 2 * k].ravel()) for k in range(1, 31)]
    assert certify_unimodular(rows[:100], rows[100:], range(3000)).is_certified
