"""The section `hierarchy:` of a spec, and the public list of leaves."""

from pathlib import Path

import pytest

import congenial as cg
from congenial.bundle import report_and_readme as tree_report
from congenial.bundle.verify import verify_bundle
from congenial.curator.pipeline import prepare, simulate
from congenial.curator.preview_text import as_json, screen
from congenial.curator.sections import NOT_PROTECTED
from congenial.errors import BrokenError, ConditionError, HierarchyError, ReadingError, SpecError
from congenial.reading.tables_and_data_checks import read_tables
from congenial.spec import parse_spec
from congenial.spec.load import load_spec
from previews import tree_preview

SPEC = """\
release: tree
data: {path: people.csv, kind: counts, count: n, status: simulated, missing_cells: zero}
dimensions: {sex: [f, m]}
hierarchy:
  file: blocks.csv
  leaf: block
  code: geoid
  uninhabited: empty
  levels:
    state: {column: state}
    county: {prefix: 2}
invariants: [total]
budget: {rho: 1}
"""
BLOCKS = "geoid,state,empty\n1a1,S,0\n1a2,S,1\n1b1,S,0\n2a1,T,0\n"
PEOPLE = "block,sex,n\n1a1,f,5\n1a1,m,4\n1b1,f,2\n2a1,m,7\n"


def placed(folder: Path, spec: str = SPEC, blocks: str = BLOCKS, people: str = PEOPLE) -> Path:
    (folder / "blocks.csv").write_text(blocks)
    (folder / "people.csv").write_text(people)
    (folder / "spec.yaml").write_text(spec)
    return folder / "spec.yaml"


def test_from_a_spec_to_a_bundle(tmp_path: Path) -> None:
    spec = load_spec(placed(tmp_path))
    published = simulate(spec, tmp_path, tmp_path / "NOT-FOR-RELEASE-tree", seed=1)
    bundle = cg.load_bundle(published.folder)
    codes, blocks = bundle.level("block")
    assert codes == ("1a1", "1a2", "1b1", "2a1")
    assert not blocks[1].any(), "nobody lives there"
    assert bundle.level("state")[1].sum(axis=1).tolist() == [11, 7]


@pytest.mark.parametrize("rule", ["gls", "leaf-prior"])
def test_a_spec_names_the_rule_of_its_tree(rule: str, tmp_path: Path) -> None:
    spec = load_spec(placed(tmp_path, f"{SPEC}rule: {rule}\n"))
    published = simulate(spec, tmp_path, tmp_path / "NOT-FOR-RELEASE-tree", seed=1)
    assert cg.load_bundle(published.folder).law.rule == (rule, 1)
    assert f"the tables are what rule {rule} makes of the measurements" in verify_bundle(published.folder).checked


def test_a_rule_for_areas_decides_no_tree(tmp_path: Path) -> None:
    spec = load_spec(placed(tmp_path, f"{SPEC}rule: nearest\n"))
    with pytest.raises(ConditionError, match="is for one table and areas; the rule here is 'gls'"):
        simulate(spec, tmp_path, tmp_path / "NOT-FOR-RELEASE-tree", seed=1)


@pytest.mark.parametrize(
    ("method", "kind"),
    [("", "measured_tree_gaussian"), ("measured", "measured_tree_gaussian"), ("conditional", "chain_gaussian")],
)
def test_a_preview_shows_every_level(method: str, kind: str, tmp_path: Path) -> None:
    text = SPEC + (f"method: {method}\n" if method else "")
    found = tree_preview(load_spec(placed(tmp_path, text)), tmp_path)
    header, rows = found.lines
    assert [row[0] for row in rows] == ["state", "county", "block"]
    assert header[-1] == "bias by count"
    assert found.leaves.sum() == 18
    assert not found.leaves[1].any()
    said = " ".join(line for section in screen(found) for line in section.lines)
    assert "Rho 1 (epsilon 10.065 at delta 1e-10) for one record changed" in said
    assert "states" not in said
    assert any("proof and audit" in line for section in screen(found, full=True) for line in section.lines)
    assert as_json(found)["certificate"]["kind"] == kind


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("budget: {rho: 1}", "method: conditional\nbudget: {epsilon: 1}", 14, "no budget in pure epsilon"),
        ("budget: {rho: 1}\n", "", 1, "a `budget:` is needed"),
        ("  file: blocks.csv\n", "", 5, "needs a `file:`"),
        ("  leaf: block\n", "", 5, "needs a `leaf:`"),
        ("{prefix: 2}", "{prefix: 2, column: c}", 11, "one of them"),
        ("{prefix: 2}", "{prefix: 0}", 11, "below 1"),
        ("county:", "block:", 5, "has the name of another level"),
        ("county:", "SEX:", 5, "has the name of dimension"),
        ("invariants: [total]", "measure: [{total: {sex: f}}]", 12, "add cells to what is measured"),
        ("invariants: [total]", "method: conditional\nmeasure: [cells, total]", 13, "write method: measured"),
        ("  leaf: block", "  leaf: block\n  kode: geoid", 7, "did you mean 'code'"),
        ("{prefix: 2}", "{prefx: 2}", 11, "did you mean 'prefix'"),
        ("  leaf: block", "  leaf: block\n  shares: {state: 1, county: 1}", 7, "'block' has none"),
        ("invariants", "by: {name: town, levels: [a]}\ninvariants", 12, "not both"),
    ],
)
def test_what_a_tree_cannot_have_is_a_mistake_at_its_line(old: str, new: str, line: int, words: str) -> None:
    assert old in SPEC
    with pytest.raises(SpecError) as refused:
        parse_spec(SPEC.replace(old, new))
    found = [(mistake.line, mistake.message) for mistake in refused.value.mistakes]
    assert any(words in message for _, message in found), found
    assert any(words in message and at == line for at, message in found), found


