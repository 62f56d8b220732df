"""What the invariants give away, for `plan`: sentences, plain values, and a file that lists every cell."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from congenial.bundle.review_json import counted_json
from congenial.privacy.review import Review
from congenial.privacy.review_text import level_sentences
from congenial.reading.confidential_csv import write_confidential_csv
from congenial.spec.spec import Spec
from congenial.table import CONFIDENTIAL


def given_away_lines(reviews: Sequence[Review], unit: str) -> list[str]:
    """Return what was found in every area, or at each level of a tree, in sentences."""
    return level_sentences(reviews, unit)


def given_away_json(reviews: Sequence[Review], unit: str) -> dict[str, Any]:
    """Return the sentences and the counts as plain values."""
    counts = [counted_json(found.counted) for found in reviews]
    return {"sentences": given_away_lines(reviews, unit), "counts": counts}


def write_given_away(spec: Spec, folder: Path, reviews: Sequence[Review]) -> str:
    """List every cell that is given away, with its value, and return where, as the end of a sentence.

    The values are published with the release; until then they are confidential.
    """
    dimensions = [found.name for found in spec.dimensions]
    header = ["level", "area", *dimensions, "value"]
    file = folder / f"{CONFIDENTIAL}given-away-{spec.release}.csv"
    return write_confidential_csv(file, header, (row for found in reviews for row in _rows(found)), most_rows=None)


def _rows(review: Review) -> Iterator[tuple[object, ...]]:
    schema = review.schema
    labels = [tuple(part.values()) for part in map(schema.labels_of, range(schema.n_cells))]
    for area, cell, value in review.cells():
        yield review.counted.area or "", area or "", *labels[cell], value
