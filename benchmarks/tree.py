"""Trees of real areas: how long a release takes, how near it is, level by level.

    python benchmarks/tree.py --data FOLDER [--releases 20] [--times] [--large] [--districts] [--crossing] [--intervals]
        [--margins] [--leaf-prior]

Rhode Island and Hawaii, 50,197 blocks x 16 cells in five levels, the totals of both states exact: the comparison of
docs/compare.md. Measured tables, the chain, TopDown and blocks alone at the same certified loss, at rho 2.56 and .25
with the 2020 Census' shares by level and with the default ones, and at epsilon 4 and 16; a goal that is missed is an
error. `--times` says how long releases take, `--large` also of the same trees repeated to 8.2 million blocks.
`--districts` cuts Rhode Island into 61 made-up districts and measures them across the tree, `--crossing` has the total,
one race group and those of voting age exact in every unit, `--margins` has three margins in place of
cells at every level, `--leaf-prior` compares the rules *gls* and *leaf-prior* on the same measurements, `--intervals`
says how wide intervals of units are: each by itself and nothing else.
"""

import argparse
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray
from real_tables import BLOCK_SCHEMA, RACES

import congenial as cg
from congenial.conditions.rows_and_intervals import dense
from congenial.decided_tables import tree_measurements
from congenial.inference.combined_levels import CombinedLevels
from congenial.inference.measurement_intervals import Measurements
from congenial.inference.questions import parse_queries
from congenial.mechanism_and_hierarchy import Hierarchy
from congenial.plan import Plan
from congenial.randomness import TreeStreams
from congenial.rules import margin_trees
from congenial.rules.gls import estimates_in_parts
from congenial.rules.rule_and_input import FRACTION_BITS
from congenial.study.compare import Comparison
from congenial.study.metrics import LevelResult, Metric
from congenial.tree.areas_across import AreasAcross
from congenial.tree.tree_and_zeros import Tree, Zeros

LEVELS = {"state": 2, "county": 5, "tract": 11, "group": 12}
CENSUS = {"state": "1544", "county": "447", "tract": "687", "group": "1256", "block": "165"}
EQUAL = dict.fromkeys(CENSUS, "1")
PURE = ("measured", "measurements", "topdown")  # what there is under a pure epsilon
COPIES = 164  # of 50,197 blocks: 8.2 million
AGES = ("u18", "v18")

Ints = NDArray[np.int64]


def blocks(folder: Path, states: tuple[str, ...]) -> tuple[NDArray[np.str_], Ints]:
    """Read the 2010 counts of blocks (block, cell) and their codes."""
    columns = ", ".join(f"{age}_{race}" for age in AGES for race in RACES)
    columns_read = duckdb.execute(
        f"SELECT geo_id, {columns} FROM read_parquet(?) WHERE census = 2010 AND state IN {states} ORDER BY geo_id",
        [str(folder / "pl94_block_hi_ri.parquet")],
    ).fetchnumpy()
    codes = np.array(columns_read.pop("geo_id"), str)
    return codes, np.stack([np.asarray(column, np.int64) for column in columns_read.values()], axis=1)


def planned(tree: Tree, leaves: Ints, shares: dict[str, str] | None, exact: str = "state") -> Plan:
    invariants = {exact: [cg.total()]}
    hierarchy = Hierarchy(tree, BLOCK_SCHEMA, invariants=invariants, rho="2.56", shares=shares, method="conditional")
    return hierarchy.plan(hierarchy.disclose(leaves))


def clock(plan: Plan, leaves: Ints, n: int) -> float:
    """Return the CPU seconds of a release, the least of some."""
    best = np.inf
    for number in range(n):
        start = time.process_time()
        plan.draw(leaves, TreeStreams.simulated(cg.replay_rng(f"clock {number}")))
        best = min(best, time.process_time() - start)
    return float(best)