@pytest.mark.parametrize(
    ("blocks", "error", "words"),
    [
        (BLOCKS + "1a1,S,0\n", HierarchyError, "blocks.csv, line 6: block '1a1' stands in line 2 already"),
        (BLOCKS.replace("1b1,S", "1b1,"), ReadingError, "blocks.csv, line 4: 'state' is empty"),
        (
            BLOCKS.replace("1a2,S", "1a2,T"),
            HierarchyError,
            "line 3: county '1a' is part of state 'T', and in line 2 of",
        ),
        (BLOCKS.replace("1a2,S,1", "1a2,S,yes"), ReadingError, "blocks.csv, line 3: 'empty' is 'yes', and not 1, true"),
        (BLOCKS.replace("geoid", "id"), ReadingError, "blocks.csv, line 1: there is no column 'geoid'"),
        ("geoid,state,empty\n", ReadingError, "no rows"),
        (BLOCKS.replace("2a1", "2"), ReadingError, "blocks.csv, line 5: the code '2' has 1 characters"),
        (BLOCKS.replace("2a1,T,0", "2a1,T"), ReadingError, "blocks.csv, line 5: the row has 2 fields, the header 3"),
    ],
)
def test_lists_of_leaves_that_are_no_tree(blocks: str, error: type[Exception], words: str, tmp_path: Path) -> None:
    spec = load_spec(placed(tmp_path, blocks=blocks))
    with pytest.raises(error, match=words):
        prepare(spec, tmp_path)


def test_a_leaf_that_is_not_listed_is_not_named(tmp_path: Path) -> None:
    spec = load_spec(placed(tmp_path, people=PEOPLE + "9z9,f,3\n"))
    with pytest.raises(ReadingError) as refused:
        prepare(spec, tmp_path)
    assert "9z9" not in str(refused.value)
    assert "9z9" in (tmp_path / "CONFIDENTIAL-unknown-levels-tree.csv").read_text()


def test_shares_are_kept(tmp_path: Path) -> None:
    text = SPEC.replace("  leaf: block", "  leaf: block\n  shares: {state: 1, county: 1, block: 2}")
    plan = prepare(load_spec(placed(tmp_path, text)), tmp_path).plan
    assert [str(share) for share in plan.shares or ()] == ["1/4", "1/4", "1/2"]


def test_errors_are_around_a_reference_where_there_is_one(tmp_path: Path) -> None:
    spec = load_spec(placed(tmp_path, SPEC.replace("status: simulated", "status: confidential")))
    (tmp_path / "last-year.csv").write_text("block,sex,n\n1a1,f,900\n2a1,m,7000\n")
    found = tree_preview(spec, tmp_path, tmp_path / "last-year.csv")
    assert found.reference is not None
    assert found.reference.leaves.sum(axis=1).tolist() == [900, 0, 0, 7000]
    assert as_json(found)["around"] == "last-year.csv"
    assert "100 or more" in found.lines[1][-1][-1]
    assert "100 or more" not in tree_preview(spec, tmp_path).lines[1][-1][-1]
    with pytest.raises(ReadingError, match="confidential"):
        tree_preview(spec, tmp_path, tmp_path / "people.csv")
    (tmp_path / "elsewhere.csv").write_text("block,sex,n\n9z9,f,1\n")
    with pytest.raises(ReadingError, match="block"):
        tree_preview(spec, tmp_path, tmp_path / "elsewhere.csv")


