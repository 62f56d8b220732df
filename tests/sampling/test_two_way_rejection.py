"""Look-ahead rejection: draws against enumeration, bounds that hold, mutants, and the same bits on the slow path."""

from collections.abc import Callable

import numpy as np
import pytest

import congenial as cg
from agreement import ALPHA, N_DRAWS, own_rng, p_value
from congenial.errors import SamplingError
from congenial.noise.weight import FLAT
from congenial.randomness import UnitStreams, replay_rng
from congenial.sampling.enumeration import EnumeratedLaw
from congenial.sampling.sampler_and_registry import choose_sampler
from congenial.sampling.target_and_system import System, SystemRow, Target
from congenial.sampling.two_way import prepared as bounds
from congenial.sampling.two_way.attempts import Attempts
from congenial.sampling.two_way.prepared import PreparedGrid
from congenial.sampling.two_way.sampler_and_pilots import (
    Pilot,
    TwoWayRejection,
    TwoWayRejectionAt,
    is_offered,
    promised,
    refusal,
    run_pilots,
    synthetic_tables,
    why_not,
)
from congenial.sampling.two_way.weights_and_buffers import AttemptInputs, CellWeight, window
from systems import SYSTEMS, WEIGHTED

BOTH = [cg.margin("row"), cg.margin("column")]
CROWDED = [[2, 0, 1], [1, 2, 0], [0, 1, 3]]


def law(counts: object, **mechanism: object) -> Callable[[], Target]:
    def make() -> Target:
        table = np.array(counts)
        labels = {"row": [f"r{i}" for i in range(table.shape[0])], "column": [f"c{j}" for j in range(table.shape[1])]}
        schema = cg.Schema(labels)
        given = {"measure": [cg.cells(precision="1")], "invariants": BOTH, **mechanism}
        return cg.Mechanism(schema, **given).law(cg.Table(schema, table)).target  # type: ignore[arg-type]

    return make


def zero(row: str, column: str) -> object:
    return cg.structural_zeros({"row": row, "column": column})


LAWS: dict[str, Callable[[], Target]] = {
    "both margins": law(CROWDED),
    "both margins, Gaussian": law(CROWDED, noise="discrete_gaussian", measure=[cg.cells(precision="1/2")]),
    "three by four": law([[2, 0, 1, 0], [1, 2, 0, 1], [0, 1, 3, 0]], measure=[cg.cells(precision="1/2")]),
    "four by three, sparse": law([[1, 0, 0], [0, 2, 0], [0, 0, 1], [1, 0, 1]], measure=[cg.cells(precision="1/3")]),
    "two by five": law([[1, 0, 2, 1, 3], [0, 4, 0, 1, 0]]),
    "empty interior": law([[3, 0, 0], [0, 0, 0], [1, 2, 0]]),
    "a structural zero": law([[0, 2, 1], [1, 2, 0], [2, 0, 3]], invariants=[*BOTH, zero("r0", "c0")]),
    "structural zeros, Gaussian": law(
        [[0, 2, 1], [1, 0, 2], [2, 1, 0]],
        noise="discrete_gaussian",
        measure=[cg.cells(precision="1/4")],
        invariants=[*BOTH, zero("r0", "c0"), zero("r1", "c1")],
    ),
    "bounds above": law([[2, 0, 1], [1, 2, 0], [0, 1, 2]], invariants=[*BOTH, cg.bounds(0, 2)]),
    "uneven precisions": law(
        CROWDED,
        measure=[
            cg.cells({"row": ["r0"]}, precision="1/2"),
            cg.cells({"row": ["r1"]}, precision="2"),
            cg.cells({"row": ["r2"]}, precision="1"),
        ],
    ),
    "weighted zeros": lambda: WEIGHTED["crossing margins"]().target,
    "rows measured": law(
        [[2, 0], [1, 2], [0, 1]],
        measure=[cg.cells(precision="1"), cg.margin("row", precision="1/2")],
        invariants=[cg.margin("column")],
    ),
    "rows measured, Gaussian": law(
        [[2, 0], [1, 2], [0, 1]],
        noise="discrete_gaussian",
        measure=[cg.cells(precision="1/2"), cg.margin("row", precision="1")],
        invariants=[cg.margin("column")],
    ),
    "columns measured": law(
        [[2, 0, 1], [1, 2, 0]],
        measure=[cg.cells(precision="1"), cg.margin("column", precision="2")],
        invariants=[cg.margin("row")],
    ),
    "both measured": law(
        [[2, 0, 1], [1, 2, 0]],
        measure=[cg.cells(precision="1"), cg.margin("row", precision="1/2"), cg.margin("column", precision="1")],
        invariants=[cg.bounds(0, 3)],
    ),
    "a range": law(
        [[2, 0, 1], [1, 2, 0]], invariants=[cg.margin("column"), cg.total({"row": "r0"}, at_least=2, at_most=4)]
    ),
    "nested": law(
        [[2, 1], [1, 2], [0, 1], [3, 0]],
        invariants=[
            cg.margin("row"),
            cg.total({"row": ["r0", "r1"], "column": "c0"}),
            cg.margin("column"),
            cg.total(),
        ],
    ),
    "one total": lambda: SYSTEMS["asymmetric centre"]().target,
}


