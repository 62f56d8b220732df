"""Whether a release goes through does not depend on confidential cells: neighbours near a limit have one outcome."""

import ast
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import congenial as cg
from congenial import measurement
from congenial.arrays import Ints
from congenial.bundle.naming_and_versions import Naming
from congenial.errors import CongenialError, TooLargeError
from congenial.randomness import Streams
from congenial.release_key import ReleaseKey
from congenial.sampling import sampler_and_registry as choose
from congenial.sampling.elimination import sampler as exact
from congenial.sampling.elimination.sampler import EliminationSampler

NAMING = Naming("spring", "town", "Spring", "person")
NOISES = ("double_geometric", "discrete_gaussian")
Dice = np.random.Generator
Pair = tuple[cg.Mechanism, Ints, Ints]
MOST_STATES, MOST_WORK, MOST_NATS, LONGEST = 4_000, 3e5, 70.0, 3_000
"""Limits of these tests, so that systems near them are small."""


@pytest.fixture
def near_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("congenial.sampling.elimination.order.MOST_STATES", MOST_STATES)
    monkeypatch.setattr("congenial.sampling.elimination.order.MOST_WORK", MOST_WORK)
    monkeypatch.setattr("congenial.sampling.elimination.order._MOST_NATS_OF_DOUBLES", MOST_NATS)
    monkeypatch.setattr("congenial.sampling.elimination.program._LONGEST_TABLE", LONGEST)
    monkeypatch.setattr(choose, "SAMPLERS", {"contraction": EliminationSampler.of})  # rejection would step in


