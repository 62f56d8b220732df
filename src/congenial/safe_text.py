r"""Text that shows what it is: characters that a reader cannot see are refused in names and escaped in what is printed.

A terminal obeys control characters, direction marks turn a line around, and what has no width makes two labels look
alike. Names and labels with such characters are refused where they come in. What comes from elsewhere, such as the name
of a file, is printed with ``\x1b`` in place of the character. Labels, codes and their like are short, too: a reader
finds room for the longest of them in every row.
"""

import json
import re
from collections.abc import Callable, Sequence
from unicodedata import category, name

_HIDDEN = {
    "Cc": "a control character",
    "Cf": "a character of formatting",
    "Cn": "not a character that this Unicode version knows",
    "Co": "a character of private use",
    "Cs": "half a character",
    "Zl": "a line break",
    "Zp": "a paragraph break",
}
# Letters and marks that have no ink: the fillers of Hangul and Khitan, the joiner of graphemes, two inherent vowels of
# Khmer, the empty pattern of Braille, the empty note head. Selectors of variants stay: names of places have them.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U00016fe4\U0001d159")

LONGEST = 1_000
"""Characters that a label, a code, or the name of a dimension, a level or an area has at most."""

_FORMULA = re.compile("[=+@\uff1d\uff0b\uff0d\uff20-]")  # the wide forms too, which some spreadsheets take for the same
_NUMBER = re.compile(r"[+-]?[0-9.,]+%?")


def _is_hidden(letter: str) -> bool:
    return letter in _BLANK or category(letter) in _HIDDEN


def _hidden(text: str) -> list[str]:
    """Return the characters that do not show."""
    if text.isascii() and text.isprintable():  # nearly every text, and quick
        return []
    hidden = {letter for letter in set(text) if _is_hidden(letter)}
    return [letter for letter in text if letter in hidden] if hidden else []


def shows(text: str) -> bool:
    """Whether every character of a text shows."""
    return not _hidden(text)


def first_hidden(text: str) -> str:
    r"""Return the first character of a text that does not show, in words; nothing when there is none.

    Examples
    --------
    >>> first_hidden("Île-de-France"), first_hidden("abc\u202e")
    ('', '\\u202e (U+202E, RIGHT-TO-LEFT OVERRIDE)')
    """
    hidden = _hidden(text)
    if not hidden:
        return ""
    letter = hidden[0]
    return f"{_escape(letter)} (U+{ord(letter):04X}, {name(letter, '') or _HIDDEN[category(letter)]})"


def explain_hidden(text: str, what: str) -> str:
    r"""Return what is wrong with a text that holds a character that does not show, as a sentence; nothing if none does.

    Examples
    --------
    >>> explain_hidden("\x1b[2J", "the title")
    'the title holds \\x1b (U+001B, a control character), which does not show; write plain text'
    """
    hidden = first_hidden(text)
    return f"{what} holds {hidden}, which does not show; write plain text" if hidden else ""


def explain_invalid(text: str, what: str) -> str:
    """Return why a text cannot be a label, a code or a name, as a sentence; nothing if it can.

    Examples
    --------
    >>> explain_invalid("x" * 2_000, "the label")
    'the label has 2,000 characters, and the limit is 1,000; shorten it'
    """
    if len(text) > LONGEST:
        return f"{what} has {len(text):,} characters, and the limit is {LONGEST:,}; shorten it"
    return explain_hidden(text, what)


def printable(text: str) -> str:
    r"""Return a text in which every character shows: those that would not are escaped, line ends stay.

    Examples
    --------
    >>> print(printable("\x1b[2J and\ta tab"))
    \x1b[2J and\ta tab
    """
    return _with_escapes(text, _escape, unescaped="\n")


def on_one_line(text: object) -> str:
    """Return a text, or a path, as `printable` does, and its line ends escaped too: a name inside a message."""
    return _with_escapes(str(text), _escape)


def printable_json(text: str) -> str:
    """Return JSON that says the same, and in which every character shows."""
    return _with_escapes(text, lambda letter: json.dumps(letter)[1:-1].replace("\x7f", "\\u007f"), unescaped="\n")


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def _with_escapes(text: str, escape: Callable[[str], str], unescaped: str = "") -> str:
    hidden = set(_hidden(text)) - set(unescaped)
    return text.translate({ord(letter): escape(letter) for letter in hidden}) if hidden else text


def is_formula(text: str) -> bool:
    """Whether a spreadsheet that opens a CSV file would compute a text in place of showing it.

    Examples
    --------
    >>> [is_formula(text) for text in ("=1+1", "@SUM(1)", "-5 to 0", "-5", "5-9")]
    [True, True, True, False, False]
    """
    return bool(_FORMULA.match(text)) and not _NUMBER.fullmatch(text)


def find_formulas(texts: Sequence[str]) -> list[str]:
    """Return those of many texts that a spreadsheet would compute.

    Examples
    --------
    >>> find_formulas(["=1+1", "5-9", "-5"])
    ['=1+1']
    """
    if not any(map(_FORMULA.match, {text[:1] for text in texts})):  # nearly always, and quick
        return []
    return [text for text in texts if is_formula(text)]
