"""Draws under the model of independent dimensions: rates from main effects alone, and the table given the release.

The main effects are those of the smooth prior: an ordered dimension has a line, a parabola, a walk and levels of their
own, so that a profile along 23 ages is learned from few people. With Dirichlet probabilities for each dimension, 14 %
of independent P12 tables were called dependent at epsilon 1 and a level of 5 %: noisy ages were pulled to equal ones.
"""

from dataclasses import replace

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.areas import Area, Areas
from congenial.inference.priors import smooth
from congenial.inference.smooth_chains import smooth_draws
from congenial.inference.smooth_terms import INDEPENDENT
from congenial.public_law import PublicLaw
from congenial.randomness import RandomStream

_CHAINS = 8
_APART = 10  # sweeps from one draw to the next


def independent_draws(
    law: PublicLaw, area: Area, released: Ints, n_draws: int, rng: RandomStream
) -> tuple[Floats, Ints]:
    """Return rates (draw, cell) of independent dimensions given the release, and the tables they were drawn with."""
    alone = replace(law, areas=Areas.one(law.areas[area]))
    each = -(-n_draws // _CHAINS)
    drawn = smooth_draws(
        alone,
        released[None, :],
        smooth(law.schema).ordered,
        n_draws=_CHAINS * each,
        n_chains=_CHAINS,
        rng=rng,
        thin=_APART,
        scales=INDEPENDENT,
        kept_rates=each,
    )
    tables = drawn.tables[:, :, 0].swapaxes(0, 1).reshape(_CHAINS * each, -1).astype(np.int64)  # as log rates are kept
    return np.exp(drawn.eta[:n_draws, 0]), tables[:n_draws]
