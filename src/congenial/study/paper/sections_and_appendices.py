"""GM's sections 4 and 5, Table 2 and appendices A and B as computations.

Section 4: what is known of a projected release, and between which tables. Three cells with a published total. The
projection onto "sum n, nothing negative" is a fixed function between tables of the same total, so there it keeps the
noise's privacy; between tables of different totals the function itself changes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import exp, inf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.conditions.limits_and_shares import bounds
from congenial.conditions.queries import cells, total
from congenial.examples import p12_mechanism, p12_table
from congenial.mechanism_and_hierarchy import Mechanism
from congenial.noise import Laplace
from congenial.pages.matplotlib_figures import Picture, densities
from congenial.privacy.certificate import Certificate
from congenial.randomness import RandomStream
from congenial.schema import Schema
from congenial.study.paper.exhibits_table_1_and_figures import Columns, Exhibit, Finding, PrintedTable
from congenial.study.sum_zero_laws_and_two_bins import (
    TwoBinRelease,
    appendix_a,
    congenial,
    l1,
    l2,
    laplace_sum_zero,
    neighbour_readings,
)
from congenial.table import Table

Cells = tuple[int, int, int]

PRECISION = "1/2"
TOTAL = 4
_REACH = 60  # noise beyond it has a chance below 4e-13 at precision 1/2, and moves no figure's tenth digit


def projected(answers: Ints, n: int) -> Ints:
    """Return the nearest nonnegative tables (line, cell) with sum n, in sixths, so that all is in whole numbers.

    The nearest table takes the same amount from every cell that stays positive. With the k largest cells positive the
    amount is ``(their sum - n) / k``, and k is the largest number for which the smallest of them stays above zero.
    """
    largest = -np.sort(-answers, axis=1)
    sums = np.cumsum(largest, axis=1)
    k = np.arange(1, 4)
    n_positive = (largest * k > sums - n).sum(axis=1)
    amount = (np.take_along_axis(sums, n_positive[:, None] - 1, axis=1)[:, 0] - n) * (6 // n_positive)
    return np.asarray(np.maximum(6 * answers - amount[:, None], 0))


@dataclass(frozen=True)
class ProjectedLaws:
    """The laws of the projected release of every table with sum `n`: outcomes in sixths, and where each answer goes."""

    n: int
    precision: float

    @cached_property
    def _answers(self) -> Ints:
        return np.arange(-_REACH, _REACH + self.n + 1)

    @cached_property
    def _outcomes(self) -> tuple[Ints, NDArray[np.intp]]:
        values = self._answers
        answers = np.stack(np.meshgrid(values, values, values, indexing="ij"), axis=-1).reshape(-1, 3)
        tables = projected(answers, self.n)
        keys = (tables[:, 0] * 1_000 + tables[:, 1]) * 1_000 + tables[:, 2]
        _, first, outcome_of_answer = np.unique(keys, return_index=True, return_inverse=True)
        return tables[first], outcome_of_answer

    def joint(self, confidential: Cells) -> dict[Cells, float]:
        """Return the chance of every projected table."""
        base = exp(-self.precision)
        chances = [(1 - base) / (1 + base) * base ** np.abs(self._answers - count) for count in confidential]
        weights = (chances[0][:, None, None] * chances[1][None, :, None] * chances[2][None, None, :]).reshape(-1)
        tables, outcome_of_answer = self._outcomes
        mass = np.bincount(outcome_of_answer, weights)
        return {(int(a), int(b), int(c)): float(m) for (a, b, c), m in zip(tables, mass, strict=True)}


def log_ratio(first: Mapping[Any, float], second: Mapping[Any, float]) -> float:
    """Return the largest log ratio of two laws; infinite if the first can give what the second cannot."""
    return max(log(mass / second[key]) if second.get(key) else inf for key, mass in first.items() if mass)


def tables_with(n: int) -> list[Cells]:
    """Return all tables of three cells with sum n."""
    return [(a, b, n - a - b) for a, b in product(range(n + 1), repeat=2) if a + b <= n]


def _neighbours(first: list[Cells], second: list[Cells], apart: int) -> Iterator[tuple[Cells, Cells]]:
    for s, t in product(first, second):
        if sum(abs(a - b) for a, b in zip(s, t, strict=True)) == apart:
            yield s, t


def worst_ratios(n: int = TOTAL) -> dict[str, float]:
    """Return the worst log ratios of the projected and of the conditional release.

    Within one total a pair is one changed record apart; across totals one record more or less.
    """
    precision = 0.5
    tables, more = tables_with(n), tables_with(n + 1)
    first, second = ProjectedLaws(n, precision), ProjectedLaws(n + 1, precision)
    laws: dict[str, dict[Cells, dict[Cells, float]]] = {
        "projected": {**{s: first.joint(s) for s in tables}, **{s: second.joint(s) for s in more}},
        "conditional": {s: _conditional(s) for s in (*tables, *more)},
    }
    same, other = list(_neighbours(tables, tables, 2)), list(_neighbours(tables, more, 1))
    ratios = {
        f"{name}, {title} total": max(log_ratio(law[s], law[t]) for s, t in pairs)
        for title, pairs in (("same", same), ("other", other))
        for name, law in laws.items()
    }
    for name, law in laws.items():
        cells_alone = {s: first_cell(joint) for s, joint in law.items()}
        worst = max(log_ratio(cells_alone[s], cells_alone[t]) for s, t in other)
        ratios[f"{name}, other total, first cell only"] = worst
    return {**ratios, "raw, other total, first cell only": precision}


def _mechanism() -> tuple[Schema, Mechanism]:
    schema = Schema({"cell": ["first", "second", "third"]})
    return schema, Mechanism(schema, measure=[cells(precision=PRECISION)], invariants=[total()])


def _conditional(confidential: Cells) -> dict[Cells, float]:
    schema, mechanism = _mechanism()
    law = mechanism.law(Table(schema, list(confidential))).enumerated
    pairs = zip(law.tables.tolist(), law.probabilities, strict=True)
    return {(table[0], table[1], table[2]): float(chance) for table, chance in pairs}


def first_cell(law: dict[Cells, float]) -> dict[int, float]:
    """Return the law of the first cell alone."""
    out: dict[int, float] = {}
    for table, mass in law.items():
        out[table[0]] = out.get(table[0], 0.0) + mass
    return out


def section_4() -> Exhibit:
    """Return when "post-processing is free" applies, and when it does not."""
    ratios = worst_ratios()
    schema, mechanism = _mechanism()
    certified = mechanism.plan(mechanism.disclose(Table(schema, [TOTAL, 0, 0]))).certificate.loss
    notes = {
        "projected, same total": "post-processing applies: at most the noise's own D = 1",
        "conditional, same total": f"its certificate says at most {float(certified or 0):.4f}",
        "projected, other total": "the release tells its total: nothing is kept of the noise's promise",
        "conditional, other total": "the same: an invariant is published, not protected",
        "projected, other total, first cell only": "more than raw noise gives for the same cell, although the total is"
        " not even looked at",
        "conditional, other total, first cell only": "for comparison; the certificate does not speak of such pairs",
        "raw, other total, first cell only": "the noise's precision",
    }
    findings = tuple(Finding("section 4", what, value, note=notes[what]) for what, value in ratios.items())
    rows = (
        ("same total, one record changed", "projected, same total", "conditional, same total", "1"),
        ("one record more", "projected, other total", "conditional, other total", "0.5"),
        (
            "one record more, first cell only, one way",
            "projected, other total, first cell only",
            "conditional, other total, first cell only",
            "0.5",
        ),
    )
    printed = PrintedTable(
        "Worst log ratio of the release's law between two tables",
        ("pairs", "projected", "conditional", "raw noise"),
        tuple((name, _text(ratios[p]), _text(ratios[c]), raw) for name, p, c, raw in rows),
    )
    return Exhibit(
        "section-4",
        "Section 4: is post-processing innocent?",
        (
            f"Three cells, a published total of {TOTAL}, Double Geometric noise of precision {PRECISION} on each cell."
            " The laws of the projected and of the conditional release are computed in full, for every table.",
            "Between tables that share the total, the projection is one fixed function of the noisy cells, so it can"
            " only lose information: post-processing is free there. Between tables whose totals differ, the curator"
            " projects onto different sets. Nobody but the curator could do that, the theorem does not apply, and the"
            " ratio is unbounded: an outcome with sum 4 cannot come from a table with sum 5. Both methods publish the"
            " total, so neither protects it.",
            "Even a reader who looks at the first cell only, and never at the total, learns more than the noise on that"
            " cell allows: the total has leaked into it. A statement about privacy with invariants is a statement about"
            " tables that share them; congenial's certificates say so.",
        ),
        findings,
        printed_tables=(printed,),
    )


def _text(value: float) -> str:
    return "infinite" if value == inf else f"{value:.4f}"


# GM's section 5.1: three examples of gamma, and P12, each from the library's own certificate.


def trivial() -> Certificate:
    """Example 2: no invariant, no limit."""
    schema = Schema({"bin": ["first", "second"]})
    return _certificate(schema, [30, 70], measure=[cells(precision="1/2")], invariants=[bounds(None)])


def rounding() -> Certificate:
    """Example 3: the number of full tens is published, so the query has one possible value."""
    schema = Schema({"group": ["tens of people with the feature"]})
    return _certificate(schema, [5], measure=[cells(precision="1/2")], invariants=[total()], neighbours="unbounded")


def two_bins() -> Certificate:
    """Example 1: two bins with a fixed total and no limits."""
    schema = Schema({"bin": ["first", "second"]})
    return _certificate(schema, [30, 70], measure=[cells(precision="1/4")], invariants=[total(), bounds(None)])


def _certificate(schema: Schema, counts: list[int], **options: Any) -> Certificate:
    mechanism = Mechanism(schema, **options)
    return mechanism.plan(mechanism.disclose(Table(schema, counts))).certificate


def p12() -> Certificate:
    """Section 3: the table of 46 cells at precision 1/2."""
    mechanism = p12_mechanism()
    return mechanism.plan(mechanism.disclose(p12_table())).certificate


def section_5() -> Exhibit:
    """Return every gamma of section 5.1, and what P12 costs."""
    whole, bins = p12(), two_bins()
    readings = neighbour_readings(Fraction(1, 2))
    findings = [
        Finding("Example 2", "gamma without invariants", float(trivial().gamma), 0),
        Finding(
            "Example 3", "gamma when one table is possible", float(rounding().gamma), -1, "nothing more is disclosed"
        ),
        Finding(
            "section 5.1",
            "gamma of two bins, one record changed (k = 1)",
            float(bins.gamma),
            -0.5,
            "GM take k = 2, records added and removed, and set each against the whole epsilon; by their own definition"
            " of neighbours one record changes, k = 1 is possible, and the total costs nothing",
        ),
        *(
            Finding(
                "section 5.1",
                f"gamma of two bins, {reading.relation}, k = {reading.k}",
                float(reading.gamma),
                note=reading.sentence,
            )
            for reading in readings
        ),
        Finding(
            "section 2.2",
            "Theorem 2 for P12 at precision 1/2: 2 k epsilon",
            float(2 * whole.loss_without_invariants) if whole.loss_without_invariants else 2.0,
            2,
            "one changed record costs epsilon 1 without invariants",
        ),
        Finding(
            "section 3",
            "certified loss of P12 at precision 1/2",
            float(whole.loss) if whole.loss else float("nan"),
            note="2 e0 + log(2 - exp(-2 e0)), reached up to 6e-6 by a search",
        ),
        Finding(
            "section 3",
            "gamma of P12",
            float(whole.gamma),
            note="GM expect the effective gamma somewhere between 0 and 1",
        ),
    ]
    return Exhibit(
        "section-5",
        "Section 5.1: what conditioning costs",
        (
            "GM's Theorem 2 bounds the loss of the conditional mechanism by (1 + gamma) k epsilon with gamma at most"
            " 1, and asks for better values of gamma. Each value here is read off the certificate that the library"
            " issues.",
        ),
        tuple(findings),
    )


def appendix_b() -> Exhibit:
    """Return Appendix B: the printed quantile function at values of the cumulative mass function."""
    from math import ceil, floor

    base = Fraction(1, 2)
    wrong, n = 0, 0
    for u in range(-20, 21):
        chance = base ** (-u) / (1 + base) if u <= 0 else 1 - base ** (u + 1) / (1 + base)
        n += 1
        # log(x) / log(1/2) of a power of 1/2 is a whole number: take it from the exponent, no rounding.
        if chance <= 1 / (1 + base):
            printed = ceil(-_power(chance * (1 + base), base))
        else:
            printed = floor(_power((1 - chance) * (1 + base), base))
        wrong += printed != u
    finding = Finding(
        "Appendix B",
        f"values of the cdf where the printed quantile is off, of {n}",
        wrong,
        0,
        "for u > 0 the floor is one too large exactly there, which has chance zero; simulations are not affected",
    )
    return Exhibit(
        "appendix-b",
        "Appendix B: drawing Double Geometric noise",
        (
            "GM invert the cumulative mass function. The library draws the noise exactly from random bits instead,"
            " with no logarithm of a float in between.",
        ),
        (finding,),
    )


def _power(value: Fraction, base: Fraction) -> int:
    """Return k with value = base^k."""
    k = 0
    while value < 1:
        value, k = value / base, k + 1
    while value > 1:
        value, k = value * base, k - 1
    return k


# GM's two-bin histogram: Table 2, and the densities of Appendix A.

EPSILON = Fraction(1, 2)
COUNTS = (30, 70)
BETAS = (Fraction(1, 2), Fraction(5, 8), Fraction(3, 4), Fraction(7, 8), Fraction(1))


def simulated(n_draws: int, rng: RandomStream) -> Columns:
    """Return mean and variance of the first cell by closed form and by simulation, a line a release.

    The conditional release is drawn as a vector of noise that sums to zero; the projections are drawn as GM define
    them, from two independent Laplace variables.
    """
    noise = Laplace(EPSILON / 2)
    releases: list[TwoBinRelease] = [congenial(EPSILON), l2(EPSILON), *(l1(EPSILON, beta) for beta in BETAS)]
    first, second = noise.sample(n_draws, rng), noise.sample(n_draws, rng)
    mean, variance = [], []
    for release in releases:
        if release.beta is None:
            u = laplace_sum_zero(noise, 2, n_draws, rng)[:, 0]
        elif release.name == "L2":
            u = first - (first + second) / 2  # half of what the total is too large goes from each cell
        else:
            u = float(release.beta) * first + float(1 - release.beta) * second
        mean.append(COUNTS[0] + float(u.mean()))
        variance.append(float(u.var()))
    return {
        "release": [_name(release) for release in releases],
        "mean": [float(COUNTS[0] + release.mean_shift) for release in releases],
        "simulated_mean": mean,
        "variance": [float(release.variance) for release in releases],
        "simulated_variance": variance,
        "attained_epsilon": [float(release.attained_epsilon) for release in releases],
    }


def _name(release: TwoBinRelease) -> str:
    if release.name == "L1":
        return f"L1, beta {release.beta}"
    return {"congenial": "conditional", "L2": "L2 projection"}[release.name]


def table_2(rng: RandomStream, *, n_draws: int = 4_000_000) -> Exhibit:
    """Return Table 2: expectations and variances of the releases, closed form beside simulation."""
    columns = simulated(n_draws, rng)
    rows = list(zip(*columns.values(), strict=True))
    findings = [
        Finding("Table 2", f"{name}: E(m1), with counts {COUNTS}", simulated_mean, mean)
        if name != "L2 projection"
        else Finding(
            "Table 2",
            f"{name}: E(m1), with counts {COUNTS}",
            simulated_mean,
            sum(COUNTS) / 2,
            "the print has the mean of both cells; projecting on the total keeps E(m1, m2) = (s1, s2)",
        )
        for name, mean, simulated_mean, *_ in rows
    ]
    findings += [
        Finding(
            "Table 2",
            f"{name}: Var(m1) in units of 1/epsilon^2",
            simulated_variance * float(EPSILON) ** 2,
            variance * float(EPSILON) ** 2,
            f"simulated; {simulated_variance / variance - 1:+.2%} of the closed form",
        )
        for name, _, _, variance, simulated_variance, _ in rows
    ]
    printed = PrintedTable(
        f"Counts {COUNTS}, epsilon {EPSILON}; {n_draws:,} draws each",
        ("release", "E(m1)", "simulated", "Var(m1)", "simulated", "epsilon attained"),
        tuple((n, f"{m:g}", f"{sm:.4f}", f"{v:g}", f"{sv:.4f}", f"{e:.4g}") for n, m, sm, v, sv, e in rows),
    )
    return Exhibit(
        "table-2",
        "Table 2: two bins with a fixed total",
        (
            "Laplace noise of scale 2/epsilon on both cells; the total must come out exact. The conditional release has"
            " variance 2/epsilon^2, the L2 projection 4/epsilon^2, and GM's family of L1 solutions"
            " 8/epsilon^2 (beta^2 + (1 - beta)^2), from 4/epsilon^2 to 8/epsilon^2.",
            "At the epsilon that an L1 solution attains, the conditional release is never more variable: its variance"
            " there is 8 max(beta, 1 - beta)^2 / epsilon^2.",
        ),
        tuple(findings),
        printed_tables=(printed,),
        data={"table-2": columns},
    )


def density_columns() -> Columns:
    """Return the densities of the noise on the first cell, a column a release."""
    u = np.linspace(-12, 12, 481)
    out: dict[str, list[float]] = {"u": u.tolist(), "conditional": congenial(EPSILON).density(u).tolist()}
    out["L2 projection (beta 1/2)"] = l2(EPSILON).density(u).tolist()
    for beta in BETAS[2::2]:
        out[f"L1, beta {beta}"] = l1(EPSILON, beta).density(u).tolist()
    return out


def appendix_a_exhibit() -> Exhibit:
    """Return Appendix A: the densities, and the privacy each attains, by formula and looked for on points."""
    columns = density_columns()
    findings = []
    for release in (congenial(EPSILON), *(l1(EPSILON, beta) for beta in BETAS)):
        seen = appendix_a(release.log_density).alpha
        findings.append(
            Finding(
                "Appendix A",
                f"{_name(release)}: epsilon attained, at epsilon {EPSILON}",
                float("nan") if seen is None else seen,
                float(release.attained_epsilon),
                "the steepest fall of the log density, looked for on points",
            )
        )
    for beta in BETAS[1:-1]:
        weights = beta**2 / (2 * beta - 1) - (1 - beta) ** 2 / (2 * beta - 1)
        findings.append(Finding("Appendix A", f"beta {beta}: sum of the two weights of the mixture", float(weights), 1))
    findings.append(
        Finding(
            "Appendix A",
            "variance of SgnGamma(2, 1/epsilon), in 1/epsilon^2",
            6,
            4,
            "GM call it a sum of two Laplace(1/epsilon), which has 4/epsilon^2: that sum is the whole 50-50 mixture",
        )
    )
    u = columns["u"]
    picture = Picture(
        "appendix-a",
        densities(
            {name: (u, values) for name, values in columns.items() if name != "u"}, xlabel="noise on the first cell"
        ),
        f"Densities at epsilon {EPSILON}. The conditional release is the most peaked; in the tails all fall at the"
        " rate of the epsilon they attain.",
        "Left: densities; the conditional one is a sharp peak twice as high as the rounded L2 density, the L1 ones are"
        " lower still. Right: the same on a logarithmic scale, where tails are straight lines.",
    )
    return Exhibit(
        "appendix-a",
        "Appendix A: the densities, and what each attains",
        (
            "The noise that L1 leaves on the first cell is beta u1 + (1 - beta) u2. GM write its density as a mixture"
            " of two Laplace densities with weights of opposite sign, and find that it attains"
            " epsilon / (2 max(beta, 1 - beta)).",
            "In the print the rate tau of the last ratio lacks a factor epsilon; the conclusion stands.",
        ),
        tuple(findings),
        (picture,),
        data={"appendix-a": columns},
    )
