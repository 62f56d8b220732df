"""Numbers that programs and kernels agree on. Imported without numba."""

EQUAL, RANGE, SOFT, FREE = 0, 1, 2, 3
"""Kinds of rows, the hard ones first."""

NEVER = 2**62
"""A limit that is not there, with its sign."""

FAR = 2**40
"""Limits of deviations beyond this count as none: no window reaches so far."""

NONE = -1
"""In place of a number that is not there: a row, a half-width, the ratio of a fall that is not geometric."""

LANES = 16
"""Sums that are added up side by side: 8 take twice as long for windows of a hundred, 32 for those of ten."""

WORK = 8
"""Room for a convolution's intermediate numbers, in longest windows: one, two of zeros on either side, and vectors."""
