"""Does the release contradict the prior? Tables are drawn from the prior, released, and compared with the release.

The sum of squares of all cells is compared: large where few cells hold most people, small where all are alike. Under
the smooth prior tables are drawn given log rates of the posterior; under the flat prior all tables that fit are alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from congenial.conditions.areas import Area
from congenial.inference.moving import Moving
from congenial.inference.priors import Smooth
from congenial.inference.word_supply import WordSupply
from congenial.randomness import RandomStream

if TYPE_CHECKING:
    from congenial.inference.posterior import Posterior

_REPLICATES = 80
_STEPS_A_CELL = 300
_OUTSIDE = 0.025
_NAMED = 5  # areas named aloud
FLAT = "flat"


@dataclass(frozen=True)
class Fit:
    """How releases under the prior compare with this one.

    Attributes
    ----------
    share : float
        The share of releases of tables from the prior whose sum of squares is at most this one's.
    """

    share: float

    @property
    def is_contradicted(self) -> bool:
        """Whether the release is unlike nearly all of them."""
        return not _OUTSIDE <= self.share <= 1 - _OUTSIDE

    @property
    def text(self) -> str:
        """It in words."""
        kind = "more uneven" if self.share > 0.5 else "more even"
        share = max(self.share, 1 - self.share)
        return (
            f"the release contradicts the prior: its cells are {kind} than in {share:.0%} of the releases that the"
            " prior expects. Take another prior, or the intervals by the error's law"
        )


def contradictions(fits: Mapping[Area, Fit]) -> str:
    """Return what is to be said aloud of areas whose release contradicts the prior; nothing where none does."""
    bad = [area for area, fit in fits.items() if fit.is_contradicted]
    if not bad or len(fits) == 1:
        return fits[bad[0]].text if bad else ""
    by_chance = 2 * _OUTSIDE * len(fits)
    named = ", ".join(map(str, bad[:_NAMED])) + (f" and {len(bad) - _NAMED:,} more" if len(bad) > _NAMED else "")
    return (
        f"the release contradicts the prior in {len(bad):,} of {len(fits):,} areas, where about {by_chance:.1f} are so"
        f" by chance: {named}. Where there are many more, take another prior, or the intervals by the error's law"
    )


def check_fit(posterior: "Posterior", rng: RandomStream) -> Fit | None:
    """Compare the release with releases of tables from the prior; None for priors that cannot be drawn from."""
    is_smooth = isinstance(posterior.prior, Smooth)
    if not is_smooth and not posterior.prior.text.startswith(f"{FLAT}:"):
        return None
    if is_smooth and posterior.log_rates is None:
        return None
    moving = Moving.of(posterior.constraints, posterior.law.measured)
    places = np.linspace(0, len(posterior.tables) - 1, _REPLICATES).astype(int)
    start = np.maximum(posterior.tables[places], 0)
    known = np.zeros((1, start.shape[1])) if posterior.log_rates is None else posterior.log_rates
    eta = known[np.arange(_REPLICATES) % len(known)]
    n_steps = _STEPS_A_CELL * start.shape[1]
    tables, _ = moving.move(
        start, start, eta, moving.tilts(start), n_steps, WordSupply(rng), has_noise=False, has_counts=is_smooth
    )
    releases = moving.sampler.draw_each(tables, rng).astype(np.float64)
    own = float(np.square(posterior.released.astype(np.float64)).sum())
    squares = np.square(releases).sum(axis=1)
    return Fit(float((squares < own).mean() + 0.5 * (squares == own).mean()))
