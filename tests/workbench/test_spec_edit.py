"""A spec's text: opened and saved it keeps its bytes, and a change alters the lines of its entry alone."""

from difflib import unified_diff
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra workbench")

from congenial.spec.load import parse_spec
from congenial.workbench.spec_and_describe_pages import with_part
from congenial.workbench.spec_edit import append, changed, remove, set_mandate, set_value
from workbench.bench import EXAMPLES, client_of, folder_with, workspace_of

P12 = (EXAMPLES / "p12/spec.yaml").read_text(encoding="utf-8")
BY_HAND = """\
# agreed on Monday
release:   demo     # short
data: {path: counts.csv,   kind: counts, count: n}

dimensions: {sex: [female, male], age: {levels: [0-17, 18+],
                                        groups: {adults: 18+}}}
invariants:
    # both by law
    - total           # since 1990
    - total: "adults"
      mandate: 'voting law'   # section 2

budget: {epsilon: 1}   # for the year
"""


def altered(before: str, after: str) -> tuple[list[str], list[str]]:
    """Return the lines that are gone and those that are new."""
    lines = list(unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))[2:]
    return [line[1:] for line in lines if line[0] == "-"], [line[1:] for line in lines if line[0] == "+"]


def test_one_change_alters_its_own_lines_alone() -> None:
    assert altered(BY_HAND, changed(BY_HAND, [{"remove": 0}])) == (["    - total           # since 1990"], [])
    assert altered(BY_HAND, changed(BY_HAND, [{"add": {"margin": ["sex"], "mandate": "Act 3"}}])) == (
        [],
        ["    - margin: [sex]", "      mandate: Act 3"],
    )
    assert altered(BY_HAND, changed(BY_HAND, [{"budget": {"epsilon": "1/2"}}])) == (
        ["budget: {epsilon: 1}   # for the year"],
        ["budget: {epsilon: 1/2}   # for the year"],
    )
    assert altered(BY_HAND, changed(BY_HAND, [{"mandate": "Act: 4", "of": 1}])) == (
        ["      mandate: 'voting law'   # section 2"],
        ['      mandate: "Act: 4"   # section 2'],
    )
    assert altered(BY_HAND, changed(BY_HAND, [{"noise": "discrete_gaussian"}])) == ([], ["noise: discrete_gaussian"])
    gone, new = altered(BY_HAND, with_part(BY_HAND, "sex", "ordered", True))
    assert len(gone) == len(new) == 1
    assert "ordered: true" in new[0]


@pytest.mark.parametrize("text", [P12, BY_HAND, BY_HAND.replace("\n", "\r\n"), P12.rstrip("\n")])
def test_what_was_changed_reads_as_it_was_meant(text: str) -> None:
    """All of the changes together give a spec that says them, and back again the same bytes."""
    entry = {"total": {"sex": ["female"]}, "mandate": "a 'law': #3, {x}"}
    more = append(text, ("invariants",), entry)
    read = parse_spec(more.encode())
    assert read.invariants[-1].condition.mandate == "a 'law': #3, {x}"
    assert len(read.invariants) == len(parse_spec(text.encode()).invariants) + 1
    back = remove(more, ("invariants", len(read.invariants) - 1))
    assert back.rstrip("\r\n") == text.rstrip("\r\n")
    assert more.count("\r\n") == (more.count("\n") if "\r\n" in text else 0)
    none = changed(text, [{"remove": 0}] * len(parse_spec(text.encode()).invariants))
    assert parse_spec(none.encode()).invariants == ()
    assert parse_spec(append(none, ("invariants",), {"margin": ["sex"]}).encode()).invariants
    assert str(parse_spec(set_value(text, ("title",), "x: # y").encode()).title) == "x: # y"


def test_words_get_a_mandate() -> None:
    text = set_mandate(BY_HAND, 0, "Act 5")
    read = parse_spec(text.encode())
    assert [one.condition.mandate for one in read.invariants] == ["Act 5", "voting law"]
    assert altered(BY_HAND, text)[0] == ["    - total           # since 1990"]


def test_a_spec_that_is_saved_without_a_change_keeps_its_bytes(tmp_path: Path) -> None:
    place = folder_with(tmp_path, "p12")
    spec = place / "p12/spec.yaml"
    for content in (spec.read_bytes(), spec.read_bytes().replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + spec.read_bytes()):
        spec.write_bytes(content)
        made = spec.stat().st_mtime_ns
        workspace = workspace_of(place)
        with client_of(workspace) as client:
            page = client.get("/spec?file=p12/spec.yaml").text
            digest = page.split('name="digest" value="')[1].split('"')[0]
            text = content.decode().replace("\r\n", "\n").replace("\n", "\r\n")  # as browsers send it
            answer = client.post("/spec", data={"file": "p12/spec.yaml", "digest": digest, "text": text})
            assert answer.status_code == 200
            said = {"file": "p12/spec.yaml", "digest": digest, "changes": []}
            assert client.post("/choose/save", json=said).status_code == 200
        workspace.close()
        assert spec.read_bytes() == content
        assert spec.stat().st_mtime_ns == made


def test_mistakes_of_invariants_stand_beside_those_of_dimensions(tmp_path: Path) -> None:
    """What names the mistaken dimension, or may be a word of it, is left alone until that is mended."""
    place = folder_with(tmp_path, "p12")
    spec = place / "p12/spec.yaml"
    text = spec.read_text().replace("{from: 18-19}", "{from: 18-91}")
    wrong = "  - total: {sex: [femal]}\n  - total: {age: [nobody]}\n  - total of elders\n"
    spec.write_text(text.replace("  - total\n", "  - total\n" + wrong))
    workspace = workspace_of(place)
    with client_of(workspace) as client:
        page = client.get("/spec?file=p12/spec.yaml").text
    workspace.close()
    assert "<b>2 mistakes.</b>" in page
    assert "&#39;femal&#39; is not a label" in page
    assert "&#39;18-91&#39; is not a level" in page