@pytest.fixture
def near_limits_of_noise(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small limits of the samplers of noise; what was chosen for a structure before, or here, is forgotten."""
    monkeypatch.setattr("congenial.sampling.lattice_noise.sum_tables._MOST_BYTES", 2**17)
    measurement._choice.cache_clear()
    yield
    measurement._choice.cache_clear()


def outcome(mechanism: cg.Mechanism, counts: Ints) -> str:
    """Return what becomes of a release, from the table that was read to the one that is drawn."""
    try:
        table = cg.Table(mechanism.schema, counts.reshape(mechanism.schema.shape))
        ready = mechanism.prepare(table, NAMING)
        ready.plan.dry_run()
        ready.draw(ready.streams(ReleaseKey()))
    except CongenialError as refused:
        return f"{type(refused).__name__}: {refused}"
    drawing = ready.plan.drawing
    if not isinstance(drawing, measurement.MeasurementDrawing):
        return "drawn"
    # Which sampler draws, and what its noise does not keep, must be the same for both as well.
    return "; ".join(f"drawn by {kind.choice.sampler.title} without {kind.dropped}" for kind in drawing.kinds)


def cells_of(n: int) -> cg.Schema:
    return cg.Schema({"cell": [f"c{i}" for i in range(n)]})


def spread(dice: Dice, n: int, total: int) -> Ints:
    """Return a table with a total: even, all in a few cells, or by chance."""
    shape = dice.integers(3)
    if shape == 0:
        table = np.full(n, total // n)
        table[: total % n] += 1
        return table
    weights = dice.dirichlet(np.full(n, 1.0 if shape == 1 else 0.02))
    table = np.floor(weights * total).astype(np.int64)
    table[int(dice.integers(n))] += total - table.sum()
    return table


def moved(dice: Dice, table: Ints) -> Ints:
    """Return the table with one person moved."""
    other = table.copy()
    start = int(dice.choice(np.flatnonzero(table)))
    other[start] -= 1
    other[int(dice.integers(len(table) - 1)) - len(table) + 1 + start] += 1
    return other


def precision_of(dice: Dice, noise: str, low: float, high: float) -> str:
    """Return a precision whose noise has a scale between two numbers."""
    scale = float(np.exp(dice.uniform(np.log(low), np.log(high))))
    return f"1/{max(1, round(scale if noise == NOISES[0] else scale * scale))}"


def under_a_total(dice: Dice, noise: str, n: int, total: int, precision: str) -> Pair:
    schema = cells_of(n)
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision=precision)], invariants=[cg.total()], noise=noise)
    table = spread(dice, n, total)
    return mechanism, table, moved(dice, table)


def states(dice: Dice, noise: str) -> Pair:
    """About as many states as fit, and few people or many."""
    n = int(dice.integers(10, 25))
    total, precision = int(dice.uniform(0.7, 1.3) * MOST_STATES / n), "1/3" if noise == NOISES[0] else "1/10"
    return under_a_total(dice, noise, n, total, precision)


def work(dice: Dice, noise: str) -> Pair:
    n = int(dice.integers(10, 20))
    return under_a_total(dice, noise, n, 10**6, precision_of(dice, noise, 1, 5))


def range_of_doubles(dice: Dice, noise: str) -> Pair:
    """Where the mass of the cells passes what doubles are used for."""
    scale = float(np.exp(dice.uniform(0, 4)))
    n = max(2, int(dice.uniform(0.4, 1.1) * MOST_NATS / np.log(2 + 2 * scale)))
    return under_a_total(dice, noise, n, int(dice.integers(1, 60)), precision_of(dice, noise, scale, scale * 1.001))


def tables_of_weights(dice: Dice, noise: str) -> Pair:
    """Precisions so small that the table of weights is about as long as it may be."""
    reach = LONGEST * float(dice.uniform(0.5, 2)) / (745 if noise == NOISES[0] else 38.6)
    return under_a_total(dice, noise, 2, int(dice.integers(1, 60)), precision_of(dice, noise, reach, reach * 1.01))


def large_counts(dice: Dice, noise: str) -> Pair:
    """Counts about the limits of 2^40, beyond which a cell counts as unlimited, and 2^53, beyond which none goes."""
    total = 2 ** int(dice.choice([40, 41, 52, 53])) + int(dice.integers(-3, 4))
    return under_a_total(dice, noise, 3, total, "2")


def cells_in_bounds(dice: Dice, noise: str) -> Pair:
    """Cells at and near their own limits, and a sum within a range."""
    n = int(dice.integers(2, 5))
    table = dice.integers(0, 3, n)
    table[0] += 1
    other = table.copy()
    other[0], other[1] = other[0] - 1, other[1] + 1
    high = int(max(table.max(), other.max()))
    bounds = cg.bounds(0, high + int(dice.integers(0, 2)))
    half = cg.linear([1] * n, at_least=int(table.sum()) - int(dice.integers(0, 2)), at_most=int(table.sum()))
    mechanism = cg.Mechanism(cells_of(n), measure=[cg.cells(precision="1/2")], invariants=[bounds, half], noise=noise)
    return mechanism, table, other


def unmeasured_cells(dice: Dice, noise: str) -> Pair:
    """Cells without noise of their own, under a sum and a measured one."""
    n = int(dice.integers(3, 5))
    schema, table = cells_of(n), spread(dice, n, int(dice.integers(1, 30)))
    some = cg.cells({"cell": ["c0"]}, precision="1/3")
    measure = [some, cg.linear([0, *range(1, n)], precision="1/2")]
    return cg.Mechanism(schema, measure=measure, invariants=[cg.total()], noise=noise), table, moved(dice, table)


def both_margins(dice: Dice, noise: str) -> Pair:
    """A small table with both margins exact: the width of a message, and its length, near what fits."""
    rows, columns = 2, int(dice.integers(2, 5))
    labels = [str(i) for i in range(max(rows, columns))]
    schema = cg.Schema({"row": labels[:rows], "column": labels[:columns]})
    table = spread(dice, rows * columns, int(dice.integers(8, 200))).reshape(rows, columns) + 1
    other = table.copy()
    other[:2, :2] += np.array([[1, -1], [-1, 1]])
    mechanism = cg.Mechanism(
        schema,
        measure=[cg.cells(precision="1/3")],
        invariants=[cg.margin("row"), cg.margin("column")],
        noise=noise,
    )
    return mechanism, table.reshape(-1), other.reshape(-1)


KINDS: dict[str, Callable[[Dice, str], Pair]] = {
    made.__name__: made
    for made in (
        *(states, work, range_of_doubles, tables_of_weights),
        *(large_counts, cells_in_bounds, unmeasured_cells, both_margins),
    )
}
PAIRS = int(os.environ.get("CONGENIAL_PAIRS", "4"))
"""Of each kind and noise; `make refusals` takes 63, which is 1,008 in all by either method."""


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_near_a_limit_have_one_outcome(kind: str, noise: str, near_limits: None) -> None:
    dice, seen = np.random.default_rng([7, *kind.encode(), len(noise)]), set()
    for _ in range(PAIRS):
        mechanism, table, other = KINDS[kind](dice, noise)
        assert (table != other).any()
        outcomes = outcome(mechanism, table), outcome(mechanism, other)
        assert outcomes[0] == outcomes[1], (kind, mechanism, table.tolist())
        seen.add(outcomes[0].split(":")[0])
    assert "drawn" in seen
    if kind in {"states", "work", "tables_of_weights"}:
        assert len(seen) > 1  # the limit was met from both sides


def measured_twin(mechanism: cg.Mechanism) -> cg.Mechanism:
    """Return the same mechanism as a measured release."""
    facts = {"measure": mechanism.queries, "invariants": mechanism.invariants, "noise": mechanism.noise}
    return cg.Mechanism(mechanism.schema, method="measured", **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("kind", KINDS)
def test_measured_neighbours_have_one_outcome(kind: str, noise: str, near_limits_of_noise: None) -> None:
    """Whether noise is drawn, how, and what it keeps: the limits are those of its samplers."""
    dice, seen = np.random.default_rng([9, *kind.encode(), len(noise)]), set()
    for _ in range(PAIRS):
        mechanism, table, other = KINDS[kind](dice, noise)
        assert (table != other).any()
        twin = measured_twin(mechanism)
        outcomes = outcome(twin, table), outcome(twin, other)
        assert outcomes[0] == outcomes[1], (kind, mechanism, table.tolist())
        seen.add(outcomes[0])
    assert any(one.startswith("drawn") for one in seen)


def test_limits_of_noise_are_met_from_both_sides(near_limits_of_noise: None) -> None:
    """Of a total: with wide noise tables of sums no longer fit, and another sampler takes over, or nothing is kept."""
    seen = {
        outcome(
            cg.Mechanism(
                cells_of(6), measure=[cg.cells(precision=precision)], invariants=[cg.total()], method="measured"
            ),
            np.array([5, 0, 3, 1, 2, 4]),
        )
        for precision in ("1", "1/300")
    }
    assert len(seen) == 2


def test_a_measured_refusal_that_looks_at_cells_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: noise that is refused for the sake of the counts that it is added to."""
    honest = measurement.MeasurementDrawing.draw

    def looks(self: measurement.MeasurementDrawing, numbers: Ints, tables: Ints, words: Streams) -> Ints:
        if tables.max() == 41:
            raise TooLargeError("tables of sums would take more memory than there is")
        return honest(self, numbers, tables, words)

    monkeypatch.setattr(measurement.MeasurementDrawing, "draw", looks)
    mechanism = cg.Mechanism(cells_of(3), measure=[cg.cells(precision="1")], invariants=[cg.total()], method="measured")
    outcomes = [outcome(mechanism, np.array(table)) for table in ([40, 30, 20], [41, 29, 20])]
    assert outcomes[0] != outcomes[1]


@pytest.mark.parametrize("noise", NOISES)
def test_neighbours_drawn_by_rejection_have_one_outcome(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both margins exact, near the limit of an attempt's work: what is refused is refused for both tables."""
    monkeypatch.setattr("congenial.sampling.two_way.sampler_and_pilots.MOST_WORK", 3e7 if noise == NOISES[0] else 1e6)
    dice, seen = np.random.default_rng([8, len(noise)]), set()
    for _ in range(max(6, PAIRS // 4)):
        n = int(dice.integers(4, 9))
        schema = cg.Schema({"row": [str(i) for i in range(n)], "column": [str(j) for j in range(n)]})
        margins = [cg.margin("row"), cg.margin("column")]
        cells = cg.cells(precision=precision_of(dice, noise, 1, 6))
        table = dice.poisson(dice.choice([0.5, 3.0, 40.0]), (n, n))
        other = table.copy()
        rows, columns = np.nonzero(table)
        i, j = rows[0], columns[0]
        pairs = [(k, m) for k, m in zip(rows, columns, strict=True) if k != i and m != j]
        if not pairs:
            continue
        k, m = pairs[int(dice.integers(len(pairs)))]
        other[[i, k], [j, m]] -= 1
        other[[i, k], [m, j]] += 1
        mechanism = cg.Mechanism(schema, measure=[cells], invariants=margins, noise=noise)
        outcomes = [outcome(mechanism, own.reshape(-1)) for own in (table, other)]
        assert outcomes[0] == outcomes[1]
        seen.add(outcomes[0].split(":")[0])
    assert seen == {"drawn", "SamplingError"}


def test_a_refusal_that_looks_at_cells_is_found(near_limits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: a sampler that gives up on a table for the sake of its cells."""
    honest = exact.sample_one

    def looks(engine: object, centre: Ints, rng: object) -> Ints:
        if centre.max() == 41:
            raise TooLargeError("the weights of this system span more than a double can hold")
        return honest(engine, centre, rng)  # type: ignore[arg-type]

    monkeypatch.setattr("congenial.sampling.elimination.sampler.sample_one", looks)
    schema = cells_of(3)
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=[cg.total()])
    outcomes = [outcome(mechanism, np.array(table)) for table in ([40, 30, 20], [41, 29, 20])]
    assert outcomes[0] != outcomes[1]


@pytest.mark.parametrize("noise", NOISES)
def test_the_pair_at_the_edge_of_doubles(noise: str) -> None:
    """548 cells, 1,644 people: one of two neighbours was released, and the other refused."""
    mechanism = cg.Mechanism(
        cells_of(548),
        measure=[cg.cells(precision="1/20" if noise == NOISES[0] else "1/4")],
        invariants=[cg.total()],
        noise=noise,
    )
    tables = np.zeros((2, 548), np.int64)
    tables[:, 0], tables[:, -1] = (677, 676), (967, 968)
    assert [outcome(mechanism, table) for table in tables] == ["drawn", "drawn"]


ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "claims" / "refusals.md").read_text(encoding="utf-8")
BEFORE_AND_AFTER = {
    "spec",
    "cli",
    "study",
    "workbench",
    "inference",
    "pages",
    "examples",
    "opendp_measurement",
}


def test_the_page_lists_every_module_that_can_refuse() -> None:
    """From the data that are read to the bundle that is written; what comes before or after sees no table."""
    table = "\n".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `"))
    source, listed = ROOT / "src" / "congenial", set(re.findall(r"`([\w.]+)`", table))
    raising = set()
    for path in source.rglob("*.py"):
        name = path.relative_to(source)
        if name.parts[0].removesuffix(".py") in BEFORE_AND_AFTER:
            continue
        if any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(ast.parse(path.read_text()))):
            inside = name.parent if name.name == "__init__.py" else name.with_suffix("")
            raising.add(".".join(inside.parts) or "congenial")
    assert raising == listed
