"""A dataset's name: what may stand in one, and which names are taken for one.

Two accounts whose names a reader cannot tell apart would be two budgets for one dataset. So names that differ in case
or in compatible forms (full width, ligatures) are one, and a name that can pass for one of another script is refused.
"""

import re
from unicodedata import category, normalize
from unicodedata import name as unicode_name

from congenial.errors import LedgerError
from congenial.ledger.request import check_name

# Scripts that are written together; every other mixture is refused. These are the sets that Unicode's Technical
# Standard 39 calls highly restrictive: a letter of the one does not pass for a letter of the other.
_TOGETHER = (
    {"LATIN", "CJK", "HIRAGANA", "KATAKANA"},
    {"LATIN", "CJK", "BOPOMOFO"},
    {"LATIN", "CJK", "HANGUL"},
)
# First words of Unicode names that are no script.
_OF_EVERY_SCRIPT = {"DIGIT", "MODIFIER", "CARON", "TURNED", "VERTICAL", "MASU", "VEDIC"}
_ANOTHER_WORD = {"IDEOGRAPHIC": "CJK", "HENTAIGANA": "HIRAGANA"}

_LOOKS_LATIN = frozenset(
    "АВЕЅІЈКМНОРСТУҮХԌԚԜ"  # Cyrillic
    "асеѕіјорухүһԁԛԝӏѵ"
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"  # Greek
    "αγινορυϳ"
    "ԼՍՕ"  # Armenian
    "օոսհցզյ"
)
# What shows beside other letters, or in print for the blind, and makes no difference to see: variants, a blank pattern.
_NOTHING_SEEN = re.compile("[\u180b-\u180d\u180f\u2800\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def folded(name: str) -> str:
    """Return what names that are taken for one have in common.

    Examples
    --------
    >>> folded("Census") == folded("CENSUS") == folded("\uff23ensus") == "census"
    True
    """
    return normalize("NFKC", normalize("NFKC", name).casefold())


def check_dataset_name(value: object) -> str:
    """Return a dataset's name that nobody takes for another one."""
    name = check_name(value, "a dataset's name")
    if _NOTHING_SEEN.search(name):
        raise LedgerError(
            f"a dataset's name has no characters that cannot be seen, and {name[:40]!a} has; leave them out"
        )
    letters = {letter: script for letter in normalize("NFKC", name) if (script := _script(letter))}
    scripts = set(letters.values())
    if len(scripts) > 1 and not any(scripts <= together for together in _TOGETHER):
        examples = [next(letter for letter in letters if letters[letter] == script) for script in sorted(scripts)]
        raise LedgerError(
            f"a dataset's name is written in one script, and {name[:40]!a} mixes"
            f" {' and '.join(unicode_name(letter, 'a letter without a name') for letter in examples)}, so that it can"
            " pass for another name; write it in one"
        )
    if letters and _LOOKS_LATIN.issuperset(letters):
        raise LedgerError(
            f"a dataset's name does not pass for one of another script, and every letter of {name[:40]!a} looks like a"
            f" Latin one and is {scripts.pop().title()}; write it in Latin letters, or add a word that shows its script"
        )
    return name


def _script(letter: str) -> str:
    """Return the script of a letter or digit, by its Unicode name; nothing for what every script uses."""
    if category(letter)[0] != "L" and category(letter) != "Nd":
        return ""
    word = re.split("[ -]", unicode_name(letter, "OTHER").removeprefix("EXTENDED "))[0]
    return "" if word in _OF_EVERY_SCRIPT else _ANOTHER_WORD.get(word, word)
