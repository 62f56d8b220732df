"""Every scalar stays text, every part knows its place, and whatever the bytes there is a clear error."""

import pytest

from congenial.errors import SpecError
from congenial.spec.yaml_and_mistakes import LARGEST_FILE, in_words, parse


def test_scalars_stay_text() -> None:
    tree = parse("a: 010\nb: 0.5\nc: no\nd: 2020-01-01\ne: ~\nf: [0x10, 1_000, .inf]\ng: '7'\nh: 1e-10").tree
    assert tree == {
        "a": "010", "b": "0.5", "c": "no", "d": "2020-01-01", "e": "~", "f": ["0x10", "1_000", ".inf"], "g": "7",
        "h": "1e-10",
    }  # fmt: skip


def test_every_part_has_its_place() -> None:
    document = parse("# note\nrelease: x\ndimensions:\n  sex: [f, m]\n")
    assert document.values["release",] == (2, 10)
    assert document.keys["dimensions", "sex"] == (4, 3)
    assert document.values["dimensions", "sex", 1] == (4, 12)
    mistake = document.mistake(("dimensions", "sex", "<list>", 1, "levels"), "wrong")
    assert str(mistake) == "spec.yaml:4:12: dimensions, sex, entry 2: wrong"


def test_paths_count_from_one() -> None:
    assert in_words(("measure", 0, "margin", 1)) == "measure, entry 1, margin, entry 2"


def test_duplicate_keys_are_noted_and_the_rest_is_read() -> None:
    document = parse("a: 1\nb: {c: 1, c: [2, 3]}\na: 2\nd:\n")
    assert [(m.line, m.column, m.message.split(",")[0]) for m in document.mistakes] == [
        (2, 11, "the key 'c' stands here twice"),
        (3, 1, "the key 'a' stands here twice"),
        (4, 1, "there is no value here; write one"),
    ]
    assert document.tree == {"a": "1", "b": {"c": "1"}, "d": ""}


REFUSED: dict[str, tuple[bytes | str, str, tuple[int, int]]] = {
    "empty": ("", "empty", (1, 1)),
    "comment only": ("# nothing\n", "empty", (1, 1)),
    "a list": ("- a\n", "a spec is a mapping", (1, 1)),
    "a text": ("hello", "a spec is a mapping", (1, 1)),
    "a tab": ("a:\n\t- b", "a tab cannot indent", (2, 1)),
    "an alias": ("a: &x [1]\nb: *x", "aliases", (2, 4)),
    "a bomb": ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", "aliases", (2, 8)),
    "a merge": ("a: &a {x: 1}\nb: {<<: *a}", "aliases", (2, 9)),
    "a tag": ("a: !!python/object:os.system x", "tags", (1, 4)),
    "two documents": ("a: 1\n---\nb: 2\n", "second document", (2, 1)),
    "latin-1": (b"release: a\ntitle: caf\xe9", "not UTF-8", (2, 11)),
    "utf-16": ("release: a".encode("utf-16"), "not UTF-8", (1, 1)),
    "open quote": ("a: 'x", "quote is not closed", (1, 6)),
    "open bracket": ("a: [x", "bracket is not closed", (1, 6)),
    "colon in text": ("a: b: c", "in quotes", (1, 5)),
    "bad indent": ("a:\n    b: 1\n  c: 2\n", "indented", (3, 3)),
    "list as key": ("? [a]\n: b", "key must be plain text", (1, 3)),
    "control character": ("a: 1\nb: \x01", "does not allow", (2, 4)),
    "deep brackets": ("a: " + "[" * 5_000, "nested deeper", (1, 16)),
    "deep dashes": ("a:\n  " + "- " * 5_000, "nested deeper", (2, 27)),
    "large": (b"a: " + b"x" * LARGEST_FILE, "larger than", (1, 1)),
    "large text": ("a: " + "x" * LARGEST_FILE, "larger than", (1, 1)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_spec_is_refused_in_words(case: str) -> None:
    content, words, place = REFUSED[case]
    with pytest.raises(SpecError, match=words) as caught:
        parse(content)
    assert (caught.value.mistakes[0].line, caught.value.mistakes[0].column) == place


def test_a_byte_order_mark_and_windows_line_ends_are_fine() -> None:
    document = parse(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    assert document.tree == {"a": "1", "b": "2"}
    assert document.keys["b",] == (2, 1)
