"""What a sampler of noise on a lattice is, and which one draws a system: the first that fits, by public structure.

Where none fits, equalities are dropped: a larger lattice, which is safe, and noise that is larger. Which ones, and what
it costs, is public as well.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.rows_and_intervals import Row, dense
from congenial.errors import CongenialError, SamplingError
from congenial.noise.weight import NoiseWeight
from congenial.progress_and_interrupts import checkpoint
from congenial.randomness import KeyedWords
from congenial.sampling.lattice_noise.free_coordinates import FreeCoordinates
from congenial.sampling.lattice_noise.klein import KleinSampler
from congenial.sampling.lattice_noise.rejection import LEAST_ACCEPTANCE
from congenial.sampling.lattice_noise.sum_tables import SumTableSampler
from congenial.sampling.lattice_noise.system import LatticeSystem


class LatticeSampler(Protocol):
    """Draws the noise of any number of units of one system. Public: it has seen no table, and draws without one."""

    @property
    def name(self) -> str:
        """One word for it."""

    @property
    def title(self) -> str:
        """What a manifest says of it."""

    @property
    def is_exact(self) -> bool:
        """Whether its draws have the law exactly, and fit into memory."""

    def check(self) -> None:
        """Raise with the reason and the way out where it does not fit."""

    @property
    def acceptance(self) -> float:
        """The share of attempts that are accepted; 1 where nothing is rejected."""

    @property
    def slow_rate(self) -> float:
        """A bound of the share of units that are decided in ball arithmetic."""

    @property
    def seconds(self) -> float:
        """About how long a unit takes on one core."""

    @property
    def n_words(self) -> int:
        """Random words of a unit, or of an attempt."""

    def describe(self) -> str:
        """Return its size, for people."""

    def draw(self, words: KeyedWords, *, always_refined: bool = False) -> Ints:
        """Return one draw for each unit of the words (unit, coordinate).

        With `always_refined` every decision is made in ball arithmetic: the same draws.
        """


LATTICE_SAMPLERS: dict[str, Callable[[LatticeSystem], LatticeSampler | None]] = {
    SumTableSampler.name: SumTableSampler.of,
    KleinSampler.name: KleinSampler.of,
    FreeCoordinates.name: FreeCoordinates.of,
}
"""What makes each sampler, in the order in which they are tried; None where one does not apply."""


@dataclass(frozen=True)
class LatticeChoice:
    """What draws the noise of a system.

    Attributes
    ----------
    sampler : LatticeSampler
    system : LatticeSystem
        The one that is drawn: with fewer equalities where no sampler fits all.
    dropped : tuple of str
        The names of equalities that the noise does not keep.
    untied : tuple of str
        The names of soft rows that have noise of their own, independent of that of their parts.
    lifted : tuple of Row
        Soft rows that have become coordinates, after all others, where no sampler fits rows that cross; mostly none.
    """

    sampler: LatticeSampler
    system: LatticeSystem
    dropped: tuple[str, ...] = ()
    lifted: tuple[Row, ...] = ()
    untied: tuple[str, ...] = ()

    def answers(self, answers: Ints) -> Ints:
        """Return measured rows (measured row, coordinate of the system asked for) over the coordinates drawn.

        A soft row that has become a coordinate is read off there: its noise is its own.
        """
        if not self.lifted:
            return answers
        n = answers.shape[1]
        out = np.hstack([answers, np.zeros((len(answers), len(self.lifted)), np.int64)])
        for number, line in enumerate(dense(self.lifted, n)):
            same = (answers == line).all(axis=1)
            out[same] = 0
            out[same, n + number] = 1
        return out


def choose_lattice_sampler(system: LatticeSystem) -> LatticeChoice:
    """Return the first sampler that fits, with as few equalities dropped as a plain search finds.

    Examples
    --------
    >>> from congenial.noise import DoubleGeometric
    >>> cells = (DoubleGeometric(1).weight,) * 4
    >>> choice = choose_lattice_sampler(LatticeSystem(cells, (Row.of("total", range(4)),)))
    >>> choice.sampler.name, choice.dropped
    ('sum tables', ())
    """
    sampler = _fitting(system)
    if sampler is not None:
        return LatticeChoice(sampler, system)
    lifted: tuple[Row, ...] = ()
    wanted = system
    if system.soft and _fitting(_with(system, ())) is None:
        wanted, lifted = lift_soft_rows(system), tuple(soft.row for soft in system.soft)
    places = _largest_kept(wanted)
    kept = _with(wanted, places)
    sampler = _fitting(kept)
    if sampler is None:
        raise SamplingError(
            f"no sampler fits noise of {system.n_coordinates:,} coordinates, even without exact numbers; take a higher"
            " precision"
        )
    n_exact = len(system.equalities)  # ties of lifted rows stand after them
    lost = [number for number in range(len(wanted.equalities)) if number not in places]
    dropped = tuple(wanted.equalities[number].name for number in lost if number < n_exact)
    untied = tuple(wanted.equalities[number].name for number in lost if number >= n_exact)
    return LatticeChoice(sampler, kept, dropped, lifted, untied)


def lift_soft_rows(system: LatticeSystem) -> LatticeSystem:
    """Return the same law with a coordinate for each soft row, after the others, and an equality that makes it the row.

    Without these equalities measured sums have noise of their own, independent of that of their parts.
    """
    n = system.n_coordinates
    weights = system.weights + tuple(soft.weight for soft in system.soft)
    ties = tuple(
        Row.weighted({**soft.row.terms, n + number: -1}, name=soft.row.name) for number, soft in enumerate(system.soft)
    )
    return LatticeSystem(weights, system.equalities + ties)


def _with(system: LatticeSystem, places: Sequence[int]) -> LatticeSystem:
    """Return the system with these of its equalities: by place, as two may have one name."""
    return LatticeSystem(system.weights, tuple(system.equalities[place] for place in places), system.soft)


def _fitting(system: LatticeSystem) -> LatticeSampler | None:
    for make in LATTICE_SAMPLERS.values():
        sampler = make(system)
        if sampler is not None and _fits(sampler):
            return sampler
    return None


def _fits(sampler: LatticeSampler) -> bool:
    checkpoint()
    try:
        sampler.check()
        return sampler.is_exact and sampler.acceptance >= LEAST_ACCEPTANCE
    except CongenialError:
        return False


def _largest_kept(system: LatticeSystem) -> tuple[int, ...]:
    """Return places of equalities that tables of sums take together, as many as some orders of adding them lead to.

    Each independent equality removes one dimension of noise, whichever it is: the more are kept, the smaller the
    variances. Short rows first finds families of disjoint sums.
    """
    rows = system.equalities
    sizes = {
        "short rows first": sorted(range(len(rows)), key=lambda place: (len(rows[place].cells), place)),
        "as listed": list(range(len(rows))),
        "long rows first": sorted(range(len(rows)), key=lambda place: (-len(rows[place].cells), place)),
    }
    return max((_added(system, order) for order in sizes.values()), key=len)


def _added(system: LatticeSystem, order: Sequence[int]) -> tuple[int, ...]:
    """Add equalities in an order, block by block: one that does not fit is tried by its halves."""
    kept: list[int] = []

    def add(block: Sequence[int]) -> None:
        wanted = sorted([*kept, *block])
        if _fits(SumTableSampler.of(_with(system, wanted))):
            kept[:] = wanted
        elif len(block) > 1:
            add(block[: len(block) // 2])
            add(block[len(block) // 2 :])

    if order:
        add(order)
    return tuple(kept)


# What dropping costs.


def price_of_dropping(system: LatticeSystem, choice: LatticeChoice) -> float:
    """Return by how much the mean variance of a coordinate is larger than with all equalities: 1 where none is dropped.

    By least squares: exact for noise without rounding, and close for any that is not tiny.

    Examples
    --------
    >>> from congenial.noise import DiscreteGaussian
    >>> full = LatticeSystem((DiscreteGaussian("1/4").weight,) * 4, (Row.of("total", range(4)),))
    >>> free = full.without(["total"])
    >>> round(price_of_dropping(full, LatticeChoice(SumTableSampler.of(free), free, ("total",))), 3)
    1.333
    """
    before = least_squares_variances(system)
    after = least_squares_variances(choice.system)[: system.n_coordinates]
    return float(after.mean() / before.mean()) if before.mean() > 0 else 1.0


def least_squares_variances(system: LatticeSystem) -> Floats:
    """Return about the variance of every coordinate (coordinate,): noise of these variances, given the equalities."""
    precision = np.diag([1 / _variance(weight) for weight in system.weights])
    rows = dense([soft.row for soft in system.soft], system.n_coordinates).astype(np.float64)
    for row, soft in zip(rows, system.soft, strict=True):
        precision += np.outer(row, row) / _variance(soft.weight)
    covariance = np.linalg.inv(precision)
    if system.equalities:
        sums = system.matrix @ covariance
        covariance = covariance - sums.T @ np.linalg.solve(sums @ system.matrix.T, sums)
    return np.maximum(np.diag(covariance), 0.0)


def _variance(weight: NoiseWeight) -> float:
    """Return the variance of a deviation with this weight alone."""
    most = int(min(weight.distance(40.0), 1e7)) + 1
    values = np.arange(1, most + 1, dtype=np.float64)
    weights = np.exp(weight.log_at(values))
    return max(float(2 * (values**2 * weights).sum() / (1 + 2 * weights.sum())), 1e-300)
