"""Every character of Unicode is shown or escaped, and what is escaped can be read again."""

import ast
import json
import pickle
import sys
import unicodedata
from pathlib import Path

import pytest

import congenial
from congenial.errors import BundleError, ClashError, Mistake, SpecError
from congenial.safe_text import first_hidden, on_one_line, printable, printable_json

ATTACKS = {
    "escape": "\x1b",
    "C1 escape": "\x9b",
    "delete": "\x7f",
    "backspace": "\b",
    "carriage return": "\r",
    "next line": "\x85",
    "embedding": "\u202a",
    "override": "\u202e",
    "isolate": "\u2066",
    "end of isolate": "\u2069",
    "left-to-right mark": "\u200e",
    "Arabic letter mark": "\u061c",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "zero-width space": "\u200b",
    "byte order mark": "\ufeff",
    "soft hyphen": "\u00ad",
    "tag": "\U000e0041",
    "filler": "\u3164",
    "joiner of graphemes": "\u034f",
    "empty pattern of Braille": "\u2800",
    "empty note head": "\U0001d159",
    "filler of Khitan": "\U00016fe4",
    "half a surrogate": "\ud800",
    "private use": "\ue000",
    "no character": "\uffff",
}
HONEST = [
    "Île-de-France",
    "Ürümqi",
    "東京都",
    "نيويورك",
    "कोलकाता",
    "5\u00a0000–9\u202f999",
    "e\u0301",
    "葛\U000e0100城",
    "☀\ufe0f",
]


@pytest.mark.parametrize("name", ATTACKS)
def test_what_does_not_show_is_named_and_escaped(name: str) -> None:
    letter = ATTACKS[name]
    assert f"U+{ord(letter):04X}" in first_hidden(f"ab{letter}")
    for escaped in (printable(f"a{letter}b"), on_one_line(f"a{letter}b")):
        assert letter not in escaped
        assert first_hidden(escaped) == ""
        assert ast.literal_eval(f'"{escaped}"') == f"a{letter}b"


@pytest.mark.parametrize("text", HONEST)
def test_what_shows_stays(text: str) -> None:
    assert first_hidden(text) == ""
    assert printable(text) == on_one_line(text) == text


def test_every_code_point_is_shown_or_escaped() -> None:
    """The oracle is the category of each character, one by one."""
    hidden = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
    everything = "".join(map(chr, [*range(0x20000), *range(0xE0000, 0xE1000), sys.maxunicode]))
    left = on_one_line(everything)
    assert not {unicodedata.category(letter) for letter in left} & hidden
    kept = [letter for letter in everything if unicodedata.category(letter) not in hidden]
    assert len(set(left)) == len(kept) - 10  # the letters without ink
    whole = "".join(letter for letter in everything if unicodedata.category(letter) != "Cs")  # halves would pair up
    assert json.loads(printable_json(json.dumps(whole, ensure_ascii=False))) == whole


def test_line_ends_stay_where_they_are_the_texts_own() -> None:
    assert printable("a\nb") == "a\nb"
    assert on_one_line("a\nb") == "a\\nb"
    assert printable_json('{\n "a": 1\n}') == '{\n "a": 1\n}'


def test_errors_are_text() -> None:
    """A file name in a message neither moves the cursor nor makes a line of its own."""
    assert str(BundleError("x\x1b[2J\nError: none is there")) == "x\\x1b[2J\\nError: none is there"
    assert str(ClashError("these:\n  - a\x1b", ("a",), True)) == "these:\n  - a\\x1b"
    mistake = Mistake("a\nb.yaml", 1, 2, "x\u202e\n", "first:\n second")
    wrong = SpecError([mistake])
    assert str(wrong) == "a\\nb.yaml:1:2: x\\u202e\\n: first:\n second"
    assert str(pickle.loads(pickle.dumps(wrong))) == str(wrong)
    assert str(pickle.loads(pickle.dumps(BundleError("\\x1b")))) == "\\x1b"


def test_commands_print_in_one_place_only() -> None:
    """What goes around it could hold markup, or characters that a terminal obeys."""
    source = Path(congenial.__file__).parent
    for path in source.rglob("*.py"):
        if path.name == "command_and_output.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            assert name not in {"echo", "secho", "print", "confirm", "prompt", "Console", "ClickException"}, path
