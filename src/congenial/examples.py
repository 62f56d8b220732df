"""Small worked examples, GM's own first."""

from congenial.conditions.limits_and_shares import share
from congenial.conditions.queries import cells, total
from congenial.law import Law
from congenial.mechanism_and_hierarchy import Mechanism
from congenial.schema import Schema
from congenial.table import Table

P12_AGES = (
    "under 5", "5-9", "10-14", "15-17", "18-19", "20", "21", "22-24", "25-29", "30-34", "35-39", "40-44",
    "45-49", "50-54", "55-59", "60-61", "62-64", "65-66", "67-69", "70-74", "75-79", "80-84", "85+",
)  # fmt: skip
"""Age groups of Census table P12. GM's print heads the first four columns "< 5, 6-10, 11-15, 16-17"; the Census's
own groups are these."""

P12_VOTING_AGES = P12_AGES[4:]

_FEMALE = (8, 6, 3, 6, 4, 4, 4, 8, 5, 7, 7, 6, 1, 5, 4, 4, 9, 6, 2, 8, 8, 8, 7)
_MALE = (3, 4, 5, 8, 6, 4, 5, 5, 5, 6, 10, 7, 3, 2, 5, 11, 6, 4, 7, 4, 5, 3, 8)
_FEMALE_RELEASED = (6, 6, 4, 3, 2, 10, 2, 5, 6, 7, 5, 6, 0, 5, 4, 5, 10, 8, 3, 8, 8, 12, 5)
_MALE_RELEASED = (9, 4, 5, 6, 3, 4, 5, 5, 3, 4, 7, 8, 5, 3, 2, 23, 8, 2, 6, 3, 0, 3, 8)

P12_INDEX_SET = tuple(cell for cell in range(46) if cell not in {0, 22, 45})
"""GM's proposal index set {2, ..., 22, 24, ..., 45}, counted from 0."""


def p12_schema() -> Schema:
    """Return the 2 x 23 cells of Census table P12, in GM's order: female first."""
    return Schema({"sex": ["female", "male"], "age": P12_AGES})


def p12_table() -> Table:
    """Return the simulated confidential table that GM print (their Table 1, top).

    Examples
    --------
    >>> p12_table().total
    256
    """
    return Table(p12_schema(), [_FEMALE, _MALE])


def p12_printed_release() -> Table:
    """Return the release that GM print (their Table 1, bottom)."""
    return Table(p12_schema(), [_FEMALE_RELEASED, _MALE_RELEASED])


def p12_mechanism(precision: str | None = None, *, epsilon: str | None = None) -> Mechanism:
    """Return GM's mechanism of section 3: total, share of women and voting-age population exact, no negative counts.

    Cells are measured at GM's precision 1/2, or at the given one, or as a total epsilon allows.

    Examples
    --------
    >>> p12_mechanism().disclose(p12_table()).rank
    3
    """
    return Mechanism(
        p12_schema(),
        measure=[cells(precision=precision or ("1/2" if epsilon is None else None))],
        invariants=[total(), share({"sex": "female"}), total({"age": P12_VOTING_AGES}, name="voting age")],
        epsilon=epsilon,
    )


def two_bins() -> Law:
    """Return a two-bin histogram of five people with a fixed total."""
    schema = Schema({"bin": ["first", "second"]})
    mechanism = Mechanism(schema, measure=[cells(precision="1")], invariants=[total()])
    return mechanism.law(Table(schema, [2, 3]))
