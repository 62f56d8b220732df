"""GM's figures 2 and 3: the acceptance rate of Algorithm 1, and its traces, beside exact draws."""

from fractions import Fraction

import numpy as np

from congenial.examples import P12_INDEX_SET, p12_mechanism, p12_schema, p12_table
from congenial.pages.matplotlib_figures import Picture, acceptance_curve, traces
from congenial.randomness import RandomStream
from congenial.study import independence
from congenial.study.paper.exhibits import Columns, Exhibit, Finding

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
