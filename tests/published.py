"""Published laws of mechanisms, without a bundle on disk."""

import congenial as cg
from congenial.law import PublicLaw


def law_of(mechanism: cg.Mechanism, table: cg.Table) -> PublicLaw:
    """Return the published law of a mechanism for one table's invariants."""
    return mechanism.calibrate(mechanism.disclose(table))