@dataclass(frozen=True)
class Case:
    """A comparison of a state's tree: budget, shares, the lowest level whose totals are exact, public zeros."""

    budget: Mapping[str, str]
    shares: Mapping[str, str] | None = None
    exact: str = "state"
    has_public_zeros: bool = False
    methods: tuple[str, ...] = ("conditional", "measured", "measurements", "topdown")
    goals: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By state and level, what the mean absolute error of a cell of the measured tables may be at most."""


CASES = {
    "rho 2.56, 2020 shares": Case(
        {"rho": "2.56"},
        CENSUS,
        goals={
            "RI": {"tract": 0.84, "group": 0.65, "block": 0.54},
            "HI": {"tract": 0.78, "group": 0.67, "block": 0.61},
        },
    ),
    "rho 2.56, default shares": Case(
        {"rho": "2.56"}, goals={"RI": {"tract": 0.90, "group": 0.81}, "HI": {"tract": 0.83, "group": 0.785}}
    ),
    "rho .25, 2020 shares": Case({"rho": ".25"}, CENSUS),
    "epsilon 4, equal shares": Case({"epsilon": "4"}, EQUAL, methods=PURE, goals={"RI": {"tract": 1.95}}),
    "epsilon 16, equal shares": Case({"epsilon": "16"}, EQUAL, methods=PURE, goals={"RI": {"tract": 0.39}}),
    "rho 2.56, 2020 shares, every unit's total exact": Case(
        {"rho": "2.56"},
        CENSUS,
        exact="block",
        methods=("conditional", "measured", "measurements"),
        goals={"RI": {"block": 0.41}},
    ),
    "rho 2.56, 2020 shares, totals exact down to block groups": Case(
        {"rho": "2.56"}, CENSUS, exact="group", methods=("measured", "measurements")
    ),
    "rho 2.56, 2020 shares, empty blocks declared uninhabited": Case({"rho": "2.56"}, CENSUS, has_public_zeros=True),
    "rho 2.56, blocks alone": Case({"rho": "2.56"}, CENSUS, methods=("leaves",)),
}
GROUPS = {
    "white": ("white", "two"),
    "hispanic": ("hisp", "other"),
    "black": ("black", "aian"),
    "asian": ("asian", "nhpi"),
}
MARGIN_SCHEMA = cg.Schema({"age": AGES, "group": GROUPS, "part": ["larger", "smaller"]})
MARGINS = (cg.margin("age"), cg.margin("group", "part"), cg.margin("age", "group"))
MOST_SECONDS = 300  # of processor time, for every release of margins together with its tables
FINE = 32  # parts of a count in which tables are decided, to tell what whole counts cost
DISTRICTS, DISTRICT_GOAL = 61, 1.45  # at most, of a cell of a district measured across
CROSSING = (cg.total(), cg.total({"race": RACES[0]}), cg.total({"age": AGES[1]}))
FEW = 4  # releases by what takes seconds: blocks alone, and the chain where every unit's total is exact


def compared(folder: Path, state: str, name: str, n: int, methods: tuple[str, ...] | None = None) -> Comparison:
    """Release a state's tree by each method of a case, all at one certified loss."""
    case = CASES[name]
    codes, counts = blocks(folder, (state, state))
    tree = Tree.of_prefixes(codes, LEVELS, "block")
    is_empty = np.repeat(counts.sum(axis=1, keepdims=True) == 0, counts.shape[1], axis=1)
    hierarchy = Hierarchy(
        tree,
        BLOCK_SCHEMA,
        invariants={case.exact: [cg.total()]},
        shares=case.shares,
        zeros=Zeros.of_leaves(tree, is_empty) if case.has_public_zeros else None,
        method="measured",
        **case.budget,
    )
    return cg.compare_tree(
        hierarchy,
        counts,
        source="public",
        methods=methods or case.methods,
        n_releases=n,
        rng=cg.replay_rng(f"{state} {name}"),
    )


def compare_all(folder: Path, n: int) -> bool:
    """Print every case of both states; return whether the measured tables are as near as the goals say."""
    has_passed = True
    for state in ("RI", "HI"):
        for name, case in CASES.items():
            is_slow = {"leaves": True, "conditional": case.exact == "block"}
            slow = tuple(method for method in case.methods if is_slow.get(method))
            for methods, n_releases in (
                (tuple(method for method in case.methods if method not in slow), n),
                (slow, min(n, FEW)),
            ):
                if not methods:
                    continue
                comparison = compared(folder, state, name, n_releases, methods)
                print(f"\n{state}, {name}: {comparison}", flush=True)
                if "measured" in methods:
                    has_passed &= meets_goals(state, name, comparison)
    return has_passed


@dataclass(frozen=True)
class Run:
    """One release: mean absolute errors by level and margin, and the processor seconds of noise and tables."""

    errors: NDArray[np.float64]
    seconds: float


def margin_rows(counts: Ints) -> Ints:
    """Return the cells of `MARGIN_SCHEMA` (unit, cell) from those of `BLOCK_SCHEMA`: races by group and part."""
    order = [RACES.index(race) for races in GROUPS.values() for race in races]
    return np.hstack([counts[:, [len(RACES) * age + race for race in order]] for age in range(len(AGES))])


