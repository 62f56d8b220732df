"""Draws on a machine whose mathematics library is off: every result times one plus an error, up and down by turns.

    python libm_off.py ERROR [MUTANT]

prints the tables that come out as JSON. All kernels are run by Python, so that they call the same functions; compiled
ones call none, which `sampling/test_portable_math.py` reads in their sources. With MUTANT, `base` or `powers`, that
part of what decides a draw asks the library after all.
"""

import json
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

LIBRARY = (
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "pow",
    "sin",
    "cos",
    "tan",
    "lgamma",
    "gamma",
    "erf",
)
ARRAYS = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "power", "sin", "cos", "logaddexp", "float_power")


class Off:
    """A function of a library whose results are off."""

    n_calls = 0

    def __init__(self, function: Any, error: float) -> None:
        self._function, self._error = function, error

    def __call__(self, *values: Any, **options: Any) -> Any:
        Off.n_calls += 1
        factor = 1.0 + (self._error if Off.n_calls % 2 else -self._error)
        found = self._function(*values, **options)
        is_float = isinstance(found, float) or getattr(found, "dtype", None) == np.float64
        return found * factor if is_float else found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


def put_off(error: float) -> None:
    """Replace the functions of `math` and numpy, before anything has taken hold of them."""
    for module, names in ((math, LIBRARY), (np, ARRAYS)):
        for name in names:
            setattr(module, name, Off(getattr(module, name), error))
    ldexp = math.ldexp
    math.ldexp = lambda x, n: ldexp(x, int(n))  # Python's own takes no whole number of numpy's; compiled kernels do


def exp_by_library(x: float) -> float:
    """What must not be asked where a draw is decided."""
    return math.exp(x)


def log_by_library(x: float) -> float:
    """What must not be asked where a draw is decided."""
    return math.log(x) if x > 0 else -math.inf


def log_1_plus_by_library(x: float) -> float:
    """What must not be asked where a draw is decided."""
    return math.log1p(x)


def with_base_by_library() -> None:
    """The mutant: the base of the noise is the library's exponential."""
    from congenial import exact as balls

    balls.double_above_exp = lambda exponent: math.exp(-float(exponent))


def with_powers_by_library() -> None:
    """The mutant: portable logarithms and powers ask the library."""
    from congenial import portable_math
    from congenial.sampling import kernel_scaled_floats as kernel_numbers
    from congenial.sampling.jit import kernel

    portable_math.exp_e, portable_math.log_e, portable_math.log_1_plus = (
        exp_by_library,
        log_by_library,
        log_1_plus_by_library,
    )
    kernel_numbers.exp_e, kernel_numbers.log_e = kernel(exp_by_library), kernel(log_by_library)


def areas() -> list[Any]:
    """A release of areas of P12, from a budget and a key: by contraction."""
    from congenial.bundle.naming_and_versions import Naming
    from congenial.examples import p12_mechanism, p12_table
    from congenial.randomness import SecretBytes
    from congenial.release_key import ReleaseKey

    tables = {str(number): p12_table() for number in range(6)}
    ready = p12_mechanism().prepare(tables, Naming("r", "d", "a title"))
    words = ReleaseKey(SecretBytes(bytes(range(32)))).streams("r", "digest", list(tables), ready.confidential)
    drawn: list[Any] = ready.plan.draw_areas(ready.confidential, words, n_threads=1).tolist()
    return drawn


def both_margins() -> list[Any]:
    """Tables of which both margins are given, by rejection."""
    from congenial.noise import DiscreteGaussian
    from congenial.randomness import replay_rng
    from congenial.sampling.two_way.counts_given_margins import TwoWayCounts

    counts = np.array([[2, 0, 1], [0, 3, 0], [1, 1, 4]])
    two_way = TwoWayCounts(DiscreteGaussian("10/23"), counts, np.array([3, 3, 6]), np.array([4, 3, 5]))
    drawn: list[Any] = two_way.attempts(is_turned=False).draw(150, replay_rng("both margins")).tolist()
    return drawn


def children() -> list[Any]:
    """Children of units of a tree given their sums: by tilts and tables."""
    from congenial.noise import DiscreteGaussian, DoubleGeometric
    from congenial.randomness import KeyedWords, replay_rng
    from congenial.sampling.allocation_to_children.sampler import Allocation, Families

    rng, families = replay_rng("children"), Families(np.arange(0, 61, 3))
    counts, sums = np.tile([[3, 0], [1, 9], [0, 2]], (20, 1)), np.tile([[6, 9], [3, 12]], (10, 1))
    drawn = []
    for noise in (DiscreteGaussian("1/3"), DoubleGeometric("1/2")):
        words = KeyedWords(rng.words(4).tobytes(), rng.words(40).reshape(20, 2))
        drawn += Allocation(noise).draw(families, counts, sums, words).tolist()
    return drawn


DRAWN: tuple[Callable[[], list[Any]], ...] = (areas, both_margins, children)


def main() -> None:
    """Draw, and print."""
    put_off(float(sys.argv[1]))
    for mutant in sys.argv[2:]:
        {"base": with_base_by_library, "powers": with_powers_by_library}[mutant]()
    from congenial.sampling import jit

    jit.Kernel.compiled = property(lambda kernel: kernel.interpreted)  # type: ignore[assignment, method-assign]
    with np.errstate(over="ignore"):  # hashes go round, as in compiled kernels
        sys.stdout.write(json.dumps({draw.__name__: draw() for draw in DRAWN}))


if __name__ == "__main__":
    main()
