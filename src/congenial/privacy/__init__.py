"""What a conditional release costs: certificates, calibration, neighbours, semantics, composition and audit.

Here stand the neighbour relations by name, so that whoever needs them alone loads nothing else.
"""

from congenial.errors import PrivacyError, did_you_mean

RELATIONS = ("bounded", "unbounded")
"""Which tables are neighbours: one record changes its value, or one is added or removed."""


def check_relation(neighbours: object) -> str:
    """Check the name of a neighbour relation.

    Examples
    --------
    >>> check_relation("bounded")
    'bounded'
    """
    if not isinstance(neighbours, str) or neighbours not in RELATIONS:
        raise PrivacyError(
            f"neighbours={neighbours!r} is not a neighbour relation; {did_you_mean(str(neighbours), RELATIONS)}"
            ' ("bounded": one record changes its value; "unbounded": one record is added or removed)'
        )
    return neighbours