def errors_of_margins(tables: Sequence[NDArray[Any]], truth: Sequence[Ints]) -> NDArray[np.float64]:
    """Return the mean absolute error of each margin of `MARGINS` and of totals, (level, margin)."""
    out = np.empty((len(truth), len(MARGINS) + 1))
    for level, (some, true) in enumerate(zip(tables, truth, strict=True)):
        for number, query in enumerate((*MARGINS, cg.total())):
            rows = dense(query.rows(MARGIN_SCHEMA), MARGIN_SCHEMA.n_cells).T
            out[level, number] = np.abs((some - true) @ rows).mean()
    return out


def release_of(plan: Plan, leaves: Ints, truth: Sequence[Ints], number: int) -> tuple[Run, NDArray[np.float64]]:
    """Draw and decide once; return errors of the tables, and of such in parts of a count where margins are measured."""
    start = time.process_time()
    measurements = plan.draw(leaves, cg.replay_rng(f"margins {number}"))
    tables = plan.decide(measurements)
    run = Run(errors_of_margins(tables, truth), time.process_time() - start)
    if plan.law.rule != (margin_trees.MARGINS.name, margin_trees.MARGINS.version):
        return run, np.zeros_like(run.errors)
    data = tree_measurements(plan.law, measurements)
    assert isinstance(data, margin_trees.TreeMargins)
    for upper, starts, lower in zip(tables, data.starts, tables[1:], strict=False):
        assert np.array_equal(np.add.reduceat(lower, starts[:-1], axis=0), upper)
    fine = replace(
        data,
        answers=tuple(tuple(FINE * some for some in answers) for answers in data.answers),
        margin_variances=tuple(tuple(FINE**2 * some for some in variances) for variances in data.margin_variances),
        exact_values=tuple(FINE * values for values in data.exact_values),
        exact_parts=tuple({part: FINE * some for part, some in parts.items()} for parts in data.exact_parts),
    )
    top = FINE * tables[0]
    parts = margin_trees.decide(fine, lambda _: top)
    return run, errors_of_margins([some / FINE for some in parts], truth)


def compare_margins(folder: Path, n: int) -> bool:
    """Print errors of three margins that every level of Rhode Island measures, and of the same margins of cells."""
    codes, counts = blocks(folder, ("RI", "RI"))
    tree = Tree.of_prefixes(codes, LEVELS, "block")
    leaves = tree.in_order(margin_rows(counts))
    truth = tree.summed(leaves)
    names = [*(query.title for query in MARGINS), "total"]
    print(f"\nRI, rho 2.56, 2020 shares, the state's total exact, {n} releases: mean absolute errors")
    print("  of margins measured at every level (what whole counts cost), and of the same margins of measured cells")
    kinds: dict[str, list[Run]] = {}
    fine: list[NDArray[np.float64]] = []
    for name, measure in (("margins", MARGINS), ("cells", (cg.cells(),))):
        invariants = {"state": [cg.total()]}
        hierarchy = Hierarchy(tree, MARGIN_SCHEMA, measure=measure, invariants=invariants, rho="2.56", shares=CENSUS)
        plan = hierarchy.plan(hierarchy.disclose(leaves))
        for number in range(n):
            run, parts = release_of(plan, leaves, truth, number)
            kinds.setdefault(name, []).append(run)
            if name == "margins":
                fine.append(parts)
    errors = {name: np.array([run.errors for run in runs]) for name, runs in kinds.items()}
    doubts = {name: some.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else 0 * some[0] for name, some in errors.items()}
    rounding = errors["margins"].mean(axis=0) / np.maximum(np.mean(fine, axis=0), 1e-9) - 1
    for level, of_level in enumerate(tree.levels):
        for number, margin in enumerate(names):
            both = [
                f"{errors[kind][:, level, number].mean():.3f} ({doubts[kind][level, number]:.3f})" for kind in kinds
            ]
            cost = "" if level == 0 else f", whole counts {rounding[level, number]:+.1%}"
            print(f"  {of_level}, {margin}: {both[0]}{cost}; cells {both[1]}", flush=True)
    seconds = {name: max(run.seconds for run in runs) for name, runs in kinds.items()}
    print("  CPU seconds a release at most: " + ", ".join(f"{name} {most:.1f}" for name, most in seconds.items()))
    return seconds["margins"] <= MOST_SECONDS and float(rounding[2:, : len(MARGINS)].max()) <= 0.05


