"""Measured trees: laws of all levels by enumeration, and certificates against every pair of trees.

docs/claims/measured-trees.md has the theorem. Each test names the defect that it would catch, and mutants show that it
does.
"""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import inf

import numpy as np
import pytest

from brute import Dice
from congenial.arrays import Floats, Ints
from congenial.conditions.grouped_cells_and_lattice import dependence
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import PrivacyError
from congenial.noise import FAMILIES
from congenial.privacy.budget import Budget
from congenial.privacy.certificate import Certificate
from congenial.privacy.measured_tree import (
    MeasuredLevel,
    MeasuredTree,
    distance_of_change,
    level_precisions,
    measured_tree_certificate,
)
from congenial.privacy.record_changes_in_trees import PublicTree, TreeChange, rows_follow
from congenial.randomness import replay_rng
from drawn import drawn
from lattice_audit import TwoLaws, loss_of, side_by_side
from tree_lattice_audit import SmallTree, TreeTally, drawn_tree

RELATIONS = ["bounded", "unbounded"]
NOISES = ["double_geometric", "discrete_gaussian"]
HALF, ONE = Fraction(1, 2), Fraction(1)


def amount(certificate: Certificate) -> Fraction:
    value = certificate.loss if certificate.loss is not None else certificate.rho
    assert value is not None
    return value


def cells_of(n: int) -> tuple[Row, ...]:
    return tuple(Row.of(f"cell {cell}", [cell]) for cell in range(n))


def small_tree(exponent: int = 1, precisions: tuple[str, str] = ("1/2", "3/4"), *, total: bool = True) -> SmallTree:
    """Return a state of two counties and two cells, every county's total exact."""
    cells = ((1, 0), (0, 1))
    queries = tuple(((Fraction(p), cells),) for p in precisions)
    exact = (((1, 1),), ((1, 1),) if total else ())
    zeros, table = np.zeros((2, 2), np.bool_), np.array([[2, 0], [1, 1]])
    return SmallTree(((0, 0), (0, 1)), 2, exponent, queries, exact, zeros, table)


# ---- the theorem, by enumeration ----


@pytest.mark.parametrize("is_crossed", [False, True])
@pytest.mark.parametrize("exponent", [1, 2])
def test_losses_of_levels_add_up_to_the_distance(
    exponent: int, is_crossed: bool, request: pytest.FixtureRequest
) -> None:
    """Catches a loss other than the sum over levels and units, at real orders too, and a lattice that misses a pair."""
    tally = TreeTally()
    for number in range(drawn(40)):
        dice = Dice(replay_rng(f"{request.node.name} {number}"))
        tree = drawn_tree(dice, exponent, is_crossed=is_crossed)
        for relation in RELATIONS:
            gaps, apart = tree.differences(relation)
            if len(gaps):
                near = np.flatnonzero(apart <= apart.min() + 2)
                tally.enumerate_laws(tree, gaps[[near[dice.integer(0, len(near) - 1)] for _ in range(3)]])
    tally.check()
    assert tally.losses > 60 or tally.divergences > 600


def margins_tree(exponent: int, *, total: bool) -> SmallTree:
    """Return a state of two counties and 2 x 2 cells, of which each level measures both margins, and no cell."""
    rows, columns = ((1, 1, 0, 0), (0, 0, 1, 1)), ((1, 0, 1, 0), (0, 1, 0, 1))
    queries = tuple(((Fraction(p), rows), (Fraction(q), columns)) for p, q in [("2", "3"), ("5/2", "2")])
    exact = (((1, 1, 1, 1),), ((1, 1, 1, 1),) if total else ())
    zeros, table = np.zeros((2, 4), np.bool_), np.array([[1, 0, 0, 0], [0, 0, 0, 1]])
    return SmallTree(((0, 0), (0, 1)), 4, exponent, queries, exact, zeros, table)


