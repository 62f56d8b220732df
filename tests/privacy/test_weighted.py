"""Certificates of weighted zeros against brute force; each test names the defect that it would catch.

`make audit-zeros` goes through 20,000 drawn systems instead of 120.
"""

from fractions import Fraction
from itertools import product
from math import exp, log, log1p

import flint
import numpy as np
import pytest

from brute import Dice
from congenial.errors import PrivacyError
from congenial.exact import double_above_exp
from congenial.privacy.weighted_zeros.calibrate import (
    WeightedZeros,
    calibrated_lines,
    calibrated_zeros,
    changed_loss,
    excess_left,
)
from congenial.privacy.weighted_zeros.group_cost import (
    OtherCells,
    Series,
    free_excess,
    group_excess,
    group_excess_holds,
    group_side_holds,
    lines_excess,
    pair_excess,
    stays_nonnegative,
)
from congenial.privacy.weighted_zeros.group_cost_given_total import total_excess_holds
from congenial.randomness import replay_rng
from weighted_audit import audit, excess_of, laws
from weighted_systems import Group, Law, cell_series, crowd_ratio, group_ratio, normaliser, random_weighted

half = Fraction(1, 2)
LAWS = laws(["1/2", "6/5"], ["0.9", "1.5"])


def short_law(precision: str, share: str) -> Law:
    """Return a law of short fractions, for exact arithmetic."""
    base = Fraction(round(100 * exp(-float(Fraction(precision)))), 100)
    return base, max(Fraction(1), Fraction(round(100 * Fraction(share) / (1 - base)), 100))


def test_drawn_systems(request: pytest.FixtureRequest) -> None:
    """Catches a certificate below a true ratio: own laws by group, limits and measured rows elsewhere, k records."""
    dice = Dice(replay_rng(request.node.name))
    tally = audit(random_weighted(dice, LAWS, largest=4) for _ in range(120))
    assert set(tally.pairs) == {"lines", "group", "total", "limited", "several records"}
    assert min(tally.pairs.values()) > 100
    for name, least in {"lines": 0.4, "group": 0.5, "total": 0.8, "limited": 0.3, "several records": 0.5}.items():
        assert least < tally.largest[name] <= 1 + 1e-9, (name, tally.largest)


