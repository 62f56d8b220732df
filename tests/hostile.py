"""Texts that attack whoever prints them: terminals, markup, pages, spreadsheets, databases, readers."""

import re
from itertools import count, cycle, islice

# Every one of these shows what it is; none may do anything.
ATTACKS = (
    "[link=https://attack.example]x[/link]",
    r"\[link=https://attack.example]x",
    r"\[/x]",
    "[/x]",
    "[bold]",
    "[",
    "\\",
    ":smile:",
    "{task.completed}",
    "{0!r}",
    "%s%n",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "<script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "' autofocus onfocus=alert(1) '",
    "--><script>alert(1)</script>",
    "]]><script>alert(1)</script>",
    "&lt;b&gt;&#x1b;",
    "javascript:alert(1)",
    "[a](javascript:alert(1))",
    "# a heading",
    "`code`",
    "$\\frac{1}{2}$",
    "=HYPERLINK(1)",
    "=cmd|' /C calc'!A0",
    "@SUM(1)",
    "+1+1",
    "-5 to 0",
    "a,b",
    'a"b',
    "a;b",
    "''; DROP TABLE levels_0; --",
    "NULL",
    "nan",
    "é漢字עברית",
    "e\u0301",
    "\\x1b[2J",
    "\\u202e",
    "../../etc/passwd",
    "*?[a-z]",
    "~",
)
# Every one of these is refused in a name, and escaped where it comes from elsewhere.
HIDDEN = (
    *("\x1b[2J", "\x1b]8;;https://attack.example\x07x", "\x9b2J", "\x90q\x9c", "\x07", "\b\b\b", "\r", "\x7f", "\n"),
    *("\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069", "\u200e", "\u200f"),
    *("\u061c", "\u2028", "\u2029", "\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u180e", "\ufff9", "\U000e0041"),
    *("\u3164", "\u115f", "\ue000", "\ufffe", "\x85", "\x0b", "\x0c"),
)


def hostile_texts(n: int) -> list[str]:
    """Return different texts that a spec takes, each with an attack in it: first each by itself, then in pairs."""
    size = len(ATTACKS)
    pairs = (ATTACKS[number % size] + " " * (number // size**2) + ATTACKS[number // size % size] for number in count())
    return list(islice(dict.fromkeys([*ATTACKS, *(text.strip() for text in islice(pairs, 2 * n))]), n))


def hidden_texts(n: int) -> list[str]:
    """Return different texts with a character in them that does not show."""
    return [f"a{hidden}b{number}" for number, hidden in enumerate(islice(cycle(HIDDEN), n))]


_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def check_text(printed: str) -> None:
    """Refuse a print that a terminal would obey: colours and weights are the program's own, and nothing else is."""
    for letter in set(_STYLE.sub("", printed)) - {"\n"}:
        assert letter.isprintable(), f"{letter!a} was printed"
        assert letter not in "\u3164\u115f", f"{letter!a} was printed"
    assert "Traceback" not in printed
