"""Whatever is written in a spec file: a spec, or an error in words."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from congenial.errors import SpecError
from congenial.spec import parse_spec
from congenial.spec.yaml_and_mistakes import parse
from drawn import drawn

GOOD = """\
release: x
data: {path: a.csv, kind: counts, count: n}
dimensions:
  sex: [f, m]
  age: {levels: [0-17, 18+], groups: {voting: 18+, all of: {from: 0-17}}}
  income: {cut: [0, 10], below: true}
by: {name: county, levels: {"001": A}}
measure:
  - {cells: all, portion: 1/2}
  - {margin: [sex], where: {age: voting}, portion: 1/2}
invariants:
  - total of voting by sex
  - {total: {sex: f}, equals: 3, mandate: law}
  - {share: f, of: voting, equals: 1/3}
  - {linear: [{times: 2, of: f}, {times: -1, of: {age: 18+}}]}
conditions:
  - {zeros: {sex: m, income: below 0}}
  - {bounds: all, at_least: 0, at_most: 9}
budget: {epsilon: 1}
outputs: [csv]
"""
PIECES = [
    *(line + "\n" for line in GOOD.splitlines()), "- ", ": ", "[", "]", "{", "}", "\t", "*a", "&a ", "!!x ", "---\n",
    "...\n",
    "'", '"', "|\n", ">\n", "? ", "#", "%YAML 9.9\n", "  ", "\n", "\x00", "\ud800", "\u2028", "é", "0", "-1", "1e999",
    "9" * 30, "none", "all", "total of ", " by ", " and ", "null", "~", "<<: ", "epsilon", "FILL IN", "1/0", "nan",
    "\\", "total",
    "equals: ", "at_least: ", "linear: ", "share: ", "cut: ", "levels: ", "from: ", "x" * 2000,
]  # fmt: skip


def only_words(content: str | bytes) -> None:
    with suppress(SpecError):
        parse_spec(content)


def test_the_text_that_is_changed_is_good() -> None:
    assert parse_spec(GOOD).schema.n_cells == 12


@settings(max_examples=drawn(100))
@given(st.data())
def test_changed_specs(data: st.DataObject) -> None:
    text = GOOD
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 30)))
        text = text[:start] + data.draw(st.sampled_from(PIECES)) + text[end:]
    only_words(text)


@settings(max_examples=drawn(80))
@given(st.lists(st.sampled_from(PIECES), max_size=20))
def test_pieces_in_any_order(pieces: list[str]) -> None:
    only_words("".join(pieces))


@settings(max_examples=drawn(40))
@given(st.binary(max_size=200), st.integers(0, len(GOOD)))
def test_any_bytes(noise: bytes, place: int) -> None:
    only_words(noise)
    only_words(GOOD.encode()[:place] + noise + GOOD.encode()[place:])


LEAVES = st.sampled_from(
    ["f", "voting", "all", "1", "-1", "1/2", "sex", "x", "", "none", "true", "total", "a" * 1001, "\x07"]
)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(LEAVES, inner, max_size=3), max_leaves=6
)


def paths(tree: object, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    steps: list[tuple[str | int, object]] = []
    if isinstance(tree, dict):
        steps = list(tree.items())
    elif isinstance(tree, list):
        steps = list(enumerate(tree))
    return [here, *(path for step, inner in steps for path in paths(inner, (*here, step)))][1 if not here else 0 :]


PLACES = paths(parse(GOOD).tree)


@settings(max_examples=drawn(100))
@given(st.sampled_from(PLACES), TREES)
def test_any_tree_in_any_place(place: tuple[str | int, ...], tree: object) -> None:
    import json

    whole = parse(GOOD).tree
    part: object = whole
    for step in place[:-1]:
        part = part[step]  # type: ignore[index]
    part[place[-1]] = tree  # type: ignore[index]
    only_words(json.dumps(whole, ensure_ascii=True))


@pytest.mark.parametrize(
    "text", ["'" * 5000, "a: " * 3000, "{a: " * 3000, "? " * 3000, "- [" * 3000, "&a " * 3000, "%" * 9999]
)
def test_repeated_signs(text: str) -> None:
    only_words(text)
    only_words(GOOD + text)
