"""The files of a bundle: there are no others."""

MANIFEST, SIGNATURE, TABLE, AREAS, README = (
    *("manifest.json", "signature.json", "table.csv", "areas.parquet", "README.txt"),
)
PARQUET, REPORT = "table.parquet", "report.html"
OF_OUTPUT = {"parquet": PARQUET, "report": REPORT}
"""What a curator may leave out, by the name of the output. The manifest says why it is not there."""

EXACT_CELLS = "exact-cells.parquet"
"""Which cells of which areas the exact numbers give away; where there are none, there is no such file."""

EXPECTED_ERRORS = "expected-errors.csv"
"""Errors and biases to expect by level and class of count, computed around the release."""

REPORT_ERRORS, REPORT_PICTURE = "report.html: expected errors", "report.html: picture of the noise"
"""Parts of the report without which it still says what matters."""

NOT_ASKED_FOR = "not asked for"

MOST_ROWS = 5_000_000
"""Rows of table.csv at most, where table.parquet has them too."""

TOO_LONG = f"it would have more than {MOST_ROWS:,} rows, and table.parquet has them"

LARGEST = 1 << 30
"""Bytes of one file at most, but for the tables: a reader takes it into memory."""
