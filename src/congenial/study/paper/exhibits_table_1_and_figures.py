"""What a part of the paper becomes: numbers beside the printed ones, pictures, and the data behind them."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.errors import StudyError
from congenial.examples import P12_AGES, P12_INDEX_SET, p12_mechanism, p12_printed_release, p12_schema, p12_table
from congenial.pages.matplotlib_figures import Picture, acceptance_curve, cell_law, distance_boxes, traces
from congenial.randomness import RandomStream
from congenial.study import independence_and_rejection_samplers as independence
from congenial.study.baselines.base_and_least_squares import Problem, noisy_answers, repair_all
from congenial.study.baselines.projection import L2Projection, Raw
from congenial.table import Table

Columns = Mapping[str, Sequence[Any]]
"""A small frame: columns of equal length by name."""


@dataclass(frozen=True)
class Finding:
    """One number of the paper, or one that its argument needs, and what was computed.

    Examples
    --------
    >>> Finding("section 3", "acceptance", 0.0151, 0.0168).difference_text
    '-0.0017'
    """

    where: str
    what: str
    computed: float
    printed: float | None = None
    note: str = ""

    @property
    def difference(self) -> float | None:
        """Computed less printed."""
        return None if self.printed is None else self.computed - self.printed

    @property
    def computed_text(self) -> str:
        """The computed number to five digits."""
        return _short(self.computed)

    @property
    def printed_text(self) -> str:
        """The printed number as far as it is printed."""
        return "" if self.printed is None else _short(self.printed)

    @property
    def difference_text(self) -> str:
        """The difference to two digits."""
        if self.difference is None or self.difference != self.difference:
            return ""
        return "0" if self.difference == 0 else f"{self.difference:+.2g}"


def _short(number: float) -> str:
    if number == float("inf"):
        return "infinite"
    return f"{number:,.0f}" if number == int(number) else f"{number:.5g}"


@dataclass(frozen=True)
class PrintedTable:
    """A table to read: a caption, heads, and rows that begin with their name.

    Examples
    --------
    >>> print(PrintedTable("Distances", ("method", "L1"), (("raw", "8.1"), ("congenial", "12.0"))).text)
    Distances
    method       L1
    raw         8.1
    congenial  12.0
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def text(self) -> str:
        """The table in plain text, names to the left and numbers to the right."""
        lines = [self.header, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.header))]
        aligned = [
            "  ".join([line[0].ljust(widths[0]), *(v.rjust(w) for v, w in zip(line[1:], widths[1:], strict=True))])
            for line in lines
        ]
        return "\n".join([self.caption, *aligned])


