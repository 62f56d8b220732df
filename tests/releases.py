"""Small specs with their data, one for each thing that a law can have, and a ledger to charge them to."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from congenial.bundle.areas_spine_and_level_files import areas_of_parquet
from congenial.bundle.file_registry import AREAS
from congenial.bundle.manifest import Manifest, untouched_values
from congenial.bundle.read import read_tree
from congenial.bundle.workload_earlier import read_manifest
from congenial.bundle.workload_manifest import is_workload
from congenial.curator import pipeline
from congenial.ledger import Ledger, open_ledger
from congenial.release import Prepared
from congenial.spec.load import load_spec

Maker = Callable[[str], Path]
"""Gives the folder in which a case was released."""

NOW = datetime(2026, 1, 16, 12, 0, 0, tzinfo=UTC)  # no clock that the tests run by is before it

HEAD = """\
release: small
dataset: town
data: {path: data.csv, kind: counts, count: n}
dimensions:
  sex: [f, m]
  age: ["010", "020", "030"]
"""
BUDGET = "budget: {epsilon: 1}\n"
COUNTS = "sex,age,n\nf,010,3\nf,020,0\nf,030,2\nm,010,1\nm,020,2\nm,030,1\n"  # 2,002 tables have its total
FEW = "sex,age,n\nf,010,1\nf,020,0\nf,030,0\nm,010,0\nm,020,1\nm,030,0\n"  # 21: a Gaussian goes through all pairs
HOLES = COUNTS.replace("f,010,3", "f,010,0")
TWO_AREAS = "area,sex,age,n\n" + "".join(
    f"{area},{line}\n" for area in ("01", "02") for line in COUNTS.splitlines()[1:]
)
MICRODATA = "person,sex,age\n" + "".join(
    f"p{number % 9},{sex},{age}\n" for number, (sex, age) in enumerate([("f", "010"), ("m", "020"), ("m", "030")] * 6)
)


@dataclass(frozen=True)
class Case:
    """A spec, its data, and the cap of a ledger that can pay for it."""

    spec: str
    data: str = COUNTS
    cap: tuple[str, str] = ("epsilon", "4")


CASES = {
    "one table": Case(HEAD + BUDGET + "invariants: [total]\n"),
    "nothing exact": Case(HEAD + BUDGET),
    "areas": Case(HEAD + BUDGET + 'by: {name: area, levels: ["01", "02"]}\n', TWO_AREAS),
    "areas with totals": Case(
        HEAD + BUDGET + 'by: {name: area, levels: ["01", "02"]}\ninvariants: [total]\n', TWO_AREAS
    ),
    "structural zeros": Case(
        HEAD + BUDGET + 'invariants: [{margin: [sex]}]\nconditions: [{zeros: {sex: f, age: "010"}}]\n', HOLES
    ),
    "ranges": Case(
        HEAD
        + BUDGET
        + "invariants: [total]\nconditions:\n  - {bounds: all, at_least: 0, at_most: 9}\n"
        + "  - {total: f, at_least: 3, at_most: 8, mandate: a law}\n"
    ),
    "weights": Case(
        HEAD + BUDGET + "invariants: [total, {linear: [{times: 2, of: f}, {times: 3, of: '010'}], name: points}]\n"
    ),
    "shares": Case(HEAD + BUDGET + "invariants: [{share: f, of: all, mandate: quota}, total]\n"),
    "queries": Case(
        HEAD
        + BUDGET
        + "invariants: [total]\n"
        + "measure: [{cells: all, portion: 2}, {margin: [sex], portion: 1}, {total: '010', precision: 1/9}]\n"
    ),
    "given precisions": Case(HEAD + "measure: [{cells: all, precision: 1/2}]\ninvariants: [total]\n"),
    "gaussian": Case(
        HEAD + "budget: {rho: 1/2}\nnoise: discrete_gaussian\ninvariants: [total]\n", FEW, cap=("rho", "2")
    ),
    "epsilon and delta": Case(
        HEAD + "budget: {epsilon: 1, delta: 1e-6}\nnoise: discrete_gaussian\ninvariants: [total]\n",
        FEW,
        cap=("rho", "2"),
    ),
    "unbounded": Case(HEAD + BUDGET + "neighbours: unbounded\n"),
    "several rows": Case(
        HEAD.replace("kind: counts, count: n", "kind: microdata")
        + BUDGET
        + "unit: {id: person, at_most: 3}\ninvariants: [total]\n",
        MICRODATA,
    ),
    "measured": Case(HEAD + BUDGET + "invariants: [total]\nmethod: measured\n"),
    "measured areas": Case(
        HEAD + BUDGET + 'by: {name: area, levels: ["01", "02"]}\ninvariants: [{margin: [sex]}]\nmethod: measured\n',
        TWO_AREAS,
    ),
    "measured queries": Case(
        HEAD
        + BUDGET
        + "invariants: [total]\nmethod: measured\nrule: nearest\n"
        + "measure: [{cells: all, portion: 2}, {margin: [sex], portion: 1}]\n"
    ),
    "measured gaussian": Case(
        HEAD
        + "budget: {rho: 1/2}\nnoise: discrete_gaussian\nmethod: measured\n"
        + 'invariants: [{margin: [sex]}, {margin: [age]}]\nconditions: [{zeros: {sex: f, age: "010"}}]\n',
        HOLES,
        cap=("rho", "2"),
    ),
}

_OF_RECORDS = """\
release: tables
dataset: town
data: {path: data.csv, kind: microdata, status: simulated}
unit: {one_row_per: person}
dimensions:
  county: [n, s, w]
  sex: [f, m]
  ill: [a, b, c]
