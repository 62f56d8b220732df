"""Areas that are left unpublished by name: where the certificate covers it, and nothing else gives them away."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from congenial.conditions.condition import Condition
from congenial.conditions.queries import Query
from congenial.errors import did_you_mean
from congenial.schema import Schema
from congenial.spec.conditions import Statement
from congenial.spec.levels import Levels
from congenial.spec.mistakes import Mistakes

if TYPE_CHECKING:
    from congenial.spec.model import SpecFile


def read_unpublished(
    file: "SpecFile", by: Levels | None, invariants: Sequence[Statement], schema: Schema | None, mistakes: Mistakes
) -> tuple[str, ...]:
    """Return the areas whose tables are not released; what makes that impossible is noted.

    Tables of areas do not add up to anything that is released, so the others say nothing of them but for one thing: a
    record that changes its area leaves the published tables. Under bounded neighbours no certificate covers that. It is
    out of the question where each published total is exact, for tables with other totals are not compared, and where
    the column is public.
    """
    if file.hierarchy is not None and file.hierarchy.unpublished:
        mistakes.add(
            ("hierarchy", "unpublished"),
            "every table of a tree is the sum of its parts: what is left out is the difference of what is published."
            " Leave out the whole level, or release the areas apart from each other, with `by:`",
        )
    if file.by is None or by is None or not file.by.unpublished:
        return ()
    left_out = tuple(dict.fromkeys(file.by.unpublished))
    for place, label in enumerate(file.by.unpublished):
        if label not in by.places:
            mistakes.add(
                ("by", "unpublished", place), f"{label!r} is not a {by.name}; {did_you_mean(label, by.labels)}"
            )
    if len(left_out) >= len(by.labels):
        mistakes.add(("by", "unpublished"), f"every {by.name} is left unpublished; nothing would be released")
    public = [] if file.data is None else file.data.public_columns
    if schema is None or file.neighbours != "bounded" or by.column in public:
        return left_out
    if not any(_fixes_total(statement.condition.of_area(by.labels[0]), schema) for statement in invariants):
        mistakes.add(
            ("by", "unpublished"),
            f"a person who moves to a {by.name} that is not published leaves the release, and under bounded neighbours"
            " the certificate does not cover that. Make the total of each exact (`invariants: [total]`); or write"
            f" `public_columns: [{by.column}]` under `data:`, if everybody may know who is where; or `neighbours:"
            " unbounded`, under which people come and go",
        )
    return left_out


def _fixes_total(query: Condition, schema: Schema) -> bool:
    """Whether sums that come out exactly add up to all cells."""
    rows = query.rows(schema) if isinstance(query, Query) and query.stated_range.is_free else []
    cells = [cell for row in rows if set(row.coefficients) == {1} for cell in row.cells]
    return sorted(cells) == list(range(schema.n_cells))
