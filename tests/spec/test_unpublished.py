"""Areas left unpublished by name: in no file of the bundle, and only where the certificate covers it."""

import json
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

import congenial as cg
from congenial.curator.pipeline import simulate
from congenial.errors import SpecError
from congenial.spec import parse_spec

SPEC = """\
release: towns
data: {path: people.csv, kind: counts, count: n, status: simulated}
dimensions: {sex: [f, m]}
by: {name: town, column: id, levels: {1: Ashby, 2: Bow, 3: Cley}, unpublished: [Bow]}
invariants: [total]
budget: {epsilon: 1}
"""
CANARY = 31_415_926
PEOPLE = f"id,sex,n\n1,f,4\n1,m,5\n2,f,{CANARY}\n2,m,{CANARY}\n3,f,6\n3,m,7\n"


def test_nothing_of_the_area_is_in_the_bundle(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(PEOPLE)
    spec = parse_spec(SPEC)
    assert spec.areas == ("Ashby", "Cley")
    published = simulate(spec, tmp_path, tmp_path / "out", seed=1)
    bundle = cg.load_bundle(published.folder)
    assert list(bundle.tables) == ["Ashby", "Cley"]
    assert [int(counts.sum()) for counts in bundle.tables.values()] == [9, 13]
    assert json.loads((published.folder / "manifest.json").read_text())["unpublished"] == ["Bow"]
    for file in published.folder.iterdir():
        content = file.read_bytes()
        assert str(CANARY).encode() not in content
        assert f"{CANARY:,}".encode() not in content
        assert str(2 * CANARY).encode() not in content
        assert b"Bow" not in content or file.name in {"manifest.json", "report.html", "README.txt"}
    assert "Left unpublished: town Bow." in (published.folder / "report.html").read_text()
    assert "Left unpublished: town Bow." in " ".join((published.folder / "README.txt").read_text().split())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"[Bow]": "[Bwo]"}, "'Bwo' is not a town; did you mean 'Bow'?"),
        ({"[Bow]": "[Bow, Ashby, Cley]"}, "every town is left unpublished"),
        ({"invariants: [total]\n": ""}, "under bounded neighbours the certificate does not cover that"),
        ({"[total]": "[total of f]"}, "under bounded neighbours the certificate does not cover that"),
    ],
)
def test_what_cannot_be_left_out(changes: dict[str, str], words: str) -> None:
    text = SPEC
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(SpecError) as refused:
        parse_spec(text)
    assert words in str(refused.value)
    assert "spec.yaml:4:" in str(refused.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[total]", "[margin of sex]"),
        ("invariants: [total]", "neighbours: unbounded"),
        ("status: simulated}", "status: simulated, public_columns: [id]}"),
    ],
)
def test_where_the_certificate_covers_it(old: str, new: str) -> None:
    text = SPEC.replace(old, new)
    text = text if "public" not in new else text.replace("invariants: [total]\n", "")
    assert parse_spec(text).unpublished == ("Bow",)


def test_a_tree_gives_its_parts_away() -> None:
    """A table that is left out of a tree is that of its parent less those of its siblings."""
    tree = SPEC[: SPEC.index("by:")] + "hierarchy: {file: b.csv, leaf: town, levels: {county: {column: c}}}\n"
    tree += "budget: {rho: 1}\n"
    assert parse_spec(tree).hierarchy is not None
    with pytest.raises(SpecError, match="what is left out is the difference of what is published"):
        parse_spec(tree.replace("leaf: town", "leaf: town, unpublished: [Bow]"))


def test_exact_totals_keep_neighbours_neighbours() -> None:
    """All data of three people in a published and an unpublished area, one of whom changes anything.

    With the published total exact, what is published differs by one changed record at most. The mutant is without it.
    """
    people = list(product(("published", "unpublished"), "fm"))
    seen: dict[bool, set[tuple[int, int]]] = {True: set(), False: set()}
    for everybody in product(people, repeat=3):
        for place, other in product(range(3), people):
            changed = (*everybody[:place], other, *everybody[place + 1 :])
            before, after = (Counter(sex for area, sex in some if area == "published") for some in (everybody, changed))
            apart = (before - after).total(), (after - before).total()
            seen[before.total() == after.total()].add(apart)
    assert seen == {True: {(0, 0), (1, 1)}, False: {(1, 0), (0, 1)}}
