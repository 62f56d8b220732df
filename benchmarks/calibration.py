"""Simulation-based calibration of the smooth prior's posterior: the truth is one more draw.

    python benchmarks/calibration.py [--tables 400] [--areas 60]

Scales, log rates and tables are drawn from the prior itself, the tables are released, and the posterior is drawn from
the release. If everything is right, the rank of the truth among the draws is uniform for every cell, sum and scale. One
line a number: the chi-square test of its ranks, and how often a 90 % interval covers. A mutant that takes the release
for the truth is told apart. --areas: as many sets of six areas, which share a profile.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import chi2

import congenial as cg
from congenial.inference.smooth.chains import smooth_draws
from congenial.inference.smooth.effects import ALONE, CELLS, DEVIATIONS, PROFILE, Scales, Widths, effects, terms_of
from congenial.randomness import RandomStream, replay_rng

Numbers = dict[str, NDArray[np.float64]]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

N_RANKED = 39  # draws that the truth is ranked among, far apart in their chains
N_BINS = 10
ONE = cg.Schema({"sex": ["f", "m"], "age": ["0-9", "10-19", "20-29", "30-49", "50+"]})
MANY = cg.Schema({"sex": ["f", "m"], "age": ["0-19", "20-39", "40+"]})
WIDTHS = {ONE: {"age": (10.0, 10.0, 10.0, 20.0, 20.0)}, MANY: {"age": (20.0, 20.0, 20.0)}}
LAWS: dict[str, dict[str, str]] = {
    "epsilon 1": {"epsilon": "1"},
    "rho 1/2": {"rho": "1/2", "noise": "discrete_gaussian"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=400)
    parser.add_argument("--areas", type=int, default=60)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    invariants = [cg.total(), cg.total({"sex": "f"}), cg.total({"age": ["0-9", "10-19"]})]
    is_kept = True
    for budget, options_of_law in LAWS.items():
        mechanism = cg.Mechanism(ONE, measure=[cg.cells()], invariants=invariants, **options_of_law)  # type: ignore[arg-type]
        is_kept &= say(f"one table, {budget}", mechanism, 1, 100, options.tables, 2_400)
        many = cg.Mechanism(MANY, measure=[cg.cells()], invariants=[cg.total()], **options_of_law)  # type: ignore[arg-type]
        is_kept &= say(f"six areas, {budget}", many, 6, 60, options.areas, 4_000)
    if not is_kept:
        sys.exit("ranks of the truth are not uniform")


def say(name: str, mechanism: cg.Mechanism, n_areas: int, people: int, n_times: int, n_draws: int) -> bool:
    """Print a line a number; return whether all ranks can be uniform, and the mutant's cannot."""
    if not n_times:
        return True
    start, rng = time.process_time(), replay_rng(name)
    ranks: dict[str, list[float]] = {}
    of_mutant: dict[str, list[float]] = {}
    for _ in range(n_times):
        for key, (rank_of_truth, mutant) in ranks_of(mechanism, n_areas, people, n_draws, rng).items():
            ranks.setdefault(key, []).append(rank_of_truth)
            of_mutant.setdefault(key, []).append(mutant)
    each = (time.process_time() - start) / n_times
    print(
        f"{name}: {n_times} times, {each:.1f} CPU s each; p-value of uniform ranks, coverage of 90 %, mutant's p-value"
    )
    tails, tails_of_mutant = [], []
    for key, values in ranks.items():
        covered = float(np.mean([0.05 <= rank < 0.95 for rank in values]))
        tails.append(uniform_tail(values))
        tails_of_mutant.append(uniform_tail(of_mutant[key]))
        print(f"  {key:24}{tails[-1]:8.3g}{covered:8.1%} +- {np.sqrt(0.09 / n_times):.1%}{tails_of_mutant[-1]:12.3g}")
    least = min(tails) * len(tails)
    print(
        f"  smallest p-value times {len(tails)}: {min(1.0, least):.3g}; of the mutant {min(tails_of_mutant):.3g}",
        flush=True,
    )
    return least > 1e-3


def uniform_tail(ranks: list[float]) -> float:
    """Return the chi-square test of uniform ranks between 0 and 1."""
    seen = np.bincount((np.array(ranks) * N_BINS).astype(int), minlength=N_BINS)
    return float(chi2.sf(((seen - len(ranks) / N_BINS) ** 2 / (len(ranks) / N_BINS)).sum(), N_BINS - 1))


