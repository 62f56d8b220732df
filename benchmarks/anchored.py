"""The rule *anchored* beside *nearest* on the same measurements: every metric of a table, with goals.

Called by `make check-real DATA=folder` and, without real tables, by `make bench`; by itself:
python benchmarks/anchored.py [--data folder]. A metric is marked WORSE where anchored tables are worse than nearest
ones by more than two standard errors of the pairs and two per cent. Rough made-up tables are areas that have nothing in
common: what the rule is not made for.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time

import duckdb
import numpy as np
from answers import CASES, EXACT_INCOMES, INCOMES, KINDS
from measured_real import BUDGETS, GAUSSIAN, Floats, Ints, county_parts, mechanism_of
from real_tables import small_tables

import congenial as cg
from congenial.conditions.base import Condition
from congenial.decided_tables import rule_input
from congenial.plan import Plan
from congenial.randomness import RandomStream, replay_rng
from congenial.rules.anchored import ANCHORED
from congenial.rules.nearest import NEAREST
from congenial.study.baselines.base_and_least_squares import Problem, noisy_answers, repair_all, without_conditions
from congenial.study.baselines.topdown_and_leaves_alone import TopDown

MOST: dict[str, dict[str, float]] = {
    "epsilon 1/2": {"L1": 112.0, "age 65+": 8.2, "age 18-24": 8.7, "one cell, all areas": 17.0},
    "epsilon 1": {"L1": 65.5, "age 65+": 5.0, "age 18-24": 5.1, "one cell, all areas": 8.8},
    "epsilon 2": {"L1": 33.0, "age 65+": 2.7, "age 18-24": 2.7, "one cell, all areas": 4.3},
    "epsilon 4": {"L1": 10.6},
    "rho 1/10": {"L1": 81.5},
    "rho 1/2": {"L1": 42.0},
    "rho 2": {"L1": 19.3},
}
"""What means over releases of the twenty P12 tables may be at most."""
AGES = {"age 65+": slice(17, 23), "age 25-44": slice(8, 12), "age 18-24": slice(4, 8), "age 45-64": slice(12, 17)}
MOST_OF_SUMS = 1.02
"""One cell summed over 600 areas: at most so many times nearest's error."""
N_MADE_UP = 40
_ZEROS = "true zeros kept"


@dataclass(frozen=True)
class Pairs:
    """The metrics of nearest and of anchored tables, release by release (metric, release)."""

    names: tuple[str, ...]
    nearest: Floats
    anchored: Floats
    micros: float

    def mean(self, name: str) -> tuple[float, float, float]:
        """Return both means and the standard error of their difference; of zeros kept, more is better."""
        row = self.names.index(name)
        gap = self.anchored[row] - self.nearest[row]
        return (
            float(self.nearest[row].mean()),
            float(self.anchored[row].mean()),
            float(gap.std(ddof=1) / len(gap) ** 0.5),
        )

    def is_worse(self, name: str) -> bool:
        """Whether anchored is worse by more than two standard errors and two per cent."""
        first, second, error = self.mean(name)
        if name == _ZEROS:
            return first - second > max(2 * error, 0.02 * first)
        return second - first > max(2 * error, 0.02 * first)


def metrics_of(schema: cg.Schema, released: Ints, truth: Ints) -> dict[str, float]:
    """Return the errors of released tables (area, cell)."""
    gaps = (released - truth).astype(np.float64)
    out = {
        "L1": np.abs(gaps).sum(axis=1).mean(),
        "root mean square": np.sqrt((gaps**2).mean()),
        "one cell, all areas": np.abs(gaps.sum(axis=0)).mean(),
        _ZEROS: (released[truth == 0] == 0).mean() if (truth == 0).any() else np.nan,
    }
    if schema.n_cells == 46:
        by_age = gaps.reshape(-1, 2, 23)
        for name, ages in AGES.items():
            out[name] = np.abs(by_age[:, :, ages].sum(axis=(1, 2))).mean()
        out["women 65+"] = np.abs(by_age[:, 0, 17:].sum(axis=1)).mean()
    whole = gaps.reshape(-1, *schema.shape)
    for axis, name in enumerate(schema.names):
        others = tuple(number + 1 for number in range(len(schema.shape)) if number != axis)
        margin = np.abs(whole.sum(axis=others) if others else whole).mean()
        if margin > 0 and others:
            out[f"margin of {name}"] = margin
    return {name: float(value) for name, value in out.items()}