@pytest.mark.parametrize("total", [True, False])
@pytest.mark.parametrize("exponent", [1, 2])
def test_margins_and_no_cells_at_every_level(exponent: int, total: bool) -> None:
    """Catches noise of overlapping margins that is no noise among answers, and a charge that forgets one of them."""
    tree, tally = margins_tree(exponent, total=total), TreeTally()
    gaps, _ = tree.differences("bounded")
    tally.enumerate_laws(tree, gaps[:: max(1, len(gaps) // 6)])
    tally.check()
    n, attained = audit(tree, "bounded")
    assert n > 0
    assert attained > 0
    mutant = replace(tree, queries=tuple(queries[:1] for queries in tree.queries))
    assert max(mutant.distances(gaps)) < max(tree.distances(gaps))


@pytest.mark.parametrize("precisions", [("1", "1"), ("2", "3/2")])
def test_the_joint_law_of_all_levels(precisions: tuple[str, str]) -> None:
    """All outcomes of a whole tree at once, nothing factorised: catches units or levels that do not add up."""
    for exponent in (1, 2):
        tree = small_tree(exponent, precisions)
        gaps, _ = tree.differences("bounded")
        joint = side_by_side(*(lattice for _, _, lattice in tree.lattices))
        assert joint.rank == 3
        for change in gaps[:: max(1, len(gaps) // 3)]:
            answers = [tree.answers(change, level, unit) for level, unit, _ in tree.lattices]
            laws = TwoLaws.of(joint, np.concatenate(answers), 3.0 if exponent == 2 else 1.0)
            assert laws is not None
            distance = float(tree.distance(change))
            if exponent == 1:
                assert laws.exact_gap() == tree.distance(change)
                assert laws.loss() == pytest.approx(distance, abs=1e-12)
            else:
                assert laws.divergence(3.0) == pytest.approx(3 * distance, rel=1e-12)
                assert laws.divergence(2.3) <= 2.3 * distance + 1e-12


# ---- certificates against every pair of trees ----


def audit(tree: SmallTree, relation: str) -> tuple[int, int]:
    """Hold certificates against every pair; return how many there are at the fewest records and how many attain."""
    gaps, apart = tree.differences(relation)
    measured = tree.measured(relation)
    try:
        fewest: int | None = tree.public.fewest_records(relation)
    except PrivacyError as error:
        fewest = None
        if "not proven" not in str(error) and len(apart):
            assert apart.min() > (1 if relation == "bounded" else 2)
    if not len(apart):
        assert fewest is None
        return 0, 0
    assert fewest in {None, int(apart.min())}
    distances, attained = np.array(tree.distances(gaps), object), 0
    for k in range(int(apart.min()), int(apart.min()) + 3):
        steps = k // 2 if relation == "unbounded" and measured.levels_with_totals else k
        if steps < 1:
            continue
        certificate = measured_tree_certificate(measured, k)
        if certificate.kind == "suppression":
            continue
        kind = "measured_tree_double_geometric" if tree.exponent == 1 else "measured_tree_gaussian"
        assert (certificate.kind, certificate.k, certificate.orders) == (kind, k, "all")
        assert certificate.rho_at_all_orders == certificate.rho
        assert certificate.rho == (amount(certificate) ** 2 / 2 if tree.exponent == 1 else amount(certificate))
        worst = max(distances[apart <= k])
        assert worst <= amount(certificate)
        attained += k == apart.min() and worst == amount(certificate)
        if steps == 1:  # the largest over all cells and leaves, one by one
            changes = tree.single_changes("bounded" if steps != k else relation, is_exact=True)
            dearest = max(tree.distances(changes))
            assert dearest == amount(certificate) if not tree.across else dearest <= amount(certificate)
        plain = max(tree.distances(tree.single_changes(relation, is_exact=False)))
        without = certificate.loss_without_invariants
        assert without is not None
        assert without == plain if not tree.across else plain <= without
    return 1, int(attained)


@pytest.mark.parametrize("is_crossed", [False, True])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("exponent", [1, 2])
def test_no_pair_of_trees_exceeds_the_certificate(
    exponent: int, relation: str, is_crossed: bool, request: pytest.FixtureRequest
) -> None:
    """Catches a level, a unit or a pair left out, k records priced as one, and a pair of one record that is denied."""
    n = attained = 0
    for number in range(drawn(40)):
        dice = Dice(replay_rng(f"{request.node.name} {number}"))
        there, hit = audit(drawn_tree(dice, exponent, is_crossed=is_crossed), relation)
        n, attained = n + there, attained + hit
    assert n > 15
    assert attained > (0.3 if is_crossed else 0.6) * n  # a leaf in no area, or in one with zeros, makes it a bound


def test_areas_across_that_are_forgotten() -> None:
    """The mutant: a change that leaves its area, priced as if it did not."""
    cells = tuple(Row.of(f"cell {cell}", [cell]) for cell in range(2))
    state, county = (MeasuredLevel(name, ((Fraction(1), cells),)) for name in ("state", "county"))
    tree = MeasuredTree((state, county), 2, "double_geometric", partings=(1,), across=state, crossings=(1,))
    assert measured_tree_certificate(tree).loss == 6
    assert measured_tree_certificate(replace(tree, crossings=())).loss == 6  # another cell of the same area
    total = MeasuredLevel("district", ((Fraction(1), (Row.of("total", [0, 1]),)),))
    crossed = replace(tree, across=total)
    assert measured_tree_certificate(crossed).loss == 6
    assert measured_tree_certificate(replace(crossed, crossings=())).loss == 4  # what forgetting would charge


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("noise", NOISES)
def test_many_cells_are_compared_in_pairs(noise: str, neighbours: str, request: pytest.FixtureRequest) -> None:
    """Catches kinds of cells that are merged although they count differently, and blocks that lose a pair."""
    for number in range(drawn(6)):
        dice = Dice(replay_rng(f"{request.node.name} {number}"))
        n = dice.integer(4, 9)

        def rows(signs: list[int], most: int, n: int = n, dice: Dice = dice) -> tuple[Row, ...]:
            return tuple(
                Row.weighted(dict(enumerate(dice.weights(n, signs))), f"row {i}") for i in range(dice.integer(0, most))
            )

        levels = tuple(
            MeasuredLevel(
                f"level {level}",
                ((dice.between("1/10", "2"), cells_of(n)), (dice.between("1/10", "2"), rows([0, 0, 1, 2, -1], 4))),
                rows([0, 0, 0, 1], 1 if level else 2),
            )
            for level in range(3)
        )
        partings = dice.choice([(0, 1, 2), (1, 2), (2,), (1,)])
        tree = MeasuredTree(levels, n, noise, neighbours, partings)
        costs = []
        for first, second, parting in product(range(n), range(n), (*partings, 3)):
            second_leaf = int(parting < 3)
            both = ((0, first, -1), (second_leaf, second, 1))
            change = TreeChange(parting, both if neighbours == "bounded" else both[:1])
            moved = [
                sum(row.terms.get(cell, 0) * size for cell, size in unit.items())
                for number, level in enumerate(levels)
                for unit in change.at(number)
                for row in level.exact
            ]
            if not any(moved) and any(change.at(2)):
                costs.append(distance_of_change(tree, change))
        if not costs or (neighbours == "unbounded" and tree.levels_with_totals):
            with pytest.raises(PrivacyError, match=r"no certificate|k = 1"):
                measured_tree_certificate(tree)
        else:
            assert amount(measured_tree_certificate(tree)) == max(costs)


def test_rows_that_follow_from_exact_ones(request: pytest.FixtureRequest) -> None:
    """Against elimination over all cells: catches cells that are merged although exact rows tell them apart."""
    counted = [0, 0]
    for number in range(drawn(150)):
        dice = Dice(replay_rng(f"{request.node.name} {number}"))
        n = dice.integer(3, 6)
        exact, rows = (
            [Row.weighted(dict(enumerate(dice.weights(n, (0, 0, 1, 1, 2, -1))))) for _ in range(dice.integer(low, 3))]
            for low in (0, 1)
        )
        rows += [Row.weighted({cell: 2 * times for cell, times in row.terms.items()}) for row in exact]
        empty = frozenset(cell for cell in range(n) if dice.chance(1, 6))
        follows = rows_follow(exact, rows, empty)
        for row, is_exact in zip(rows, follows, strict=True):
            lines = [row.within(set(range(n)) - empty) for row in (*exact, row)]
            assert is_exact == (dependence(lines).rank == dependence(lines[:-1]).rank)
            counted[is_exact] += 1
    assert min(counted) > 50


# ---- mutants ----


def test_a_level_conditioned_on_a_number_that_is_not_exact() -> None:
    """The county's total is exact only above: noise of counties that keeps it tells neighbours apart with certainty."""
    tree = small_tree(total=False)
    assert measured_tree_certificate(tree.measured("bounded")).loss == 2 * HALF + 2 * Fraction(3, 4)
    passing = np.array([[-1, 0], [1, 0]])
    right, wrong = tree.lattice(1, 0), tree.lattice(1, 0, ((1, 1),))
    assert right is not None
    assert wrong is not None
    answers = tree.answers(passing, 1, 0)
    assert loss_of(right, answers) == pytest.approx(0.75, abs=1e-12)
    assert loss_of(wrong, answers) == inf
    total = Row.of("total", [0, 1])
    tree.measured("bounded").check_noise([[total], []])
    with pytest.raises(PrivacyError, match="level 1 is conditioned on total, which is not exact there"):
        tree.measured("bounded").check_noise([[total], [total]])


def test_two_records_cost_four_times_rho() -> None:
    """Catches k times rho for k records: both leave the same cell of a leaf for the same other one."""
    tree = small_tree(2)
    one, two = (measured_tree_certificate(tree.measured("bounded"), k) for k in (1, 2))
    twice = np.array([[-2, 2], [0, 0]])
    distance = tree.distance(twice)
    assert amount(two) == distance == 4 * amount(one)
    enumerated = 0.0
    for level, unit, lattice in tree.lattices:
        laws = TwoLaws.of(lattice, tree.answers(twice, level, unit), 2.0)
        assert laws is not None
        enumerated += laws.divergence(2.0)
    assert enumerated == pytest.approx(2 * float(distance), rel=1e-12)
    assert enumerated > 2 * 2 * float(amount(one)) * (1 + 1e-9)


@pytest.mark.parametrize("level", [0, 1])
def test_a_sum_that_forgets_a_level(level: int) -> None:
    tree = small_tree()
    short = replace(tree, queries=tuple(() if n == level else query for n, query in enumerate(tree.queries)))
    charge = measured_tree_certificate(short.measured("bounded")).loss
    assert charge is not None
    change = np.array([[-1, 1], [0, 0]])
    loss = sum(loss_of(lattice, tree.answers(change, n, unit)) for n, unit, lattice in tree.lattices)
    assert loss > float(charge) + 0.9
    assert loss == pytest.approx(float(amount(measured_tree_certificate(tree.measured("bounded")))), abs=1e-12)


def test_the_largest_sum_is_not_the_sum_of_the_largest() -> None:
    """The first cell is measured in the state, the others in counties: no record changes all of them most."""
    first, others = (Row.of("first", [0]),), tuple(Row.of(f"cell {cell}", [cell]) for cell in (1, 2))
    total = Row.of("total", range(3))
    levels = MeasuredLevel("state", ((ONE, first),), (total,)), MeasuredLevel("county", ((ONE, others),), (total,))
    tree = MeasuredTree(levels, 3, "double_geometric")
    alone = [
        amount(measured_tree_certificate(tree.with_precisions(precisions)))
        for precisions in ([[ONE], [Fraction(0)]], [[Fraction(0)], [ONE]])
    ]
    assert [*map(int, alone), amount(measured_tree_certificate(tree))] == [1, 2, 2]


def test_one_noise_for_a_county_and_its_only_tract() -> None:
    """The same random words for two units with equal counts: the law is another one, and the loss D or infinite.

    Noise of both by inversion from one uniform number: mass of a pair (u, v) is what its intervals have in common.
    """

    def cumulated(precision: float, reach: int = 40) -> Floats:
        mass = np.exp(-precision * np.abs(np.arange(-reach, reach + 1)))
        sums: Floats = np.concatenate([[0.0], np.cumsum(mass) / mass.sum()])
        return sums

    def shared(first: float, second: float) -> Floats:
        a, b = cumulated(first), cumulated(second)
        low, high = np.maximum(a[:-1, None], b[None, :-1]), np.minimum(a[1:, None], b[None, 1:])
        common: Floats = np.maximum(high - low, 0.0)
        return common

    def largest_ratio(law: Floats) -> float:
        """Return the loss between x and x + 1: both counts move by one; tails beyond the windows are left out."""
        here, there = law[6:-5, 6:-5], law[5:-6, 5:-6]
        with np.errstate(divide="ignore"):
            return float(np.log(here[here > 1e-9] / there[here > 1e-9]).max())

    independent = np.outer(np.diff(cumulated(0.5)), np.diff(cumulated(0.5)))
    assert largest_ratio(independent) == pytest.approx(1.0, abs=1e-9)  # D = 1/2 + 1/2
    assert largest_ratio(shared(0.5, 0.5)) == pytest.approx(0.5, abs=1e-6)  # half of what is stated and charged
    independent = np.outer(np.diff(cumulated(0.5)), np.diff(cumulated(1.0)))
    assert largest_ratio(independent) == pytest.approx(1.5, abs=1e-9)
    assert largest_ratio(shared(0.5, 1.0)) == inf  # far above the charge


# ---- which records can change ----


def test_exact_numbers_that_leave_no_change_of_one_record() -> None:
    """Every block's total and the state's number of the old: pairs are two records apart; catches an empty promise."""
    old, total = Row.of("old", [1]), Row.of("total", [0, 1])
    parents = (np.zeros(4, np.int64),)
    exact: tuple[tuple[tuple[Row, ...], Ints], ...]
    exact = (((total, old), np.array([[8, 3]])), ((total,), np.full((4, 1), 2)))
    public = PublicTree(2, 1, parents, exact=exact)
    for relation in RELATIONS:
        with pytest.raises(PrivacyError, match="leave no cell and no leaf that one record could change into"):
            public.fewest_records(relation)
    levels = (
        MeasuredLevel("state", ((ONE, cells_of(2)),), (total, old)),
        MeasuredLevel("block", ((ONE, cells_of(2)),), (total,)),
    )
    tree = MeasuredTree(levels, 2, "discrete_gaussian", partings=public.partings)
    with pytest.raises(PrivacyError, match="leave no cell and no leaf"):
        measured_tree_certificate(tree)
    two = measured_tree_certificate(tree, 2)
    assert two.rho == 4 * ONE  # in blocks; in the state, whose cells are all exact, no pair differs
    assert two.reasons[0].startswith("charged: a bound, rho 4: 2 records")
    noisy = replace(tree, levels=(replace(levels[0], exact=(total,)), levels[1]))
    assert measured_tree_certificate(noisy, 2).rho == 4 * (ONE + ONE)
    zeros = (None, np.array([[False, True]] * 3 + [[True, False]]))
    exact = (((total,), np.array([[8]])), ((total,), np.full((4, 1), 2)))
    with pytest.raises(PrivacyError, match="leave no cell"):
        PublicTree(2, 1, parents, zeros, exact).fewest_records("bounded")


def test_sums_that_are_zero_leave_nobody_to_change() -> None:
    """One block has people, all of one cell: what is exact leaves one tree; catches zeros that are not carried down."""
    parts = Row.of("young", [0]), Row.of("old", [1])
    exact = ((parts, np.array([[3, 0]])), ((Row.of("total", [0, 1]),), np.array([[3], [0]])))
    with pytest.raises(PrivacyError, match="leave no cell"):
        PublicTree(2, 1, (np.zeros(2, np.int64),), exact=exact).fewest_records("bounded")
    open_top = PublicTree(2, 1, (np.zeros(2, np.int64),))
    assert [open_top.fewest_records(relation) for relation in RELATIONS] == [1, 1]


def test_a_change_that_is_not_proven_to_exist_is_refused() -> None:
    """The exact sums leave one table, which interval arithmetic does not see: catches empty sums that count."""
    rows = tuple(Row.of(str(cells), cells) for cells in ([0, 1, 2], [2, 3], [3]))
    public = PublicTree(4, 1, (), exact=((rows, np.array([[1, 1, 0]])),))
    assert public.has_partner.any()
    with pytest.raises(PrivacyError, match="not proven that some tree"):
        public.fewest_records("bounded")


# ---- budgets ----


def county_tree(noise: str, neighbours: str, *, total: bool = True) -> MeasuredTree:
    """Return cells and total of a state, of its counties and their blocks, at precision 0; the state's total exact."""
    everyone, zero = Row.of("total", range(3)), Fraction(0)
    queries = ((zero, cells_of(3)), (zero, (everyone,)))
    exact = (everyone,) if total else ()
    names = ("state", "county", "block")
    levels = tuple(MeasuredLevel(name, queries, exact if name == "state" else ()) for name in names)
    return MeasuredTree(levels, 3, noise, neighbours, partings=(1, 2))


BUDGETS = {
    "double_geometric": [
        Budget(epsilon=Fraction(1)),
        Budget(rho=Fraction(1, 3), orders="all"),
        Budget(epsilon=Fraction(3), delta=Fraction(1, 10**9)),
    ],
    "discrete_gaussian": [
        Budget(rho=Fraction(1, 3), orders="all"),
        Budget(epsilon=Fraction(3), delta=Fraction(1, 10**9)),
    ],
}


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(("noise", "place"), [(noise, n) for noise in NOISES for n in range(len(BUDGETS[noise]))])
def test_shares_of_a_budget(noise: str, place: int, neighbours: str) -> None:
    """Catches a budget that is passed, and one that is left over where every query moves most at once."""
    budget = BUDGETS[noise][place]
    tree = county_tree(noise, neighbours)
    k = 1 if neighbours == "bounded" else 2
    by_level = level_precisions(tree, budget, [2, 1, 1], [[1, 1], [3, 1], [3, 1]], k=k)
    certificate = measured_tree_certificate(tree.with_precisions(by_level), k)
    assert budget.covers(certificate)
    cost = budget.cost(certificate)
    assert cost is not None
    if neighbours == "bounded" and budget.delta is None:
        assert cost >= budget.limit * (1 - Fraction(1, 10**12))
    assert by_level[0][1] == 0  # the state's total is exact: its portion is the cells'
    assert by_level[1][0] == by_level[2][0] > 0
    assert by_level[0][0] == pytest.approx(by_level[1][0] * Fraction(8, 3))


@pytest.mark.parametrize("noise", NOISES)
def test_no_query_is_free(noise: str) -> None:
    """The state's total is measured and never changes under bounded neighbours: catches a cap that is forgotten."""
    budget = Budget(rho=Fraction(1, 2))
    tree = county_tree(noise, "bounded", total=False)
    by_level = level_precisions(tree, budget, [1, 1, 1])
    (cells, total), *_ = by_level
    assert total == pytest.approx(2 * cells)  # one record comes or goes, where the cells count two
    power = tree.exponent
    assert total / power <= (budget.rho or 0) / 6 if power == 2 else total <= ONE / 6
    uncapped = tree.with_precisions([[cells, FAMILIES[noise].most], *by_level[1:]])
    assert measured_tree_certificate(uncapped).rho == measured_tree_certificate(tree.with_precisions(by_level)).rho


def test_a_level_that_is_determined_leaves_its_share_to_the_others() -> None:
    cells, zero = cells_of(2), Fraction(0)
    levels = MeasuredLevel("state", ((zero, cells),), cells), MeasuredLevel("county", ((zero, cells),))
    tree = MeasuredTree(levels, 2, "double_geometric", partings=(1,))
    assert level_precisions(tree, Budget(epsilon=ONE), [1, 1]) == ((Fraction(0),), (HALF,))
    for k in (1, 2, 3):  # and is charged nothing, whatever its precision
        some, none = (measured_tree_certificate(tree.with_precisions([[one], [HALF]]), k) for one in (ONE, zero))
        assert some.loss == none.loss == k


def test_units_with_several_records() -> None:
    """Catches records of a unit that are counted once: all of them may change together."""
    cells, zero = cells_of(2), Fraction(0)
    for noise, power in (("double_geometric", 1), ("discrete_gaussian", 2)):
        tree = MeasuredTree((MeasuredLevel("state", ((zero, cells),)),), 2, noise)
        one, three = (level_precisions(tree, Budget(rho=HALF), [1], k=k, records_per_unit=k)[0][0] for k in (1, 3))
        assert three == pytest.approx(one / 3**power)


def test_what_is_refused() -> None:
    tree = county_tree("discrete_gaussian", "unbounded")
    measured = tree.with_precisions([[ONE, Fraction(0)]] * 3)
    with pytest.raises(PrivacyError, match="k = 1: the number of records is published"):
        measured_tree_certificate(measured)
    with pytest.raises(PrivacyError, match="k is a number of records"):
        measured_tree_certificate(measured, 0)
    with pytest.raises(PrivacyError, match="no pure epsilon"):
        level_precisions(tree, Budget(epsilon=ONE), [1, 1, 1], k=2)
    with pytest.raises(PrivacyError, match="below the least supported"):
        level_precisions(tree, Budget(rho=Fraction(1, 10**12)), [1, 1, 1], k=2)
    with pytest.raises(PrivacyError, match="no theorem here covers measured trees under Laplace noise"):
        MeasuredTree(tree.levels, 3, "laplace")
    assert measured_tree_certificate(tree).kind == "suppression"
