"""The rule *anchored* against brute force: posteriors, whole numbers, zeros, what it learns and does not depend on."""

import itertools
import json
from dataclasses import replace
from fractions import Fraction
from math import exp, lgamma, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import congenial as cg
from agreement import own_rng
from congenial.arrays import Floats, Ints
from congenial.bundle.decide import decide_again
from congenial.bundle.verify import verify_bundle
from congenial.conditions.areas_and_bounds import AreaGroup, Areas
from congenial.conditions.base import Condition
from congenial.conditions.constraints import Constraints
from congenial.conditions.limits_and_shares import bounds, structural_zeros
from congenial.conditions.queries import margin, total
from congenial.errors import BundleError, ConditionError, CongenialError
from congenial.ledger import Ledger
from congenial.noise import FAMILIES
from congenial.randomness import RandomStream
from congenial.rules import learning_from_areas, runs_of_areas
from congenial.rules.anchored import ANCHORED, FEWEST_AREAS
from congenial.rules.exact_sums_as_graph import SumsAsGraph
from congenial.rules.kernels_anchored import tilt, tilted_moments, unit_costs, whole_numbers
from congenial.rules.kernels_cell_posteriors import EFFECT_SHAPES, SHAPES, exp_of, log_gamma, posteriors
from congenial.rules.nearest import NEAREST
from congenial.rules.registry import RuleInput
from congenial.rules.runs_of_areas import Frame, Numbers, effects_and_priors
from congenial.schema import Schema
from congenial.spec.load import parse_spec
from forger import at, forge
from rules.drawn_systems import schema_of, whole
from rules.nearest_by_force import cell_rows, tables_of

N = 24


def made_up(rng: RandomStream, shape: tuple[int, ...], n: int = N, mean: float = 4.0) -> Ints:
    """Return tables of areas that are alike, roughly: a profile with empty and large cells, and noise around it."""
    n_cells = int(np.prod(shape))
    profile = mean * (0.1 + 2 * rng.uniforms(n_cells) ** 2)
    lines = [profile * (0.6 + 0.8 * rng.uniforms(n_cells)) for _ in range(n)]
    return np.floor(np.array(lines) + rng.uniforms(n * n_cells).reshape(n, -1)).astype(np.int64)


def noise(rng: RandomStream, precision: Fraction, exponent: int, shape: tuple[int, ...]) -> Ints:
    """Return independent noise: tables of a few areas need not be conditioned to be decided."""
    law = FAMILIES["double_geometric" if exponent == 1 else "discrete_gaussian"](precision)
    reach = np.arange(-60, 61)
    weights = np.array([exp(-float(precision) * (abs(u) if exponent == 1 else u * u / 2)) for u in reach.tolist()])
    assert law.exponent == exponent
    steps = np.searchsorted(np.cumsum(weights / weights.sum()), rng.uniforms(int(np.prod(shape))))
    return np.asarray(reach[np.minimum(steps, 120)].reshape(shape))


def data_of(
    rng: RandomStream,
    shape: tuple[int, ...],
    conditions: list[Condition],
    n: int = N,
    *,
    exponent: int = 1,
    precision: Fraction = Fraction(1, 2),
    mean: float = 4.0,
) -> tuple[RuleInput, Ints]:
    counts = made_up(rng, shape, n, mean)
    if any(isinstance(condition, type(structural_zeros({"d0": "0"}))) for condition in conditions):
        counts[:, 0] = 0
    areas = Areas.of_counts(schema_of(*shape), conditions, [f"{unit:03}" for unit in range(n)], counts, name="unit")
    measured = counts + noise(rng, precision, exponent, counts.shape)
    rows = cell_rows(counts.shape[1])
    return RuleInput(areas, rows, (precision,) * len(rows), exponent, measured, bytes(range(32))), counts