def plan_of(mechanism: cg.Mechanism, counts: Ints) -> Plan:
    """Return the plan of areas (area, cell)."""
    schema = mechanism.schema
    tables = {f"{place:05}": cg.Table(schema, line.reshape(schema.shape)) for place, line in enumerate(counts)}
    return mechanism.plan(mechanism.disclose(tables))


def compare(mechanism: cg.Mechanism, counts: Ints, n_releases: int, rng: RandomStream) -> Pairs:
    """Release areas (area, cell) so many times, and decide their tables by both rules."""
    schema, plan = mechanism.schema, plan_of(mechanism, counts)
    why = ANCHORED.why_not(
        plan.law.areas, [q.row for q in plan.law.measured], [q.noise.precision for q in plan.law.measured]
    )
    if why is not None:
        raise ValueError(why)
    both: list[list[list[float]]] = [[], []]
    names: tuple[str, ...] = ()
    seconds = 0.0
    for _ in range(n_releases):
        data = rule_input(plan.law, plan.draw(counts, rng)[0])
        for rule, lines in zip((NEAREST, ANCHORED), both, strict=True):
            start = process_time()
            decided = rule.decide(data)
            seconds = process_time() - start
            assert data.areas.holds(decided).all()
            assert decided.min() >= 0
            found = metrics_of(schema, decided, counts)
            names = tuple(found)
            lines.append(list(found.values()))
    nearest, anchored = (np.array(lines).T for lines in both)
    return Pairs(names, nearest, anchored, 1e6 * seconds / len(counts))


def topdown_metrics(mechanism: cg.Mechanism, counts: Ints, n_releases: int, rng: RandomStream) -> Floats:
    """Return the metrics of TopDown's tables (metric, release), by noise of its own at the same certified loss."""
    schema, plan = mechanism.schema, plan_of(mechanism, counts)
    tables = [cg.Table(schema, line.reshape(schema.shape)) for line in counts]
    plain = without_conditions(mechanism, plan.certificate).law.measured
    problems = [Problem(mechanism.disclose(table), plain) for table in tables]
    lines = []
    for _ in range(n_releases):
        raw = [noisy_answers(*one, 1, rng) for one in zip(problems, tables, strict=True)]
        repaired = np.array([repair_all(TopDown(), *one)[0] for one in zip(problems, raw, strict=True)])
        lines.append(list(metrics_of(schema, repaired.reshape(counts.shape), counts).values()))
    return np.array(lines).T


def print_topdown(pairs: Pairs, topdown: Floats) -> bool:
    """Print anchored tables beside TopDown's, unpaired; return whether none is worse by the same two limits."""
    is_kept = True
    print("  beside TopDown: anchored, TopDown, standard error of the difference")
    for name, anchored, other in zip(pairs.names, pairs.anchored, topdown, strict=True):
        first, second = anchored.mean(), other.mean()
        error = ((anchored.var(ddof=1) + other.var(ddof=1)) / len(other)) ** 0.5
        gap = second - first if name == _ZEROS else first - second
        is_worse = gap > max(2 * error, 0.02 * second)
        is_kept &= not is_worse
        print(f"  {name:24}{first:9.3f}{second:9.3f} ({error:.3f}) {'WORSE' if is_worse else ''}", flush=True)
    return is_kept


def print_pairs(title: str, pairs: Pairs, most: dict[str, float]) -> bool:
    """Print every metric with its goal; return whether none is worse and all goals are kept."""
    print(f"\n{title}: nearest, anchored, standard error of the difference; {pairs.micros:.0f} us an area", flush=True)
    is_kept = True
    for name in pairs.names:
        first, second, error = pairs.mean(name)
        if np.isnan(first):
            continue
        words = "WORSE" if pairs.is_worse(name) else ""
        goal = most.get(name)
        if goal is not None:
            words += f" goal at most {goal}: {'kept' if second <= goal else 'MISSED'}"
            is_kept &= second <= goal
        if name == _ZEROS and first - second > 0.005:
            words, is_kept = f"{words} goal nearest's less .005: MISSED", False
        is_kept &= not pairs.is_worse(name)
        print(f"  {name:24}{first:9.3f}{second:9.3f} ({error:.3f}) {words}", flush=True)
    return is_kept


