"""The loop of GM's Algorithm 1."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats
from congenial.sampling.jit import kernel


@kernel
def independence_chain(
    words: NDArray[np.uint64],  # (n_iterations, n_free + 1)
    chain: Any,  # a ChainSystem
    proposal: Any,  # a ChainProposal
    state: Floats,  # current deviations, changed in place
    log_ratio: float,  # log p - log q of the current state
    done: int,  # iterations before this call
    thin: int,
    out: Floats,  # (draw, n_cells)
) -> tuple[int, float]:
    """Run GM's Algorithm 1 on deviations from the centre; return the number of acceptances and the last log ratio."""
    is_discrete, free, solved = chain.is_discrete, chain.free, chain.solved
    low, high = chain.low, chain.high
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
                start, stop = proposal.start[k], proposal.start[k + 1]
                left, right = start, stop - 1
                while left < right:
                    middle = (left + right) // 2
                    if proposal.cdf[middle] < uniform:
                        left = middle + 1
                    else:
                        right = middle
                value = proposal.first[k] + (left - start)
                log_q += proposal.log_pmf[left]
            else:
                rate = proposal.rate[k]
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
                    value += chain.solution[j, k] * proposed[free[k]]
                value /= chain.determinant
                cell = solved[j]
                if value < low[cell] or value > high[cell] or (is_discrete and value != np.floor(value)):
                    feasible = False
                    break
                proposed[cell] = value
        if feasible:
            for r in range(chain.range_low.size):
                value = 0.0
                for cell in range(state.size):
                    value += chain.range_rows[r, cell] * proposed[cell]
                if value < chain.range_low[r] or value > chain.range_high[r]:
                    feasible = False
                    break
        # Steps 2 and 3: accept with probability min(1, p(new) q(old) / (p(old) q(new))).
        if feasible:
            log_p = 0.0
            for cell in range(state.size):
                if chain.cell_exponent[cell] == 1:
                    log_p += chain.cell_log_base[cell] * abs(proposed[cell])
                elif chain.cell_exponent[cell] == 2:
                    log_p += chain.cell_log_base[cell] * proposed[cell] * proposed[cell]
            for r in range(chain.soft_exponent.size):
                value = 0.0
                for cell in range(state.size):
                    value += chain.soft_rows[r, cell] * proposed[cell]
                log_p += chain.soft_log_base[r] * (abs(value) if chain.soft_exponent[r] == 1 else value * value)
            new_ratio = log_p - log_q
            uniform = (np.float64(words[iteration, n_free] >> np.uint64(12)) + 0.5) * 2.0**-52
            if np.log(uniform) < new_ratio - log_ratio:
                log_ratio = new_ratio
                state[:] = proposed
                accepted += 1
        if (done + iteration + 1) % thin == 0:
            out[(done + iteration + 1) // thin - 1] = state
    return accepted, log_ratio
