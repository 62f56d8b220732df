"""Logarithms and powers for kernels, the same double on every machine as those that Python computes."""

from congenial.sampling import steady
from congenial.sampling.kernels.compiled import compiled

log_e = compiled(steady.log_e)
exp_e = compiled(steady.exp_e)