"""
TABLES = """\
tables:
  county-sex: [county, sex]
  county-ill: [county, ill]
  sex-ill: [ill, sex]
"""
RHO = "budget: {rho: 1}\n"
RECORDS = "county,sex,ill\n" + "".join(
    f"{'nsw'[number * number % 7 % 3]},{'fm'[number % 5 % 2]},{'abc'[number % 11 % 3]}\n" for number in range(90)
)
_COUNTED = "county,sex,ill,n\n" + "".join(
    f"{line},{sorted(RECORDS.splitlines()).count(line)}\n" for line in sorted(set(RECORDS.splitlines()[1:]))
)
_OF_COUNTS = _OF_RECORDS.replace("kind: microdata", "kind: counts, count: n").replace(
    "unit: {one_row_per: person}\n", ""
)
_ZCDP, _PURE = ("rho", "4"), ("epsilon", "8")

TABLE_CASES = {
    "tables": Case(_OF_RECORDS + TABLES + RHO + "invariants: [{margin: [county]}, {margin: [ill]}]\n", RECORDS, _ZCDP),
    "tables, nothing exact": Case(_OF_RECORDS + TABLES + RHO, RECORDS, _ZCDP),
    "tables, pure epsilon": Case(_OF_RECORDS + TABLES + "budget: {epsilon: 2}\ninvariants: [total]\n", RECORDS, _PURE),
    "tables, epsilon at delta": Case(
        _OF_RECORDS + TABLES + "budget: {epsilon: 2, delta: 1e-6}\nnoise: discrete_gaussian\n", RECORDS, _ZCDP
    ),
    "tables, precisions": Case(
        _OF_RECORDS
        + "noise: discrete_gaussian\ninvariants: [{margin: [county, sex]}]\ntables:\n"
        + "  one: {margin: [county, ill], precision: 1/4}\n  two: {margin: [sex, ill], precision: 1/9}\n",
        RECORDS,
        _ZCDP,
    ),
    "tables, unbounded": Case(_OF_RECORDS + TABLES + RHO + "neighbours: unbounded\n", RECORDS, _ZCDP),
    "tables, margins that overlap": Case(
        _OF_RECORDS
        + "tables: {all: [county, sex, ill], two: [sex, ill]}\n"
        + RHO
        + "invariants: [{margin: [sex, county]}, {margin: [ill, county]}]\n",
        RECORDS,
        _ZCDP,
    ),
    "tables, sums of groups": Case(
        _OF_RECORDS + TABLES + RHO + "invariants: [total, {total: f}, {total: {county: [n, s], ill: a}}]\n",
        RECORDS,
        _ZCDP,
    ),
    "tables, zeros": Case(
        _OF_COUNTS + TABLES + RHO + "invariants: [{margin: [ill]}]\nconditions: [{zeros: {sex: f, ill: a}}]\n",
        "".join(line + "\n" for line in _COUNTED.splitlines() if ",f,a," not in line),
        _ZCDP,
    ),
    "tables and cells": Case(
        _OF_RECORDS + TABLES + RHO + "also_measure: [{cells: all, portion: 3/20}]\nshares: {by: cells}\n",
        RECORDS,
        _ZCDP,
    ),
    "tables, one follows": Case(
        _OF_RECORDS
        + "tables: {county: [county], county-ill: [county, ill], sex-ill: [sex, ill]}\nprotects: one record\n"
        + RHO
        + "invariants: [{margin: [county]}]\noutputs: [csv]\n",
        RECORDS,
        _ZCDP,
    ),
    "tables of areas": Case(
        _OF_RECORDS.replace("  county: [n, s, w]\n", "")
        + "by: {name: county, levels: [n, s, w]}\n"
        + TABLES
        + RHO
        + "invariants: [total]\n",
        RECORDS,
        _ZCDP,
    ),
}
"""Several tables of the same records."""


def place(folder: Path, case: Case) -> Path:
    """Write a case's files into a folder and return the spec's path."""
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "data.csv").write_text(case.data, encoding="utf-8")
    (folder / "spec.yaml").write_text(case.spec, encoding="utf-8")
    return folder / "spec.yaml"


def ledger_for(folder: Path, case: Case) -> Ledger:
    """Make a ledger in which the dataset has the case's cap."""
    made = open_ledger(folder / "budget.db", create=True)
    currency, cap = case.cap
    neighbours = "unbounded" if "unbounded" in case.spec else "bounded"
    caps = {currency: cap}
    made.create_dataset(
        "town", epsilon=caps.get("epsilon"), rho=caps.get("rho"), neighbours=neighbours, who="Ada", now=NOW
    )
    return made


def release(spec: Path, out: Path, **options: Any) -> pipeline.Published:
    """Release a spec file."""
    return pipeline.release(load_spec(spec), spec.parent, out, **options)


def simulate(spec: Path, out: Path, **options: Any) -> pipeline.Published:
    """Simulate a spec file."""
    return pipeline.simulate(load_spec(spec), spec.parent, out, **options)


def manifest_of(bundle: Path) -> Manifest:
    """Read a bundle's manifest, with its areas' values or its tree, and check nothing else."""
    values = untouched_values((bundle / "manifest.json").read_bytes())
    if is_workload(values):
        return read_manifest(values, lambda name: (bundle / name).open("rb"))
    return Manifest.from_values(
        values,
        lambda n_exact: areas_of_parquet((bundle / AREAS).read_bytes(), n_exact),
        lambda stated, schema: read_tree(bundle, stated, schema, values["version"]),
    )


def prepare(spec: Path) -> Prepared:
    """Read and plan a spec file."""
    return pipeline.prepare(load_spec(spec), spec.parent)
