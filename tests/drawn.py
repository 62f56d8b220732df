"""How many systems, problems or edits a test draws: few in every run of the tests, ten times as many in an audit."""

import os

_TIMES = int(os.environ.get("CONGENIAL_DRAWN", "1"))


def drawn(n: int) -> int:
    """Return `n`, or as many times that as `make audit-drawn` asks for."""
    return n * _TIMES
