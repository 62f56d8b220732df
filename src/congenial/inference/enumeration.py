"""The posterior of small sets: all tables that fit are gone through, and their probabilities are exact."""

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.balls import log_of
from congenial.conditions.rows import row_values
from congenial.errors import InferenceError
from congenial.inference.priors import Prior
from congenial.sampling.target import Target

MOST_TABLES = 1_000
"""Sets of tables up to here are gone through, pair by pair."""


def enumerated_posterior(target: Target, prior: Prior, tables: Ints) -> tuple[Ints, Floats]:
    """Return the tables that have a chance given the release, and their probabilities.

    Parameters
    ----------
    target : Target
        The law of the noise, centred at the release.
    tables : array (table, cell)
        All tables that fit.
    """
    rows = [measured.row for measured in target.measured]
    values, own = row_values(rows, tables), row_values(rows, target.centre[None, :])[0]
    log_weights = np.zeros((len(tables), len(tables)))
    log_posterior = prior(tables)
    for place, measured in enumerate(target.measured):
        column = values[:, place]
        log_weights += measured.noise.log_weight(column[:, None] - column[None, :])
        log_posterior = log_posterior + measured.noise.log_weight(column - own[place])
    for floor, n_floors in target.floors(tables).items():
        log_weights += n_floors * log_of(floor)
    log_posterior = log_posterior - _log_sum(log_weights)
    if not np.isfinite(log_posterior).any():
        raise InferenceError("the prior gives no table that fits any chance; check it")
    weights = np.exp(log_posterior - log_posterior.max())
    kept = weights > 0  # 0 times an infinite ratio would be no number
    return tables[kept], weights[kept] / weights[kept].sum()


def _log_sum(log_values: Floats) -> Floats:
    top = log_values.max(axis=1, keepdims=True)
    return np.asarray(top[:, 0] + np.log(np.exp(log_values - top).sum(axis=1)))
