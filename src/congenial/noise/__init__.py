"""Laws of noise."""

from congenial.errors import NoiseError, did_you_mean
from congenial.exact import exact_fraction
from congenial.noise.families import DiscreteGaussian, DoubleGeometric, Laplace, Suppression
from congenial.noise.noise_and_discrete_noise import DiscreteNoise, Noise
from congenial.noise.weight import NoiseWeight

__all__ = [
    "DEFAULT",
    "FAMILIES",
    "DiscreteGaussian",
    "DiscreteNoise",
    "DoubleGeometric",
    "Laplace",
    "Noise",
    "NoiseWeight",
    "Suppression",
    "make_noise",
]

DEFAULT = DoubleGeometric.family
FAMILIES: dict[str, type[Noise]] = {kind.family: kind for kind in (DoubleGeometric, DiscreteGaussian, Laplace)}


def make_noise(family: str, precision: object) -> Noise | Suppression:
    """Return the noise of a family at a precision; precision 0 gives `Suppression`.

    Examples
    --------
    >>> make_noise("double_geometric", "1/2")
    DoubleGeometric(precision=Fraction(1, 2))
    >>> make_noise("double_geometric", 0)
    Suppression: precision 0, nothing but the invariants is released
    """
    if family not in FAMILIES:
        raise NoiseError(f"noise {family!r} is not known; {did_you_mean(str(family), FAMILIES)}")
    exact = exact_fraction(precision, "precision")
    return Suppression() if exact == 0 else FAMILIES[family](exact)
