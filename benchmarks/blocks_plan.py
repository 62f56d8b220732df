"""Blocks as areas by themselves: what `plan` says before anything is spent, and what a simulated release shows."""

import csv
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from real_tables import BLOCK_SCHEMA, blocks

import congenial as cg
from congenial.bundle.expected_errors import warning_lines
from congenial.conditions.areas_and_bounds import Areas
from congenial.curator.made_up_tables import reference_plan
from congenial.curator.preview import TablesPreview, preview
from congenial.privacy.disclosure import disclosure_of, sentences
from congenial.reading.reference import read_reference
from congenial.spec.load import load_spec

MOST_OFF = 0.2  # of what a simulated release shows
MOST_SECONDS = 10.0


def plan_blocks(folder: Path) -> bool:
    """Look at what all blocks of Hawaii disclose, and plan them around a public reference of all areas."""
    counts = blocks(folder, "HI")
    is_kept = review_blocks(counts)
    with tempfile.TemporaryDirectory() as place:
        return warn_of_sums(Path(place), counts, blocks(folder, "RI")) and is_kept


def review_blocks(counts: NDArray[np.int64]) -> bool:
    """Look at every block: residents and adults exact; then both margins exact."""
    is_kept = True
    by_label = {str(number): block for number, block in enumerate(counts)}
    cases = {
        "residents and adults": [cg.total(), cg.total({"age": "v18"})],
        "both margins": [cg.margin("age"), cg.margin("race")],
    }
    for name, invariants in cases.items():
        areas = Areas.disclosed(BLOCK_SCHEMA, invariants, by_label, name="block")
        start = time.process_time()
        disclosure = disclosure_of(areas, invariants)
        seconds = time.process_time() - start
        print(
            f"{len(counts):,} blocks reviewed in {seconds:.2f} s, {name} exact, {disclosure.summary.n_open} not settled"
        )
        print(*(f"  {line}" for line in sentences(disclosure, "person")), sep="\n", flush=True)
        is_kept &= seconds < MOST_SECONDS and disclosure.summary.n_open == 0
    return is_kept


def warn_of_sums(place: Path, counts: NDArray[np.int64], reference: NDArray[np.int64]) -> bool:
    """Compare what `plan --reference` warns of, around another state, with a release simulated around that state."""
    _write(place / "reference.csv", reference)
    _write(place / "counts.csv", counts)
    codes = ", ".join(f'"{number:05}"' for number in range(len(counts)))
    ages, races = (", ".join(BLOCK_SCHEMA.labels(name)) for name in BLOCK_SCHEMA.names)
    (place / "spec.yaml").write_text(
        "release: blocks\ndata: {path: counts.csv, kind: counts, count: n, status: public}\nbudget: {epsilon: 1}\n"
        f"by: {{name: block, levels: [{codes}]}}\ndimensions: {{age: [{ages}], race: [{races}]}}\n"
        "invariants: [total]\n",
        encoding="utf-8",
    )
    spec = load_spec(place / "spec.yaml")
    start = time.process_time()
    planned = preview(spec, place, place / "reference.csv")
    assert isinstance(planned, TablesPreview)
    print(f"planned with a reference of all areas in {time.process_time() - start:.1f} s of processor time")
    print(*(f"  {line}" for line in warning_lines(planned.sums)), sep="\n", flush=True)
    plan = reference_plan(spec, planned.plan, *read_reference(spec, place / "reference.csv"))
    around = (plan.draw_areas(reference, cg.secure_rng()) - reference).sum(axis=0)
    real = (planned.plan.draw_areas(counts, cg.secure_rng()) - counts).sum(axis=0)
    cells = {row.name: list(row.cells) for name in spec.schema.names for row in cg.margin(name).rows(spec.schema)}
    is_kept = bool(planned.sums.biased)
    for sum_ in planned.sums.biased:
        shown, truth = (int(gaps[cells[sum_.text]].sum()) for gaps in (around, real))
        off = abs(sum_.bias_of_all - shown) / abs(shown)
        print(
            f"  {sum_.text}: {sum_.bias_of_all:+,.0f} said by plan, {shown:+,} in a release simulated around the"
            f" reference ({off:.1%} apart); {truth:+,} in one of the data themselves",
            flush=True,
        )
        is_kept &= off < MOST_OFF or sum_ not in planned.sums.biased[:3]
    return is_kept


def _write(path: Path, counts: NDArray[np.int64]) -> None:
    ages, races = BLOCK_SCHEMA.labels("age"), BLOCK_SCHEMA.labels("race")
    names = [(age, race) for age in ages for race in races]
    with path.open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["block", "age", "race", "n"])
        for number, block in enumerate(counts.tolist()):
            rows.writerows((f"{number:05}", *name, n) for name, n in zip(names, block, strict=True))
