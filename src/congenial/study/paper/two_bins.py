"""GM's two-bin histogram: Table 2, and the densities of Appendix A."""

from fractions import Fraction

import numpy as np

from congenial.noise import Laplace
from congenial.pictures.lines import densities
from congenial.pictures.picture import Picture
from congenial.privacy.two_bins_formulas import TwoBinRelease, appendix_a, congenial, l1, l2
from congenial.randomness import RandomStream
from congenial.sampling.closed_form import laplace_sum_zero
from congenial.study.exhibit import Columns, Exhibit, Finding, Grid

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
            found * float(EPSILON) ** 2,
            variance * float(EPSILON) ** 2,
            f"simulated; {found / variance - 1:+.2%} of the closed form",
        )
        for name, _, _, variance, found, _ in rows
    ]
    grid = Grid(
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
        grids=(grid,),
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
