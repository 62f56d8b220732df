"""Loads numba's array functions without scipy's linear algebra, which no kernel uses.

numba asks whether there is a BLAS by loading all of `scipy.linalg`: a third of the time that compiled kernels take to
begin (0.3 of 1.0 s). scipy is installed with this package, so the answer is known. Functions that do multiply matrices
still load it when they are compiled, here and in programs that use numba themselves.
"""

import sys

import numba.np.linalg

if "numba.np.arraymath" not in sys.modules:
    _ask = numba.np.linalg.ensure_blas
    numba.np.linalg.ensure_blas = lambda: None
    try:
        import numba.np.arraymath
    finally:
        numba.np.linalg.ensure_blas = _ask
    vars(numba.np.arraymath)["ensure_blas"] = _ask
