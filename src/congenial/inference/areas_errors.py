"""Errors of a count in each of many areas: some tables of the posterior are released several times."""

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.inference.moving import Moving
from congenial.public_law import PublicLaw
from congenial.randomness import RandomStream

_TABLES, _RELEASES = 12, 30


def areas_errors(law: PublicLaw, chains: NDArray[np.int32], weights: Ints, rng: RandomStream) -> Floats:
    """Return errors (area, error), independent from area to area.

    Parameters
    ----------
    chains : array (chain, draw, area, cell)
    weights : array (area, cell)
        Of the count; areas without any have no error.
    """
    flat = chains.reshape(-1, *chains.shape[2:])
    picked = flat[np.linspace(0, len(flat) - 1, min(_TABLES, len(flat))).astype(int)]
    n_tables, n_areas, n_cells = picked.shape
    n_releases = -(-_TABLES * _RELEASES // n_tables)  # of each table: as many errors of few tables as of many
    out = np.zeros((n_areas, n_tables * n_releases))
    for group in law.areas.groups:
        own = group.places[weights[group.places].any(axis=1)]
        if not own.size:
            continue
        lines = np.repeat(own, n_tables)
        errors = np.empty((len(lines), n_releases))
        tables = picked[:, own].swapaxes(0, 1).reshape(-1, n_cells).astype(np.int64)
        for places, drawn in Moving.of(group.pattern, law.measured).errors(tables, n_releases, rng):
            errors[places] = np.einsum("ijk,ik->ij", drawn, weights[lines[places]])
        out[own] = errors.reshape(len(own), -1)
    # Tables come draw after draw, so the places of errors mean nothing: mix them before areas are added up.
    order = np.argsort(rng.uniforms(out.size).reshape(out.shape), axis=1)
    return np.asarray(np.take_along_axis(out, order, axis=1))