def ranks_of(
    mechanism: cg.Mechanism, n_areas: int, people: int, n_draws: int, rng: RandomStream
) -> dict[str, tuple[float, float]]:
    """Draw once from the prior, release, and infer; return the ranks of truth and mutant for each number."""
    schema = mechanism.schema
    ordered = WIDTHS[schema]
    rates, scales = drawn_field(schema, ordered, n_areas, rng)
    truth = np.stack([people_in(line, people, rng) for line in rates])
    tables = {f"area {place}": cg.Table(schema, line.reshape(schema.shape)) for place, line in enumerate(truth)}
    alone = next(iter(tables.values()))
    constraints = mechanism.disclose(alone) if n_areas == 1 else mechanism.disclose(tables, area="area")
    law = mechanism.plan(constraints).law
    areas = [None] if n_areas == 1 else list(tables)
    released = np.stack([cg.Law(law, line, area).sample(1, rng)[0] for line, area in zip(truth, areas, strict=True)])
    posterior = smooth_draws(law, released, ordered, n_draws=n_draws, n_chains=4, rng=rng)
    places = np.linspace(0, n_draws - 1, N_RANKED).astype(int)
    drawn = posterior.tables.reshape(n_draws, n_areas, -1)[places].astype(np.int64)
    of_scales = posterior.scales.reshape(n_draws, -1)[places]
    true_numbers, among = numbers(schema, truth[None], scales[None]), numbers(schema, drawn, of_scales)
    wrong = numbers(schema, np.repeat(released[None], N_RANKED, axis=0), of_scales)
    return {
        key: (rank(true_numbers[key][0], among[key], rng), rank(true_numbers[key][0], wrong[key], rng))
        for key in true_numbers
    }


def rank(truth: float, among: Floats, rng: RandomStream) -> float:
    """Return where the truth stands among draws, between 0 and 1; ties are broken at random."""
    below, equal = int((among < truth).sum()), int((among == truth).sum())
    return (below + int(rng.uniforms(1)[0] * (equal + 1)) + 0.5) / (len(among) + 1)


def numbers(schema: cg.Schema, tables: Ints, scales: Floats) -> Numbers:
    """Return what is ranked, for each draw: cells, sums, a measure of dispersion, and estimated scales."""
    first, n_ages = tables[:, 0], schema.shape[1]
    cube = first.reshape(-1, *schema.shape)
    out: Numbers = {f"cell {schema.cell_name(cell)}": first[:, cell] for cell in (0, n_ages - 1, n_ages)}
    out["last two ages"] = cube[:, :, -2:].sum(axis=(1, 2))
    out["women less men, oldest"] = cube[:, 0, -1] - cube[:, 1, -1]
    out["sum of squares"] = (tables**2).sum(axis=(1, 2))
    if tables.shape[1] > 1:
        out["oldest of all areas"] = tables.reshape(len(tables), -1, *schema.shape)[:, :, :, -1].sum(axis=(1, 2))
    terms = effects(schema, WIDTHS[schema])
    places = [place for place, term in enumerate(terms) if term.is_estimated or tables.shape[1] > 1]
    known, places = [*(terms[place].name for place in places), CELLS], [*places, len(terms)]
    return out | {f"scale of {name}": scales[:, place] for name, place in zip(known, places, strict=True)}


def drawn_field(schema: cg.Schema, ordered: Widths, n_areas: int, rng: RandomStream) -> tuple[Floats, Floats]:
    """Draw log rates (area, cell) from the prior, and the scales of the tables' own effects."""
    offset = terms_of(schema, ordered).offset
    if n_areas == 1:
        effect, scales = drawn_effects(schema, ordered, ALONE, rng)
        return (offset + effect())[None], scales
    profile, _ = drawn_effects(schema, ordered, PROFILE, rng, are_all_estimated=True)
    effect, scales = drawn_effects(schema, ordered, DEVIATIONS, rng, are_all_estimated=True)
    shared, spread = offset + profile(), 0.3 * abs(normals(1, rng)[0])  # areas are alike in size
    return np.stack([shared + np.exp(spread * normal) * effect() for normal in normals(n_areas, rng)]), scales


def drawn_effects(
    schema: cg.Schema, ordered: Widths, units: Scales, rng: RandomStream, *, are_all_estimated: bool = False
) -> tuple[Callable[[], Floats], Floats]:
    """Draw the scales of all effects; return what draws their sum, and the scales: formulas, not kernels."""
    terms = effects(schema, ordered, units)
    hyper = normals(len(terms) + 1, rng)
    grown = np.abs(hyper) * np.exp(units.tail * hyper**2)
    known = [(term.scale, term.is_estimated or are_all_estimated) for term in terms] + [(units.cell, True)]
    scales = np.array(
        [unit * (factor if is_free else 1.0) for (unit, is_free), factor in zip(known, grown, strict=True)]
    )
    levels = np.unravel_index(np.arange(schema.n_cells), schema.shape)

    def effect() -> Floats:
        out = scales[-1] * normals(schema.n_cells, rng)
        for scale, term in zip(scales, terms, strict=False):
            sides = [matrix[levels[axis]] for axis, matrix in term.along]
            sides += [np.ones((schema.n_cells, 1))] * (2 - len(sides))
            cube = normals(sides[0].shape[1] * sides[1].shape[1], rng).reshape(sides[0].shape[1], -1)
            out += scale * np.einsum("ij,jk,ik->i", sides[0], cube, sides[1])
        return out

    return effect, scales


def people_in(log_rates: Floats, people: int, rng: RandomStream) -> Ints:
    edges = np.cumsum(np.exp(log_rates - log_rates.max()))
    cells = np.searchsorted(edges, rng.uniforms(people) * edges[-1]).clip(0, len(edges) - 1)
    return np.bincount(cells, minlength=len(edges)).astype(np.int64)


def normals(n: int, rng: RandomStream) -> Floats:
    return np.asarray(ndtri(rng.uniforms(n)))


if __name__ == "__main__":
    main()
