"""What windows leave out: bounded for every table, whatever way its parts were merged, and in the slow path too."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

import congenial as cg
from congenial.arrays import Ints
from congenial.noise import DiscreteGaussian, DoubleGeometric
from congenial.noise.weight import FLAT, NoiseWeight
from congenial.sampling.elimination.compiled_layout import Elimination, Layout
from congenial.sampling.elimination.exact_fallback import ExactMessages
from congenial.sampling.elimination.sampler import Messages, messages
from congenial.sampling.kernel_scaled_floats import ScaledFloats
from congenial.sampling.target_and_system import Kind, System, SystemRow

N_SYSTEMS = 150


def number(weight: NoiseWeight, v: int, is_limit: bool) -> Fraction:
    return weight.at(v, is_limit=is_limit)


def some_weight(dice: random.Random, *, flat: float = 0.2) -> NoiseWeight:
    if dice.random() < flat:
        return FLAT
    precision = dice.choice(["1/20", "1/5", "1/2", "1", "2"])
    noise = dice.choice([DoubleGeometric, DiscreteGaussian])(precision)
    return noise.weight


def some_system(dice: random.Random) -> tuple[System, Ints]:
    """Few cells in regions: the total beside sums of regions, so that parts close early; sums of some of a region."""
    n = dice.randint(4, 7)
    upper = [dice.randint(1, 6) for _ in range(n)]
    centre = np.array([dice.choice([0, most, dice.randint(0, most)]) for most in upper], np.int64)
    cut = dice.randint(2, n - 2)
    regions = [list(range(cut)), list(range(cut, n))]
    sums = [list(range(n)), *regions[: dice.randint(1, 2)]]
    sums += [sorted(dice.sample(region, dice.randint(2, len(region)))) for region in regions for _ in range(2)]
    rows = {}
    for number, cells in enumerate(sums):
        value, ones = int(centre[cells].sum()), tuple((cell, 1) for cell in cells)
        kind: Kind = "equal" if number < 3 and dice.random() < 0.8 else dice.choice(["soft", "soft", "range", "equal"])
        if ones in rows:
            continue
        if kind == "soft":
            rows[ones] = SystemRow(kind, ones, weight=some_weight(dice, flat=0))
        else:
            reach = dice.randint(0, 3) if kind == "range" else 0
            rows[ones] = SystemRow(kind, ones, value - reach, value + reach)
    ordered = sorted(rows.values(), key=lambda row: ["equal", "range", "soft"].index(row.kind))
    weights = tuple(some_weight(dice) for _ in range(n))
    return System((0,) * n, tuple(upper), weights, tuple(ordered)), centre


def entries(made: Messages, node: int) -> list[Fraction]:
    state = made.layout.state
    first, size = int(state.node_offset[node]), int(state.node_size[node])
    if isinstance(made.numbers, ScaledFloats):
        value, power = (column[first : first + size].tolist() for column in made.numbers)
        return [Fraction(v) * Fraction(2) ** (512 * p) for v, p in zip(value, power, strict=True)]
    scale = Fraction(2) ** int(state.node_exponent[node])
    return [Fraction(v) * scale for v in made.numbers[first : first + size].tolist()]


def claimed(made: Messages, node: int) -> Fraction:
    missing, state = float(made.layout.state.node_missing[node]), made.layout.state
    if isinstance(made.numbers, ScaledFloats):
        return Fraction(0) if missing == -math.inf else Fraction(math.exp(missing))
    return Fraction(missing) * Fraction(2) ** int(state.node_exponent[node])


def key_of(layout: Layout, node: int, place: int) -> tuple[int, ...]:
    state, out = layout.state, []
    for d in range(int(layout.elimination.program.node_dim[node])):
        step = place // int(state.node_stride[node, d]) % int(state.node_length[node, d])
        out.append(int(state.node_low[node, d]) + step)
    return tuple(out)


def shortest_margin(nats: float, seed: int) -> Fraction | None:
    """Return the least of what is claimed to be missing less what is, over all entries of one system's messages."""
    system, centre = some_system(random.Random(seed))
    elimination = Elimination.of(system)
    if elimination.order.n_states > 40_000:
        return None
    narrow = Elimination(elimination.order.with_nats(nats))
    made = Messages.built(narrow, centre)
    whole = ExactMessages.of(Layout.of(elimination.unlimited(), centre), number, Fraction(0))
    worst = Fraction(1)
    for node in range(len(narrow.order.groups), len(narrow.order.coordinates)):
        units, missing = float(made.layout.state.node_units[node]), claimed(made, node)
        for place, found in enumerate(entries(made, node)):
            there = whole.layout.index(node, list(key_of(made.layout, node, place)))
            truth = whole.nodes[node][there] if there is not None else Fraction(0)
            rounding = truth * Fraction(units * 2.0**-53)
            worst = min(worst, missing + rounding - abs(truth - found))
    return worst