P12_LIKE: tuple[tuple[int, ...], list[Condition]] = (
    (2, 8),
    [total(), total({"d0": "0"}), total({"d1": [str(age) for age in range(2, 8)]})],
)
SYSTEMS: dict[str, tuple[tuple[int, ...], list[Condition]]] = {
    "nothing": ((6,), []),
    "a total": ((6,), [total()]),
    "disjoint sums": ((2, 4), [margin("d0")]),
    "crossing sums": P12_LIKE,
    "nested sums": ((2, 4), [total(), total({"d0": "0"}), total({"d0": "0", "d1": ["0", "1"]})]),
    "both margins": ((3, 4), [margin("d0"), margin("d1")]),
    "zeros": ((2, 4), [total(), total({"d0": "0"}), structural_zeros({"d0": "0", "d1": "0"})]),
    "limits": ((2, 4), [margin("d0"), bounds(0, 40)]),
}


# Functions.


def test_exponentials_and_gammas_are_near_those_of_the_library() -> None:
    for x in np.linspace(-700, 300, 2_001).tolist():
        assert exp_of(x) == pytest.approx(exp(x), rel=1e-12)
    assert exp_of(-1e6) == 0.0
    for x in (0.4, 0.8, 1.5, 2.0, 9.9, 30.0, 151.0, 1e6):
        assert log_gamma(x) == pytest.approx(lgamma(x), rel=1e-12, abs=1e-11)


# Posteriors, by sums over every count and every effect.


def negative_binomial(count: int, mean: float, shape: float) -> float:
    return exp(
        lgamma(count + shape)
        - lgamma(shape)
        - lgamma(count + 1)
        + shape * log(shape / (shape + mean))
        + count * log(mean / (mean + shape))
    )


def by_force(
    measured: Ints, means: Floats, frame: Frame, numbers: Numbers, most: int, *, counts_own_twice: bool = False
) -> Floats:
    """Return the posterior of every cell of one area (cell, count): sums in no clever order, by the library's math."""
    precision, exponent = float(frame.kinds[0]), frame.data.exponent
    effects, priors = effects_and_priors()
    bands = frame.bands.band_of_cell

    def weight(distance: int) -> float:
        return exp(-precision * (abs(distance) if exponent == 1 else distance * distance / 2))

    joint = np.zeros((len(measured), len(effects), most))
    for cell, n in enumerate(measured.tolist()):
        for place, effect in enumerate(effects.tolist()):
            for count in range(most):
                chance = negative_binomial(count, means[cell] * effect, SHAPES[numbers.shapes[bands[cell]]])
                joint[cell, place, count] = chance * weight(n - count)
    told = joint.sum(axis=2)
    out = np.zeros((len(measured), most))
    for cell, band in enumerate(bands.tolist()):
        weights = priors[numbers.effect_shapes[band]].copy()
        for other in np.flatnonzero(bands == band).tolist():
            if other != cell or counts_own_twice:
                weights = weights * told[other]
        out[cell] = weights @ joint[cell]
    posterior: Floats = out / out.sum(axis=1, keepdims=True)
    return posterior


