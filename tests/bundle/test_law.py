"""The manifest alone determines the law: rebuilt from the file, it is the law that the release was drawn from."""

import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from congenial.conditions.queries import cells
from congenial.inference.analyst_bundle import load_bundle
from congenial.law import Law, PublicLaw
from congenial.mechanism_and_hierarchy import Mechanism
from congenial.randomness import replay_rng
from congenial.reading import read_tables
from congenial.sampling.enumeration import EnumeratedLaw
from congenial.spec.load import load_spec
from congenial.spec.spec_and_hierarchy import Spec
from congenial.table import Table
from releases import CASES, Maker, manifest_of

ENUMERATED = [
    "one table",
    "structural zeros",
    "ranges",
    "weights",
    "shares",
    "queries",
    "gaussian",
    "epsilon and delta",
]
ONE_TABLE = [*ENUMERATED, "nothing exact", "unbounded"]


def law_from_the_file_alone(case_folder: Maker, case: str, tmp_path: Path) -> PublicLaw:
    """Take manifest.json, and the areas' values where there are several, to an empty folder and read them there."""
    for name in ("manifest.json", "areas.parquet"):
        if (case_folder(case) / "bundle" / name).exists():
            shutil.copyfile(case_folder(case) / "bundle" / name, tmp_path / name)
    return manifest_of(tmp_path).law


def confidential(case_folder: Maker, case: str) -> tuple[Spec, dict[str | None, Table]]:
    spec = load_spec(case_folder(case) / "spec.yaml")
    return spec, read_tables(spec, case_folder(case))


@pytest.mark.parametrize("case", ENUMERATED)
def test_every_probability_is_the_same_fraction(case: str, case_folder: Maker, tmp_path: Path) -> None:
    law = law_from_the_file_alone(case_folder, case, tmp_path)
    spec, tables = confidential(case_folder, case)
    ours = spec.mechanism.law(tables[None]).enumerated
    theirs = EnumeratedLaw.of(law.target(None, tables[None].counts))
    assert np.array_equal(ours.tables, theirs.tables)
    assert list(ours.probabilities) == list(theirs.probabilities)
    assert sum(theirs.probabilities, Fraction(0)) == 1


@pytest.mark.parametrize("case", ONE_TABLE)
def test_the_engine_gives_the_same_numbers_to_the_last_bit(case: str, case_folder: Maker, tmp_path: Path) -> None:
    spec, tables = confidential(case_folder, case)
    ours = spec.mechanism.law(tables[None])
    theirs = Law(law_from_the_file_alone(case_folder, case, tmp_path), tables[None].counts)
    draws = ours.sample(50, replay_rng(case))
    assert np.array_equal(draws, theirs.sample(50, replay_rng(case)))
    assert ours.log_normaliser() == theirs.log_normaliser()
    assert np.array_equal(ours.log_probability(draws), theirs.log_probability(draws))


@pytest.mark.parametrize("case", ["areas", "areas with totals", "several rows"])
def test_laws_whose_precision_all_areas_decide_together(case: str, case_folder: Maker, tmp_path: Path) -> None:
    """The mechanism of one table does not know of the others; given the published precision, the laws agree."""
    law = law_from_the_file_alone(case_folder, case, tmp_path)
    spec, tables = confidential(case_folder, case)
    measured = [
        cells(query.where, precision=published.precision, zeros=published.zero_weight)
        for query, published in zip(spec.measured, law.queries, strict=True)
    ]
    conditions = [statement.condition for statement in (*spec.invariants, *spec.conditions)]
    mechanism = Mechanism(spec.schema, measure=measured, invariants=conditions, noise=spec.noise)
    for area, table in tables.items():
        ours, theirs = mechanism.law(table), Law(law, table.counts, area)
        assert ours.log_normaliser() == theirs.log_normaliser()
        draws = ours.sample(20, replay_rng(case))
        assert np.array_equal(ours.log_probability(draws), theirs.log_probability(draws))


@pytest.mark.parametrize("case", CASES)
def test_released_tables_have_a_chance_under_the_published_law(case: str, case_folder: Maker) -> None:
    bundle = load_bundle(case_folder(case) / "bundle")
    _, tables = confidential(case_folder, case)
    for area, counts in bundle.tables.items():
        law = Law(bundle.law, tables[area].counts, area)
        assert np.isfinite(law.log_probability(counts[None, :])).all()


def test_another_precision_is_another_law(case_folder: Maker, tmp_path: Path) -> None:
    """The mutant: were a precision rounded on its way into the file, the fractions would differ."""
    from dataclasses import replace

    law = law_from_the_file_alone(case_folder, "one table", tmp_path)
    _, tables = confidential(case_folder, "one table")
    rounded = replace(law, queries=(replace(law.queries[0], precision=Fraction("0.310057")),))
    ours, theirs = (EnumeratedLaw.of(public.target(None, tables[None].counts)) for public in (law, rounded))
    assert list(ours.probabilities) != list(theirs.probabilities)