@pytest.mark.parametrize("nats", [0.5, 2.0, 6.0])
def test_no_entry_of_any_message_lacks_more_than_is_claimed(nats: float) -> None:
    """Narrow windows cut visibly; a part that an equality closes inside a component is no exception."""
    found = [shortest_margin(nats, seed) for seed in range(N_SYSTEMS)]
    assert sum(margin is not None for margin in found) > N_SYSTEMS / 2
    assert all(margin is None or margin >= 0 for margin in found)


def test_ranges_are_narrowed_alike_by_the_plan_and_for_a_table() -> None:
    """Ordered cells need as many rounds as there are cells: fewer made one table slow, or refused it."""
    n = 11
    schema = cg.Schema({"age": [f"a{i}" for i in range(n)]})
    ordered = [cg.linear({f"a{i}": 1, f"a{i + 1}": -1}, at_most=0) for i in range(n - 1)]
    mechanism = cg.Mechanism(
        schema, measure=[cg.cells(precision="1/20")], invariants=[*ordered, cg.linear({f"a{n - 1}": 1}, at_most=3)]
    )
    for counts in ([0] * n, [0] * 5 + [3] * 6, [3] * n):
        made = messages(mechanism.law(cg.Table(schema, counts)).target)
        assert made.layout.size <= made.layout.elimination.order.n_states
        assert made.log_missing_share <= -47 * math.log(2)


def test_the_slow_path_takes_what_the_fast_one_does() -> None:
    """Wider windows may need weights beyond every table, which balls do not use."""
    schema = cg.Schema({"cell": [f"l{i}" for i in range(43)]})
    few, rest = ([f"l{i}" for i in one] for one in (range(40), range(40, 43)))
    mechanism = cg.Mechanism(
        schema,
        measure=[cg.cells({"cell": few}, precision="1/10000"), cg.cells({"cell": rest}, precision="1")],
        invariants=[cg.total({"cell": few})],
    )
    made = messages(mechanism.law(cg.Table(schema, [25] * 40 + [5, 6, 7])).target)
    assert made.layout.is_clipped
    wider = made.layout.elimination.wider()
    assert wider.order.is_scaled
    assert Layout.of(wider, made.layout.centre).size >= made.layout.size


def test_what_is_missing_is_rounded_up_however_little_it_is() -> None:
    system = System((None,) * 3, (None,) * 3, (DoubleGeometric(1).weight,) * 3, ())
    for nats in (100.0, 22_000.0, 80_000.0):
        elimination = Elimination(Elimination.of(system).order.with_nats(nats), has_weights=False)
        layout = Layout.of(elimination, np.zeros(3, np.int64))
        bound, mass = layout.missing_of_prefix(0), float(layout.state.prefix_log_mass[0])
        # log2 of the bound against (mass - nats) / log 2 and one bit for each window's two sides
        exact = (mass - nats) / math.log(2) + 1 + math.log2(int(layout.state.prefix_clips[0]))
        assert bound.numerator.bit_length() - bound.denominator.bit_length() + 1 >= exact
