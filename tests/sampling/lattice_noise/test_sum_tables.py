"""Tables of sums: the right law on every forest, every threshold within its bound, every decision as in balls."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product

import flint
import numpy as np
import pytest

from agreement import ALPHA, N_DRAWS, own_rng
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import TooLargeError
from congenial.exact import ends
from congenial.noise import DiscreteGaussian, DoubleGeometric
from congenial.noise.weight import NoiseWeight
from congenial.randomness import KeyedWords, replay_rng
from congenial.sampling.lattice_noise import sum_tables as module
from congenial.sampling.lattice_noise.sum_decisions import ExactSums
from congenial.sampling.lattice_noise.sum_forest import Kind, LeafKind, PairKind, SplitStep, SumForest, WeightedKind
from congenial.sampling.lattice_noise.sum_masses import Masses
from congenial.sampling.lattice_noise.sum_tables import BITS, CoreTable, DecisionTable, SumTables, SumTableSampler
from congenial.sampling.lattice_noise.system import LatticeSystem, noise_space
from congenial.sampling.target_and_system import Measured
from lattice_laws import Enumerated, gaussian, geometric, keyed, lattice, p12, structures

Weights = Callable[[str], NoiseWeight]


def forests(w: Weights, wide: str, middle: str, narrow: str) -> dict[str, LatticeSystem]:
    """Further structures: sums inside sums, ties, cores with soft rows, answers without cells."""
    a, b, c = w(wide), w(middle), w(narrow)
    four, pair = dict.fromkeys(range(4), 1), {0: 1, 1: 1}
    return {
        "disjoint sums": lattice([b, b, c, c], [pair, {2: 1, 3: 1}]),
        "two sexes, three ages, as P12": lattice(
            [c] * 6, [dict.fromkeys(range(6), 1), {0: 1, 1: 1, 2: 1}, {1: 1, 2: 1, 4: 1, 5: 1}]
        ),
        "cells and their total": lattice([b] * 3, [], [({0: 1, 1: 1, 2: 1}, b)]),
        "cells and a margin, total exact": lattice([c] * 4, [four], [(pair, b), ({2: 1, 3: 1}, c)]),
        "cells and two margins that cross": lattice([c] * 4, [four], [(pair, b), ({0: 1, 2: 1}, a)]),
        "soft sums inside a soft sum": lattice([c] * 4, [], [(pair, b), (four, c), ({2: 1, 3: 1}, a)]),
        "differences": lattice([b, c, b], [{0: 1, 1: -1, 2: 1}], [({0: 1, 2: -1}, b)]),
        "an unequal tie": lattice([b, b, c], [{0: 2, 1: 2, 2: -3}]),
        "multiples in one sum": lattice([b, b, c, c], [{0: 1, 1: -2, 2: 3, 3: 2}]),
        "a soft row with coefficients": lattice([b, c], [], [({0: 2, 1: -1}, b)]),
    }


def answers(noise: DoubleGeometric | DiscreteGaussian) -> LatticeSystem:
    """Margins of a 2 x 3 table and their total, no cells: noise in the answer space."""
    rows = [[0, 1, 2], [3, 4, 5], [0, 3], [1, 4], [2, 5], range(6)]
    return noise_space([], [Measured(Row.of(f"row {k}", list(r)), noise) for k, r in enumerate(rows)], range(6)).system


STRUCTURES = {
    **{f"geometric, {name}": one for name, one in structures(geometric, "1/2", "1", "2").items()},
    **{f"geometric, {name}": one for name, one in forests(geometric, "1/2", "1", "2").items()},
    **{f"gaussian, {name}": one for name, one in structures(gaussian, "2", "1", "1/2").items()},
    **{f"gaussian, {name}": one for name, one in forests(gaussian, "2", "1", "1/2").items()},
    "geometric, answers": answers(DoubleGeometric(3)),
    "gaussian, answers": answers(DiscreteGaussian(1)),
    "both factors": lattice([NoiseWeight(Fraction(3, 4), Fraction(4, 5))] * 3, [{0: 1, 1: 1, 2: 1}]),
}


def sampler_of(system: LatticeSystem) -> SumTableSampler:
    sampler = SumTableSampler.of(system)
    sampler.check()
    return sampler


def with_tables(system: LatticeSystem, change: Callable[[DecisionTable], DecisionTable]) -> SumTableSampler:
    """A sampler whose every table is another."""
    sampler = sampler_of(system)
    tables = [
        replace(table, table=change(table.table)) if isinstance(table, CoreTable) else table and change(table)
        for table in sampler.tables.tables
    ]
    sampler.__dict__["_outcome"] = SumTables(tuple(tables), 0.0)
    return sampler


@pytest.mark.statistical
@pytest.mark.parametrize("name", STRUCTURES)
def test_draws_have_the_law_of_the_lattice(name: str, request: pytest.FixtureRequest) -> None:
    """Mutants follow: a scale, a split, a sign, a soft row."""
    system = STRUCTURES[name]
    draws = sampler_of(system).draw(keyed(own_rng(request), N_DRAWS))
    assert system.holds(draws)
    assert Enumerated.of(system).p_value(draws) > ALPHA


def off_by_3_percent(system: LatticeSystem) -> SumTableSampler:
    factor = Fraction(97, 100)
    weights = tuple(
        replace(w, linear=w.linear * factor if w.linear < 1 else w.linear)
        if w.quadratic == 1
        else replace(w, quadratic=w.quadratic * factor)
        for w in system.weights
    )
    return sampler_of(replace(system, weights=weights))


def ignoring_sums(system: LatticeSystem) -> SumTableSampler:
    """Every sum is split as if it were 0."""

    def change(table: DecisionTable) -> DecisionTable:
        rows = np.repeat(table.thresholds[:1], len(table.thresholds), axis=0)
        return replace(table, thresholds=rows, first=np.repeat(table.first[:1], len(table.first)))

    return with_tables(system, change)


def forgetting_signs(system: LatticeSystem) -> SumTableSampler:
    sampler = sampler_of(system)
    sampler.__dict__["program"] = replace(sampler.program, signs=np.ones_like(sampler.program.signs))
    return sampler


def without_soft_rows(system: LatticeSystem) -> SumTableSampler:
    return sampler_of(replace(system, soft=()))


def one_state_off(system: LatticeSystem) -> SumTableSampler:
    """Outcomes are taken one too far."""
    return with_tables(system, lambda table: replace(table, first=table.first + 1))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("mutant", "name"),
    [
        *product([off_by_3_percent], ["one sum", "no equality", "one sum, precisions that differ"]),
        *product([ignoring_sums], ["one sum, precisions that differ", "cells and their total"]),
        (forgetting_signs, "multiples in one sum"),
        *product([without_soft_rows], ["cells and their total", "cells and two margins that cross"]),
        (one_state_off, "disjoint sums"),
    ],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
@pytest.mark.parametrize("noise", ["geometric", "gaussian"])
def test_mutants_are_rejected(
    mutant: Callable[[LatticeSystem], SumTableSampler], name: str, noise: str, request: pytest.FixtureRequest
) -> None:
    system = STRUCTURES[f"{noise}, {name}"]
    assert Enumerated.of(system).p_value(mutant(system).draw(keyed(own_rng(request), N_DRAWS))) < ALPHA


# Tables against balls. The masses are made anew, by plain sums over wide windows.


def masses_in_balls(kind: Kind, reach: int) -> dict[int, flint.arb]:
    if isinstance(kind, LeafKind):
        return dict(zip(range(-reach, reach + 1), kind.weight.enclosures(range(-reach, reach + 1)), strict=True))
    if isinstance(kind, WeightedKind):
        base = masses_in_balls(kind.base, reach)
        weights = kind.weight.enclosures(kind.factor * k for k in base)
        return {k: mass * weight for (k, mass), weight in zip(base.items(), weights, strict=True)}
    parts = [masses_in_balls(part, reach) for part in kind.parts]
    if isinstance(kind, PairKind):
        out: dict[int, flint.arb] = {}
        for (one, first), (other, second) in product(parts[0].items(), parts[1].items()):
            value = kind.times[0] * one + kind.times[1] * other
            out[value] = out.get(value, flint.arb(0)) + first * second
        return out
    values = [z for z in range(-reach, reach + 1) if all(t * z in p for t, p in zip(kind.times, parts, strict=True))]
    out = {z: flint.arb(1) for z in values}
    for times, part in zip(kind.times, parts, strict=True):
        out = {z: mass * part[times * z] for z, mass in out.items()}
    return out


CHECKED = [
    "one sum, precisions that differ",
    "cells and a margin, total exact",
    "multiples in one sum",
    "an unequal tie",
]


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.parametrize("noise", ["geometric", "gaussian"])
def test_masses_are_within_their_bounds(name: str, noise: str) -> None:
    system = STRUCTURES[f"{noise}, {name}"]
    masses, forest = Masses(25.0), SumForest.of(system)  # windows that cut visibly
    with flint.ctx.workprec(300):
        for kind in forest.kinds:
            mass, exact = masses.of(kind), masses_in_balls(kind, 70)
            total = sum(exact.values(), flint.arb(0))
            # The table is scaled by a power of two, which the value at 0 tells.
            scale = 2 ** round(float((exact[0] / flint.arb(float(mass.values[mass.radius]))).log() / np.log(2)))
            short = flint.arb(0)
            for k, value in exact.items():
                entry = (
                    flint.arb(float(mass.values[k + mass.radius])) * scale if abs(k) <= mass.radius else flint.arb(0)
                )
                assert entry <= value * (1 + 2 * mass.n_units * 2.0**-53)
                short += value - entry
            allowed = mass.lost * scale + 2 * mass.n_units * 2.0**-53 * float(total)
            assert ends(short)[1] <= Fraction(allowed)
            assert mass.lost * scale < 1e-8 * float(total)


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.parametrize("noise", ["geometric", "gaussian"])
def test_thresholds_are_within_their_tolerance(name: str, noise: str) -> None:
    sampler = sampler_of(STRUCTURES[f"{noise}, {name}"])
    n_checked = 0
    with flint.ctx.workprec(300):
        for step, table in zip(sampler.program.steps, sampler.tables.tables, strict=True):
            if not isinstance(step, SplitStep):
                continue
            assert isinstance(table, DecisionTable)
            assert table.tolerance < 2.0 ** (BITS - 44)
            one, other = (masses_in_balls(part, 110) for part in step.kind.parts)
            for row in {0, 1, len(table.first) // 2, len(table.first) - 1} & set(range(len(table.first))):
                if table.thresholds[row, 0] > 0:
                    continue  # a sum that cannot be, or always in doubt
                weights = {}
                for j, mass in sorted(one.items()):
                    rest, remainder = divmod(row - step.kind.times[0] * j, step.kind.times[1])
                    if not remainder and rest in other:
                        weights[j] = mass * other[rest]
                total, running, exact = sum(weights.values(), flint.arb(0)), flint.arb(0), {}
                for j in sorted(one):
                    exact[j] = running
                    running += weights.get(j, flint.arb(0))
                first = int(table.first[row])
                for entry, threshold in enumerate(table.thresholds[row].tolist()):
                    if first + entry in exact:
                        gap = exact[first + entry] / total * 2**BITS - threshold
                        assert abs(gap) <= table.tolerance
                        n_checked += 1
    assert n_checked > 30


# Decisions in doubt.


TOO_LARGE = {"geometric, 3 x 3, both margins"}  # in balls: hundreds of thousands of states, minutes a draw


@pytest.mark.parametrize("name", sorted(set(STRUCTURES) - TOO_LARGE))
def test_the_slow_path_draws_the_same(name: str) -> None:
    sampler = sampler_of(STRUCTURES[name])
    is_large = any(isinstance(t, CoreTable) and len(t.states) > 2000 for t in sampler.tables.tables)
    words = keyed(replay_rng(f"slow {name}"), 1 if is_large else 12)
    assert np.array_equal(sampler.draw(words), sampler.draw(words, always_refined=True))


@pytest.mark.parametrize("weight", [geometric("1/4"), gaussian("9")], ids=["geometric", "gaussian"])
def test_the_slow_path_draws_the_same_in_46_cells(weight: NoiseWeight) -> None:
    sampler, words = sampler_of(p12(weight)), keyed(replay_rng(7), 3)
    assert sampler.n_words == 43
    assert np.array_equal(sampler.draw(words), sampler.draw(words, always_refined=True))


@pytest.mark.parametrize("name", ["two sexes, three ages, as P12", "cells and two margins that cross", "no equality"])
@pytest.mark.parametrize("noise", ["geometric", "gaussian"])
def test_a_coarse_tolerance_sends_many_down_the_slow_path_with_the_same_result(
    name: str, noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = STRUCTURES[f"{noise}, {name}"]
    words = keyed(replay_rng(f"coarse {name}"), 300)
    refined = Counter[str]()
    draw = ExactSums.draw
    monkeypatch.setattr(ExactSums, "draw", lambda *args: [draw(*args), refined.update(["unit"])][0])
    expected = sampler_of(system).draw(words)
    assert not refined
    coarse = with_tables(system, lambda table: replace(table, tolerance=1 << (BITS - 10)))
    assert np.array_equal(coarse.draw(words), expected)
    assert 3 < refined["unit"] < 200


def test_sums_beyond_a_table_are_decided_all_the_same() -> None:
    system = STRUCTURES["geometric, cells and a margin, total exact"]

    def short(table: DecisionTable) -> DecisionTable:
        return replace(table, thresholds=table.thresholds[:1], first=table.first[:1])

    words = keyed(replay_rng("short"), 150)
    assert np.array_equal(with_tables(system, short).draw(words), sampler_of(system).draw(words))


def test_a_word_at_a_threshold_is_followed_by_others() -> None:
    """The first word does not decide: the ones that belong to it do, on either side."""
    from congenial.proven_decisions import Uniform

    sampler = sampler_of(lattice([geometric("1")], []))
    with flint.ctx.workprec(256):
        a = geometric("1").enclosures([1])[0]
        below = a / (1 + a)  # P(u < 0) = a / (1 + a)
        word = int(ends(below * 2**64)[0])
    exact = ExactSums(sampler.program)
    assert exact.draw([Uniform(word, iter([0] * 9))]) == [-1]
    assert exact.draw([Uniform(word, iter([2**64 - 1] * 9))]) == [0]
    for edge in (0, 2**64 - 1):
        assert abs(exact.draw([Uniform(edge, iter([edge ^ 5] * 9))])[0]) > 40


def test_ends_of_a_row_are_in_doubt() -> None:
    (table,) = sampler_of(lattice([geometric("1")], [])).tables.tables
    assert isinstance(table, DecisionTable)
    for word, is_doubtful in [(0, True), ((1 << BITS) - 1, True), (table.tolerance, True), (1 << (BITS - 2), False)]:
        is_open = np.zeros((1, 1), np.bool_)
        table.decide(np.zeros((1, 1), np.int64), np.array([[word]]), is_open)
        assert bool(is_open) == is_doubtful


# What a draw may depend on.


def test_units_in_any_order_and_parts_draw_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = sampler_of(p12(geometric("1")))
    rng = replay_rng("parts")
    key, starts = rng.words(4).tobytes(), rng.words(600).reshape(300, 2)
    whole = sampler.draw(KeyedWords(key, starts))
    order = np.random.default_rng(3).permutation(300)
    assert np.array_equal(sampler.draw(KeyedWords(key, starts[order])), whole[order])
    for size in (1, 7, 2**20):
        monkeypatch.setattr(module, "_BATCH", size)
        assert np.array_equal(sampler.draw(KeyedWords(key, starts)), whole)
    assert sampler.draw(KeyedWords(key, starts[:0])).shape == (0, 46)


def test_a_decision_takes_the_same_steps_whatever_comes_out() -> None:
    sampler = sampler_of(p12(geometric("1/2")))
    table = next(table for table in sampler.tables.tables if isinstance(table, DecisionTable) and len(table.first) > 9)
    steps = []
    for row, word in [
        (0, 1 << (BITS - 1)),
        (0, 1 << 30),
        (len(table.first) - 1, 1 << (BITS - 1)),
        (5, (1 << BITS) - 9),
    ]:
        calls: list[str] = []

        def note(_: object, event: str, what: object, calls: list[str] = calls) -> None:
            calls.append(f"{event} {what}")

        rows, words, is_open = np.full((1, 8), row), np.full((1, 8), word), np.zeros((1, 8), np.bool_)
        sys.setprofile(note)
        try:
            table.decide(rows, words, is_open)
        finally:
            sys.setprofile(None)
        steps.append([call.split(" at ")[0] for call in calls if call.startswith("c_")])
    assert all(one == steps[0] for one in steps)


def test_where_nothing_can_move_noise_is_zero() -> None:
    sampler = sampler_of(lattice([geometric("1")] * 2, [{0: 1, 1: 1}, {0: 1, 1: -1}]))
    words = keyed(replay_rng("still"), 9)
    assert sampler.n_words == 0
    assert not sampler.draw(words).any()
    assert not sampler.draw(words, always_refined=True).any()
    assert sampler_of(lattice([], [])).draw(words).shape == (9, 0)


def test_doubt_is_rare_and_said() -> None:
    for weight in (geometric("1/4"), geometric("2"), gaussian("9")):
        sampler = sampler_of(p12(weight))
        assert 0 < sampler.slow_rate < 2e-9
        assert sampler.acceptance == 1
        assert "43 decisions a unit" in sampler.describe()
    assert sampler_of(p12(geometric("1/20"))).slow_rate < 1e-7


def test_forests_are_small() -> None:
    """46 cells have few kinds, P12 has one free integer, and free cells are not multiplied with each other."""
    assert len(SumForest.of(p12(geometric("1"))).kinds) <= 10
    free = SumForest.of(lattice([geometric("1")] * 46, []))
    assert (len(free.kinds), len(free.free)) == (1, 46)
    groups = SumForest.of(lattice([geometric("1")] * 60, [dict.fromkeys(range(k, k + 6), 1) for k in range(0, 60, 6)]))
    assert (len(groups.kinds), len(groups.pinned), groups.cores) == (4, 10, ())
    crossing = SumForest.of(
        lattice([geometric("1")] * 4, [], [({0: 1, 1: 1}, geometric("1")), ({1: 1, 2: 1}, geometric("1"))])
    )
    assert [len(core.nodes) for core in crossing.cores] == [3]
    assert len(crossing.free) == 1


def test_refusals_give_the_way_out() -> None:
    for system in (
        p12(geometric("1/1000")),
        lattice(
            [geometric("1/4")] * 9,
            [{0: 1, 1: 1, 2: 1}, {2: 1, 3: 1, 4: 1, 0: 1}, {5: 1, 0: 1, 6: 1}, {1: 1, 3: 1, 6: 2}],
        ),
    ):
        sampler = SumTableSampler.of(system)
        assert not sampler.is_exact
        with pytest.raises(TooLargeError, match="higher precision"):
            sampler.check()
