"""What a release states exactly, in words and with its values, read off the released tables themselves."""

from collections.abc import Mapping, Sequence

from congenial.arrays import Ints
from congenial.bundle.manifest import Exactly
from congenial.conditions.queries import Query, Share
from congenial.public_law import Area
from congenial.schema import Schema
from congenial.spec.conditions import Statement


def exactly(schema: Schema, statements: Sequence[Statement], tables: Mapping[Area, Ints]) -> tuple[Exactly, ...]:
    """Return every invariant statistic; a margin has one for each of its sums.

    The released tables obey the invariants, so their values are the disclosed ones.
    """
    out: list[Exactly] = []
    for statement in statements:
        condition = statement.condition
        if isinstance(condition, Query):
            rows = condition.rows(schema)
            for row in rows:
                text = statement.text if len(rows) == 1 else f"{statement.text}: {row.name}"
                out.append(
                    Exactly(
                        text,
                        statement.mandate,
                        {area: str(row.value(counts.tolist())) for area, counts in tables.items()},
                    )
                )
        elif isinstance(condition, Share):
            # Only the proportion is exact; the counts above and below the line may carry noise.
            values = {area: _share(condition, schema, counts.tolist()) for area, counts in tables.items()}
            out.append(Exactly(statement.text, statement.mandate, values))
    return tuple(out)


def _share(condition: Share, schema: Schema, counts: list[int]) -> str:
    value = condition.value(schema, counts)
    return "no one to take a share of" if value is None else f"{value} ({float(value):.4%})"
