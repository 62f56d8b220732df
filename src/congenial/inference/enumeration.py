"""The posterior of small sets: all tables that fit are gone through, and their probabilities are exact."""

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.constraints import Constraints
from congenial.conditions.rows import row_values
from congenial.errors import InferenceError, TooLargeError
from congenial.inference.priors import Prior
from congenial.sampling.enumerate import enumerate_tables, estimate_log10_count, surely_more_than
from congenial.sampling.target import Target

_MOST_TABLES = 1_000  # S* up to here is gone through, pair by pair


def all_tables(constraints: Constraints) -> Ints | None:
    """Return all tables that fit (table, cell); None where there are too many to go through in pairs."""
    if surely_more_than(constraints, 10 * _MOST_TABLES):
        return None
    bounds = constraints.quick_bounds
    if None in bounds.lower or None in bounds.upper:
        return None
    try:
        if estimate_log10_count(constraints) > np.log10(_MOST_TABLES) + 1:
            return None
        return enumerate_tables(constraints, _MOST_TABLES)
    except TooLargeError:
        return None


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
    log_posterior = log_posterior - _log_sum(log_weights)
    if not np.isfinite(log_posterior).any():
        raise InferenceError("the prior gives no table that fits any chance; check it")
    weights = np.exp(log_posterior - log_posterior.max())
    kept = weights > 0  # 0 times an infinite ratio would be no number
    return tables[kept], weights[kept] / weights[kept].sum()


def _log_sum(log_values: Floats) -> Floats:
    top = log_values.max(axis=1, keepdims=True)
    return np.asarray(top[:, 0] + np.log(np.exp(log_values - top).sum(axis=1)))
