"""A small spec of several tables of the same records, with its data, its ledger and its release."""

from pathlib import Path

from congenial.curator import pipeline
from congenial.ledger import open_ledger
from congenial.spec.load import load_spec
from releases import NOW

SPEC = """\
release: small
dataset: town
data: {path: data.csv, kind: microdata, status: simulated}
unit: {one_row_per: person}
dimensions:
  county: [n, s, w]
  age: [0-17, 18-64, 65+]
  sex: [f, m]
  ill: ["no", flu]
tables:
  by age and sex: [county, age, sex]
  by illness: [county, ill]
invariants:
  - {margin: [county], mandate: a register}
budget: {rho: 1/2}
"""
COUNTIES, AGES = ("n", "s", "w"), ("0-17", "18-64", "65+")


def lines() -> list[str]:
    """Return records: of each county, age and sex other numbers, of whom every fourth is ill."""
    out = []
    for number in range(300):
        county, age = COUNTIES[number % 7 % 3], AGES[number % 5 % 3]
        out.append(f"{county},{age},{'fm'[number % 11 % 2]},{'flu' if number % 4 == 0 else 'no'}")
    return out


def place_tables(folder: Path, spec: str = SPEC) -> Path:
    """Write spec and data into a folder, and return the spec's path."""
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "data.csv").write_text("\n".join(["county,age,sex,ill", *lines()]) + "\n", encoding="utf-8")
    (folder / "spec.yaml").write_text(spec, encoding="utf-8")
    return folder / "spec.yaml"


def release_tables(folder: Path, spec: str = SPEC) -> Path:
    """Release the tables into a bundle of the folder, and return it."""
    path = place_tables(folder, spec)
    ledger = open_ledger(folder / "budget.db", create=True)
    ledger.create_dataset("town", rho="4", neighbours="bounded", who="Ada", now=NOW)
    secret = folder / "CONFIDENTIAL-small.html"
    facts = {"ledger": ledger, "who": "Ada", "now": NOW, "confidential_report": secret}
    published = pipeline.release(load_spec(path), folder, folder / "bundle", **facts)  # type: ignore[arg-type]
    assert published.missing == ""
    return folder / "bundle"