@dataclass(frozen=True)
class Exhibit:
    """One part of the paper, done again."""

    key: str
    title: str
    text: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    pictures: tuple[Picture, ...] = ()
    printed_tables: tuple[PrintedTable, ...] = ()
    data: Mapping[str, Columns] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the pictures, and the data behind them as CSV."""
        for picture in self.pictures:
            picture.write(folder)
        for name, columns in self.data.items():
            write_csv(folder / f"{name}.csv", columns)


def write_csv(path: Path, columns: Columns) -> None:
    """Write columns as CSV."""
    with path.open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(columns)
        rows.writerows(zip(*columns.values(), strict=True))


def check_new_folder(folder: Path) -> None:
    """Refuse a folder that holds something, so that nothing is overwritten."""
    if folder.exists() and not folder.is_dir():
        raise StudyError(f"{folder} is a file; name a folder that does not exist yet")
    if folder.is_dir() and any(folder.iterdir()):
        raise StudyError(f"the folder {folder} is not empty; name a new one, so that nothing is overwritten")


# GM's Table 1: the confidential P12 table, the release they print, and one of ours.

_CELL = {"sex": "female", "age": "45-49"}  # one person: the cell where conditioning changes most


def table_1(rng: RandomStream, *, n_draws: int = 100_000) -> Exhibit:
    """Return both printed tables with their sums, how usual the printed release is, and a release of our own."""
    confidential, printed, mechanism = p12_table(), p12_printed_release(), p12_mechanism()
    law = mechanism.law(confidential)
    draws = law.sample(n_draws, rng)
    release = draws[0]
    l1 = np.abs(draws - confidential.counts).sum(axis=1)
    printed_l1 = int(np.abs(printed.counts - confidential.counts).sum())
    farthest = np.abs(draws - confidential.counts).max(axis=1)
    findings = [*_sums("confidential", confidential.counts), *_sums("printed release", printed.counts)]
    findings += [
        Finding("Table 1", "independent equalities among the invariants", mechanism.disclose(confidential).rank, 3),
        Finding(
            "Table 1",
            "L1 distance of the printed release",
            printed_l1,
            note=f"the conditional law's own is {l1.mean():.1f} on average;"
            f" {np.mean(l1 <= printed_l1):.0%} of draws lie as near or nearer",
        ),
        Finding(
            "Table 1",
            "largest change of a cell in the printed release",
            int(np.abs(printed.counts - confidential.counts).max()),
            note=f"60-61, male: 11 to 23; so large a change comes in {np.mean(farthest >= 12):.1%} of draws",
        ),
    ]
    return Exhibit(
        "table-1",
        "Table 1: a confidential table and a release",
        (
            "GM simulate a table of 46 cells, and print one release with Double Geometric noise of precision 1/2 a"
            " cell, given the total, the share of women, the voting-age population, and no negative count.",
            "Both printed tables add up to every printed sum. GM head the first four ages <5, 6-10, 11-15 and 16-17;"
            " the Census's own groups are under 5, 5-9, 10-14 and 15-17, and those are used here.",
        ),
        tuple(findings),
        (_law_picture(),),
        (_printed(confidential.counts, printed.counts, release),),
        {"table-1": _columns(confidential.counts, printed.counts, release)},
    )


def _sums(title: str, counts: NDArray[np.int64]) -> list[Finding]:
    table = counts.reshape(2, -1)
    young = len(P12_AGES) - 19
    sums = {
        "women": (table[0].sum(), 130),
        "men": (table[1].sum(), 126),
        "under 18": (table[:, :young].sum(), 43),
        "voting age": (table[:, young:].sum(), 213),
        "total": (table.sum(), 256),
    }
    return [Finding("Table 1", f"{title}: {name}", int(value), sum_) for name, (value, sum_) in sums.items()]


def _columns(confidential: NDArray[np.int64], printed: NDArray[np.int64], release: NDArray[np.int64]) -> Columns:
    return {
        "sex": ["female"] * len(P12_AGES) + ["male"] * len(P12_AGES),
        "age": [*P12_AGES, *P12_AGES],
        "confidential": confidential.tolist(),
        "printed_release": printed.tolist(),
        "exact_draw": release.tolist(),
    }


def _printed(*tables: NDArray[np.int64]) -> PrintedTable:
    sexes = [column for table in tables for column in table.reshape(2, -1).tolist()]
    rows = [(age, *(str(column[i]) for column in sexes)) for i, age in enumerate(P12_AGES)]
    rows.append(("total", *(str(sum(column)) for column in sexes)))
    return PrintedTable(
        "Confidential (c), the release GM print (p), and one exact draw (e); women (f) and men (m)",
        ("age", "c, f", "c, m", "p, f", "p, m", "e, f", "e, m"),
        tuple(rows),
    )


def law_of_a_cell() -> Columns:
    """Return the exact law of one cell of P12, conditional and unconstrained, on a common range."""
    table, mechanism = p12_table(), p12_mechanism()
    law = mechanism.law(table)
    marginal = law.marginal(_CELL)
    truth = int(table.counts[table.schema.cell(_CELL)])
    values = np.arange(-8, 13)
    known = dict(zip(marginal.values.tolist(), marginal.probabilities.tolist(), strict=True))
    noise = law.target.measured[0].noise
    return {
        "count": values.tolist(),
        "conditional": [known.get(value, 0.0) for value in values.tolist()],
        "unconstrained": noise.pmf(values - truth).tolist(),
    }


def _law_picture() -> Picture:
    columns = law_of_a_cell()
    table = p12_table()
    figure = cell_law(
        columns["count"],
        columns["conditional"],
        columns["unconstrained"],
        truth=int(table.counts[table.schema.cell(_CELL)]),
        name="women of 45-49",
    )
    return Picture(
        "law-of-a-cell",
        figure,
        "The law of one released cell, computed exactly: conditioning moves the mass of impossible counts to possible"
        " ones.",
        "Bars: Double Geometric noise around a count of 1, half of it spread over negative and high counts. Points: the"
        " released cell's law, zero below zero and higher from 0 to 4.",
    )


# GM's figure 1: how far releases lie from the confidential table, for four ways to make them.

RAW_1, PROJECTED, CHAIN, EXACT, RAW_HALF = (
    "raw, precision 1",
    "raw 1, projected (NNL2)",
    "conditional 1/2, Algorithm 1",
    "conditional 1/2, exact draws",
    "raw, precision 1/2",
)
METHODS = (RAW_1, PROJECTED, CHAIN, EXACT, RAW_HALF)
"""GM's a) to d); c) twice, by their sampler and by ours."""

