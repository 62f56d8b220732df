"""Logarithms and powers for kernels, the same double on every machine as those that Python computes."""

from congenial.sampling import steady
from congenial.sampling.jit import kernel

log_e = kernel(steady.log_e)
exp_e = kernel(steady.exp_e)
