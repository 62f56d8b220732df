"""What is believed of a tree before its release: shares of a parent's people that differ by size and by make-up.

The people of a cell fall to the children of a unit in proportion to their weights: size x effect of the cell, and for
leaves, where cells are small, size x effect of each label. Factors are gamma numbers of mean 1, whose shapes are
learned from the release itself, level by level and label by label. A shape is large where children are alike. Leaves
have two factors of size, because their sizes have longer tails than one gamma law, and may be empty as a whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import ceil, exp, sqrt
from statistics import NormalDist

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.errors import InferenceError
from congenial.inference.tree.kernels_effects_and_normalisers import ChildLaws
from congenial.law import PublicLaw
from congenial.noise.noise_and_discrete_noise import DiscreteNoise
from congenial.schema import Schema
from congenial.tree.drawing import AllocationStep, LevelStep

_USUAL, _SPREAD = np.log(5.0), 1.5  # of the logarithm of a shape, before anything is learned
LEAST_SHAPE, MOST_SHAPE = 0.05, 5_000.0
SHARES = np.linspace(0.01, 0.99, 50)
FIRMNESS = 2.0 ** np.arange(0, 8)


@dataclass(frozen=True)
class EffectKind:
    """Effects of one kind: of the unit's size, of the labels of a dimension, or of each cell.

    Attributes
    ----------
    first : int
        Its first column among all effects.
    columns : array (cell,)
        Which column a cell's effect of this kind stands in.
    is_of_leaves, is_above : bool
        Whether leaves have it, and whether units above them have.
    """

    name: str
    first: int
    columns: Ints
    is_of_leaves: bool = True
    is_above: bool = True

    @property
    def n_labels(self) -> int:
        """How many effects of this kind a unit has."""
        return int(self.columns.max()) - self.first + 1


def effect_kinds(schema: Schema) -> tuple[EffectKind, ...]:
    """Return the kinds of effects: size, of leaves a second time; every dimension's labels of leaves, every cell above.

    Examples
    --------
    >>> [kind.name for kind in effect_kinds(Schema({"sex": ["f", "m"], "age": ["0-17", "18+"]}))]
    ['size', 'size again', 'sex', 'age', 'cell']
    """
    cells = np.arange(schema.n_cells)
    zeros = np.zeros_like(cells)
    kinds = [EffectKind("size", 0, zeros), EffectKind("size again", 1, zeros + 1, is_above=False)]
    first = 2
    places = np.unravel_index(cells, schema.shape)
    for name, labels, levels in zip(schema.names, schema.shape, places, strict=True):
        kinds.append(EffectKind(name, first, first + levels.astype(np.int64), is_above=False))
        first += labels
    return (*kinds, EffectKind("cell", first, first + cells, is_of_leaves=False))


@dataclass(frozen=True, eq=False)
class TreePrior:
    """The prior's numbers, as a chain has learned them so far.

    Attributes
    ----------
    shapes : array (level, effect)
        Of the gamma laws, for the levels below the top; the first line is not used.
    empty : float
        The share of leaves that are empty.
    firmness : float
        How alike families are in that share: so many leaves' worth.
    is_learned : bool
        Whether the numbers follow the release, or stay as they are.
    """

    kinds: tuple[EffectKind, ...] = field(repr=False)
    shapes: Floats
    empty: float = 0.3
    firmness: float = 4.0
    is_learned: bool = True

    @classmethod
    def of(cls, schema: Schema, n_levels: int) -> "TreePrior":
        """Return where learning begins."""
        kinds = effect_kinds(schema)
        n_effects = kinds[-1].first + kinds[-1].n_labels
        return cls(kinds, np.full((n_levels, n_effects), 2.0))

    def kinds_at(self, level: int) -> tuple[EffectKind, ...]:
        """Return the kinds of effects that units of a level have."""
        is_leaf = level == len(self.shapes) - 1
        return tuple(kind for kind in self.kinds if (kind.is_of_leaves if is_leaf else kind.is_above))

    def fixed(self, **numbers: object) -> "TreePrior":
        """Return a prior whose numbers are given and stay."""
        return replace(self, is_learned=False, **numbers)  # type: ignore[arg-type]


def log_density(shape: float) -> float:
    """Return the log density of the logarithm of a shape, up to a constant: wide, and hardly ever at its limits."""
    if not LEAST_SHAPE <= shape <= MOST_SHAPE:
        return -np.inf
    return float(-0.5 * ((np.log(shape) - _USUAL) / _SPREAD) ** 2)


# The likelihood of released children around confidential ones: the one place that it is asked from.
#
# A family's likelihood is ``prod f(y - s) / Z(s; x)``, x what was released of the parent. log Z is taken by a saddle
# point of second order: the children are tilted so that their means add up to x, and their sum is taken for normal
# there.

_SURE = 30  # below zero by so many variances, a child is zero but for one case in exp(30)
_SIDE = 10  # farther than so many deviations above zero, nothing is seen of it
_FINE = 5  # tilts that move the mean of a family's sum by a deviation, at least
_WIDEST = 50_000.0
_AT_ONCE = 1 << 22


def child_laws(law: PublicLaw) -> ChildLaws:
    """Return the tilted laws of children at each level of a tree; refuse what there is no likelihood for here."""
    for name, step in zip(law.tree.levels[1:], law.steps, strict=True):
        _check(name, step)
    sizes = [int(families.sizes.max(initial=1)) for families in law.tree.families]
    return laws_of(law.noises_below, sizes)


def _check(level: str, step: LevelStep) -> None:
    if not isinstance(step, AllocationStep):
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
    >>> from congenial.sampling.allocation_to_children.tilts_and_normaliser import Normaliser
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
    moments = []
    for stretch in np.array_split(centres, max(1, centres.size * longest // _AT_ONCE)):
        logs = -((values[None, :] - stretch[:, None]) ** 2) / (2 * variance)
        largest = logs.max(axis=1, keepdims=True)
        weights = np.exp(logs - largest)
        mass = weights.sum(axis=1)
        mean = weights @ values / mass
        spread = weights @ values**2 / mass - mean**2
        moments.append(np.stack([np.log(mass) + largest[:, 0], mean - stretch, np.maximum(spread, 0.0)], axis=1))
    return np.concatenate(moments)


def log_normaliser(laws: ChildLaws, level: int, counts: Ints, wanted: int) -> float:
    """Return log Z of one cell of a family, around its children's counts (child,), given their released sum.

    Exact without a rest where nothing is left open: one child, or nothing to share out.
    """
    from congenial.inference.tree.kernels_effects_and_normalisers import log_normaliser as of_many

    noise = float(laws.noise[level])
    if wanted == 0 or counts.size == 1:
        gaps = counts.astype(np.float64) - (0 if wanted == 0 else wanted)
        return float(-(gaps**2).sum() / (2 * noise))
    return float(of_many(laws, level, counts.astype(np.int64)[:, None], wanted))


# What noise alone can bring about in units without people: where a release does not tell them from others.
#
# Cells are not negative, so noise can only push an empty unit up. The prior has leaves that are empty as a whole, and
# no larger units, whose draws exclude 0 for that reason. Their low end is 0 wherever the noise of an empty unit
# reaches the released number with at least the probability of a tail.

_FAR = 12  # deviations of one cell's noise: beyond them nothing is seen
_MANY = 400  # cells whose sum is taken for normal
_DIGITS = 6


def noise_variances(law: PublicLaw) -> tuple[Floats, ...]:
    """Return the variance of the noise of an empty unit's cell (unit,), for each level, the top first.

    Children add up to what was released above them. Of n children each takes an n-th of the error of the sum, so an
    only child has that of its parent; the larger variance is taken, that with the parent's error or without it.
    """
    least = min(float(precision) for precision in law.precisions if precision)
    variances = [np.full(len(law.tree.codes[0]), 1 / least)]
    for noise, parents, families in zip(law.noises_below, law.tree.parents, law.tree.families, strict=True):
        variance, sizes = float(1 / noise.precision), families.sizes[parents]
        variances.append(np.maximum(variance, variance * (1 - 1 / sizes) + variances[-1][parents] / sizes**2))
    return tuple(variances)


def noise_quantiles(variances: Floats, n_cells: Ints, tail: float) -> Ints:
    """Return for each of some units the largest sum of its cells that noise alone reaches with a tail's probability."""
    pairs, places = np.unique(np.stack([variances.round(_DIGITS), n_cells], axis=1), axis=0, return_inverse=True)
    each = [noise_quantile({variance: int(n)}, tail) for variance, n in pairs.tolist()]
    return np.array(each, np.int64)[places.reshape(-1)]


