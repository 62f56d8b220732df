"""What a user says: queries that can be measured or held exactly, and conditions on the table.

A query is a family of linear statistics. In ``measure=[...]`` it gets noise; in ``invariants=[...]`` it comes out
exactly, at the confidential table's value unless one is stated (``equals``, ``at_least``, ``at_most``).
"""

from congenial.conditions.condition import Condition, Counts, as_list
from congenial.conditions.kinds.bounds import Bounds, StructuralZeros, bounds, structural_zeros
from congenial.conditions.kinds.cells import Cells, cells
from congenial.conditions.kinds.linear import Linear, linear
from congenial.conditions.kinds.margin import Margin, margin
from congenial.conditions.kinds.query import Query
from congenial.conditions.kinds.share import Share, share
from congenial.conditions.kinds.total import Total, total

__all__ = [
    "Bounds",
    "Cells",
    "Condition",
    "Counts",
    "Linear",
    "Margin",
    "Query",
    "Share",
    "StructuralZeros",
    "Total",
    "as_list",
    "bounds",
    "cells",
    "linear",
    "margin",
    "share",
    "structural_zeros",
    "total",
]