def test_errors_of_a_tree_that_is_too_large_are_said_not_to_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_report, "MOST_NUMBERS", 3)
    spec = load_spec(placed(tmp_path))
    assert {line[4] for line in tree_preview(spec, tmp_path).lines[1]} == {"not computed"}
    simulate(spec, tmp_path, tmp_path / "bundle", seed=1)
    assert "The errors to expect are not computed" in (tmp_path / "bundle" / "report.html").read_text(encoding="utf-8")
    assert verify_bundle(tmp_path / "bundle").not_checked == ()


def test_what_is_given_away_is_said_level_by_level(tmp_path: Path) -> None:
    spec = SPEC.replace("invariants: [total]", "invariants: [total, {total: all, at: block}]")
    people = PEOPLE.replace("1b1,f,2", "1b1,f,1")
    found = tree_preview(load_spec(placed(tmp_path, spec, people=people)), tmp_path)
    (protected,) = (one.lines for one in screen(found) if one.heading == NOT_PROTECTED)
    assert "block: In 1 of 4 areas (25 %) total is 1: what is exact there is about one person" in protected
    assert not any("1a2" in line for line in protected), "nobody lives there by declaration: no news"


def test_exact_numbers_at_a_level(tmp_path: Path) -> None:
    spec = SPEC.replace("invariants: [total]", "invariants: [total, {total: all, at: block}]")
    published = simulate(load_spec(placed(tmp_path, spec)), tmp_path, tmp_path / "NOT-FOR-RELEASE-tree", seed=1)
    bundle = cg.load_bundle(published.folder)
    assert bundle.level("block")[1].sum(axis=1).tolist() == [9, 0, 2, 7]
    assert bundle.level("county")[1].sum(axis=1).tolist() == [9, 2, 7]
    shown = screen(tree_preview(load_spec(tmp_path / "spec.yaml"), tmp_path))
    assert "Exactly, of each block, and so of every unit above it: total." in shown[1].lines


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{total: all, at: blok}", "did you mean 'block'"),
        ("{total: all, at: block, equals: 7}", "states its value"),
        ("{total: f, at: county}, {total: f, at: block}, {share: f, at: block}", "sums of cells"),
    ],
)
def test_exact_numbers_that_cannot_be(entry: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        parse_spec(SPEC.replace("invariants: [total]", f"invariants: [{entry}]"), "spec.yaml")
    with pytest.raises(SpecError, match="this spec has none"):
        parse_spec(
            "release: r\ndata: {path: a.csv, kind: counts, count: n}\ndimensions: {sex: [f, m]}\n"
            "invariants: [{total: all, at: county}]\nbudget: {rho: 1}\n",
            "spec.yaml",
        )


def test_sums_that_cross_are_for_measured_trees() -> None:
    """Total, women and those of age leave one number free; both margins of 2 x 3 cells leave two."""
    wide = SPEC.replace("sex: [f, m]", "sex: [f, m], age: [young, mid, old]")
    sums = "[total, {total: all, at: block}, {total: f, at: block}, {total: {age: [mid, old]}, at: block}]"
    spec = wide.replace("invariants: [total]", f"invariants: {sums}")
    for method in ("", "method: measured\n"):
        assert parse_spec(spec + method, "spec.yaml").method == "measured"
    with pytest.raises(SpecError, match=r"cross each other, .*or write method: measured"):
        parse_spec(spec + "method: conditional\n", "spec.yaml")
    margins = wide.replace("invariants: [total]", "invariants: [{margin: sex, at: block}, {margin: age, at: block}]")
    with pytest.raises(SpecError, match="leave more than one number of a unit free"):
        parse_spec(margins, "spec.yaml")


def test_a_broken_condition_is_listed_in_a_file_and_budgets_have_a_limit(tmp_path: Path) -> None:
    spec = load_spec(placed(tmp_path, SPEC.replace("invariants: [total]", "conditions: [{total: f, at_most: 3}]")))
    with pytest.raises(BrokenError, match="CONFIDENTIAL-broken-conditions") as refused:
        prepare(spec, tmp_path)
    assert "find_violations" not in str(refused.value)
    (listed,) = tmp_path.glob("CONFIDENTIAL-broken-conditions-*.csv")
    assert len(listed.read_text(encoding="utf-8").splitlines()) > 1
    with pytest.raises(SpecError, match="a budget above 1000 protects nobody"):
        load_spec(placed(tmp_path, SPEC.replace("budget: {rho: 1}", "budget: {rho: 5000}")))
    with pytest.raises(ReadingError, match="hierarchy"):
        read_tables(load_spec(placed(tmp_path)), tmp_path)