def noise_quantile(cells: Mapping[float, int], tail: float) -> int:
    """Return the largest sum that noise alone reaches with a tail's probability, over cells given by their variance.

    Examples
    --------
    >>> noise_quantile({1.0: 1}, 0.05), noise_quantile({1.0: 16}, 0.05), noise_quantile({}, 0.05)
    (2, 13, 0)
    """
    return _noise_quantile(tuple(sorted((variance, n) for variance, n in cells.items() if n)), tail)


@lru_cache(maxsize=4096)
def _noise_quantile(cells: Sequence[tuple[float, int]], tail: float) -> int:
    if sum(n for _, n in cells) > _MANY:
        moments = [(n, _law(variance), np.arange(_law(variance).size)) for variance, n in cells]
        mean = sum(n * float(law @ values) for n, law, values in moments)
        variance = sum(n * float(law @ values**2 - (law @ values) ** 2) for n, law, values in moments)
        return int(mean + NormalDist().inv_cdf(1 - tail) * sqrt(variance) + 1)
    total = np.ones(1)
    for variance, n in cells:
        for _ in range(n):
            total = np.convolve(total, _law(variance))
    above = np.cumsum(total[::-1])[::-1]  # the probability of this sum or a larger one
    return int(np.flatnonzero(above >= tail - 1e-12)[-1])


@lru_cache(maxsize=4096)
def _law(variance: float) -> Floats:
    """Return the law of one cell without people: discrete Gaussian noise, given that it is not negative."""
    weights = np.array([exp(-(value**2) / (2 * variance)) for value in range(ceil(_FAR * sqrt(variance)) + 1)])
    return np.asarray(weights / weights.sum())
