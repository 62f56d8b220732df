"""Levels and areas from a public file: read with the spec, hashed into the manifest, wrong lines named."""

import gzip
import json
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner

import congenial as cg
from congenial.cli.main import main
from congenial.curator.pipeline import prepare, simulate
from congenial.errors import ReadingError, SpecError
from congenial.reading import read_tables
from congenial.spec import load_spec, parse_spec
from congenial.spec.yaml_and_mistakes import LARGEST_FILE

SPEC = """\
release: towns
data: {path: people.csv, kind: microdata, status: simulated}
unit: {one_row_per: person}
dimensions: {sex: {column: SEX, levels: {file: sexes.csv, code: code, label: name, separator: semicolon}}}
by: {name: town, levels: {file: towns.csv, code: id, label: name, parent: county}}
invariants: [total]
budget: {epsilon: 1}
outputs: [csv]
"""
SEXES = "name;code\nfemale;1\nmale;2\n"
TOWNS = 'id,county,name\n01,North,Ashby\n02,North,"Bow, Upper"\n\n03,South,Cley\n'
PEOPLE = "SEX,town\n1,01\n2,03\n2,03\n"


def placed(folder: Path, *, spec: str = SPEC, towns: str | bytes = TOWNS, people: str = PEOPLE) -> Path:
    (folder / "towns.csv").write_bytes(towns.encode() if isinstance(towns, str) else towns)
    (folder / "sexes.csv").write_text(SEXES)
    (folder / "people.csv").write_text(people)
    (folder / "spec.yaml").write_text(spec)
    return folder / "spec.yaml"


def test_levels_and_areas_are_those_of_the_files(tmp_path: Path) -> None:
    spec = load_spec(placed(tmp_path))
    assert spec.dimensions[0].labels == ("female", "male")
    assert spec.areas == ("Ashby", "Bow, Upper", "Cley")
    counts = {area: table.counts.tolist() for area, table in read_tables(spec, tmp_path).items()}
    assert counts == {"Ashby": [1, 0], "Bow, Upper": [0, 0], "Cley": [0, 2]}


def test_a_bundle_says_which_files_they_were(tmp_path: Path) -> None:
    spec = load_spec(placed(tmp_path))
    published = simulate(spec, tmp_path, tmp_path / "out", seed=1)
    stated = json.loads((published.folder / "manifest.json").read_text())
    assert stated["public_files"] == [
        {"gives": gives, "name": name, "sha256": sha256((tmp_path / name).read_bytes()).hexdigest()}
        for gives, name in (("levels of sex", "sexes.csv"), ("areas", "towns.csv"))
    ]
    assert stated["parents"] == [["North", 2], ["South", 1]]
    naming = cg.load_bundle(published.folder).manifest.naming
    assert (naming.public_files, naming.parents) == (prepare(spec, tmp_path).naming.public_files, naming.parents)


def test_another_file_is_another_plan(tmp_path: Path) -> None:
    """What a ledger is charged for names the lists: a file that is exchanged in between shows."""
    digests = [prepare(load_spec(placed(tmp_path, towns=TOWNS + end)), tmp_path).digest for end in ("", "", "\n")]
    assert digests[0] == digests[1] != digests[2]


def test_files_packed_by_gzip(tmp_path: Path) -> None:
    assert load_spec(placed(tmp_path, towns=gzip.compress(TOWNS.encode()))).areas == ("Ashby", "Bow, Upper", "Cley")


def test_more_areas_than_a_spec_can_hold(tmp_path: Path) -> None:
    codes = [f"{code:015d}" for code in range(70_000)]
    listed = "id,county,name\n" + "".join(f"{code},North,block {code}\n" for code in codes)
    assert len(listed) > LARGEST_FILE
    spec = load_spec(placed(tmp_path, towns=listed))
    assert len(spec.areas or ()) == 70_000
    assert spec.by is not None
    assert spec.by.codes == tuple(codes)


