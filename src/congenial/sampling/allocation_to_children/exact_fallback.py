"""Allocation with refined decisions: the attempts of the kernel, in ball arithmetic. Confidential.

The same words, the same tilt, the same order of children. Where 64 bits of a word do not decide, further ones that
belong to it are looked at.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import flint

from congenial.exact import ball, ends, scaled_ends
from congenial.noise.noise_and_discrete_noise import DiscreteNoise
from congenial.proven_decisions import Uniform, find_interval, is_below, refine_until_proven
from congenial.sampling.allocation_to_children.tilts_and_normaliser import level_noise


@dataclass(frozen=True, eq=False)
class TiltedCount:
    """The law of one child: weights around a count, tilted; values from 0 on.

    Attributes
    ----------
    shift : int
        Squared noise: by how many whole steps the tilt moves the centre.
    tilt : Fraction
        What weights are multiplied by for each unit of the value.
    """

    noise: DiscreteNoise
    count: int
    shift: int
    tilt: Fraction
    _known: dict[int, tuple[int, list[int], list[int]]] = field(default_factory=dict, repr=False)

    @property
    def mode(self) -> int:
        """The most likely value."""
        if self.noise.exponent == 2:
            return max(self.count + self.shift, 0)
        return self.count if self.tilt >= self.noise.base else 0

    def height(self, gap: int) -> flint.arb:
        """Return the weight of a value, so far from the mode, in parts of the mode's weight."""
        base, tilt = ball(self.noise.base), ball(self.tilt)
        if self.noise.exponent == 2:
            at = self.mode - self.count - self.shift
            power = (at + gap) ** 2 - at**2
        else:
            at = self.mode - self.count
            power = abs(at + gap) - abs(at)
        return base**power * tilt**gap

    def _side(self, sign: int, least: Fraction) -> Iterator[tuple[int, flint.arb, flint.arb]]:
        """Go away from the mode until what is left is small: gap, weight, and a bound of all weights beyond."""
        gap, weight = 0, flint.arb(1)
        while self.mode + sign * (gap + 1) >= 0:
            following = self.height(sign * (gap + 1))
            ratio = following / weight
            beyond = following / (1 - ratio) if ratio < 1 else flint.arb(1) / 0
            if ratio < 1 and ends(beyond)[1] < least:
                yield gap, weight, beyond
                return
            gap, weight = gap + 1, following
            yield gap, weight, flint.arb(0)

    def cdf(self, bits: int) -> tuple[int, list[int], list[int]]:
        """Return a value, and integers ``lo <= 2**bits P(at most value + k - 1) <= hi`` for k = 0, 1, ..."""
        if bits not in self._known:
            self._known[bits] = self._cdf(bits)
        return self._known[bits]

    def draw(self, uniform: Uniform) -> int:
        """Return the value that a decision leads to."""

        def decide(_: int) -> int:
            first, low, high = self.cdf(uniform.n_bits)
            return first + find_interval(uniform, len(low), low.__getitem__, high.__getitem__)

        return refine_until_proven(decide)

    def accepts(self, value: int, uniform: Uniform) -> bool:
        """Return whether a value is accepted with its height."""

        def decide(_: int) -> bool:
            with flint.ctx.workprec(uniform.n_bits + 96):
                return is_below(uniform, *ends(self.height(value - self.mode)))

        return refine_until_proven(decide)

    def _cdf(self, bits: int) -> tuple[int, list[int], list[int]]:
        least = Fraction(1, 2 ** (bits + 8))
        with flint.ctx.workprec(bits + 96):
            sides = [list(self._side(sign, least)) for sign in (-1, 1)]
            missing = [side[-1][2] if side else flint.arb(0) for side in sides]
            gaps = {0: flint.arb(1)}
            for sign, side in zip((-1, 1), sides, strict=True):
                gaps |= {sign * gap: weight for gap, weight, _ in side if gap}
            total = sum(gaps.values(), flint.arb(0))
            whole = total.union(total + missing[0] + missing[1])
            running = flint.arb(0).union(missing[0])
            low, high = [], []
            for gap in [None, *sorted(gaps)]:
                running = running if gap is None else running + gaps[gap]
                lo, hi = scaled_ends(running / whole, bits)
                low.append(max(lo, 0))
                high.append(min(hi, 2**bits))
        if not missing[0].upper() > 0:
            low[0] = high[0] = 0
        return self.mode + min(gaps), low, high


@dataclass(eq=False)
class ExactAllocation:
    """Attempts with decisions in balls, for families of one level whose tilts are equally fine. Confidential."""

    noise: DiscreteNoise
    fineness: int = 1
    _laws: dict[tuple[int, int], TiltedCount] = field(default_factory=dict, repr=False)

    def _law(self, count: int, tilt: int) -> TiltedCount:
        if (count, tilt) not in self._laws:
            level = level_noise(self.noise, self.fineness)
            shift, part = divmod(tilt, level.tilts.size) if level.is_squared else (0, tilt)
            self._laws[count, tilt] = TiltedCount(self.noise, count, shift, Fraction(float(level.tilts[part])))
        return self._laws[count, tilt]

    def draw(
        self, counts: Sequence[int], wanted: int, tilt: int, at: int, uniform_at: Callable[[int], Uniform]
    ) -> tuple[list[int], int]:
        """Return the children of one cell, and the word after the last that was used.

        Parameters
        ----------
        counts : sequence of int
            The confidential counts of two children or more.
        tilt : int
            What the kernel's `tilt_of` returns.
        at : int
            The first word of an attempt.
        uniform_at : callable
            The uniform number of a decision, given where its first word stands.
        """
        laws = [self._law(count, tilt) for count in counts]
        last = counts.index(max(counts))
        while True:
            drawn, remaining = [0] * len(counts), wanted
            for number, law in enumerate(laws):
                if number == last:
                    continue
                drawn[number] = law.draw(uniform_at(at))
                at += 1
                remaining -= drawn[number]
                if remaining < 0:
                    break
            if remaining < 0:
                continue
            drawn[last] = remaining
            at += 1
            if laws[last].accepts(remaining, uniform_at(at - 1)):
                return drawn, at
