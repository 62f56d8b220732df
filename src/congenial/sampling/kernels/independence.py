"""The loop of GM's Algorithm 1."""

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.sampling.kernels.compiled import compiled


@compiled
def independence_chain(
    words: NDArray[np.uint64],  # (n_iterations, n_free + 1)
    is_discrete: bool,
    free: Ints,  # the proposal index set
    solved: Ints,  # the other cells
    solution: Floats,  # (n_solved, n_free) numerators of what the free cells make of the others
    determinant: float,
    low: Floats,  # limits of deviations from the centre
    high: Floats,
    range_rows: Floats,  # (n_ranges, n_cells)
    range_low: Floats,
    range_high: Floats,
    soft_rows: Floats,  # (n_soft, n_cells) queries over several cells
    soft_power: Ints,
    soft_log_base: Floats,
    cell_power: Ints,  # (n_cells) 1: |u|, 2: u^2, 0: not measured
    cell_log_base: Floats,
    table_start: Ints,  # (n_free + 1) where each free cell's proposal stands in the tables below
    table_first: Floats,  # smallest value of each proposal
    table_cdf: Floats,
    table_log_pmf: Floats,
    proposal_rate: Floats,  # precision of a continuous proposal
    state: Floats,  # current deviations, changed in place
    log_ratio: float,  # log p - log q of the current state
    done: int,  # iterations before this call
    thin: int,
    out: Floats,  # (draw, n_cells)
) -> tuple[int, float]:
    """Run GM's Algorithm 1 on deviations from the centre; return the number of acceptances and the last log ratio."""
    n_free = free.size
    proposed = np.empty(state.size)
    accepted = 0
    for iteration in range(words.shape[0]):
        log_q = 0.0
        feasible = True
        # Step 1-1: the free cells from q. A cell out of its limits makes the acceptance 0, so the rest can be skipped.
        for k in range(n_free):
            uniform = (np.float64(words[iteration, k] >> np.uint64(12)) + 0.5) * 2.0**-52
            if is_discrete:
                start, stop = table_start[k], table_start[k + 1]
                left, right = start, stop - 1
                while left < right:
                    middle = (left + right) // 2
                    if table_cdf[middle] < uniform:
                        left = middle + 1
                    else:
                        right = middle
                value = table_first[k] + (left - start)
                log_q += table_log_pmf[left]
            else:
                rate = proposal_rate[k]
                if uniform < 0.5:
                    value = np.log(2 * uniform) / rate
                else:
                    value = -np.log(2 * (1 - uniform)) / rate
                log_q += np.log(rate / 2) - rate * abs(value)
            cell = free[k]
            if value < low[cell] or value > high[cell]:
                feasible = False
                break
            proposed[cell] = value
        # Steps 1-2 and 1-3: the other cells from the equalities.
        if feasible:
            for j in range(solved.size):
                value = 0.0
                for k in range(n_free):
                    value += solution[j, k] * proposed[free[k]]
                value /= determinant
                cell = solved[j]
                if value < low[cell] or value > high[cell] or (is_discrete and value != np.floor(value)):
                    feasible = False
                    break
                proposed[cell] = value
        if feasible:
            for r in range(range_low.size):
                value = 0.0
                for cell in range(state.size):
                    value += range_rows[r, cell] * proposed[cell]
                if value < range_low[r] or value > range_high[r]:
                    feasible = False
                    break
        # Steps 2 and 3: accept with probability min(1, p(new) q(old) / (p(old) q(new))).
        if feasible:
            log_p = 0.0
            for cell in range(state.size):
                if cell_power[cell] == 1:
                    log_p += cell_log_base[cell] * abs(proposed[cell])
                elif cell_power[cell] == 2:
                    log_p += cell_log_base[cell] * proposed[cell] * proposed[cell]
            for r in range(soft_power.size):
                value = 0.0
                for cell in range(state.size):
                    value += soft_rows[r, cell] * proposed[cell]
                log_p += soft_log_base[r] * (abs(value) if soft_power[r] == 1 else value * value)
            new_ratio = log_p - log_q
            uniform = (np.float64(words[iteration, n_free] >> np.uint64(12)) + 0.5) * 2.0**-52
            if np.log(uniform) < new_ratio - log_ratio:
                log_ratio = new_ratio
                state[:] = proposed
                accepted += 1
        if (done + iteration + 1) % thin == 0:
            out[(done + iteration + 1) // thin - 1] = state
    return accepted, log_ratio