@pytest.mark.parametrize("exponent", [1, 2])
def test_posteriors_are_those_of_brute_force(exponent: int, request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    data, _ = data_of(rng, (2, 4), [], exponent=exponent, precision=Fraction(1))
    frame = Frame(data)
    shapes = np.array([4] * frame.n_bands)
    numbers = Numbers(np.ones(8), shapes, np.array([2] * frame.n_bands), np.zeros(8), np.zeros(8), 1.0)
    (run,) = frame.runs
    model = frame.cell_model(run, numbers)
    means = model.means[whole(rng, 430, 620, (N, 8))]  # nodes of the grid, so that nothing is rounded
    measured = frame.measured(run)
    measured[0, :3] = [-9, -40, 31]  # far away
    shape = (*measured.shape, frame.width)
    chances, firsts, effects = np.empty(shape), np.empty(measured.shape, np.int64), np.empty((N, frame.n_bands))
    posteriors(measured, means, model, chances, firsts, effects)
    wrong = 0.0
    for area in range(4):
        kept = np.maximum(measured[area], -int(frame.reach[0]))
        expected = by_force(kept, means[area], frame, numbers, 90)
        mutant = by_force(kept, means[area], frame, numbers, 90, counts_own_twice=True)
        for cell in range(8):
            first = int(firsts[area, cell])
            window = expected[cell, first : first + frame.width]
            assert chances[area, cell, : len(window)] == pytest.approx(window, abs=2e-4)  # what lies beyond windows
            wrong = max(wrong, float(np.abs(mutant[cell, first : first + frame.width] - window).max()))
    assert wrong > 0.02  # what is told apart


# Whole numbers.


def least_cost(constraints: Constraints, chances: Floats, prices: Floats, is_held: Any) -> int:
    """Return the least cost of any table with the exact sums, by enumeration."""
    most = chances.shape[1] + 1
    lines = [
        np.cumsum([0, *(unit_costs(chances[c], 0, prices[c], bool(is_held[c]), k) for k in range(most))])
        for c in range(len(chances))
    ]
    tables = tables_of(constraints, [(0, most - 1)] * len(chances))
    return int(np.sum([lines[cell][tables[:, cell]] for cell in range(len(chances))], axis=0).min())


@pytest.mark.parametrize("system", ["a total", "disjoint sums", "crossing sums", "both margins"])
def test_whole_numbers_are_the_best_of_all(system: str, request: pytest.FixtureRequest) -> None:
    conditions: dict[str, tuple[tuple[int, ...], list[Condition]]] = {
        "a total": ((5,), [total()]),
        "disjoint sums": ((2, 3), [margin("d0")]),
        "crossing sums": ((2, 3), [total(), total({"d0": "0"}), total({"d1": ["1", "2"]})]),
        "both margins": ((2, 3), [margin("d0"), margin("d1")]),
    }
    shape, exact = conditions[system]
    rng, n_cells, n_better = own_rng(request), int(np.prod(shape)), 0
    for _ in range(40):
        counts = whole(rng, 0, 2, n_cells)
        constraints = Constraints.of(schema_of(*shape), exact, counts.tolist())
        graph = SumsAsGraph(constraints)
        sums = graph.model(np.zeros(n_cells, np.int64))
        chances = rng.uniforms(n_cells * 4).reshape(n_cells, 4) ** 3
        chances /= chances.sum(axis=1, keepdims=True)
        is_held = (counts == 0) & (whole(rng, 0, 1, n_cells) > 0)
        chances[is_held] = [1.0, 0.0, 0.0, 0.0]
        carry = 4 * rng.uniforms(n_cells) - 2
        prices = 0.1 * carry
        words, firsts = np.zeros((1, n_cells), np.int64), np.zeros((1, n_cells), np.int64)
        out, means = np.empty((1, n_cells), np.int64), np.zeros((1, n_cells))
        whole_numbers(chances[None], firsts, means, counts[None], words, carry.copy(), sums, out)
        assert constraints.holds(out[0])
        lines = [
            np.cumsum([0, *(unit_costs(chances[c], 0, prices[c], bool(is_held[c]), k) for k in range(20))])
            for c in range(n_cells)
        ]
        cost = sum(int(lines[c][out[0, c]]) for c in range(n_cells))
        assert cost == least_cost(constraints, chances, prices, is_held)
        n_better += cost < sum(int(lines[c][counts[c]]) for c in range(n_cells))
    assert n_better > 10  # the table that it begins at would not do


# What tables have.


@pytest.mark.parametrize("exponent", [1, 2])
@pytest.mark.parametrize("system", SYSTEMS)
def test_tables_obey_every_condition_and_keep_zeros(system: str, exponent: int, request: pytest.FixtureRequest) -> None:
    data, counts = data_of(own_rng(request), *SYSTEMS[system], exponent=exponent)
    assert ANCHORED.why_not(data.areas, data.rows, data.precisions) is None
    tables, nearest = ANCHORED.decide(data), NEAREST.decide(data)
    assert data.areas.holds(tables).all()
    assert tables.min() >= 0
    assert (tables[nearest == 0] == 0).mean() > 0.995
    assert (tables != nearest).any()
    assert not np.array_equal(tables, counts)


def test_zeros_come_from_the_nearest_table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """And without that step some are lost: the mutant that the claim is told from."""
    data, _ = data_of(own_rng(request), *P12_LIKE, mean=2.0)
    nearest = NEAREST.decide(data)
    kept = (ANCHORED.decide(data)[nearest == 0] == 0).mean()
    for module in (runs_of_areas, learning_from_areas):
        monkeypatch.setattr(module, "inherit_zeros", lambda *_: None)
    without = (ANCHORED.decide(data)[nearest == 0] == 0).mean()
    assert kept > 0.99
    assert without < kept - 0.02


def test_sums_over_areas_are_between_measurements_and_nearest_tables(request: pytest.FixtureRequest) -> None:
    data, _ = data_of(own_rng(request), *P12_LIKE, n=60)
    learned = ANCHORED.learn(data)
    weights = np.array(learned["weights"]) / 2**20
    assert weights.min() >= 0
    assert weights.max() <= 1
    nearest, tables = NEAREST.decide(data).sum(axis=0), ANCHORED.decide_with(data, learned).sum(axis=0)
    target = data.measurements.sum(axis=0) + weights * (nearest - data.measurements.sum(axis=0))
    far = np.abs(tables - target).mean()
    flat = {**learned, "weights": tuple(2**20 - int(number) for number in learned["weights"])}
    mutant = np.abs(ANCHORED.decide_with(data, flat).sum(axis=0) - target).mean()
    assert far < 3.0  # of sums of some 200
    assert far < mutant


def distances(rng: RandomStream, n_releases: int) -> tuple[Floats, Floats]:
    """Return the mean L1 distance from made-up tables, of nearest and anchored tables of the same measurements."""
    out = []
    for _ in range(n_releases):
        data, counts = data_of(rng, *P12_LIKE, n=30)
        out.append([np.abs(rule.decide(data) - counts).sum(axis=1).mean() for rule in (NEAREST, ANCHORED)])
    nearest, anchored = np.array(out).T
    return nearest, anchored


def is_nearer(first: Floats, second: Floats) -> bool:
    """Whether the second distances are smaller, by six standard errors of the pairs."""
    gap = first - second
    return bool(gap.mean() > 6 * gap.std() / len(gap) ** 0.5 + 0.01)


def test_it_is_nearer_to_areas_that_are_alike(request: pytest.FixtureRequest) -> None:
    nearest, anchored = distances(own_rng(request), 20)
    assert is_nearer(nearest, anchored)
    assert not is_nearer(nearest, nearest + 0.0)  # the mutant that learns nothing
    assert not is_nearer(anchored, nearest)


# What it does not depend on.


def some_areas(data: RuleInput, places: Ints) -> RuleInput:
    """Return the input of some areas alone, with the seed of all."""
    groups = []
    for group in data.areas.groups:
        inside = np.flatnonzero(np.isin(group.places, places))
        if len(inside):
            new = np.array([places.tolist().index(place) for place in group.places[inside].tolist()])
            order = np.argsort(new)
            groups.append(AreaGroup(group.pattern, new[order], group.values[inside][order]))
    labels = tuple(data.areas.labels[place] for place in places.tolist())
    areas = Areas(data.areas.name, labels, tuple(groups))
    return replace(data, areas=areas, measurements=np.ascontiguousarray(data.measurements[places]))


def test_runs_threads_and_the_order_of_areas(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_of_areas, "MOST_IN_RUN", 8)
    data, _ = data_of(own_rng(request), *P12_LIKE, n=37)
    learned = ANCHORED.learn(data)
    assert learned == ANCHORED.learn(data, n_threads=1) == ANCHORED.learn(data, n_threads=2)
    tables = ANCHORED.decide_with(data, learned)
    assert len(Frame(data).runs) == 5
    for n_threads in (1, 2):
        assert np.array_equal(ANCHORED.decide_with(data, learned, n_threads=n_threads), tables)
    for start, stop in itertools.pairwise([0, 8, 24, 37]):  # on the borders of runs
        part = np.arange(start, stop)
        assert np.array_equal(ANCHORED.decide_with(some_areas(data, part), learned), tables[part])
    shuffled = np.argsort(np.sin(np.arange(37)))
    assert np.array_equal(ANCHORED.decide_with(some_areas(data, shuffled), learned), tables[shuffled])
    inside = np.arange(4, 12)  # not on a border: columns are carried otherwise, and the test sees it
    many = [np.array_equal(ANCHORED.decide_with(some_areas(data, inside), learned), tables[inside])]
    assert not all(many)


def test_areas_with_other_kinds_of_conditions(request: pytest.FixtureRequest) -> None:
    """Structural zeros in some areas: a profile for all, graphs for each kind."""
    data, counts = data_of(own_rng(request), (2, 4), [total(), total({"d0": "0"})])
    counts[::3, 5] = 0
    constraints: dict[Any, Constraints] = {}
    for place, line in enumerate(counts.tolist()):
        exact: list[Condition] = [total(), total({"d0": "0"})]
        if place % 3 == 0:
            exact.append(structural_zeros({"d0": "1", "d1": "1"}))
        constraints[f"{place:03}"] = Constraints.of(schema_of(2, 4), exact, line)
    areas = Areas.collected("unit", constraints)
    assert len(areas.groups) == 2
    mixed = replace(data, areas=areas)
    tables = ANCHORED.decide(mixed)
    assert areas.holds(tables).all()
    assert (tables[::3, 5] == 0).all()


# What it refuses.


def test_reasons_against(request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    few, _ = data_of(rng, *P12_LIKE, n=FEWEST_AREAS - 1)
    assert "made for 20 or more; there are 19 areas" in str(ANCHORED.why_not(few.areas, few.rows, few.precisions))
    ways: list[Condition] = [margin("d0", "d1"), margin("d0", "d2"), margin("d1", "d2")]
    wide, _ = data_of(rng, (2, 2, 2), ways)
    assert "no two families" in str(ANCHORED.why_not(wide.areas, wide.rows, wide.precisions))
    some, _ = data_of(rng, (6,), [total()])
    rows = (*some.rows[:5], replace(some.rows[5], cells=(4, 5), coefficients=(1, 1)))
    del rows  # nearest says what it cannot do; a sum in place of a cell goes to its solver
    assert "take the rule nearest" in str(ANCHORED.why_not(some.areas, some.rows[:4], some.precisions[:4]))


def test_learned_numbers_are_checked(request: pytest.FixtureRequest) -> None:
    data, _ = data_of(own_rng(request), *P12_LIKE)
    learned = ANCHORED.learn(data)
    tables = ANCHORED.decide_with(data, learned)
    ANCHORED.check(data, tables)
    ANCHORED.check_with(data, tables, learned)
    for name, numbers in learned.items():
        step = 1 if "shapes" in name else 2**15
        other = {**learned, name: (numbers[0] + (step if numbers[0] < step else -step), *numbers[1:])}
        changed = ANCHORED.decide_with(data, other)
        with pytest.raises(ConditionError):  # even if the tables are those that follow from it
            ANCHORED.check_with(data, changed, other)
    wrong: list[Any] = [
        {},
        {**learned, "more": (1,)},
        {**learned, "profile": learned["profile"][1:]},
        {**learned, "shapes": (len(SHAPES), *learned["shapes"][1:])},
        {**learned, "effect_shapes": (len(EFFECT_SHAPES), *learned["effect_shapes"][1:])},
        {**learned, "shapes": (-1, *learned["shapes"][1:])},
        {**learned, "profile": (0, *learned["profile"][1:])},
        {**learned, "weights": (2**20 + 1, *learned["weights"][1:])},
        {**learned, "exponents": (2**40, *learned["exponents"][1:])},
        {**learned, "spread": (2**63,)},
    ]
    for other in wrong:
        with pytest.raises(ConditionError):
            ANCHORED.decide_with(data, other)


def test_far_measurements_and_large_counts(request: pytest.FixtureRequest) -> None:
    """Extents come from measurements: counts of millions, and noise that is far from its usual size."""
    data, counts = data_of(own_rng(request), (2, 4), [total(), total({"d0": "0"})])
    factors = np.array([1, 30, 1000, 10**6] * (N // 4))[:, None]
    large = counts * factors
    areas = Areas.of_counts(schema_of(2, 4), [total(), total({"d0": "0"})], list(data.areas.labels), large, name="unit")  # type: ignore[arg-type]
    measured = data.measurements - counts + large
    measured[0] += np.array([900, -900, 0, 0, 400, -400, 0, 0])
    far = replace(data, areas=areas, measurements=measured)
    tables = ANCHORED.decide(far)
    assert areas.holds(tables).all()
    assert np.abs(tables - large)[3::4].max() < 60


@pytest.mark.parametrize("exponent", [-3.0, -0.4, 0.1, 0.5, 1.0, 3.0, 20.0])
def test_strong_tilts_of_wide_windows_stay_numbers(exponent: float) -> None:
    """As of small budgets, where windows have thousands of counts and exponents go far beyond the doubles."""
    n_counts = 2_001
    chances = np.array([exp(-0.2 * count) for count in range(n_counts)])
    logs = [(exponent - 0.2) * count for count in range(n_counts)]
    weights = np.array([exp(value - max(logs)) for value in logs])
    weights /= weights.sum()
    total, mean, spread = tilted_moments(chances, exponent, n_counts)
    assert mean == pytest.approx(float(weights @ np.arange(n_counts)), rel=1e-6, abs=1e-9)
    assert 0 < total < 1e300
    assert 0 < spread < n_counts**2
    tilt(chances, exponent, total, n_counts)
    assert np.allclose(chances, weights, rtol=1e-6, atol=1e-12)


def test_what_is_no_number_is_no_place_in_a_table() -> None:
    assert exp_of(float("nan")) == 0.0


@pytest.mark.parametrize("exponent", [1, 2])
def test_noise_that_is_too_wide_is_refused(exponent: int, request: pytest.FixtureRequest) -> None:
    precision = Fraction(14, 10**4) if exponent == 1 else Fraction(64, 10**8)
    assert ANCHORED.why_too_noisy(46, precision, exponent) is None
    why = str(ANCHORED.why_too_noisy(46, precision / 25, exponent))
    assert "take the rule nearest, or a larger budget" in why
    assert ANCHORED.why_too_noisy(4_000, precision, exponent) is not None
    assert NEAREST.why_too_noisy(46, precision / 25, exponent) is None
    data, _ = data_of(own_rng(request), (2, 4), [total()], exponent=exponent, precision=precision)
    assert 2 * int(Frame(data).reach.max()) + 1 == pytest.approx(20_001, abs=10)


def test_numbers_that_nothing_teaches_decide_nothing(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is learned is compared before tables are made by it, so that absurd numbers cost no time."""
    data, _ = data_of(own_rng(request), *P12_LIKE)
    learned = ANCHORED.learn(data)
    tables = ANCHORED.decide_with(data, learned)
    absurd = {**learned, "exponents": (20 * 2**20,) * len(learned["exponents"])}
    monkeypatch.setattr(type(ANCHORED), "decide_with", lambda *_, **__: pytest.fail("tables are made"))
    with pytest.raises(ConditionError, match="not what the measurements teach"):
        ANCHORED.check_with(data, tables, absurd)


# From a spec to a bundle and back.

SCHEMA = Schema({"sex": ["f", "m"], "age": ["0-9", "10-19", "20-29", "30-39", "40-49", "50+"]})


def tables_of_counties(rng: RandomStream, n: int = N) -> dict[str, cg.Table]:
    counts = made_up(rng, (2, 6), n)
    return {f"county {place:02}": cg.Table(SCHEMA, line.reshape(2, 6)) for place, line in enumerate(counts)}


def mechanism(rule: str | None = "anchored") -> cg.Mechanism:
    exact = [cg.total(), cg.total({"sex": "f"})]
    return cg.Mechanism(SCHEMA, measure=[cg.cells()], invariants=exact, epsilon="1", method="measured", rule=rule)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    book = cg.open_ledger(tmp_path / "budget.db", create=True)
    book.create_dataset("county", epsilon="9", neighbours="bounded", who="Ada")
    return book


def release(some: cg.Mechanism, tables: dict[str, cg.Table], ledger: Ledger, folder: Path) -> Any:
    return some.release(tables, ledger=ledger, dataset="county", release="r", who="Ada", folder=folder, area="county")


def test_a_bundle_has_what_was_learned(ledger: Ledger, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder = tmp_path / "r"
    made = release(mechanism(), tables_of_counties(own_rng(request)), ledger, folder)
    verified = verify_bundle(folder, ledger=ledger)
    decision = verified.bundle.manifest.decision
    assert decision is not None
    assert decision.rule == ("anchored", 1)
    assert decision.learned == made.plan.decide_and_learn(made.drawn)[1]
    assert np.array_equal(verified.bundle.counts, made.counts)
    assert "learned" in (folder / "README.txt").read_text(encoding="utf-8")
    values = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["rule"]["learned"]
    for name in ("profile", "spread"):
        with pytest.raises(BundleError):
            verify_bundle(forge(folder, at("rule", "learned", name, 0, value=values[name][0] + 40_000)))
    with pytest.raises(BundleError):
        verify_bundle(forge(folder, at("rule", "learned", "shapes", 0, value=99)))


def test_a_further_edition(ledger: Ledger, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    release(mechanism(None), tables_of_counties(own_rng(request)), ledger, tmp_path / "r")
    decide_again(tmp_path / "r", tmp_path / "edition", rule="anchored")
    bundle = verify_bundle(tmp_path / "edition", ledger=ledger).bundle
    assert bundle.manifest.decision is not None
    assert bundle.manifest.decision.is_after_publication
    assert bundle.manifest.decision.learned
    assert not np.array_equal(bundle.counts, cg.load_bundle(tmp_path / "r").counts)
    decide_again(tmp_path / "edition", tmp_path / "back", rule="nearest")
    assert np.array_equal(cg.load_bundle(tmp_path / "back").counts, cg.load_bundle(tmp_path / "r").counts)


def test_few_areas_are_refused_before_the_charge(
    ledger: Ledger, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    few = tables_of_counties(own_rng(request), 5)
    with pytest.raises(CongenialError, match="made for 20 or more; there are 5 areas: take the rule nearest"):
        release(mechanism(), few, ledger, tmp_path / "r")
    assert not ledger.history("county")
    release(mechanism(None), few, ledger, tmp_path / "r")
    with pytest.raises(BundleError, match="made for 20 or more"):
        decide_again(tmp_path / "r", tmp_path / "edition", rule="anchored")


def test_wide_noise_is_refused_before_the_charge(
    ledger: Ledger, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    some = cg.Mechanism(
        SCHEMA, measure=[cg.cells()], invariants=[cg.total()], epsilon="1/100000", method="measured", rule="anchored"
    )
    with pytest.raises(CongenialError, match="take the rule nearest, or a larger budget"):
        release(some, tables_of_counties(own_rng(request)), ledger, tmp_path / "r")
    assert not ledger.history("county")


def test_a_spec_names_it() -> None:
    text = "release: r\ndata: {path: d.csv, kind: counts, count: n}\ndimensions: {sex: [f, m]}\nbudget: {epsilon: 1}\n"
    assert parse_spec(text + "method: measured\nrule: anchored\n").mechanism.rule == ("anchored", 1)
    assert parse_spec(text + "method: measured\n").mechanism.rule == ("nearest", 1)