WRONG: dict[str, tuple[str | bytes, str]] = {
    "no code": (TOWNS.replace("\n03,", "\n,"), "towns.csv, line 5: 'id' is empty"),
    "blank label": (TOWNS.replace("Cley", "  "), "towns.csv, line 5: 'name' is empty"),
    "code twice": (TOWNS.replace("02", "01"), "towns.csv, line 3: id '01' stands in line 2 already"),
    "label twice": (TOWNS.replace("Cley", "Ashby"), "towns.csv, line 5: name 'Ashby' stands in line 2 already; take a"),
    "short row": (TOWNS.replace(",Cley", ""), "towns.csv, line 5: the row has 2 fields, the header 3"),
    "open quote": (TOWNS.replace('Upper"', "Upper"), "a quote is opened or closed in the wrong place"),
    "no column": (TOWNS.replace("id,", "geoid,"), "towns.csv, line 1: there is no column 'id'"),
    "column twice": (TOWNS.replace("id,county", "id,id"), "towns.csv, line 1: there are 2 columns 'id'"),
    "hidden": (TOWNS.replace("Cley", "Cl\u200bey"), "U+200B"),
    "long": (TOWNS.replace("Cley", "y" * 1001), "has 1,001 letters"),
    "header only": ("id,county,name\n", "0 rows below its header"),
    "empty": ("", "there is no column 'id'"),
    "latin-1": (TOWNS.replace("Cley", "Cl\xe9").encode("latin-1"), "towns.csv, line 5: this is not UTF-8 text"),
    "Parquet": (b"PAR1xxxx", "is a Parquet file"),
    "damaged gzip": (gzip.compress(TOWNS.encode())[:-3], "cut short or damaged"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_in_a_list_is_said_with_its_line(case: str, tmp_path: Path) -> None:
    towns, words = WRONG[case]
    with pytest.raises(SpecError) as refused:
        load_spec(placed(tmp_path, towns=towns))
    (mistake,) = refused.value.mistakes
    assert words in mistake.message
    assert (mistake.line, mistake.path) == (5, "by")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("towns.csv", "no.csv", "'no.csv' does not exist; paths start at the folder of the spec"),
        ("towns.csv", ".", "'.' does not exist"),
        ("label: name, parent", "lable: name, parent", "'lable' is not a key here; did you mean 'label'?"),
        ("label: name, separator", "parent: name, separator", "'parent' is not a key here"),
        ("{file: towns.csv, code: id, label: name, parent: county}", "towns.csv", "a list or a mapping or a file is"),
        ("code: id, label: name, parent: county", "label: name", "there is no column 'town'"),
    ],
)
def test_what_is_wrong_with_naming_a_list(old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in SPEC
    with pytest.raises(SpecError) as refused:
        load_spec(placed(tmp_path, spec=SPEC.replace(old, new, 1)))
    assert words in str(refused.value)


def test_the_text_of_a_spec_does_not_know_its_folder(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="say which folder"):
        parse_spec(SPEC)
    placed(tmp_path)
    assert parse_spec(SPEC, folder=tmp_path) == load_spec(tmp_path / "spec.yaml")


def test_confidential_data_are_no_public_list(tmp_path: Path) -> None:
    """Which areas have anybody would be given away; the mutant is a list that is found in the data."""
    same = SPEC.replace("towns.csv, code: id, label: name, parent: county", "people.csv, code: town")
    people = "SEX,town\n1,01\n2,03\n"
    assert len(read_tables(load_spec(placed(tmp_path, spec=same, people=people)), tmp_path)) == 2
    secret = load_spec(placed(tmp_path, spec=same.replace(", status: simulated", ""), people=people))
    with pytest.raises(ReadingError, match=r"people\.csv is a data file of the spec, which is confidential"):
        read_tables(secret, tmp_path)


def test_check_reads_the_lists(tmp_path: Path) -> None:
    spec = placed(tmp_path)
    done = CliRunner().invoke(main, ["check", "--spec-only", str(spec)])
    assert done.exit_code == 0, done.output
    assert f"towns.csv gives areas; its SHA-256 is {sha256(TOWNS.encode()).hexdigest()}." in done.output
    (tmp_path / "towns.csv").write_text(TOWNS + "03,South,Dunwich\n")
    done = CliRunner().invoke(main, ["check", "--spec-only", str(spec)])
    assert done.exit_code == 1
    assert "spec.yaml:5:5: by: towns.csv, line 6: id '03' stands in line 5 already; list each level once" in done.output
