"""Moved to congenial.sampling.lattice_noise.half_widths: edit it there, and import from there; this file goes away."""

from congenial.sampling.lattice_noise.half_widths import *  # noqa: F403
from congenial.sampling.lattice_noise.half_widths import HalfWidth, NoiseSum, half_width_of, joint_coverage, simulated, sub_gaussian  # noqa: F401, E501
