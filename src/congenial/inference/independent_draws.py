"""Draws under the model of independent dimensions: each dimension's probabilities, and the table given the release.

Given the table, the probabilities of each dimension's levels are Dirichlet and the number of people is Gamma; given
those, cells are Poisson and the table moves by small steps that keep every published sum, decided by the normaliser.
Many short chains run side by side, from tables near the release. Small sets are gone through table by table.
"""

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.areas import Area
from congenial.errors import InferenceError
from congenial.inference.enumeration import MOST_TABLES, enumerated_posterior
from congenial.inference.moving import Moving
from congenial.inference.priors import independence
from congenial.inference.word_supply import WordSupply
from congenial.public_law import PublicLaw
from congenial.randomness import RandomStream
from congenial.sampling.choose import sampler_of
from congenial.sampling.small_sets import all_tables
from congenial.schema import Schema

_CHAINS = 50
_SETTLING = 80  # sweeps before the first draw that is kept
_APART = 15  # sweeps from one draw that is kept to the next
_STEPS_A_CELL = 5
_STARTS = 20  # draws near the release for each chain


def independent_draws(
    law: PublicLaw, area: Area, released: Ints, n_draws: int, rng: RandomStream
) -> tuple[Floats, Ints]:
    """Return rates (draw, cell) of independent dimensions given the release, and the tables they were drawn with."""
    target = law.target(area, released)
    listed = all_tables(target.constraints, MOST_TABLES)
    if listed is not None:
        every, weights = enumerated_posterior(target, independence(law.schema), listed)
        edges = np.cumsum(weights)
        picked = every[np.searchsorted(edges, rng.uniforms(n_draws) * edges[-1]).clip(0, len(edges) - 1)]
        return independent_rates(law.schema, picked, rng), picked
    moving, supply = Moving.of(law.areas[area], law.measured), WordSupply(rng)
    near = sampler_of(target.unweighted).at(released).sample(_STARTS * _CHAINS, rng)
    tables = near[(near >= 0).all(axis=1)][:_CHAINS]
    if not len(tables):
        raise InferenceError("no table near the release has counts of 0 and more in all cells: nothing can be tested")
    lines = np.repeat(released[None, :], len(tables), axis=0)
    tilts, n_steps = moving.tilts(tables), _STEPS_A_CELL * int(moving.is_open.sum())
    log_c = moving.log_normalisers(tables, rng)
    rates, kept = np.empty((0, released.size)), np.empty((0, released.size), np.int64)
    for sweep in range(_SETTLING + _APART * -(-n_draws // len(tables)) + 1):
        rates_here = independent_rates(law.schema, tables, rng)
        if sweep > _SETTLING and (sweep - _SETTLING) % _APART == 0:
            rates, kept = np.concatenate([rates, rates_here]), np.concatenate([kept, tables])
        if sweep == _SETTLING // 2:
            tilts = moving.tilts(tables)
        tried, gain = moving.move(tables, lines, np.log(rates_here), tilts, n_steps, supply)
        tried_c = moving.log_normalisers(tried, rng)
        taken = np.log(rng.uniforms(len(tables))) < gain + log_c - tried_c
        tables, log_c = np.where(taken[:, None], tried, tables), np.where(taken, tried_c, log_c)
    return rates[:n_draws], kept[:n_draws]


def independent_rates(schema: Schema, tables: Ints, rng: RandomStream) -> Floats:
    """Draw the people in all and the probabilities of each dimension's levels given tables; multiply them."""
    from scipy.special import gammaincinv

    cube = tables.reshape(len(tables), *schema.shape)
    axes = range(len(schema.shape))
    total = tables.sum(axis=1) + 1.0
    rates = gammaincinv(total, rng.uniforms(len(tables))).reshape(-1, *(1 for _ in axes))
    for axis in axes:
        sums = cube.sum(axis=tuple(other + 1 for other in axes if other != axis), keepdims=True)
        parts = gammaincinv(sums + 1.0, rng.uniforms(sums.size).reshape(sums.shape))
        rates = rates * parts / parts.sum(axis=axis + 1, keepdims=True)
    return np.asarray(np.maximum(rates.reshape(len(tables), -1), 1e-12))
