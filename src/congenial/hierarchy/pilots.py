"""Whether children with exact sums can be drawn, from public facts: attempts at made-up families with those sums.

Nothing here has seen a confidential table or a released one, so a pilot may give up, and say so. Seeds are public.
"""

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.errors import SamplingError
from congenial.noise.family import DiscreteNoise
from congenial.randomness import RandomStream, replay_rng
from congenial.sampling.look_ahead.pilots import LEAST_ACCEPTANCE
from congenial.sampling.look_ahead.two_way import TwoWay
from congenial.sampling.share_out.families import Families

SHAPES = ("even", "skewed", "apart")
ALONE = "alone"
"""Each child in a single cell: attempts at such families may hardly ever be accepted. What came of them is said."""

_MOST_FAMILIES = 10
_MOST_ATTEMPTS = 1_000
_MOST_CELLS = 40_000  # children times cells of a family: half a minute for its bounds


def check_pilots(noise: DiscreteNoise, spread: float, families: Families, n_cells: int, sums: Ints, level: str) -> str:
    """Refuse a step where attempts at made-up families are hardly ever accepted; say how often they are.

    Parameters
    ----------
    spread : float
        By how much noise moves a family's sums away from its children's, as a standard deviation.
    sums : array (child,)
        What is exact in every child.
    """
    largest = int(families.sizes.max(initial=0)) * n_cells
    if largest > _MOST_CELLS:
        raise SamplingError(
            f"a unit has {largest // n_cells:,} {level} units with exact numbers of {n_cells:,} cells, and families up"
            f" to {_MOST_CELLS:,} children times cells are drawn; put a level of groups between them"
        )
    rates, alone = [1.0], 1.0
    for family in _typical(families, sums).tolist():
        own = sums[families.starts[family] : families.starts[family + 1]]
        if alone >= LEAST_ACCEPTANCE:
            alone = min(alone, acceptance(noise, spread, own, n_cells, ALONE))
        for shape in SHAPES:
            rate = acceptance(noise, spread, own, n_cells, shape)
            rates.append(rate)
            if rate < LEAST_ACCEPTANCE:
                raise SamplingError(
                    f"children with exact numbers are out of reach at {level}: of {2 * _MOST_ATTEMPTS:,} attempts at a"
                    f" made-up {shape} family of {own.size:,} with the public sums {rate:.2%} went through, and"
                    f" {LEAST_ACCEPTANCE:.1%} are asked for; give {level} or the level above it a larger share, put a"
                    " level of groups between them, or leave out the exact numbers"
                )
    worst = f"{alone:.2g}" if alone >= LEAST_ACCEPTANCE else f"below {LEAST_ACCEPTANCE}: such a draw may take very long"
    return (
        f"{level}: share of attempts accepted at made-up families {min(rates):.2g} to {max(rates):.2g}; where everybody"
        f" of a unit is in one cell {worst}"
    )


def _typical(families: Families, sums: Ints) -> Ints:
    """Return families of several children: the largest, the most populous and the most uneven, and some in between."""
    many = np.flatnonzero(families.sizes > 1)
    if not many.size:
        return many
    starts = families.starts[:-1][many]
    totals, tops = np.add.reduceat(sums, starts), np.maximum.reduceat(sums, starts)
    if many.size < len(families):  # reduceat goes on to the next family that is listed
        ends = families.starts[1:][many]
        totals = np.array([sums[a:b].sum() for a, b in zip(starts, ends, strict=True)])
        tops = np.array([sums[a:b].max() for a, b in zip(starts, ends, strict=True)])
    # Hard are those of many children with few people each, and uneven ones.
    keys = (families.sizes[many], totals, tops / (1 + totals), families.sizes[many] / (1 + totals))
    places = {int(np.argsort(key, kind="stable")[rank]) for key in keys for rank in (-1, many.size // 2)}
    inside = [int(np.argsort(totals, kind="stable")[many.size * part // 4]) for part in (1, 3)]
    found: Ints = many[sorted({*places, *inside})][:_MOST_FAMILIES]
    return found


def acceptance(noise: DiscreteNoise, spread: float, sums: Ints, n_cells: int, shape: str) -> float:
    """Return the share of attempts accepted at a made-up family with these sums, in the better orientation."""
    rng = replay_rng(f"pilot of a family, {shape}")
    counts = made_up_family(sums, n_cells, shape, rng)
    columns = moved(counts.sum(axis=0), max(1.0, spread), rng)
    table = TwoWay(noise, counts, sums, columns)
    if table.is_determined:
        return 1.0
    rates = []
    for is_turned in table.turns:
        attempts = table.attempts(is_turned=is_turned)
        n_accepted = attempts.trial(_MOST_ATTEMPTS, rng, enough=4)
        rates.append(n_accepted / attempts.n_attempts)
        if rates[-1] >= LEAST_ACCEPTANCE:
            break
    return max(rates)


def made_up_family(sums: Ints, n_cells: int, shape: str, rng: RandomStream) -> Ints:
    """Return children (child, cell) with given sums.

    Spread evenly; by a skewed profile; by one that is another for each child; or each child in a single cell.
    """
    if shape == ALONE:
        alone = np.zeros((sums.size, n_cells), np.int64)
        alone[np.arange(sums.size), np.arange(sums.size) % n_cells] = sums
        return alone
    profile: Floats = np.ones((sums.size, n_cells))
    if shape != "even":
        profile = 0.6 ** np.arange(n_cells, dtype=np.float64) * profile
    if shape == "apart":
        order = rng.words(sums.size * n_cells).reshape(sums.size, n_cells).argsort(axis=1)
        profile = np.take_along_axis(profile, order, axis=1)
    ends = np.cumsum(profile, axis=1) / profile.sum(axis=1, keepdims=True)
    running = np.floor(ends * sums[:, None] + 0.5).astype(np.int64)
    running[:, -1] = sums
    found: Ints = np.diff(running, axis=1, prepend=0)
    return found


def moved(columns: Ints, deviation: float, rng: RandomStream) -> Ints:
    """Return column sums moved by about a standard deviation each, none below 0, with the same total."""
    signs = np.where(rng.words(columns.size) % np.uint64(2) == 0, 1, -1)
    out: Ints = np.maximum(0, columns + signs * round(deviation))
    while (gap := int(columns.sum() - out.sum())) != 0:
        place = int(out.argmax())
        out[place] += max(gap, -int(out[place]))
    return out