@pytest.fixture(params=LAWS)
def target(request: pytest.FixtureRequest) -> Target:
    return LAWS[request.param]()


def sampler_of(target: Target) -> TwoWayRejection:
    system = System.of(target.constraints, target.measured)
    sampler = TwoWayRejection.of(system)
    assert sampler is not None, why_not(system)
    return sampler


def agreement(target: Target, tables: object) -> float:
    enumerated = EnumeratedLaw.of(target)
    return p_value(enumerated.position(tables), [float(p) for p in enumerated.probabilities])  # type: ignore[arg-type]


@pytest.mark.statistical
def test_draws_have_the_enumerated_law(target: Target, request: pytest.FixtureRequest) -> None:
    """`test_mutants_are_rejected` has the mutants."""
    drawer = sampler_of(target).at(target.centre)
    assert agreement(target, drawer.sample(N_DRAWS, own_rng(request))) > ALPHA
    assert max(float(one.chances[1]) for one in drawer.attempts) <= 1
    assert sum(one.n_refined for one in drawer.attempts) <= 1


@pytest.mark.statistical
def test_mutants_are_rejected(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that are 2 % too small are noticed as soon as a chance is above 1; without acceptance the law is wrong."""
    target, rng = LAWS["three by four"](), own_rng(request)
    with monkeypatch.context() as patch:
        patch.setattr(bounds, "INFLATION", 0.98)
        with pytest.raises(SamplingError, match="fell short"):
            sampler_of(target).at(target.centre).sample(N_DRAWS, rng)
    (grid,) = sampler_of(target).grids
    prepared = PreparedGrid.of(grid, target.centre)
    (drawer,) = sampler_of(target).at(target.centre).attempts
    words = rng.words(N_DRAWS * grid.cells.size).reshape(N_DRAWS, *grid.cells.shape)
    words[:, :, 0] = 0  # every acceptance decision is for going on
    out = np.empty(words.shape, np.int64)
    drawer._run(words, rng, out)
    tables = np.repeat(target.centre[None, :], N_DRAWS, axis=0)
    tables[:, grid.cells.ravel()] += out[:, np.argsort(prepared.order)].reshape(N_DRAWS, -1)
    assert agreement(target, tables) < ALPHA


def test_the_slow_path_gives_the_same_tables(target: Target) -> None:
    sampler = sampler_of(target)
    certain = TwoWayRejectionAt(sampler.grids, target.centre, always_refined=True)
    fast = sampler.at(target.centre).sample(6, replay_rng("bits"))
    assert np.array_equal(certain.sample(6, replay_rng("bits")), fast)


def test_one_seed_gives_one_table(target: Target) -> None:
    sampler, centres = sampler_of(target), np.repeat(target.centre[None, :], 5, axis=0)
    one, other = (sampler.draw_each(centres, replay_rng("threads"), n_threads=n) for n in (1, 3))
    assert np.array_equal(one, other)
    assert np.array_equal(one[:1], sampler.at(target.centre).sample(1, replay_rng("threads")))
    starts = [bytes([i]) * 16 for i in range(5)]
    together = sampler.draw_each(centres, UnitStreams(bytes(32), starts), n_threads=2)
    some = UnitStreams(bytes(32), starts).subset([3, 0])
    assert np.array_equal(sampler.draw_each(centres[:2], some), together[[3, 0]])


def two_way(counts: object, precision: str = "1/2", noise: str = "double_geometric") -> tuple[System, np.ndarray]:
    target = law(counts, measure=[cg.cells(precision=precision)], noise=noise)()
    return System.of(target.constraints, target.measured), target.centre


@pytest.mark.parametrize(("noise", "precision"), [("double_geometric", "1/2"), ("discrete_gaussian", "1/25")])
def test_no_chance_is_above_one(noise: str, precision: str) -> None:
    """Sparse, crowded and huge tables; `benchmarks/wide.py --decisions 10000000` makes more of them."""
    for number, mean in enumerate((0.5, 5.0, 1e6)):
        counts = np.random.default_rng(number).poisson(mean, (8, 9))
        system, centre = two_way(counts, precision, noise)
        drawer = TwoWayRejection.of(system).at(centre)  # type: ignore[union-attr]
        drawer.sample(1500, replay_rng(number))
        assert all(one.chances[0] > 9_000 and one.chances[1] <= 1 and one.n_refined <= 1 for one in drawer.attempts)


def test_many_lines_stay_inside_their_windows() -> None:
    """Bounds outside a window that did not fall would draw attempts there, and every line would be unproven."""
    system, centre = two_way(np.random.default_rng(4).poisson(300.0, (60, 60)))
    (attempts,) = TwoWayRejection.of(system).at(centre).attempts  # type: ignore[union-attr]
    assert attempts.trial(6, replay_rng(1)) >= 2
    assert attempts.n_refined == 0


def test_bounds_hold_at_every_sum_of_a_small_grid() -> None:
    """What may follow a line is at most the product of the bounds before it."""
    system, centre = two_way([[1, 0, 2], [0, 1, 1], [2, 1, 0]], "1")
    (grid,) = TwoWayRejection.of(system).grids  # type: ignore[union-attr]
    tables = PreparedGrid.of(grid, centre).inputs
    sums = [(a, b, -a - b) for a in range(-5, 6) for b in range(-5, 6)]
    for line in (1, 2):
        for u in sums:
            steps = sums if line == 1 else [(-u[0], -u[1], -u[2])]
            follows = sum(np.prod([_term(tables, line, j, u[j], x[j]) for j in range(3)]) for x in steps)
            bound = np.prod([_bound(tables, line, j, u[j]) for j in range(3)])
            assert follows <= bound * 2.0 ** -float(tables.bounds.shift[line])


def _term(tables: AttemptInputs, line: int, j: int, u: int, x: int) -> float:
    kind = tables.kind[line, j]
    is_inside = tables.weights.first[kind] <= x <= tables.weights.last[kind]
    weight = float(tables.weights.value[kind, x - tables.weights.first[kind]]) if is_inside else 0.0
    return weight if line == 2 else weight * _bound(tables, line + 1, j, u + x)


def _bound(tables: AttemptInputs, line: int, j: int, u: int) -> float:
    from congenial.sampling.two_way.kernels_attempt import bound_at

    return float(bound_at(tables, line, j, u))


def test_tails_bound_what_is_beyond_the_window() -> None:
    for noise, precision in (("double_geometric", "1/2"), ("discrete_gaussian", "1/9")):
        noise_weight = two_way([[5, 5], [5, 5]], precision, noise)[0].weights[0]
        kind, tilt = CellWeight(noise_weight, None, None), 1.0625
        edge = window(noise_weight) + 1
        weights = noise_weight.doubles(edge + 60)[edge:]
        exact = [weight * tilt ** (edge + n) for n, weight in enumerate(weights)]
        below = [weight * tilt ** -(edge + n) for n, weight in enumerate(weights)]
        assert sum(below) <= kind.tails(tilt)[0] <= 4 * sum(below)
        assert sum(exact) <= kind.tails(tilt)[1] <= 4 * sum(exact)
        assert CellWeight(noise_weight, -3, 3).tails(tilt) == (0.0, 0.0)


def test_cells_share_tables() -> None:
    """Counts beyond the window are alike: 400 cells of many people have one table of weights, and lines one bound."""
    system, centre = two_way(np.full((20, 20), 2500) + np.arange(400).reshape(20, 20))
    (grid,) = TwoWayRejection.of(system).grids  # type: ignore[union-attr]
    tables = PreparedGrid.of(grid, centre).inputs
    assert len(tables.weights.first) == 1
    assert len(np.unique(tables.bounds.start)) <= 21


@pytest.mark.parametrize("name", ["both margins", "rows measured", "weighted zeros", "structural zeros, Gaussian"])
def test_normalisers_by_acceptance_are_the_brute_force(name: str) -> None:
    """The acceptance rate is c(s) over the first line's sum."""
    target = LAWS[name]()
    with pytest.raises(SamplingError, match="simulation"):
        _ = sampler_of(target).at(target.centre).log_normaliser
    (attempts,) = sampler_of(target).at(target.centre).attempts
    value, error = attempts.log_normaliser(100_000, replay_rng("normaliser"))
    assert abs(value - EnumeratedLaw.of(target).log_normaliser) < 5 * error < 0.02


def test_counts_of_tables() -> None:
    """4 x 4 tables with all sums 3: 2,008 of them (semi-magic squares), by unit weights."""
    cells = np.arange(16).reshape(4, 4)
    rows = tuple(SystemRow("equal", tuple((int(cell), 1) for cell in line)) for line in [*cells, *cells.T])
    system = System((0,) * 16, (3,) * 16, (FLAT,) * 16, rows)
    (attempts,) = TwoWayRejection.of(system).at(3 * np.eye(4, dtype=np.int64).ravel()).attempts  # type: ignore[union-attr]
    value, error = attempts.log_normaliser(100_000, replay_rng("count"))
    assert abs(value - np.log(2008)) < 5 * error < 0.05


@pytest.mark.parametrize(
    ("name", "words"),
    [("three-way", "two sums at most"), ("mixed signs", "coefficients other than 1"), ("even steps", "coefficients")],
)
def test_what_is_no_grid_is_refused(name: str, words: str) -> None:
    target = SYSTEMS[name]().target
    system = System.of(target.constraints, target.measured)
    assert TwoWayRejection.of(system) is None
    assert words in str(why_not(system))


def test_it_is_chosen_for_wide_tables() -> None:
    system, centre = two_way(np.full((8, 8), 500), "1/10")
    sampler = choose_sampler(system)
    assert (sampler.name, sampler.is_exact) == ("look-ahead rejection", True)
    assert "8 x 8" in sampler.describe()
    assert sampler.at(centre).sample(2, replay_rng(1)).sum() == 2 * centre.sum()


def test_pilots_come_from_public_sums() -> None:
    system, centre = two_way(np.random.default_rng(3).poisson(2.0, (6, 7)))
    sampler = TwoWayRejection.of(system)
    assert sampler is not None
    tables = synthetic_tables(sampler.grids, centre)
    assert list(tables) == ["public", "even", "sparse", "corner", "arrow"]
    for table in tables.values():
        assert np.array_equal(table.reshape(6, 7).sum(axis=0), centre.reshape(6, 7).sum(axis=0))
        assert np.array_equal(table.reshape(6, 7).sum(axis=1), centre.reshape(6, 7).sum(axis=1))
        assert table.min() >= 0
    assert np.count_nonzero(tables["corner"]) <= 12 < np.count_nonzero(tables["even"])
    found = run_pilots(sampler.grids, centre)
    assert is_offered(found)
    assert "(corner)" in promised(found)
    assert not is_offered(hopeless := [*found, Pilot("sparse", 500, 0)])
    assert "of 500 attempts at a made-up sparse table" in refusal(hopeless)
    assert sampler.dry_run(centre[None, :])


ARROW = np.zeros((10, 10), int)
ARROW[0] = [10, 68, 60, 30, 15, 8, 4, 3, 1, 1]
ARROW[1:, 0] = [100, 0, 20, 10, 5, 3, 2, 0, 0]
ARROW[[2, 8, 9], 1] = [50, 1, 1]


def test_uneven_tables_are_accepted_often_enough() -> None:
    """No pair of a line and a column holds the tilts of all others back: 0.0035 of attempts were accepted then."""
    system, centre = two_way(ARROW)
    (attempts,) = TwoWayRejection.of(system).at(centre).attempts  # type: ignore[union-attr]
    assert attempts.trial(1000, replay_rng("arrow")) > 30


def test_what_no_pilot_gets_through_is_refused_before_a_charge() -> None:
    """Measured rows may be far off where all is in one of them: the crowded pilot finds out."""
    counts = np.zeros((15, 12), int)
    counts[np.arange(12), np.arange(12)] = 30
    measure = [cg.cells(precision="1/2"), cg.margin("row", precision="1/4")]
    target = law(counts, measure=measure, invariants=[cg.margin("column")])()
    with pytest.raises(SamplingError, match="at a made-up crowded table"):
        sampler_of(target).dry_run(target.centre[None, :])


def test_pilots_take_the_hardest_table_first_and_end_with_one_that_fails() -> None:
    """Where attempts take long, 250 of them decide instead of 1,000; the seeds are the same."""
    counts = np.zeros((15, 12), int)
    counts[np.arange(12), np.arange(12)] = 30
    measure = [cg.cells(precision="1/2"), cg.margin("row", precision="1/4")]
    target = law(counts, measure=measure, invariants=[cg.margin("column")])()
    sampler = sampler_of(target)
    assert isinstance(sampler, TwoWayRejection)
    found = run_pilots(sampler.grids, target.centre)
    assert [pilot.name for pilot in found] == ["corner", "arrow", "sparse", "crowded"]
    assert (found[-1].n_attempts, is_offered(found), is_offered(found[:-1])) == (1_000, False, True)
    assert run_pilots(sampler.grids, target.centre, work=1e10)[-1].n_attempts == 250


def test_attempts_that_give_up_in_doubt_draw_nothing() -> None:
    system, centre = two_way(np.full((4, 4), 9))
    (grid,) = TwoWayRejection.of(system).grids  # type: ignore[union-attr]
    attempts = Attempts(PreparedGrid.of(grid, centre), always_refined=True, skips_refinement=True)
    assert attempts.trial(20, replay_rng("in doubt")) == 0
    with pytest.raises(SamplingError, match="give up in doubt"):
        attempts.draw(1, replay_rng("in doubt"))


@pytest.mark.parametrize("noise", ["double_geometric", "discrete_gaussian"])
def test_steep_noise_has_tails_all_the_same(noise: str) -> None:
    """Weights that underflow beyond the window are bounded by next to nothing, not by 1."""
    system, centre = two_way(np.full((4, 4), 9), "700", noise)
    (attempts,) = TwoWayRejection.of(system).at(centre).attempts  # type: ignore[union-attr]
    assert attempts.trial(20, replay_rng("steep")) == 20
    assert attempts.n_refined == 0


@pytest.mark.filterwarnings("error")
def test_no_warning_depends_on_the_table() -> None:
    counts = np.array([[0, 0, 900], [0, 2, 0], [700, 0, 1]])
    precisions = ["300", "1/60", "1"]
    measure = [cg.cells({"row": [f"r{i}"]}, precision=p) for i, p in enumerate(precisions)]
    target = law(counts, measure=measure)()
    assert len(sampler_of(target).at(target.centre).sample(3, replay_rng(1))) == 3


def test_attempts_are_counted_for_the_curator_only() -> None:
    target = LAWS["both margins"]()
    drawer = sampler_of(target).at(target.centre)
    drawer.sample(100, replay_rng(1))
    assert 0 < drawer.acceptance <= 1
    assert "centre" not in repr(drawer)
    assert isinstance(drawer.attempts[0], Attempts)


def test_noise_beyond_the_proof_of_its_bounds_is_refused() -> None:
    system, centre = two_way(np.full((5, 5), 500), "1/1000")
    sampler = TwoWayRejection.of(system)
    assert sampler is not None
    assert not sampler.is_exact
    with pytest.raises(SamplingError, match=r"up to 16,384 from its centre, and here it is 64,0"):
        sampler.at(centre)
