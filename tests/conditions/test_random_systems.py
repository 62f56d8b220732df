"""Systems made by hypothesis, against an independent brute force that knows nothing of the compiled form."""

import itertools
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, gcd, inf

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

import congenial as cg
from congenial.conditions.base import Condition
from congenial.conditions.grouped_cells_and_lattice import Equalities
from congenial.errors import ClashError
from congenial.sampling.enumeration import enumerate_tables
from drawn import drawn

Point = tuple[int, ...]


@dataclass(frozen=True)
class Made:
    """A random system, in the plainest terms: coefficients with limits, and a box for every cell."""

    rows: tuple[tuple[Point, int | None, int | None], ...]
    box: tuple[tuple[int, int], ...]

    @property
    def schema(self) -> cg.Schema:
        return cg.Schema({"cell": [f"c{i}" for i in range(len(self.box))]})

    def conditions(self) -> list[Condition]:
        made: list[Condition] = []
        for row, low, high in self.rows:
            coefficients = {f"c{i}": times for i, times in enumerate(row) if times}
            if low == high:
                made.append(cg.linear(coefficients, equals=low))
            else:
                made.append(cg.linear(coefficients, at_least=low, at_most=high))
        made += [cg.bounds(low, high, where={"cell": f"c{i}"}) for i, (low, high) in enumerate(self.box)]
        return made

    def stated_equalities(self) -> list[list[int]]:
        """Rows that leave one value once divided by their common factor, and cells whose own limits leave one."""
        box, out = [list(ends) for ends in self.box], []
        for row, low, high in self.rows:
            factor = gcd(*row)
            least = -inf if low is None else ceil(Fraction(low, factor))
            most = inf if high is None else floor(Fraction(high, factor))
            cells = [i for i, w in enumerate(row) if w]
            if len(cells) > 1:
                out += [list(row)] if least == most else []
            elif row[cells[0]] < 0:
                box[cells[0]] = [max(box[cells[0]][0], -most), min(box[cells[0]][1], -least)]  # type: ignore[list-item]
            else:
                box[cells[0]] = [max(box[cells[0]][0], least), min(box[cells[0]][1], most)]  # type: ignore[list-item]
        n = len(box)
        return out + [[int(i == j) for j in range(n)] for i, (low, high) in enumerate(box) if low == high]

    def points(self) -> list[Point]:
        """Every integer point, by trying all of the box."""
        return [
            point
            for point in itertools.product(*(range(low, high + 1) for low, high in self.box))
            if all(
                (low is None or sum(map(int.__mul__, w, point)) >= low)
                and (high is None or sum(map(int.__mul__, w, point)) <= high)
                for w, low, high in self.rows
            )
        ]


@st.composite
def systems(draw: st.DrawFn) -> Made:
    n = draw(st.integers(2, 5))
    box = tuple(sorted(draw(st.tuples(st.integers(-2, 3), st.integers(-2, 3)))) for _ in range(n))
    rows = []
    for _ in range(draw(st.integers(0, 3))):
        row = draw(st.tuples(*[st.integers(-3, 3)] * n).filter(any))
        kind = draw(st.sampled_from(["equal", "range", "least", "most"]))
        low, high = sorted(draw(st.tuples(st.integers(-6, 8), st.integers(-6, 8))))
        limits = {"equal": (low, low), "range": (low, high), "least": (low, None), "most": (None, high)}[kind]
        rows.append((row, *limits))
    return Made(tuple(rows), tuple((a, b) for a, b in box))


def plain_rank(rows: list[list[int]]) -> int:
    """Gaussian elimination in fractions."""
    matrix = [[Fraction(v) for v in row] for row in rows]
    rank = 0
    for column in range(len(matrix[0]) if matrix else 0):
        pivot = next((r for r in range(rank, len(matrix)) if matrix[r][column]), None)
        if pivot is None:
            continue
        matrix[rank], matrix[pivot] = matrix[pivot], matrix[rank]
        for r in range(rank + 1, len(matrix)):
            factor = matrix[r][column] / matrix[rank][column]
            matrix[r] = [a - factor * b for a, b in zip(matrix[r], matrix[rank], strict=True)]
        rank += 1
    return rank


@given(systems())
@settings(max_examples=drawn(80))
def test_feasibility_bounds_rank_and_tables_agree_with_brute_force(made: Made) -> None:
    points = made.points()
    try:
        constraints = cg.Constraints.of(made.schema, made.conditions())
    except ClashError as clash:
        assert not points
        check_irreducible(made, clash)
        event(f"clash, irreducible: {clash.is_irreducible}")
        return
    assert points
    bounds = constraints.cell_bounds
    assert bounds.lower == tuple(min(column) for column in zip(*points, strict=True))
    assert bounds.upper == tuple(max(column) for column in zip(*points, strict=True))
    assert all(bounds.is_tight)
    assert constraints.rank == plain_rank(made.stated_equalities())
    assert enumerate_tables(constraints).tolist() == [list(point) for point in points]
    everything = np.array(list(itertools.product(*(range(low - 1, high + 2) for low, high in made.box))))
    assert {tuple(t) for t in everything[constraints.holds(everything)].tolist()} == set(points)
    for outside in everything[~np.asarray(constraints.holds(everything))][:5]:
        assert constraints.violations(outside)


def check_irreducible(made: Made, clash: ClashError) -> None:
    """The named conditions contradict each other, and without any one of them they do not."""
    texts = dict(zip([condition_text(made, i) for i in range(len(made.rows))], made.rows, strict=True))
    boxes = {f"every cell with cell=c{i} is": i for i in range(len(made.box))}

    def is_feasible(kept: tuple[str, ...]) -> bool | None:
        """Try all points, cells without a kept bound from -50 to 50; None when that is too many."""
        box = [(-50, 50)] * len(made.box)
        for text in kept:
            for prefix, cell in boxes.items():
                if text.startswith(prefix):
                    box[cell] = made.box[cell]
        if np.prod([high - low + 1 for low, high in box]) > 2_000_000:
            return None
        grid = np.stack(np.meshgrid(*(np.arange(low, high + 1) for low, high in box)), axis=-1).reshape(-1, len(box))
        obeys = np.ones(len(grid), bool)
        for row, low, high in (row for text, row in texts.items() if text in kept):
            value = grid @ np.array(row)
            obeys &= (value >= (-(10**6) if low is None else low)) & (value <= (10**6 if high is None else high))
        return bool(obeys.any())

    assert len(clash.clash) == len(set(clash.clash))
    assert is_feasible(clash.clash) in {False, None}
    for left_out in clash.clash if clash.is_irreducible else ():
        assert is_feasible(tuple(text for text in clash.clash if text != left_out)) in {True, None}


def condition_text(made: Made, number: int) -> str:
    return made.conditions()[number].claims(made.schema, None, Equalities())[0].text


@given(systems(), st.integers(2**40, 2**52))
@settings(max_examples=drawn(40))
def test_bounds_are_exact_far_from_zero(made: Made, shift: int) -> None:
    """The same systems moved out to where a float's last digit is a unit: bounds must move along exactly."""
    points = made.points()
    if not points:
        return
    rows = tuple(
        (w, None if low is None else low + shift * sum(w), None if high is None else high + shift * sum(w))
        for w, low, high in made.rows
    )
    far = Made(rows, tuple((low + shift, high + shift) for low, high in made.box))
    bounds = cg.Constraints.of(far.schema, far.conditions()).cell_bounds
    assert bounds.lower == tuple(min(column) + shift for column in zip(*points, strict=True))
    assert bounds.upper == tuple(max(column) + shift for column in zip(*points, strict=True))
