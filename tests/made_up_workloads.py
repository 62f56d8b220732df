"""Made-up records with the tables of a health office, and measurements of tables with the library's own noise."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.noise.families import DiscreteGaussian, DoubleGeometric
from congenial.randomness import RandomStream
from congenial.rules.workload.margins import Axes, count_records, shape_of
from congenial.rules.workload.measurements import Bools, WorkloadMeasurements

COUNTY, AGE, SEX, DIAGNOSIS = range(4)
HEALTH_SIZES = (39, 8, 2, 12)
COUNTY_AGE_SEX, COUNTY_DIAGNOSIS, DIAGNOSIS_SEX = (0, 1, 2), (0, 3), (2, 3)
HEALTH_TABLES: tuple[Axes, ...] = (COUNTY_AGE_SEX, COUNTY_DIAGNOSIS, DIAGNOSIS_SEX)
HEALTH_EXACT: tuple[Axes, ...] = ((COUNTY,), (DIAGNOSIS,))
_EFFECTS: dict[Axes, float] = {
    (0, 1): 0.15, (0, 3): 0.25, (1, 3): 0.5, (2, 3): 0.3, (1, 2): 0.1, (0, 1, 3): 0.1, (1, 2, 3): 0.15,
}  # fmt: skip


class People(NamedTuple):
    """Records (record, attribute), and how many levels each attribute has."""

    records: Ints
    sizes: tuple[int, ...]

    def table(self, axes: Axes) -> Ints:
        return count_records(self.records, self.sizes, axes)


def normals(shape: tuple[int, ...], rng: RandomStream) -> Floats:
    n = prod(shape)
    radius = np.sqrt(-2 * np.log1p(-rng.uniforms(n)))
    out: Floats = (radius * np.cos(2 * np.pi * rng.uniforms(n))).reshape(shape)
    return out


def health_people(rng: RandomStream, n: int = 100_000) -> People:
    """39 counties of very different size, 8 ages, 2 sexes and 12 diagnoses, of which each sex has one that it cannot.

    Log-linear, with effects of every two attributes but county and sex, and weak ones of three.
    """
    log = np.zeros(HEALTH_SIZES)
    log += 1.4 * normals((39, 1, 1, 1), rng)
    log += np.array([-0.6, -0.3, 0, 0.2, 0.4, 0.5, 0.4, 0])[:, None, None]
    log += -0.35 * np.arange(12) + 0.3 * normals((12,), rng)
    for axes, spread in _EFFECTS.items():
        log += spread * normals(tuple(size if axis in axes else 1 for axis, size in enumerate(HEALTH_SIZES)), rng)
    share = np.where(health_zeros()[1][:, :], 0.0, np.exp(log)).reshape(-1)
    ends = np.cumsum(share)
    cells = np.searchsorted(ends, rng.uniforms(n) * ends[-1], side="right")
    return People(np.stack(np.unravel_index(cells, HEALTH_SIZES), axis=1).astype(np.int64), HEALTH_SIZES)


def health_zeros() -> tuple[Axes, Bools]:
    """Diagnosis 10 is of sex 0 alone, diagnosis 11 of sex 1."""
    mask = np.zeros((2, 12), np.bool_)
    mask[1, 10] = mask[0, 11] = True
    return (SEX, DIAGNOSIS), mask


def measure(
    people: People,
    precisions: Mapping[Axes, float],
    rng: RandomStream,
    exact: Sequence[Axes] = ((),),
    zeros: tuple[tuple[Axes, Bools], ...] = (),
    family: type[DiscreteGaussian] | type[DoubleGeometric] = DiscreteGaussian,
    seed: bytes = bytes(32),
) -> WorkloadMeasurements:
    """Return tables with independent noise in every cell: a precision is 1 / sigma^2, or a table's share of epsilon.

    What is exact is known in the components of exact margins, and there the noise does not count: of Gaussian noise,
    that is the law of noise conditioned on exact margins, but for rounding to whole numbers.
    """
    values, variances = [], []
    for axes, precision in precisions.items():
        noise = family(f"{precision:.9f}")
        shape = shape_of(people.sizes, axes)
        errors: NDArray[np.int64] = np.asarray(noise.sample(prod(shape), rng)).reshape(shape)
        values.append(people.table(axes) + errors)
        variances.append(float(noise.variance))
    margins = tuple((axes, people.table(axes)) for axes in exact)
    return WorkloadMeasurements(
        people.sizes, tuple(precisions), tuple(values), tuple(variances), margins, (), zeros, seed
    )


def health_precisions(budget: float, kind: str) -> dict[Axes, float]:
    """Return the noise of a budget in three equal shares; county by diagnosis is charged for two that exchange."""
    share = budget / 3
    if kind == "rho":  # one record that moves changes two cells by one: rho is precision * 2 / 2
        return {COUNTY_AGE_SEX: share, COUNTY_DIAGNOSIS: share / 2, DIAGNOSIS_SEX: share}
    return {COUNTY_AGE_SEX: share / 2, COUNTY_DIAGNOSIS: share / 4, DIAGNOSIS_SEX: share / 2}
