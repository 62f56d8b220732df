"""The likelihood of released children around confidential ones: the one place that it is asked from.

A family's likelihood is ``prod f(y - s) / Z(s; x)``, x what was released of the parent. log Z is taken by a saddle
point of second order: the children are tilted so that their means add up to x, and their sum is taken for normal there.
"""

from collections.abc import Sequence

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.errors import InferenceError
from congenial.hierarchy.law import ChainLaw
from congenial.hierarchy.steps import ChainStep
from congenial.inference.kernels.tree_shapes import ChildLaws
from congenial.noise.family import DiscreteNoise

_SURE = 30  # below zero by so many variances, a child is zero but for one case in exp(30)
_SIDE = 10  # farther than so many deviations above zero, nothing is seen of it
_FINE = 5  # tilts that move the mean of a family's sum by a deviation, at least
_WIDEST = 50_000.0
_AT_ONCE = 1 << 22


def child_laws(law: ChainLaw) -> ChildLaws:
    """Return the tilted laws of children at each level of a tree; refuse what there is no likelihood for here."""
    for name, step in zip(law.tree.levels[1:], law.steps, strict=True):
        _check(name, step)
    sizes = [int(families.sizes.max(initial=1)) for families in law.tree.families]
    return laws_of(law.noises, sizes)


def _check(level: str, step: ChainStep) -> None:
    if step.name != "share_out":
        raise InferenceError(
            f"every {level} has exact numbers of its own besides adding up, and estimates do not know the likelihood"
            " of such counts yet; what was released can be used as it is, with the report's error for each level"
        )
    if step.noise.exponent != 2:
        raise InferenceError(
            f"{level} has {step.noise.title} noise, and estimates are made for discrete Gaussian noise only; a curator"
            ' whose readers need them takes noise="discrete_gaussian", which costs a tree no more'
        )
    if 1 / step.noise.precision > _WIDEST:
        raise InferenceError(
            f"{level} has noise of variance {float(1 / step.noise.precision):,.0f}, above the {_WIDEST:,.0f} that"
            " estimates are made for; such counts say nothing of a unit, its parent's level is the one to use"
        )


def laws_of(noises: Sequence[DiscreteNoise], sizes: Sequence[int]) -> ChildLaws:
    """Return the tilted laws for the noise of each level below the top, and the sizes of the largest families there.

    Examples
    --------
    >>> from congenial.noise import DiscreteGaussian
    >>> from congenial.sampling.share_out.normaliser import Normaliser
    >>> noise, counts = DiscreteGaussian("1/9"), np.array([3, 0, 1, 7])
    >>> laws = laws_of([noise], [4])
    >>> abs(log_normaliser(laws, 1, counts, 9) - Normaliser(noise).log(counts, 9)) < 0.05
    True
    """
    tables: list[Floats] = []
    parts, first = [1], [0]
    for noise, size in zip(noises, sizes, strict=True):
        variance = float(1 / noise.precision)
        fine = 1
        while fine * variance**0.5 < _FINE * size**0.5:
            fine *= 2
        low, high = -int(_SURE * variance + 1) * fine, int(_SIDE * variance**0.5 + 2) * fine
        parts.append(fine)
        first.append(low)
        tables.append(_table(np.arange(low, high) / fine, variance))
    lengths = [0, *(len(table) for table in tables)]
    return ChildLaws(
        noise=np.array([np.inf, *(float(1 / noise.precision) for noise in noises)]),
        parts=np.array(parts, np.int64),
        step=1 / np.array(parts),
        first=np.array(first, np.int64),
        size=np.array(lengths, np.int64),
        base=np.array(np.cumsum(lengths) - lengths, np.int64),
        table=np.concatenate(tables),
    )


def _table(centres: Floats, variance: float) -> Floats:
    """Return log mass, mean less centre, and variance of ``exp(-(y - c)^2 / 2v)`` on y >= 0 (centre, 3)."""
    longest = int(centres[-1] + _SIDE * variance**0.5) + 2
    values = np.arange(longest, dtype=np.float64)
    found = []
    for stretch in np.array_split(centres, max(1, centres.size * longest // _AT_ONCE)):
        logs = -((values[None, :] - stretch[:, None]) ** 2) / (2 * variance)
        largest = logs.max(axis=1, keepdims=True)
        weights = np.exp(logs - largest)
        mass = weights.sum(axis=1)
        mean = weights @ values / mass
        spread = weights @ values**2 / mass - mean**2
        found.append(np.stack([np.log(mass) + largest[:, 0], mean - stretch, np.maximum(spread, 0.0)], axis=1))
    return np.concatenate(found)


def log_normaliser(laws: ChildLaws, level: int, counts: Ints, wanted: int) -> float:
    """Return log Z of one cell of a family, around its children's counts (child,), given their released sum.

    Exact without a rest where nothing is left open: one child, or nothing to share out.
    """
    from congenial.inference.kernels.tree_law import log_normaliser as of_many

    noise = float(laws.noise[level])
    if wanted == 0 or counts.size == 1:
        gaps = counts.astype(np.float64) - (0 if wanted == 0 else wanted)
        return float(-(gaps**2).sum() / (2 * noise))
    return float(of_many(laws, level, counts.astype(np.int64)[:, None], wanted))