def check_trees(folder: Path, n: int) -> bool:
    """Measured trees of both states, beside TopDown: cells as near as the goals say, nothing broken."""
    print(f"\ntrees of areas, {n} releases each: mean absolute errors of a cell of the measured tables, and by TopDown")
    has_passed = True
    for name, case in CASES.items():
        for state in case.goals:
            methods = tuple(method for method in case.methods if method in {"measured", "topdown"})
            has_passed &= meets_goals(state, name, compared(folder, state, name, n, methods))
    return has_passed


def meets_goals(state: str, name: str, comparison: Comparison) -> bool:
    """Print the errors that have goals, and whether each goal is met."""
    errors = {result.name: [cell_error(level) for level in result.levels] for result in comparison.results}
    measured = next(result for result in comparison.results if result.name == "measured")
    has_passed = measured.broken == 0
    for level, most in CASES[name].goals.get(state, {}).items():
        place = comparison.levels.index(level)
        error = errors["measured"][place]
        is_near = error.value <= most
        has_passed &= is_near
        beside = f", TopDown {errors['TopDown'][place].text}" if "TopDown" in errors else ""
        outcome = "kept" if is_near else "MISSED"
        print(f"  {state}, {name}, {level}: {error.text}{beside}; goal at most {most}: {outcome}", flush=True)
    return has_passed


def cell_error(level: LevelResult) -> Metric:
    """Return the mean absolute error of a cell."""
    return next(metric for metric in level.metrics if metric.name == "error of a cell")


def districts(folder: Path, n: int) -> bool:
    """Districts of Rhode Island, cut anywhere in the order of codes: by summation, and measured across the tree."""
    codes, counts = blocks(folder, ("RI", "RI"))
    tree, rng = Tree.of_prefixes(codes, LEVELS, "block"), np.random.default_rng(5)
    cuts = np.sort(rng.choice(np.arange(200, len(codes) - 200), DISTRICTS - 1, replace=False))
    numbers = np.searchsorted(cuts, np.arange(len(codes)), side="right")
    across = AreasAcross.of(tree, "district", [f"{number:02}" for number in numbers], "1/10")
    n_cut = int((tree.parents[-2][tree.parents[-1]][cuts - 1] == tree.parents[-2][tree.parents[-1]][cuts]).sum())
    print(
        f"\nRhode Island, {DISTRICTS} districts, {n_cut} of {len(cuts)} cuts inside a tract, rho 2.56, default shares"
    )
    found = {}
    as_before = dict.fromkeys(LEVELS, "1") | {"block": "2"}  # of nine tenths: blocks keep what they have without
    ways: tuple[tuple[str, AreasAcross | None, Mapping[str, str] | None], ...] = (
        ("by summation", None, None),
        ("measured across", across, None),
        ("measured across, at no cost for blocks", across, as_before),
    )
    for name, areas, shares in ways:
        hierarchy = Hierarchy(tree, BLOCK_SCHEMA, invariants=[cg.total()], rho="2.56", across=areas, shares=shares)
        leaves = hierarchy.counts_of(counts)
        plan = hierarchy.plan(hierarchy.disclose(leaves))
        truth = (*tree.summed(leaves), across.summed(leaves))
        cells, totals, estimates, seconds = [], [], [], time.process_time()
        for number in range(n):
            drawn = plan.draw(leaves, cg.replay_rng(f"districts {name} {number}"))
            decided = plan.decide(drawn)
            gaps = [table - exact for table, exact in zip((*decided, across.summed(decided[-1])), truth, strict=True)]
            cells.append([float(np.abs(gap).mean()) for gap in gaps])
            totals.append([float(np.abs(gap.sum(axis=1)).mean()) for gap in gaps])
            of_leaves = np.zeros_like(leaves)
            for level, units, part in estimates_in_parts(tree_measurements(plan.law, drawn)):
                if level == len(LEVELS):
                    of_leaves[units] = part
            estimates.append(float(np.abs(across.summed(of_leaves) / 2.0**FRACTION_BITS - truth[-1]).mean()))
        seconds = (time.process_time() - seconds) / n
        means = np.mean(cells, axis=0).tolist()
        found[name] = means[-1]
        each = ", ".join(
            f"{level} {mean:.3f} ({total:.2f})"
            for level, mean, total in zip((*tree.levels, "district"), means, np.mean(totals, axis=0), strict=True)
        )
        error = float(np.std(np.array(cells)[:, -1], ddof=1) / n**0.5)
        print(f"  {name}: {each}; standard error of the last {error:.3f}", flush=True)
        print(f"    estimates of a district's cell {np.mean(estimates):.3f}; {seconds:.2f} CPU seconds a release")
    is_near = found["measured across"] <= DISTRICT_GOAL
    print(f"  goal for a cell of a district measured across at most {DISTRICT_GOAL}: {'kept' if is_near else 'MISSED'}")
    return is_near


