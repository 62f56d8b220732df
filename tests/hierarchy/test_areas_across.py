"""Areas that cross a tree: which leaves they have, how they are measured, published and asked, and what is refused."""

import shutil
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import congenial as cg
from brute import Dice
from congenial.arrow_and_unit_codes import codes_as_texts
from congenial.bundle.naming_and_versions import Naming
from congenial.bundle.parquet import arrays_to_parquet
from congenial.bundle.verify import verify_bundle
from congenial.cli.main import main
from congenial.errors import BundleError, CongenialError, HierarchyError
from congenial.ledger import Ledger
from congenial.randomness import SecretBytes, replay_rng
from congenial.release_key import ReleaseKey
from congenial.tree.areas_across import AreasAcross
from tree_lattice_audit import drawn_tree

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["young", "old"]})
CODES = [f"{county}{tract}{block}" for county in "12" for tract in "ab" for block in "wxyz"]
TREE = cg.Tree.of_prefixes(CODES, {"county": 1, "tract": 2}, "block")
PLACES = ["north", "south", None, "south"] * 4
LEAVES = np.array([[(3 * leaf + 5 * cell) % 11 for cell in range(4)] for leaf in range(len(CODES))])


def across(portion: str = "1/5", name: str = "district", places: Any = PLACES) -> AreasAcross:
    return AreasAcross.of(TREE, name, places, portion)


def hierarchy(**options: Any) -> cg.Hierarchy:
    chosen: dict[str, Any] = {"invariants": [cg.total()], "rho": "1", "across": across()} | options
    return cg.Hierarchy(TREE, SCHEMA, **chosen)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    book = cg.open_ledger(tmp_path / "budget.db", create=True)
    book.create_dataset("town", rho="9", neighbours="bounded", who="Ada")
    return book


def test_crossings_are_those_of_all_pairs_of_leaves(request: pytest.FixtureRequest) -> None:
    for number in range(60):
        tree = drawn_tree(Dice(replay_rng(f"{request.node.name} {number}")), 1, is_crossed=True)
        areas = AreasAcross("area", np.array(["0", "1"]), np.array(tree.across))
        pairs = combinations(range(tree.n_leaves), 2)
        expected = {
            next(level for level, units in enumerate(tree.units) if units[a] != units[b])
            for a, b in pairs
            if tree.across[a] != tree.across[b]
        }
        assert set(areas.crossings(tree.tree)) == expected


@pytest.mark.parametrize("options", [{}, {"noise": "double_geometric"}, {"rho": None, "epsilon": "2"}])
@pytest.mark.parametrize("exact", [{"county": [cg.total()]}, {"block": [cg.margin("sex")]}])
def test_measured_published_and_verified(options: Any, exact: Any, ledger: Ledger, tmp_path: Path) -> None:
    request = hierarchy(invariants=exact, measure=[cg.cells(portion=3), cg.total(portion=1)], **options)
    folder = tmp_path / "first"
    request.release(LEAVES, ledger=ledger, dataset="town", release="first", who="Ada", folder=folder)
    verify_bundle(folder)
    bundle = cg.load_bundle(folder)
    law, truth = bundle.law, across().summed(LEAVES)
    assert law.across is not None
    assert codes_as_texts(law.across.codes) == ["north", "south"]
    assert np.array_equal(law.across.area_of_leaf, across().area_of_leaf)
    assert bundle.manifest.plan.budget is not None
    assert bundle.manifest.plan.budget.covers(bundle.manifest.plan.certificate)
    measured = bundle.measured_levels[-1]
    assert measured.shape == (2, 4 if "block" in exact else 5)  # a total that is exact is not measured
    if "block" in exact:
        assert np.array_equal(measured[:, :2].sum(axis=1), truth[:, :2].sum(axis=1))
    districts = bundle.units("district")
    assert np.array_equal(districts.counts, across().summed(bundle.levels[-1]))
    (interval,) = districts.confidence("all", "south")
    assert interval.low <= truth[1].sum() <= interval.high or "block" not in exact
    said = CliRunner().invoke(main, ["infer", str(folder), "--units", "district", "--query", "all"])
    assert (said.exit_code, "north" in said.output) == (0, True), said.output


def test_a_county_that_is_a_district_has_noise_of_its_own() -> None:
    """The same counts under the same code: the name of the areas is hashed as well."""
    same = across(places=[code[0] for code in CODES], portion="1/3")
    shares = {"county": 1, "tract": 1, "block": 1}
    ready = hierarchy(across=same, shares=shares).prepare(LEAVES, Naming("first", "town", "first", "person"))
    truth = ready.plan.law.measured_tables(TREE.summed(ready.confidential))
    drawn = ready.draw(ready.streams(ReleaseKey(SecretBytes(bytes(range(32))))))
    assert np.array_equal(truth[0], truth[3])
    assert not np.array_equal(drawn[0] - truth[0], drawn[3] - truth[3])


