"""Noise on a lattice drawn by tables of sums, for many units at once: exact, in a fixed number of steps a decision.

The sums of the forest are decided from the roots down: a root's value, then how each sum splits into its two parts. A
decision is a search in one row of a table of thresholds: the same number of steps whatever comes out, because the
measurements are published and a time that tells of the noise would tell of the data. A word too near a threshold, or a
sum beyond its table, puts a unit in doubt: it is decided again from the same words by `sum_decisions`. No window is
part of the law. docs/claims/lattice-noise.md has the proof.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil, exp, isqrt, log

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.errors import CongenialError, TooLargeError
from congenial.randomness import KeyedWords
from congenial.sampling.lattice_noise.rejection import refinable_words
from congenial.sampling.lattice_noise.sum_decisions import ExactSums
from congenial.sampling.lattice_noise.sum_forest import (
    Core,
    CoreStep,
    Kind,
    PairKind,
    RootStep,
    SplitStep,
    SumForest,
    SumProgram,
    TieStep,
    WeightedKind,
    n_decisions,
)
from congenial.sampling.lattice_noise.sum_masses import UNIT, Mass, Masses, core_states
from congenial.sampling.lattice_noise.system import LatticeSystem

BITS = 62
"""Of a word that the tables look at; two are left so that no sum overflows."""

_NATS = 76.0  # windows: 2**-56 of a row whose own probability is 2**-42, with room for their number
_CORE_NATS = 42.0  # what may be left out of a core
_OUTSIDE = 2.0**-42  # how likely a sum of one kind is beyond its table, at most
_WEAK = 2.0**-46  # what may be missing from a row
_CUT = 2.0**-60  # what is left out of a row at each end
_MOST_BYTES = 2**28
_BLOCK = 2**20  # entries of a table that are made at a time
_BATCH = 2**14  # decisions of one kind at a time: what they need stays in the processor's cache


@dataclass(frozen=True)
class DecisionTable:
    """Rows of thresholds: outcome i of a row is taken where ``thresholds[i] <= word < thresholds[i + 1]``, in 62 bits.

    Attributes
    ----------
    thresholds : array (row, entry)
        From 0 on; after the last outcome ``2 ** 62``.
    first : array (row,)
        The first outcome of a row.
    tolerance : int
        By how much a threshold may be off, in parts of ``2 ** -62``.
    """

    thresholds: Ints
    first: Ints
    tolerance: int

    @property
    def width(self) -> int:
        """Entries of a row."""
        return int(self.thresholds.shape[1])

    @property
    def doubt(self) -> float:
        """A bound of the probability that a word is too near a threshold."""
        return (self.width + 1) * (2 * self.tolerance + 2) * 2.0**-BITS

    def decide(self, rows: Ints, words: Ints, is_open: NDArray[np.bool_]) -> Ints:
        """Return the entry of each word (of 62 bits) in its row, and mark those that are in doubt.

        Halving with as many steps for every row and word. The aim is the word plus the tolerance: then a threshold
        within the tolerance of the word, on either side, is the one at or below the aim.
        """
        flat, n = self.thresholds.reshape(-1), self.width
        start = rows * n
        place, aim = start.copy(), words + self.tolerance
        probe, bound = np.empty_like(place), np.empty_like(place)
        while n > 1:
            half = n // 2
            np.add(place, half, out=probe)
            np.take(flat, probe, out=bound, mode="clip")
            # -1 where the threshold is above the aim: then the step is taken back.
            np.subtract(aim, bound, out=bound)
            np.right_shift(bound, 63, out=bound)
            np.bitwise_and(bound, -half, out=bound)
            np.add(probe, bound, out=place)
            n -= half
        np.take(flat, place, out=bound, mode="clip")
        np.subtract(aim, bound, out=bound)
        is_open |= bound <= 2 * self.tolerance
        np.subtract(place, start, out=place)
        return place


def table_of_rows(weights: Floats, first: Ints, n_units: int, missing: Floats) -> DecisionTable:
    """Return the thresholds of rows of weights (row, outcome).

    Parameters
    ----------
    n_units : int
        Roundings behind each weight.
    missing : array (row,)
        What a row's weights fall short of, together. A row of which too much is missing is always in doubt.
    """
    totals, n_rounds = _totals(weights)
    is_weak = missing >= _WEAK * totals
    totals[is_weak] = np.inf
    relative = (2 * n_units + n_rounds + 8) * UNIT + 2 * float((missing / totals).max())
    scaled = weights * (2.0**BITS / totals)[:, None]
    whole = scaled.astype(np.int64)
    # Fractions of a threshold's unit are summed apart, so that a million outcomes lose no more than ten.
    part = ((scaled - whole) * 2.0**40).astype(np.int64)
    sums = np.cumsum(whole, axis=1) + (np.cumsum(part, axis=1) >> 40)
    thresholds = np.zeros((len(weights), weights.shape[1] + 1), np.int64)
    np.minimum(sums, 1 << BITS, out=thresholds[:, 1:])
    # From the last outcome with any weight on, all that comes is the end.
    last = weights.shape[1] - np.argmax(weights[:, ::-1] > 0, axis=1)
    thresholds[np.arange(weights.shape[1] + 1) >= last[:, None]] = 1 << BITS
    thresholds[is_weak] = 1 << BITS
    return DecisionTable(thresholds, first, ceil(1.01 * relative * 2.0**BITS) + 8)


def _totals(weights: Floats) -> tuple[Floats, int]:
    """Return the sums of rows, and how many roundings stand behind each: block by block."""
    size = max(16, isqrt(weights.shape[1]))
    starts = np.arange(0, weights.shape[1], size)
    return np.add.reduceat(weights, starts, axis=1).sum(axis=1), size + len(starts)


def one_row(weights: Floats, first: int, n_units: int, missing: float) -> DecisionTable:
    """Return the table of a decision that depends on no other."""
    return table_of_rows(weights[None, :], np.array([first]), n_units, np.array([missing]))


# Splits of a sum into its two parts.


@dataclass(frozen=True)
class SplitRows:
    """Weights of the first part's value j for some sums k (row, outcome), each row cut where little is left."""

    weights: Floats
    first: Ints
    missing: Floats

    @classmethod
    def of(cls, sums: Ints, parts: tuple[Mass, Mass], times: tuple[int, int]) -> "SplitRows":
        """Return ``S_first(j) * S_second((k - times[0] j) / times[1])`` for each k."""
        one, other = parts
        outcomes = np.arange(-one.radius, one.radius + 1)
        rest = sums[:, None] - times[0] * outcomes
        weights = other.at(rest // times[1]) if times[1] > 1 else other.at(rest)
        if times[1] > 1:
            weights = np.where(rest % times[1] == 0, weights, 0.0)
        weights *= one.values
        totals = weights.sum(axis=1)
        totals[totals == 0] = 1.0
        allowed = (_CUT * totals)[:, None]
        low = (np.cumsum(weights, axis=1) <= allowed).sum(axis=1)
        high = weights.shape[1] - (np.cumsum(weights[:, ::-1], axis=1) <= allowed).sum(axis=1)
        width = max(1, int((high - low).max()))
        places = low[:, None] + np.arange(width)
        kept = np.take_along_axis(weights, np.minimum(places, weights.shape[1] - 1), axis=1)
        kept[places >= high[:, None]] = 0.0
        missing = one.lost * other.most + other.lost * one.most + 2.1 * _CUT * totals
        return cls(kept, low - one.radius, missing)


def _row_blocks(n_rows: int, width: int) -> Iterator[Ints]:
    size = max(1, _BLOCK // width)
    for start in range(0, n_rows, size):
        yield np.arange(start, min(start + size, n_rows))


def _stacked(tables: list[DecisionTable]) -> DecisionTable:
    width = max(table.width for table in tables)
    rows = [np.pad(table.thresholds, ((0, 0), (0, width - table.width)), constant_values=1 << BITS) for table in tables]
    tolerance = max(table.tolerance for table in tables)
    return DecisionTable(np.concatenate(rows), np.concatenate([table.first for table in tables]), tolerance)


# All tables of a program.


@dataclass(frozen=True)
class CoreTable:
    """The states of a core (state, node) and the table that decides among them."""

    states: Ints
    table: DecisionTable


@dataclass(frozen=True)
class SumTables:
    """A table for each step of a program that decides something, None for the others.

    Attributes
    ----------
    slow_rate : float
        A bound of the share of units that are in doubt.
    """

    tables: tuple[DecisionTable | CoreTable | None, ...]
    slow_rate: float

    @classmethod
    def of(cls, program: SumProgram) -> "SumTables":
        """Make the tables from the roots down, each as long as the law of its sums asks for."""
        return _Tables(program).made()

    @property
    def n_bytes(self) -> int:
        """Memory of all tables."""
        return sum(_n_bytes(table) for table in self.tables if table is not None)


def _n_bytes(table: DecisionTable | CoreTable) -> int:
    if isinstance(table, CoreTable):
        return table.states.nbytes + table.table.thresholds.nbytes
    return table.thresholds.nbytes


class _Tables:
    """Tables while they are made: how often each value of each kind comes up decides how many rows there are."""

    def __init__(self, program: SumProgram) -> None:
        self.program = program
        self.masses = Masses(_NATS)
        self.expected: dict[int, Floats] = {}
        self.slow_rate = 0.0
        self.n_bytes = 0

    def made(self) -> SumTables:
        for node in self.program.forest.pinned:
            self._expect(node.kind, np.zeros(1, np.int64), np.ones(1))
        tables = []
        for step in self.program.steps:
            table = self._table(step)
            if table is not None:
                self.n_bytes += _n_bytes(table)
                if self.n_bytes > _MOST_BYTES:
                    raise TooLargeError(
                        f"tables of sums would take more than {_MOST_BYTES >> 20} MB; take a higher precision, or fewer"
                        " exact numbers"
                    )
                decided = table.table if isinstance(table, CoreTable) else table
                self.slow_rate += n_decisions(step) * decided.doubt
            tables.append(table)
        return SumTables(tuple(tables), 1.01 * self.slow_rate)

    def _expect(self, kind: Kind, values: Ints, numbers: Floats) -> None:
        """Note how often values of a kind are expected in a draw; those outside its window are in doubt."""
        if isinstance(kind, WeightedKind):
            return self._expect(kind.base, values, numbers)
        radius = self.masses.of(kind).radius
        expected = self.expected.setdefault(kind.number, np.zeros(2 * radius + 1))
        inside = np.abs(values) <= radius
        expected += np.bincount(values[inside] + radius, numbers[inside], 2 * radius + 1)
        self.slow_rate += float(numbers[~inside].sum())
        return None

    def _table(self, step: RootStep | CoreStep | SplitStep | TieStep) -> DecisionTable | CoreTable | None:
        if isinstance(step, TieStep):
            expected = self.expected[step.kind.number]
            values = np.arange(len(expected)) - len(expected) // 2
            for part, times in zip(step.kind.parts, step.kind.times, strict=True):
                self._expect(part, times * values, expected)
            return None
        if isinstance(step, RootStep):
            mass = self.masses.of(step.kind)
            values = np.arange(-mass.radius, mass.radius + 1)
            self._expect(step.kind, values, len(step.targets) * mass.values / mass.values.sum())
            return one_row(mass.values, -mass.radius, mass.n_units, mass.lost)
        if isinstance(step, CoreStep):
            return self._core(step)
        return self._split(step.kind)

    def _core(self, step: CoreStep) -> CoreTable:
        masses = [self.masses.of(node.kind) for node in step.core.nodes]
        weighed = weigh_core(step.core, masses)
        shares = len(step.targets) * weighed.weights / weighed.weights.sum()
        for number, node in enumerate(step.core.nodes):
            self._expect(node.kind, weighed.states[:, number], shares)
        return CoreTable(weighed.states, one_row(weighed.weights, 0, weighed.n_units, weighed.missing))

    def _split(self, kind: PairKind) -> DecisionTable:
        parts = self.masses.of(kind.parts[0]), self.masses.of(kind.parts[1])
        expected = self.expected[kind.number]
        middle = len(expected) // 2
        one_side = expected[middle:] + expected[middle::-1]
        one_side[0] /= 2
        beyond = np.cumsum(one_side[::-1])[::-1]
        n_rows = max(1, int(np.count_nonzero(beyond > _OUTSIDE)))
        self.slow_rate += float(one_side[n_rows:].sum())
        tables = []
        for sums in _row_blocks(n_rows, 2 * parts[0].radius + 1):
            rows = SplitRows.of(sums, parts, kind.times)
            table = table_of_rows(rows.weights, rows.first, parts[0].n_units + parts[1].n_units + 1, rows.missing)
            self.slow_rate += float(one_side[sums][table.thresholds[:, 0] > 0].sum())
            self._pass_on(kind, sums, rows, one_side[sums])
            tables.append(table)
        return _stacked(tables)

    def _pass_on(self, kind: PairKind, sums: Ints, rows: SplitRows, numbers: Floats) -> None:
        """Say how often values of both parts are expected; a sum and its negative split alike."""
        totals = rows.weights.sum(axis=1)
        shares = rows.weights * (numbers / np.where(totals > 0, totals, np.inf))[:, None]
        row, entry = np.nonzero(shares)
        one = rows.first[row] + entry
        other = (sums[row] - kind.times[0] * one) // kind.times[1]
        halves = shares[row, entry] / 2
        for part, values in zip(kind.parts, (one, other), strict=True):
            for signed in (values, -values):
                self._expect(part, signed, halves)


@dataclass(frozen=True)
class WeighedStates:
    """The states of a core that are not negligible, their weights, and a bound of what all others weigh."""

    states: Ints
    weights: Floats
    n_units: int
    missing: float


def weigh_core(core: Core, masses: list[Mass]) -> WeighedStates:
    """Return the states of a core with their weights."""
    with np.errstate(divide="ignore"):
        logs = [np.log(mass.values) for mass in masses]
    states, log_others = core_states(core, logs, _CORE_NATS)
    weights = np.ones(len(states))
    for number, mass in enumerate(masses):
        weights *= mass.values[states[:, number] + mass.radius]
    for terms, weight in core.soft:
        sizes = np.abs(states @ np.array(terms))
        weights *= np.array(weight.doubles(int(sizes.max(initial=0))))[sizes]
    n_units = sum(mass.n_units + 1 for mass in masses) + 2 * len(core.soft)
    missing = exp(log_others) + core_missing(core, masses)
    return WeighedStates(states, weights, n_units, 1.01 * missing)


def core_missing(core: Core, masses: list[Mass]) -> float:
    """Return a bound of what a core's weights lack because the mass functions do.

    The values of as many nodes as there are basis vectors settle all others. So a sum over the lattice is at most a
    product over nodes, of totals for so many of them and of largest values for the rest.
    """
    log_most = [log(mass.most) for mass in masses]
    spreads = [log(mass.total) - most for mass, most in zip(masses, log_most, strict=True)]
    missing = 0.0
    for number, mass in enumerate(masses):
        others = sorted(spreads[:number] + spreads[number + 1 :], reverse=True)[: len(core.basis)]
        missing += mass.lost * exp(sum(log_most) - log_most[number] + sum(others))
    return missing


@dataclass(frozen=True)
class SumTableSampler:
    """Draws noise by tables of sums: no rejection, one word and a fixed number of steps a decision.

    Examples
    --------
    >>> from congenial.conditions.rows_and_intervals import Row
    >>> from congenial.noise import DoubleGeometric
    >>> system = LatticeSystem((DoubleGeometric(1).weight,) * 3, (Row.of("total", [0, 1, 2]),))
    >>> sampler = SumTableSampler.of(system)
    >>> noise = sampler.draw(KeyedWords(bytes(32), np.arange(10, dtype=np.uint64).reshape(5, 2)))
    >>> noise.shape, noise.sum(axis=1).tolist()
    ((5, 3), [0, 0, 0, 0, 0])
    """

    system: LatticeSystem

    name = "sum tables"
    title = "tables of sums, decided from the whole to its parts"
    acceptance = 1.0

    @classmethod
    def of(cls, system: LatticeSystem) -> "SumTableSampler":
        """Return the sampler of a system; `check` says whether its tables fit."""
        return cls(system)

    @cached_property
    def program(self) -> SumProgram:
        """The decisions in order."""
        return SumProgram.of(SumForest.of(self.system))

    @cached_property
    def _outcome(self) -> SumTables | CongenialError:
        try:
            return SumTables.of(self.program)
        except TooLargeError as error:
            return error

    @property
    def tables(self) -> SumTables:
        """The tables of all decisions."""
        self.check()
        return self._outcome  # type: ignore[return-value]

    @property
    def is_exact(self) -> bool:
        """Whether the tables fit: draws have the law exactly then."""
        return isinstance(self._outcome, SumTables)

    def check(self) -> None:
        """Raise with the reason and the way out unless `is_exact`."""
        if not isinstance(self._outcome, SumTables):
            raise self._outcome

    @property
    def n_words(self) -> int:
        """Words of a unit."""
        return self.program.first_words[-1]

    @property
    def slow_rate(self) -> float:
        """A bound of the share of units that are decided again in balls."""
        return self.tables.slow_rate

    @property
    def seconds(self) -> float:
        """About how long a unit takes on one core, drawn with thousands of others."""
        return 2e-8 * (self.n_words + self.system.n_coordinates)

    def describe(self) -> str:
        """Return its size, for people."""
        megabytes = self.tables.n_bytes / 2**20
        return (
            f"{self.n_words} decisions a unit in tables of {megabytes:.1f} MB; a share of at most {self.slow_rate:.1g}"
            " of units is decided in ball arithmetic"
        )

    def draw(self, words: KeyedWords, *, always_refined: bool = False) -> Ints:
        """Return one draw for each unit of the words (unit, coordinate).

        Parameters
        ----------
        always_refined : bool
            Decide everything in balls: the same noise, which a test relies on.
        """
        out = np.empty((len(words), self.system.n_coordinates), np.int64)
        n_even = max(2, self.n_words + self.n_words % 2)
        largest = max([1, *(n_decisions(step) for step in self.program.steps)])
        size = max(64, _BATCH // largest)
        exact = ExactSums(self.program)
        for start in range(0, len(words), size):
            places = np.arange(start, min(start + size, len(words)))
            lines = words.stretch(places, np.zeros(len(places), np.int64), n_even)
            in_doubt = np.ones(len(places), np.bool_)
            if not always_refined:
                values, in_doubt = self._decide(np.ascontiguousarray(lines.T))
                np.multiply(values[self.program.leaves].T, self.program.signs, out=out[places[0] : places[-1] + 1])
            for number in np.flatnonzero(in_doubt):
                place = int(places[number])
                out[place] = exact.draw(refinable_words(words, place, 0, lines[number, : self.n_words]))
        return out

    def _decide(self, words: NDArray[np.uint64]) -> tuple[Ints, NDArray[np.bool_]]:
        """Return the values of all nodes (node, unit) from words (word, unit), and which units are in doubt."""
        n_units = words.shape[1]
        values = np.zeros((self.program.n_values, n_units), np.int64)
        in_doubt = np.zeros(n_units, np.bool_)
        shortened = (words >> np.uint64(64 - BITS)).view(np.int64)
        for step, start, table in zip(
            self.program.steps, self.program.first_words[:-1], self.tables.tables, strict=True
        ):
            if isinstance(step, TieStep):
                for targets, times in zip(step.targets, step.kind.times, strict=True):
                    values[targets] = times * values[step.parents]
                continue
            taken = shortened[start : start + n_decisions(step)]
            is_open = np.zeros(taken.shape, np.bool_)
            if isinstance(step, CoreStep):
                assert isinstance(table, CoreTable)  # noqa: S101
                entries = table.table.decide(np.zeros_like(taken), taken, is_open)
                np.minimum(entries, len(table.states) - 1, out=entries)
                for number, targets in enumerate(step.targets.T):
                    values[targets] = table.states[entries, number]
            elif isinstance(table, DecisionTable):
                if isinstance(step, RootStep):
                    values[step.targets] = table.decide(np.zeros_like(taken), taken, is_open) + table.first[0]
                else:
                    self._split(step, table, values, taken, is_open)
            in_doubt |= is_open.any(axis=0)
        return values, in_doubt

    @staticmethod
    def _split(step: SplitStep, table: DecisionTable, values: Ints, words: Ints, is_open: NDArray[np.bool_]) -> None:
        sums = values[step.parents[0] : step.parents[-1] + 1]
        sizes = np.abs(sums)
        is_open |= sizes >= len(table.first)
        rows = np.minimum(sizes, len(table.first) - 1)
        one = table.decide(rows, words, is_open)
        one += table.first[rows]
        one *= 1 | (sums >> 63)  # -1 below 0, else 1
        other = sums - step.kind.times[0] * one
        if step.kind.times[1] > 1:
            other //= step.kind.times[1]
        values[step.targets[0]] = one
        values[step.targets[1]] = other
