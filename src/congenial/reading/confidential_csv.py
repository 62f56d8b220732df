"""Files for the curator's eyes: what a message may not say, in a CSV file that only its owner can read."""

import csv
import os
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from congenial.text import is_taken_for_a_formula, on_one_line

_MOST_ROWS = 10_000


def write_confidential_csv(
    file: Path, header: Sequence[str], rows: Iterable[Sequence[object]], *, most_rows: int | None = _MOST_ROWS
) -> str:
    """Write some rows and return where they are, as the end of a sentence.

    A person reads the file, in a spreadsheet perhaps, and its texts may come from anywhere: characters that do not show
    are escaped, and what a spreadsheet would compute begins with an apostrophe.
    """
    try:
        file.unlink(missing_ok=True)  # whatever stands there, a link to a public file included, is not written to
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(map(_cell, header))
            writer.writerows(map(_cell, row) for row in islice(rows, most_rows))
    except OSError:
        return f"could not be written to {file.name}: is the folder of the spec writable?"
    return f"is in {file.name}, which stays confidential"


def _cell(value: object) -> object:
    text = on_one_line(value) if isinstance(value, str) else value
    return f"'{text}" if isinstance(text, str) and is_taken_for_a_formula(text) else text