SIMULATED = "simulated"
SIZE, CHANCE = 100, 0.05

_THIN = 2_500  # iterations of Algorithm 1 for about one effective draw of P12


@dataclass(frozen=True)
class Distances:
    """Average distances (table) of the releases of each method."""

    l1: Mapping[str, Floats]
    l2: Mapping[str, Floats]

    def columns(self) -> Columns:
        """Return them as a tidy frame: a line a method and table."""
        n = len(self.l1[RAW_1])
        return {
            "method": [method for method in METHODS for _ in range(n)],
            "table": [number for _ in METHODS for number in range(1, n + 1)],
            "l1": np.concatenate([self.l1[method] for method in METHODS]).tolist(),
            "l2": np.concatenate([self.l2[method] for method in METHODS]).tolist(),
        }


def negative_binomial(n: int, rng: RandomStream) -> Ints:
    """Return draws of GM's NegativeBinomial(100, 0.05): events of chance 0.05 before 100 others."""
    pmf = [comb(k + SIZE - 1, k) * (1 - CHANCE) ** SIZE * CHANCE**k for k in range(80)]
    return np.searchsorted(np.cumsum(pmf), rng.uniforms(n)).astype(np.int64)


def simulated_tables(n_tables: int, rng: RandomStream) -> list[Table]:
    """Return P12 tables as GM simulate them: independent NegativeBinomial(100, 0.05) cells."""
    schema = p12_schema()
    return [Table(schema, negative_binomial(46, rng).reshape(schema.shape)) for _ in range(n_tables)]


def distances(tables: Sequence[Table], n_releases: int, rng: RandomStream) -> Distances:
    """Return each method's average distance over the releases of each table."""
    l1 = {method: np.empty(len(tables)) for method in METHODS}
    l2 = {method: np.empty(len(tables)) for method in METHODS}
    for number, table in enumerate(tables):
        for method, releases in _releases(table, n_releases, rng).items():
            gap = releases - table.counts
            l1[method][number] = np.abs(gap).sum(axis=1).mean()
            l2[method][number] = np.sqrt((gap**2).sum(axis=1)).mean()
    return Distances(l1, l2)


def _releases(table: Table, n: int, rng: RandomStream) -> dict[str, Floats | Ints]:
    full, half = p12_mechanism("1"), p12_mechanism("1/2")
    constraints = full.disclose(table)
    problem = Problem.of(full, constraints)
    answers = noisy_answers(problem, table, n, rng)
    law = half.law(table)
    chain = independence.sample(
        law.target, n, rng, proposal_precision="0.6", index_set=P12_INDEX_SET, burn_in=10 * _THIN, thin=_THIN
    )
    less = Problem.of(half, constraints)
    return {
        RAW_1: repair_all(Raw(), problem, answers),
        PROJECTED: repair_all(L2Projection(), problem, answers),
        CHAIN: chain.tables,
        EXACT: law.sample(n, rng),
        RAW_HALF: repair_all(Raw(), less, noisy_answers(less, table, n, rng)),
    }