def test_an_audit_can_fail(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutants of the certificates that drawn systems catch: too few of the two halves, a total that is not fixed."""
    dice = Dice(replay_rng(request.node.name))
    systems = [random_weighted(dice, LAWS, largest=4) for _ in range(60)]
    for name in ("lines", "group", "total"):
        part = 0.4 if name != "total" else 0.8

        def mutant(group: Group, name: str = name, part: float = part) -> dict[str, float]:
            return {key: value * part if key == name else value for key, value in excess_of(group).items()}

        monkeypatch.setattr("weighted_audit.excess_of", mutant)
        with pytest.raises(AssertionError, match=name):
            audit(systems)


def test_the_loss_is_the_distance_and_the_ratio(request: pytest.FixtureRequest) -> None:
    """Catches a weight that does not cancel: the worst output is the confidential table itself."""
    dice = Dice(replay_rng(request.node.name))
    for _ in range(20):
        system = random_weighted(dice, LAWS)
        log_p = system.weights - system.log_normalisers[:, None]
        for s, other, number in system.neighbours():
            worst = float((log_p[s] - log_p[other]).max())
            grown = float(system.log_normalisers[other] - system.log_normalisers[s])
            precision = -log(float(system.groups[number].base))
            assert worst == pytest.approx(2 * precision + grown, abs=1e-9)
            assert worst <= 4 * precision + 1e-9


# ---- where bounds are tight, and mutants ----

CROWD = 10**40


def worst_group(cells: int, base: Fraction, weight: Fraction) -> Fraction:
    """Return the largest excess of some real systems: all other cells empty, any total of the group."""
    rest = [0] * (cells - 2)
    to_empty = [(0, 16, total) for total in range(1, 13)]
    to_full = [(12, 1, total) for total in range(2, 16)]
    return max(crowd_ratio([x, y, *rest], base, weight, total, CROWD) for x, y, total in to_empty + to_full) - 1


@pytest.mark.parametrize("cells", [2, 3, 5])
@pytest.mark.parametrize(("precision", "share"), [("1/2", "1.5"), ("1", "1.5"), ("2", "1.2")])
def test_the_bound_of_groups_is_attained(cells: int, precision: str, share: str) -> None:
    """Mutants: an excess 1 % smaller, and that of a group with two cells more, are below a true ratio."""
    base, weight = short_law(precision, share)
    excess, more = group_excess(cells, base, weight), group_excess(cells + 2, base, weight)
    assert excess is not None
    assert more is not None
    worst = worst_group(cells, base, weight)
    assert worst <= excess
    assert worst > excess * Fraction(99, 100)
    assert worst > more
    assert not group_excess_holds(cells, base, weight, worst * Fraction(999, 1000))


def test_the_upper_half_is_needed() -> None:
    """Mutant: (L) alone. With a large weight the worst record moves to a larger cell."""
    base, weight = short_law("1/2", "3")
    worst = worst_group(4, base, weight)
    assert group_excess_holds(4, base, weight, worst * Fraction(101, 100))
    assert group_side_holds("lower", 4, base, weight, worst * Fraction(90, 100))
    assert not group_side_holds("upper", 4, base, weight, worst * Fraction(99, 100))


@pytest.mark.parametrize("share", ["0.7", "1", "1.25", "1.5"])
def test_the_bound_of_lines_is_attained(share: str) -> None:
    """Two cells that hold one record between them in nearly all tables: 2 / (1 + b) whatever the weight."""
    base, weight = short_law("1/2", share)
    ratio = crowd_ratio([0, 4], base, weight, 1, CROWD)
    assert ratio <= 1 + lines_excess(base, weight)
    assert ratio - 1 > (2 / (1 + base**2) - 1) * Fraction(999, 1000)
    if 1 <= weight * (1 - base**2) <= 2 + base**2:
        assert lines_excess(base, weight) == 2 / (1 + base**2) - 1


def test_lines_beyond_the_flat_part() -> None:
    """Catches a bound that stays at 2 / (1 + b) for weights too small or too large."""
    base = half
    b = base**2
    small, large = half, Fraction(8)
    assert 1 + lines_excess(base, small) == (small * (1 - b) + 1) / (small * (1 - b) + b)
    assert 1 + lines_excess(base, large) == (large * (1 - b) + b) / (1 + b * large * (1 - b))
    for weight, before, total in ((small, [0, 16], 12), (large, [11, 1], 12)):
        ratio = crowd_ratio(before, base, weight, total, CROWD)
        assert ratio <= 1 + lines_excess(base, weight)
        assert ratio > 2 / (1 + b)
        assert ratio - 1 > lines_excess(base, weight) * Fraction(99, 100)


@pytest.mark.parametrize(("cells", "precision", "share"), [(4, "0.47", "0.8"), (6, "0.8", "0.9"), (10, "1", "1")])
def test_the_bound_of_fixed_totals_is_attained(cells: int, precision: str, share: str) -> None:
    """All records in one cell, one moves to an empty one. Mutants: 1 % smaller; two cells fewer where that is less."""
    base, weight = short_law(precision, share)
    balanced = [[0, n, *[0] * (cells - 2)] for n in range(2, 14)]
    worst = max(group_ratio(before, base, weight, sum(before)) for before in balanced) - 1
    assert total_excess_holds(cells, base, weight, worst * Fraction(101, 100))
    assert not total_excess_holds(cells, base, weight, worst * Fraction(999, 1000))
    assert not group_excess_holds(cells, base, weight, worst * Fraction(101, 100))
    if cells == 10:
        assert total_excess_holds(8, base, weight, worst * Fraction(99, 100))


def test_a_fixed_total_is_needed() -> None:
    """Mutant: the bound for fixed totals where the total is not fixed."""
    base, weight = short_law("1/2", "0.9")
    assert total_excess_holds(4, base, weight, worst_group(4, base, weight) / 2)


def test_two_cells_with_a_fixed_total_cost_nothing() -> None:
    """Normalisers are equal, exactly, at ``1 / (1 - b)``; near it they differ by what the closed form says."""
    base = Fraction(2, 3)
    even = 1 / (1 - base**2)
    assert pair_excess(base, even) == 0
    assert {normaliser([x, 7 - x], base, even, 7) / normaliser([0, 7], base, even, 7) for x in range(8)} == {1}
    for weight in (even * Fraction(3, 2), even * Fraction(2, 3), Fraction(1)):
        found = [group_ratio([x, n - x], base, weight, n) for n in range(1, 13) for x in range(n)]
        assert max(found) <= 1 + pair_excess(base, weight)
        assert max(found) - 1 > pair_excess(base, weight) * Fraction(97, 100)


@pytest.mark.parametrize("weight", [half, Fraction(1), Fraction(2), Fraction(5)])
def test_a_cell_in_no_row(weight: Fraction) -> None:
    """A record comes or goes: exact ratios of the cell's own normaliser, and none of them at the clamped weight."""

    def mass(count: int) -> Fraction:
        return sum(cell_series(count, half, weight, count + 1), Fraction(0)) + 1  # the rest is 1/2 + 1/4 + ...

    ratios = [mass(x + 1) / mass(x) for x in range(12)]
    ratios += [1 / ratio for ratio in ratios]
    assert max(ratios) == 1 + free_excess(half, weight)
    assert (free_excess(half, weight) == 0) == (weight == 2)


def test_upper_limits_break_the_bound_of_lines() -> None:
    """Why cells with upper limits have weight 1: a limit that is met beside weighted zeros costs more than any bound.

    Cells i (at most 1, count 1) and j (count 0), t_0 (count 1) and a crowd t_k (count 0), rows
    ``t_i + t_j - 3 sum t_k = 1`` and ``t_0 + sum t_k = 1``: mostly ``t_i + t_j = 4``, of which i holds 0 or 1.
    """
    base = Fraction(double_above_exp(Fraction(7, 20)))
    weight = 1 / (1 - base)

    def whole(i: int, j: int) -> Fraction:
        def at(ti: int, tj: int) -> Fraction:
            return weight ** ((ti == 0) + (tj == 0)) * base ** (abs(ti - i) + abs(tj - j))

        return at(0, 1) + at(1, 0) + CROWD * (at(0, 4) + at(1, 3))

    ratio = whole(0, 1) / whole(1, 0)
    assert ratio > Fraction("1.63")
    assert 1 + lines_excess(base, weight) < Fraction("1.34")
    assert 2 - base**2 < Fraction("1.51")


# ---- the parts of the check ----


def test_series_are_those_of_cells() -> None:
    """``a^|t - s| q^t`` with q = a T is ``a^s`` times the series: catches a shifted or a dropped coefficient."""
    base, weight, length = Fraction(2, 3), Fraction(5, 2), 9
    series = Series.of(base, weight, length)
    for count in range(4):
        exact = [x * base**t / base**count for t, x in enumerate(cell_series(count, base, weight, length))]
        got = series.cell(series.one, count)
        assert all(abs(a - float(b)) < 1e-12 for a, b in zip(got, exact, strict=True))


def test_levels_are_bounded_from_below() -> None:
    """The bound of all levels from 1 on lies below every one of them: catches a wrong index in a window."""
    for base, weight, k in product([half, Fraction(9, 10)], [Fraction(3, 2), Fraction(4), Fraction(12)], [0, 1, 3]):
        series = Series.of(base, weight, 140)
        others = series.one
        for count in range(k):
            others = series.cell(others, count)
        found = OtherCells(series, others, 30, 20)
        least = np.array([float(found.later_spare[n]) for n in range(31)])
        for level in range(1, 60):
            exact = series.cell(series.cell(others, level), level + 1)[level : level + 31]
            assert (least <= np.array([float(x) for x in exact]) * (1 + 1e-9)).all(), (base, weight, k, level)


def test_tails() -> None:
    """Polynomials whose sign is known: catches a tail that is declared nonnegative too early."""

    def values(*roots: int) -> list[flint.arb]:
        return [flint.arb(int(np.prod([n - root for root in roots]))) for n in range(len(roots) + 1)]

    assert stays_nonnegative(values(5, 9), 40)
    assert not stays_nonnegative(values(5, 9), 7)
    assert not stays_nonnegative([-x for x in values(5, 9)], 40)
    assert not stays_nonnegative(values(50, 60, 70), 55)


def test_weights_below_one_are_refused() -> None:
    """The proof divides by series whose coefficients are nonnegative from weight 1 on only."""
    for holds in (group_excess_holds, total_excess_holds):
        with pytest.raises(PrivacyError, match="from 1 on"):
            holds(4, half, Fraction(99, 100), half)
        with pytest.raises(PrivacyError, match="two cells"):
            holds(1, half, Fraction(2), half)
        assert not holds(4, half, Fraction(2), Fraction(0))


# ---- calibration ----


@pytest.mark.parametrize("epsilon", ["1/2", "1", "4"])
@pytest.mark.parametrize(("cells", "is_total_fixed"), [(2, False), (4, False), (10, False), (2, True), (4, True)])
def test_calibrated_zeros_stay_within_the_budget(epsilon: str, cells: int, is_total_fixed: bool) -> None:
    """What is returned is proven by the whole check, costs no more than the budget, and beats unweighted zeros."""
    budget = Fraction(epsilon)
    found = calibrated_zeros(budget, cells, is_total_fixed=is_total_fixed)
    assert found.loss() <= budget
    assert found.loss(3) == 3 * found.loss()
    assert float(found.loss()) == pytest.approx(2 * float(found.precision) + log1p(float(found.excess)), abs=1e-12)
    assert is_proven(found, cells)
    assert 2 * found.precision <= budget
    assert float(found.precision) > log((1 + exp(float(budget))) / 2) / 2
    assert found.precision >= calibrated_lines(budget).precision


def is_proven(found: WeightedZeros, cells: int) -> bool:
    base, weight, excess = found.base, found.weight, found.excess
    if found.theorem == "lines":
        return lines_excess(base, weight) <= excess
    if found.theorem == "group":
        return group_excess_holds(cells, base, weight, excess)
    return pair_excess(base, weight) <= excess if cells == 2 else total_excess_holds(cells, base, weight, excess)


def test_calibration_is_known_to_its_digits() -> None:
    """One grid, one answer on every machine: a change of these figures is a change of what is released."""
    found = {cells: calibrated_zeros(Fraction(1), cells) for cells in (4, 19)}
    assert {cells: (str(float(one.precision)), str(float(one.weight))) for cells, one in found.items()} == {
        4: ("0.39576", "4.968"),
        19: ("0.41821", "5.031"),
    }
    totals = {cells: calibrated_zeros(Fraction(1), cells, is_total_fixed=True) for cells in (2, 4, 10)}
    assert {cells: str(float(one.precision)) for cells, one in totals.items()} == {
        2: "0.49999",
        4: "0.47557",
        10: "0.44239",
    }


@pytest.mark.parametrize("epsilon", ["1/1000000", "1/30", "50", "600"])
def test_budgets_far_from_one(epsilon: str) -> None:
    """Where the check of groups would take long or gain nothing, the closed form stands in."""
    budget = Fraction(epsilon)
    found = calibrated_zeros(budget, 19, is_total_fixed=True)
    assert found.theorem == "lines"
    assert found.loss() <= budget
    assert found.loss() > budget * Fraction(99, 100)


def test_budgets_that_leave_nothing() -> None:
    with pytest.raises(PrivacyError, match="above 0"):
        calibrated_zeros(Fraction(0), 4)
    with pytest.raises(PrivacyError, match="number of cells"):
        calibrated_zeros(Fraction(1), 0)
    assert calibrated_zeros(Fraction(1), 1).precision == half


def test_what_is_left_of_a_budget() -> None:
    """Rounded down one way and up the other, so that the two never add up to more."""
    for precision in (Fraction("0.4"), Fraction("0.42"), Fraction("0.4999")):
        left = excess_left(Fraction(1), precision)
        assert changed_loss(precision, left) <= 1
        assert changed_loss(precision, left * Fraction(1001, 1000)) > 1