def test_shares_and_certificates() -> None:
    request = hierarchy()
    plan = request.plan(request.disclose(request.counts_of(LEAVES)))
    assert plan.certificate.rho == 1
    assert sum(plan.shares or ()) == Fraction(4, 5)
    (query,) = plan.law.queries_across
    assert query.precision == Fraction(1, 5)
    assert "another tract and another district" in str(plan.certificate)
    assert [text for text in plan.noises if "district" in text] == ["every cell of a district"]
    part = plan.law.part_of_tree(8)
    assert part.across is not None
    assert part.across.area_of_leaf.tolist() == [0, 1, -1, 1] * 2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: across(places=PLACES[:-1]), "each of 16 leaves has a district or none, and 15 are said"),
        (lambda: across(places=[None] * 16), "no leaf is in a district"),
        (lambda: across(name="Tract"), "'Tract' is a level of the tree"),
        (lambda: across(portion="1"), "between 0 and 1, such as 1/10, not 1"),
        (lambda: hierarchy(method="conditional"), "only a measured tree with a budget"),
        (lambda: hierarchy(rho=None, precisions={"county": 1, "tract": 1, "block": 1}), "only a measured tree"),
        (lambda: hierarchy(measure=[cg.total()]), "add cells to what is measured"),
        (lambda: hierarchy(measure=[cg.cells(precision="1/2")]), "has a precision, and levels of a tree"),
        (lambda: hierarchy(measure=[cg.cells(portion=1), cg.total()]), "some measured queries have a portion"),
        (lambda: hierarchy(method="conditional", across=None, measure=[cg.cells(), cg.total()]), "and nothing else"),
    ],
)
def test_what_is_refused(make: Any, words: str) -> None:
    with pytest.raises(CongenialError, match=words):
        make()


def test_a_tampered_district_is_found(ledger: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "first"
    hierarchy().release(LEAVES, ledger=ledger, dataset="town", release="first", who="Ada", folder=folder)
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    columns = {
        "county": np.array([code[0] for code in CODES], object),
        "tract": np.array([code[:2] for code in CODES], object),
        "block": np.array(CODES, object),
        "district": np.array(["south", *[place or "" for place in PLACES[1:]]], object),
    }
    (other / "spine.parquet").write_bytes(arrays_to_parquet(columns))
    with pytest.raises(BundleError):
        cg.load_bundle(other)


SPEC = """
release: first
data: {{path: counts.csv, kind: counts, count: n, missing_cells: zero, status: simulated}}
dimensions: {{sex: [f, m], age: [young, old]}}
hierarchy:
  file: blocks.csv
  leaf: block
  levels: {{county: {{prefix: 1}}, tract: {{prefix: 2}}}}
  across: {across}
invariants: [total]
budget: {{rho: 1}}
"""


def files(folder: Path, across: str) -> Path:
    folder.mkdir(exist_ok=True)
    pairs = zip(CODES, PLACES, strict=True)
    (folder / "blocks.csv").write_text("block,ward\n" + "".join(f"{code},{place or ''}\n" for code, place in pairs))
    some = [(code, place) for code, place in zip(CODES, PLACES, strict=True) if place]
    (folder / "places.csv").write_text("block,district\n" + "".join(f"{code},{place}\n" for code, place in some))
    lines = [
        f"{code},{sex},{age},{LEAVES[leaf, 2 * i + j]}"
        for leaf, code in enumerate(CODES)
        for i, sex in enumerate("fm")
        for j, age in enumerate(["young", "old"])
    ]
    (folder / "counts.csv").write_text("block,sex,age,n\n" + "\n".join(lines) + "\n")
    (folder / "spec.yaml").write_text(SPEC.format(across=across))
    return folder / "spec.yaml"


def run(*arguments: object) -> Any:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_a_spec_names_a_column_or_a_file(tmp_path: Path) -> None:
    ways = {"column": "{name: district, column: ward}", "file": "{name: district, file: places.csv, portion: 1/10}"}
    digests = []
    for way, entry in ways.items():
        spec = files(tmp_path / way, entry)
        assert run("check", spec).exit_code == 0
        done = run("simulate", spec, "--out", tmp_path / f"{way}-bundle")
        assert done.exit_code == 0, done.output
        bundle = cg.load_bundle(tmp_path / f"{way}-bundle")
        digests.append(bundle.law.tree_digest)
        assert bundle.law.across is not None
        assert bundle.law.across.portion == Fraction(1, 10)
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{column: ward}", "areas across a tree need a `name:`"),
        ("{name: tract, column: ward}", "another level, 'tract'"),
        ("{name: district, column: nothing}", "nothing"),
        ("{name: district, column: ward, portion: 2}", "a portion of the budget is below 1, such as 1/10"),
        ("{name: district, file: counts.csv, column: sex}", "stands in counts.csv twice"),
    ],
)
def test_mistakes_of_a_spec(entry: str, words: str, tmp_path: Path) -> None:
    done = run("check", files(tmp_path, entry))
    assert done.exit_code == 1
    assert words in done.output.replace("\n", " ")


def test_a_conditional_tree_has_no_areas_across(tmp_path: Path) -> None:
    spec = files(tmp_path, "{name: district, column: ward}")
    spec.write_text(spec.read_text() + "method: conditional\n")
    done = run("check", spec)
    assert done.exit_code == 1
    assert "only a measured tree can measure areas across it" in done.output


def test_leaves_of_another_tree_are_refused() -> None:
    other = cg.Tree.of_prefixes(["1a", "1b"], {"county": 1}, "block")
    with pytest.raises(HierarchyError, match="the tree has 2 leaves, and 16 are said"):
        cg.Hierarchy(other, SCHEMA, rho="1", across=across())