def figure_1(
    tables: Sequence[Table], source: str, rng: RandomStream, *, n_releases: int = 100, key: str = "figure-1"
) -> Exhibit:
    """Return figure 1 for some tables."""
    averages = distances(tables, n_releases, rng)
    cells = np.concatenate([table.counts for table in tables])
    sample_mean, sample_variance = float(cells.mean()), float(cells.var(ddof=1))
    if source == SIMULATED:
        mean, variance = SIZE * CHANCE / (1 - CHANCE), SIZE * CHANCE / (1 - CHANCE) ** 2
        findings = [
            Finding("section 3", "mean of a simulated cell", mean, 5.26, f"these tables: {sample_mean:.2f}"),
            Finding(
                "section 3", "variance of a simulated cell", variance, 5.54, f"these tables: {sample_variance:.2f}"
            ),
        ]
    else:
        findings = [
            Finding("section 3", f"{source}: mean of a cell", sample_mean),
            Finding("section 3", f"{source}: variance of a cell", sample_variance, note="GM's simulated cells: 5.54"),
        ]
    for name, values in (("L1", averages.l1), ("L2", averages.l2)):
        raw = float(values[RAW_1].mean())
        for method in METHODS:
            mean = float(values[method].mean())
            findings.append(
                Finding(
                    "figure 1", f"{source}: mean {name} distance, {method}", mean, note=f"{mean / raw:.2f} of raw 1"
                )
            )
    picture = Picture(
        key,
        distance_boxes({"average L1 distance, people": averages.l1, "average L2 distance, people": averages.l2}),
        f"{len(tables)} tables ({source}), {n_releases} releases of each by each method. A point is one table.",
        "Box plots of distances for five methods. From near to far: raw noise of precision 1 and its projection on par,"
        " the conditional law of precision 1/2 in the middle by either sampler, raw noise of precision 1/2 farthest.",
    )
    return Exhibit(
        key,
        f"Figure 1: distances from the confidential table, {source}",
        (
            "GM describe the conditional mechanism at precision 1/2 as lying between raw noise at 1/2 and at 1, and the"
            " projection of raw noise at 1 as mostly on par with it. Their numbers are in a picture only.",
            "The boxes do not compare methods at equal privacy. Precision 1 costs epsilon 2 for one changed record; the"
            " conditional mechanism at 1/2 costs 1.49 by its certificate. The command congenial compare compares at"
            " equal certified loss.",
            *_chain_warning(averages),
        ),
        tuple(findings),
        (picture,),
        data={key: averages.columns()},
    )


def _chain_warning(averages: Distances) -> tuple[str, ...]:
    """Say so when Algorithm 1 did not reach the law that it is meant to draw from."""
    chain, exact = float(averages.l1[CHAIN].mean()), float(averages.l1[EXACT].mean())
    if chain > 0.95 * exact:
        return ()
    stuck = int((averages.l1[CHAIN] == 0).sum())
    return (
        f"Algorithm 1 fails on these tables: its draws lie {chain:.1f} from the confidential table on average, exact"
        f" draws {exact:.1f}. A chain starts at the confidential table, and at {_THIN:,} iterations a draw some chains"
        f" hardly leave it; {stuck} of {len(averages.l1[CHAIN])} never moved. Such releases look accurate because they"
        " are not private.",
    )


# GM's figures 2 and 3: the acceptance rate of Algorithm 1, and its traces, beside exact draws.

SCALES = tuple(Fraction(k, 20) for k in range(6, 21))
PRINTED = (0.6, 0.0168)


