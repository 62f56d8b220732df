"""Whether a picture shows something."""

from pathlib import Path

import numpy as np
from matplotlib import image


def ink(path: Path) -> float:
    """Return the share of pixels that are not the colour of the upper left corner."""
    pixels = image.imread(path)[..., :3]
    return float((np.abs(pixels - pixels[0, 0]).max(axis=-1) > 0.1).mean())


def is_blank(path: Path) -> bool:
    """Say whether less than one pixel in a hundred is drawn on: axes alone are."""
    return ink(path) < 0.01
