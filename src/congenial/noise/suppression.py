"""Precision 0: nothing but the invariants is released (GM's M0)."""

from dataclasses import dataclass
from typing import NoReturn

from congenial.errors import SuppressedError


@dataclass(frozen=True)
class Suppression:
    """The mechanism of zero loss: it says nothing, and no probability describes what it says (GM, Definition 3).

    Examples
    --------
    >>> Suppression()
    Suppression: precision 0, nothing but the invariants is released
    """

    family = "suppression"

    def sample(self, *_: object) -> NoReturn:
        """Refuse: there is no draw."""
        raise SuppressedError(
            "precision 0 is suppression: nothing but the invariants is released, so there is nothing to draw;"
            ' give the measured queries a precision above 0, such as precision="1/2"'
        )

    def __repr__(self) -> str:
        return "Suppression: precision 0, nothing but the invariants is released"