def real_tables(folder: Path, n_releases: int) -> bool:
    """Twenty P12 tables at seven budgets; 600 urban and rural parts of counties."""
    counts = np.array([table.counts.reshape(-1) for table in small_tables(folder)])
    budgets = {**BUDGETS, "rho 2": {"rho": "2", **GAUSSIAN}}
    is_kept = True
    for name, most in MOST.items():
        pairs = compare(mechanism_of(budgets[name]), counts, n_releases, cg.secure_rng())
        is_kept &= print_pairs(f"twenty P12 tables, {name}, {n_releases} releases", pairs, most)
        is_kept &= print_topdown(
            pairs, topdown_metrics(mechanism_of(budgets[name]), counts, n_releases, cg.secure_rng())
        )
    parts = county_parts(folder)
    adult_areas(folder, n_releases)
    for name in ("epsilon 1/2", "epsilon 1", "rho 1/10"):
        pairs = compare(mechanism_of(budgets[name]), parts, max(12, n_releases // 3), cg.secure_rng())
        first, _, _ = pairs.mean("one cell, all areas")
        most = {"one cell, all areas": round(MOST_OF_SUMS * first, 3)}
        is_kept &= print_pairs(f"600 parts of counties, {name}", pairs, most)
    return is_kept


def adult_areas(folder: Path, n_releases: int) -> None:
    """Print the same for Adult, with education by marital status for areas: nothing was chosen after it."""
    area, dimensions = ("education", "marital_status"), ("sex", "income", "race")
    names = ", ".join((*area, *dimensions))
    query = f"SELECT {names}, count(*) FROM read_parquet(?) GROUP BY ALL"
    rows = duckdb.execute(query, [str(folder / "micro_adult_uci.parquet")]).fetchall()
    areas = sorted({row[:2] for row in rows})
    labels = [sorted({row[2 + axis] for row in rows}) for axis in range(len(dimensions))]
    schema = cg.Schema(dict(zip(dimensions, labels, strict=True)))
    counts = np.zeros((len(areas), *schema.shape), np.int64)
    for row in rows:
        places = (some.index(value) for some, value in zip(labels, row[2:-1], strict=True))
        counts[(areas.index(row[:2]), *places)] = row[-1]
    for name in ("epsilon 1", "rho 1/2"):
        exact = [cg.total(), cg.total({"sex": labels[0][0]})]
        mechanism = cg.Mechanism(schema, measure=[cg.cells()], invariants=exact, method="measured", **BUDGETS[name])
        pairs = compare(mechanism, counts.reshape(len(areas), -1), n_releases, cg.secure_rng())
        print_pairs(f"Adult, {len(areas)} areas, total and women exact, {name}", pairs, {})


# Made-up tables: four kinds, and shapes other than P12.


def alike(rng: RandomStream, shape: Sequence[int], mean: float, uneven: float) -> Ints:
    """Draw rough areas that share a profile of rates: cells are Poisson around it, times effects of the area."""
    n_cells = int(np.prod(shape))
    profile = np.exp(uneven * (2 * rng.uniforms(n_cells) - 1))
    effects = np.exp(0.8 * rng.uniforms(N_MADE_UP * n_cells).reshape(-1, n_cells) - 0.4)
    sizes = 0.5 + rng.uniforms(N_MADE_UP)
    rates = mean * sizes[:, None] * profile * effects
    draws = rng.uniforms(rates.size).reshape(rates.shape)
    out, chance, reached = np.zeros(rates.shape, np.int64), np.exp(-rates), np.exp(-rates)
    for count in range(1, 400):
        out += draws > reached
        chance = chance * rates / count
        reached = reached + chance
    return out


def shapes() -> dict[str, tuple[cg.Schema, list[Condition]]]:
    """Return schemas other than P12 with their exact sums."""
    ages = [f"{5 * place}-{5 * place + 4}" for place in range(17)] + ["85+"]
    grid = cg.Schema({"row": [f"r{n}" for n in range(6)], "column": [f"c{n}" for n in range(7)]})
    deep = cg.Schema({"sex": ["f", "m"], "race": ["a", "b", "c", "d"], "tenure": ["own", "rent", "other"]})
    return {
        "18 ages, a total": (cg.Schema({"age": ages}), [cg.total()]),
        "6 x 7, both margins": (grid, [cg.margin("row"), cg.margin("column")]),
        "6 x 7, nothing exact": (grid, []),
        "2 x 4 x 3, total and women": (deep, [cg.total(), cg.total({"sex": "f"})]),
    }


_FOUR_KINDS = [kind for kind in KINDS if kind == "associated" or kind not in CASES]


def made_up(kind: str, budget: dict[str, str], rng: RandomStream) -> tuple[cg.Mechanism, Ints]:
    """Return the mechanism of one of four kinds of tables, and tables (area, cell) drawn one by one."""
    counts = np.array([KINDS[kind](rng).counts.reshape(-1) for _ in range(N_MADE_UP)])
    if kind != "associated":
        return mechanism_of(budget), counts
    exact = EXACT_INCOMES["people by sex"]
    return cg.Mechanism(INCOMES, measure=[cg.cells()], invariants=exact, method="measured", **budget), counts


def simulated_errors(n_releases: int, n_simulated: int = 5) -> None:
    """Print errors by simulation around published tables over true errors: 1 where they tell these."""
    rng = replay_rng("simulated errors of four kinds")
    for rule in (NEAREST, ANCHORED):
        for name, budget in (("epsilon 1", {"epsilon": "1"}), ("rho 1/2", {"rho": "1/2", **GAUSSIAN})):
            for kind in _FOUR_KINDS:
                made, counts = made_up(kind, budget, rng)
                plan = plan_of(made, counts)
                plan = replace(plan, law=replace(plan.law, rule=(rule.name, rule.version)))
                true, simulated = list[dict[str, float]](), list[dict[str, float]]()
                for _ in range(n_releases):
                    (published,) = plan.draw_tables(counts, rng)
                    true.append(metrics_of(made.schema, published, counts))
                    for _ in range(n_simulated):
                        simulated.append(metrics_of(made.schema, plan.draw_tables(published, rng)[0], published))
                ratios = [
                    f"{what} {np.mean([one[what] for one in simulated]) / np.mean([one[what] for one in true]):.2f}"
                    for what in ("L1", "root mean square", "one cell, all areas", _ZEROS)
                ]
                print(f"simulated over true, {rule.name}, {kind}, {name}: {', '.join(ratios)}", flush=True)


def made_up_tables(n_releases: int) -> None:
    """Print the same for made-up tables: figures to read, without goals."""
    rng = replay_rng("anchored and nearest tables")
    for name, budget in (("epsilon 1", {"epsilon": "1"}), ("rho 1/2", {"rho": "1/2", **GAUSSIAN})):
        for kind in _FOUR_KINDS:
            mechanism, counts = made_up(kind, budget, rng)
            title = f"{N_MADE_UP} {kind} tables, drawn one by one, {name}"
            print_pairs(title, compare(mechanism, counts, n_releases, rng), {})
        for shape, (schema, exact_sums) in shapes().items():
            # At a given precision: where both margins of each area are exact, no single record can change.
            noise = {name: value for name, value in budget.items() if name == "noise"}
            cells = cg.cells(precision="1/2")
            mechanism = cg.Mechanism(schema, measure=[cells], invariants=exact_sums, method="measured", **noise)
            for mean, uneven in ((8.0, 1.0), (1.0, 2.0)):
                counts = alike(rng, schema.shape, mean, uneven)
                zeros = float((counts == 0).mean())
                title = f"{N_MADE_UP} tables of {shape}, mean {counts.mean():.1f}, {zeros:.0%} empty, {name}"
                print_pairs(title, compare(mechanism, counts, n_releases, rng), {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with p12_demo20_paper_size.csv; made-up tables alone without")
    parser.add_argument("--releases", type=int, default=40)
    options = parser.parse_args()
    simulated_errors(max(4, options.releases // 4))
    made_up_tables(max(10, options.releases // 2))
    is_kept = options.data is None or real_tables(options.data, options.releases)
    sys.exit(0 if is_kept else 1)


if __name__ == "__main__":
    main()