def intervals(folder: Path) -> bool:
    """Print how wide 90 % intervals of some units are, from their own level and from all levels together."""
    codes, counts = blocks(folder, ("RI", "RI"))
    tree = Tree.of_prefixes(codes, LEVELS, "block")
    hierarchy = Hierarchy(tree, BLOCK_SCHEMA, invariants=[cg.total()], rho="2.56")
    leaves = hierarchy.counts_of(counts)
    plan = hierarchy.plan(hierarchy.disclose(leaves))
    drawn = plan.draw(leaves, cg.replay_rng("intervals"))
    laws = zip(plan.law.measured_laws, drawn, strict=True)
    alone = tuple(Measurements.of(Plan.of(law, "bounded"), values) for law, values in laws)
    known = CombinedLevels(plan, drawn, plan.decide(drawn), alone)
    queries = ["all", "age=v18", "age=v18 & race=white"]
    print("\nRhode Island, rho 2.56, default shares: mean width of 90 % intervals, a level alone / all together")
    for level, name in enumerate(tree.levels[1:], 1):
        some = tree.texts(level)[:: max(1, tree.n_units[level] // 50)]
        start = time.process_time()
        together = known.units(name, queries, some)
        seconds = time.process_time() - start
        statistics = parse_queries(queries, BLOCK_SCHEMA)
        widths = np.array(
            [
                [
                    [one.high - one.low for one in answers]
                    for answers in (alone[level].confidences(statistics, code), both)
                ]
                for code, both in together.items()
            ]
        ).mean(axis=0)
        each = ", ".join(f"{query} {a:.1f} / {b:.1f}" for query, a, b in zip(queries, *widths.tolist(), strict=True))
        print(f"  {name}: {each}; {seconds:.0f} CPU seconds", flush=True)
    return True


def crossing(folder: Path, n: int) -> bool:
    """Total, one race group and those of voting age exact in every unit, without and with empty blocks declared."""
    has_passed = True
    for state in ("RI", "HI"):
        codes, counts = blocks(folder, (state, state))
        tree = Tree.of_prefixes(codes, LEVELS, "block")
        is_empty = np.repeat(counts.sum(axis=1, keepdims=True) == 0, counts.shape[1], axis=1)
        for name, zeros in (("no zeros", None), ("empty blocks declared", Zeros.of_leaves(tree, is_empty))):
            hierarchy = Hierarchy(
                *(tree, BLOCK_SCHEMA), invariants={"block": CROSSING}, rho="2.56", shares=CENSUS, zeros=zeros
            )
            leaves = hierarchy.counts_of(counts)
            plan = hierarchy.plan(hierarchy.disclose(leaves))
            truth = tree.summed(leaves)
            errors, n_kept, start = [], 0, time.process_time()
            for number in range(n):
                decided = plan.decide(plan.draw(leaves, cg.replay_rng(f"crossing {state} {name} {number}")))
                n_kept += all(has_sums(table, exact) for table, exact in zip(decided, truth, strict=True))
                errors.append([float(np.abs(t - x).mean()) for t, x in zip(decided, truth, strict=True)])
            seconds = (time.process_time() - start) / n
            each = ", ".join(f"{level} {e:.3f}" for level, e in zip(tree.levels, np.mean(errors, axis=0), strict=True))
            print(f"{state}, {name}: tables with all sums in {n_kept} of {n} releases, {seconds:.1f} CPU s; {each}")
            has_passed &= n_kept == n
    return has_passed


def has_sums(table: Ints, exact: Ints) -> bool:
    """Whether a level's tables have the sums that cross, and no negative count."""
    places = (slice(None), slice(0, None, len(RACES)), slice(len(RACES), None))
    same = all(np.array_equal(table[:, some].sum(axis=1), exact[:, some].sum(axis=1)) for some in places)
    return same and bool((table >= 0).all())


def nation(folder: Path) -> None:
    """Print how long the nation takes: 51 states with exact totals, 3,143 counties, their urban and rural parts."""
    file = str(folder / "p12_dec2010_hierarchy.parquet")
    names = [row[0] for row in duckdb.execute("DESCRIBE SELECT * FROM read_parquet(?)", [file]).fetchall()]
    cells = ", ".join(name for name in names if name[:2] in {"f_", "m_"})
    columns_read = duckdb.execute(
        f"SELECT geo_id, parent_id, {cells} FROM read_parquet(?) WHERE level = 'county_part' ORDER BY geo_id", [file]
    ).fetchnumpy()
    parts, counties = (np.array(columns_read.pop(name), str) for name in ("geo_id", "parent_id"))
    counts = np.stack([np.asarray(column, np.int64) for column in columns_read.values()], axis=1)
    levels = {"nation": np.full(len(parts), "US"), "state": counties.astype("U2"), "county": counties, "part": parts}
    tree = Tree.of_parents(levels)
    leaves = tree.in_order(counts)
    schema = cg.Schema({"cell": [str(cell) for cell in range(counts.shape[1])]})
    for exact in ("nation", "state", "county", "part"):
        plan = Hierarchy(tree, schema, invariants={exact: [cg.total()]}, rho="2.56", method="conditional")
        ready = plan.plan(plan.disclose(leaves))
        ready.dry_run()
        print(
            f"{tree}, {schema.n_cells} cells, totals of every {exact} exact: {clock(ready, leaves, 1):.1f} CPU seconds"
        )


def repeated(codes: NDArray[np.str_], counts: Ints, copies: int = COPIES) -> tuple[Tree, Ints]:
    """Return the trees of both states, planted many times side by side."""
    prefixes = np.array([f"{copy:03}" for copy in range(copies)], "S3")
    plain = codes.astype("S15")
    many = np.char.add(np.repeat(prefixes, len(codes)), np.tile(plain, copies))
    tree = Tree.of_prefixes(many, {name: length + 3 for name, length in LEVELS.items()}, "block")
    assert (np.diff(tree.order) == 1).all()  # codes ascend already: no copy
    return tree, np.tile(counts, (copies, 1))


def print_times(folder: Path, *, is_large: bool) -> None:
    """Print how long releases of both states take, of the nation, and of 8.2 million blocks."""
    codes, counts = blocks(folder, ("RI", "HI"))
    tree = Tree.of_prefixes(codes, LEVELS, "block")
    leaves = counts[tree.order]
    for name, shares in (("2020 shares", CENSUS), ("default shares", None)):
        plan = planned(tree, leaves, shares)
        print(f"{len(leaves):,} blocks x 16 cells, {name}: {clock(plan, leaves, 4):.2f} CPU seconds a release")
        plan = planned(tree, leaves, shares, "block")
        start = time.process_time()
        plan.dry_run()
        pilots, seconds = time.process_time() - start, clock(plan, leaves, 1)
        print(f"  every unit's total exact: {seconds:.1f} CPU seconds a release, {pilots:.1f} for pilots", flush=True)
    nation(folder)
    if is_large:
        tree, leaves = repeated(codes, counts)
        plan = planned(tree, leaves, CENSUS)
        seconds = clock(plan, leaves, 1)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{len(leaves):,} blocks x 16 cells: {seconds:.0f} CPU seconds, {memory:.1f} GB in all", flush=True)
        seconds = clock(planned(tree, leaves, CENSUS, "block"), leaves, 1)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"  every unit's total exact: {seconds:.0f} CPU seconds, {memory:.1f} GB in all")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--margins", action="store_true", help="margins in place of cells alone")
    parser.add_argument("--leaf-prior", action="store_true", help="the rule leaf-prior beside gls")
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--districts", action="store_true")
    parser.add_argument("--crossing", action="store_true")
    parser.add_argument("--intervals", action="store_true")
    options = parser.parse_args()
    if options.leaf_prior:
        from tree_rules import compare_rules

        sys.exit(0 if compare_rules(options.data, options.releases, is_large=options.large) else 1)
    if options.margins:
        sys.exit(0 if compare_margins(options.data, options.releases) else 1)
    if options.intervals:
        intervals(options.data)
    if options.districts or options.crossing or options.intervals:
        is_near = districts(options.data, options.releases) if options.districts else True
        sys.exit(0 if (not options.crossing or crossing(options.data, options.releases)) and is_near else 1)
    if options.times or options.large:
        print_times(options.data, is_large=options.large)
    outcomes = [kind(options.data, options.releases) for kind in (compare_all, districts, crossing, compare_margins)]
    sys.exit(0 if all(outcomes) else 1)


if __name__ == "__main__":
    main()
