"""Numbers that programs and kernels agree on. Imported without numba."""

EQUAL, RANGE, SOFT, FREE = 0, 1, 2, 3
"""Kinds of rows, the hard ones first."""

NEVER = 2**62
"""A limit that is not there, with its sign."""

FAR = 2**40
"""Limits of deviations beyond this count as none: no window reaches so far."""

NONE = -1
"""In place of a number that is not there: a row, a half-width, the ratio of a fall that is not geometric."""
