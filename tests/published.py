"""Published laws of mechanisms, without a bundle on disk."""

from fractions import Fraction

import congenial as cg
from congenial.public_law import MeasuredQuery, PublicLaw


def law_of(mechanism: cg.Mechanism, table: cg.Table) -> PublicLaw:
    """Return the published law of a mechanism for one table's invariants."""
    queries = tuple(
        MeasuredQuery(query.text, query.precision or Fraction(0), tuple(rows))
        for query, rows in zip(mechanism.queries, mechanism.classes, strict=True)
    )
    return PublicLaw(mechanism.schema, mechanism.noise, queries, None, ((None, mechanism.disclose(table)),))
