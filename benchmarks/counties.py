"""The P12 tables of all US counties, from a folder of public data that is not part of the project."""

import csv
import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from congenial.examples import P12_AGES


def county_tables(folder: Path) -> NDArray[np.int64]:
    """Read the 2010 Census's counts (county, cell), female first, ages in order."""
    with gzip.open(folder / "p12_dec2010_county_long.csv.gz", "rt", encoding="utf-8") as lines:
        records = [(r["geo_id"], r["sex"], r["age_bucket"], int(r["count"])) for r in csv.DictReader(lines)]
    buckets = {bucket: i for i, bucket in enumerate(sorted({bucket for _, _, bucket, _ in records}))}
    tables: dict[str, NDArray[np.int64]] = {}
    for county, sex, bucket, count in records:
        table = tables.setdefault(county, np.zeros(46, np.int64))
        table[(0 if sex == "Female" else len(P12_AGES)) + buckets[bucket]] = count
    return np.array([tables[county] for county in sorted(tables)])
