"""The draw of some areas, wherever it runs: public structure, confidential tables and words in, drawn tables out."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.constraints import Constraints
from congenial.conditions.rows import row_values
from congenial.errors import SamplingError
from congenial.public_law import PublicLaw
from congenial.randomness import Streams
from congenial.sampling.choose import choose_sampler
from congenial.sampling.sampler import Sampler
from congenial.sampling.system import System


@dataclass(frozen=True, eq=False)
class Drawing:
    """All that draws the tables of a law's areas, but the tables and the random words. Public; it can be pickled.

    It knows the groups of areas, not the areas: a chunk of areas is given by the group of each, its confidential table,
    and its words. What is drawn depends on nothing else, so neither on the chunk nor on where it is drawn.

    Attributes
    ----------
    patterns : tuple of Constraints
        Of each group of areas, the constraints of one of them; others differ in the values of equalities.
    systems : tuple of System
        Of each group, the structure that all its areas fit.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> from congenial.randomness import replay_rng
    >>> mechanism, table = p12_mechanism(), p12_table()
    >>> drawing = Drawing.of(mechanism.calibrate(mechanism.disclose(table)))
    >>> drawing.draw(np.zeros(2, np.int64), np.stack([table.counts] * 2), replay_rng(1)).sum(axis=1)
    array([256, 256])
    """

    patterns: tuple[Constraints, ...]
    systems: tuple[System, ...]

    @classmethod
    def of(cls, law: PublicLaw) -> "Drawing":
        """Return what draws the areas of a law."""
        groups = law.areas.groups
        return cls(
            tuple(replace(group.pattern, origin=None) for group in groups),
            tuple(System.of(group.pattern, law.measured).over(group.ranges_of_values) for group in groups),
        )

    @cached_property
    def samplers(self) -> tuple[Sampler, ...]:
        """The sampler of each group of areas; made when first asked for, in every process anew."""
        return tuple(map(choose_sampler, self.systems))

    def draw(self, groups: Ints, centres: Ints, words: Streams) -> Ints:
        """Return one draw for each of some areas (area, cell), in their order.

        Parameters
        ----------
        groups : array (area,)
            The group of each area, from 0 on.
        centres : array (area, cell)
            Their confidential tables.
        words : UnitStreams, or one RandomStream
            The random words of each of these areas.
        """
        out = np.empty_like(centres)
        for number in np.unique(groups).tolist():
            own = np.flatnonzero(groups == number)
            is_all = len(own) == len(centres)
            chosen = centres if is_all else centres[own]
            drawn = self.samplers[number].draw_each(chosen, words if is_all else words.some(own))
            _check_drawn(self.patterns[number], chosen, drawn)
            out[own] = drawn
        return out

    def __getstate__(self) -> dict[str, object]:
        return {"patterns": self.patterns, "systems": self.systems}  # samplers hold compiled functions

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)


def _check_drawn(pattern: Constraints, centres: Ints, drawn: Ints) -> None:
    """See that drawn tables obey limits and ranges, and have the sums that the confidential ones have."""
    answers = np.asarray(replace(pattern, rows=pattern.ranges).holds(drawn))
    rows = [limited.row for limited in pattern.equalities]
    if rows:
        answers &= (row_values(rows, drawn) == row_values(rows, centres)).all(axis=1)
    if not answers.all():
        raise SamplingError("internal: a drawn table breaks an invariant; nothing is published, please report this")