def acceptance_rates(rng: RandomStream, *, n_iterations: int, n_proposals: int) -> Columns:
    """Return the acceptance rate at each proposal precision: of one chain, and expected at equilibrium."""
    law = p12_mechanism().law(p12_table())
    states = law.sample(n_proposals // 5, rng)
    chain = independence.sweep(law.target, SCALES, n_iterations, rng, index_set=P12_INDEX_SET)
    expected, error = [], []
    for scale in SCALES:
        rate = independence.equilibrium_acceptance(
            law.target, states, n_proposals, rng, proposal_precision=scale, index_set=P12_INDEX_SET
        )
        expected.append(rate.acceptance)
        error.append(rate.standard_error)
    return {
        "proposal_precision": [float(scale) for scale in SCALES],
        "expected": expected,
        "standard_error": error,
        "one_chain": [chain[str(scale)] for scale in SCALES],
    }


def figure_2(rng: RandomStream, *, n_iterations: int = 200_000, n_proposals: int = 100_000) -> Exhibit:
    """Return figure 2: acceptance against the proposal's scale."""
    columns = acceptance_rates(rng, n_iterations=n_iterations, n_proposals=n_proposals)
    scales, expected = np.array(columns["proposal_precision"]), np.array(columns["expected"])
    error, chain = np.array(columns["standard_error"]), np.array(columns["one_chain"])
    at, best = int(np.argmin(np.abs(scales - PRINTED[0]))), int(np.argmax(expected))
    findings = (
        Finding(
            "Appendix C",
            "acceptance rate at proposal 0.6",
            float(expected[at]),
            PRINTED[1],
            f"expected at equilibrium, standard error {error[at]:.2g}; one chain of {n_iterations:,} gave"
            f" {chain[at]:.4f}",
        ),
        Finding(
            "Appendix C",
            "best proposal precision",
            float(scales[best]),
            PRINTED[0],
            f"the curve is flat there: {expected[best]:.4f} against {expected[at]:.4f} at 0.6",
        ),
        Finding("section 3", "cells proposed (the index set)", len(P12_INDEX_SET), 43),
    )
    stuck = scales[(chain == 0) & (expected < 1e-3)]
    picture = Picture(
        "figure-2",
        acceptance_curve(scales, expected, chain, PRINTED),
        "The line is free of a chain's luck: exact draws give the states, independent proposals the moves.",
        "Acceptance rate in percent against the precision of the proposal: a hump from 0.45 to 1 with its top of about"
        " 1.6 percent near 0.65; the printed 1.68 percent at 0.6 lies a little above the curve.",
    )
    return Exhibit(
        "figure-2",
        "Figure 2: acceptance of Algorithm 1",
        (
            "One chain of Algorithm 1 accepts so rarely that its own acceptance rate is a noisy number. With exact"
            " draws from the conditional law as states, the rate at equilibrium is an average over independent pairs.",
            "Proposals flatter than 0.4 are hardly ever accepted: a chain that starts at the confidential table, as"
            f" here, did not leave it within {n_iterations:,} iterations at {_listed(stuck.tolist())}. Stopped there,"
            " it would publish the confidential table.",
        ),
        findings,
        (picture,),
        data={"figure-2": columns},
    )


def _listed(scales: list[float]) -> str:
    return ", ".join(f"{scale:g}" for scale in scales) or "none of these scales"


def trace_columns(rng: RandomStream, *, n_draws: int = 10_000) -> tuple[Columns, int]:
    """Return the first two cells along a chain and along exact draws, and how often the chain moved."""
    law = p12_mechanism().law(p12_table())
    chain = independence.sample(law.target, n_draws, rng, proposal_precision="0.6", index_set=P12_INDEX_SET)
    exact = law.sample(n_draws, rng)
    columns: Columns = {
        "draw": list(range(1, n_draws + 1)),
        "cell_2_chain": chain.tables[:, 1].tolist(),
        "cell_1_chain": chain.tables[:, 0].tolist(),
        "cell_2_exact": exact[:, 1].tolist(),
        "cell_1_exact": exact[:, 0].tolist(),
    }
    return columns, round(chain.acceptance * n_draws)


def figure_3(rng: RandomStream, *, n_draws: int = 10_000) -> Exhibit:
    """Return figure 3: traces of the second and the first cell."""
    columns, moves = trace_columns(rng, n_draws=n_draws)
    schema = p12_schema()
    names = {2: f"cell 2 ({schema.cell_name(1)})", 1: f"cell 1 ({schema.cell_name(0)})"}
    picture = Picture(
        "figure-3",
        traces(
            {
                f"cell {cell}": [
                    ("Algorithm 1", np.array(columns[f"cell_{cell}_chain"])),
                    ("exact", np.array(columns[f"cell_{cell}_exact"])),
                ]
                for cell in (2, 1)
            }
        ),
        f"{n_draws:,} draws of {names[2]}, which is proposed, and of {names[1]}, which is solved for.",
        "Upper row: traces of Algorithm 1, long flat pieces with rare jumps. Lower row: exact draws, which fill the"
        " range evenly from the first draw on.",
    )
    findings = (
        Finding(
            "figure 3",
            f"moves of the chain in {n_draws:,} iterations",
            moves,
            round(PRINTED[1] * n_draws),
            "printed: the acceptance rate of 1.68 %; every exact draw is a new one",
        ),
    )
    return Exhibit(
        "figure-3",
        "Figure 3: traces of two cells",
        (
            "GM show 10,000 iterations of Algorithm 1 at proposal 0.6. Below them are as many exact draws:"
            " independent, with nothing to wait for.",
        ),
        findings,
        (picture,),
        data={"figure-3": columns},
    )
