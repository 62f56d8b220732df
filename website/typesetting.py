"""Pages of mathematics are typeset while the site is built: browsers get finished formulas and no script.

A hook of MkDocs. The text that is searched is made before it runs, so a search finds formulas as the pages write them.
"""

import json
import re
import subprocess
from fnmatch import fnmatch
from html import escape, unescape
from pathlib import Path
from typing import Any

from formulas import is_formula, to_tex

HOME = Path(__file__).parent

ARTICLE = re.compile(r"(<article[^>]*>)(.*?)(?=</article>)", re.S)
BLOCK = re.compile(r'<div class="language-text highlight"><pre>(?:<span></span>)?<code>([^<]*)</code></pre></div>')
CODE = re.compile(r"<code>([^<]*)</code>")
ELSEWHERE = re.compile(r"(<(pre|code|a|h\d|script|style|button|nav|label)\b.*?</\2>|<[^>]*>)", re.S)
TOUCHED = re.compile(r"([(\[]*)\0(\d+)\0([),.;:\]]*)")  # a formula's mark and the punctuation next to it

# Variables and relations in sentences: t, c(s'), K = m - 2. Before a relation "a" is one too, elsewhere an article.
_NAME = r"(?:[B-HJ-Zb-z]\d?|[aA]\d|a(?= (?:<=|>=|[=<>+-]) ))(?:_[a-zA-Z0-9]{1,2})?'{0,2}"
_VARIABLE = rf"{_NAME}(?:\([a-z]'?(?:, [a-z]'?)*\))?"
_TERM = rf"(?:{_VARIABLE}|a|\d+(?:,\d{{3}})*(?:\.\d+)?)"
_RELATION = r"(?:<=|>=|!=|[=<>+/-])"
_GOES_ON = rf"(?: {_RELATION} {_TERM})"
PROSE = re.compile(
    rf"(?<![\w'./^-])(?<!\d )(?:\d+ {_RELATION} )?{_VARIABLE}{_GOES_ON}*"
    r"(?![\w'(]|[./-]\w| \d)"  # not P12, e.g., 100 x 100
)


class Formulas:
    """The formulas of one page: each leaves a mark, and all are typeset at once."""

    def __init__(self) -> None:
        self.wanted: list[dict[str, object]] = []

    def mark(self, formula: str, *, display: bool = False) -> str:
        """Take a formula down, and return the mark that stands for it."""
        self.wanted.append({"tex": to_tex(formula), "display": display})
        return f"\0{len(self.wanted) - 1}\0"

    def set_in(self, marked: str) -> str:
        """Put every formula in its place, with the punctuation that touches it: browsers would break lines there."""
        if not self.wanted:
            return marked
        marked = TOUCHED.sub(self._with_neighbours, marked)
        made = subprocess.run(
            ["node", HOME / "render.js"], input=json.dumps(self.wanted), capture_output=True, text=True, check=False
        )
        if made.returncode:
            raise ValueError(f"KaTeX refuses a formula: {made.stderr.strip()}")
        finished: list[str] = json.loads(made.stdout)
        return re.sub(r"\0(\d+)\0", lambda found: finished[int(found[1])], marked)

    def _with_neighbours(self, found: re.Match[str]) -> str:
        before, number, after = found.groups()
        formula = self.wanted[int(number)]
        formula["tex"] = "".join([_in_text(before), str(formula["tex"]), _in_text(after)])
        return f"\0{number}\0"


def _in_text(punctuation: str) -> str:
    return rf"\text{{{punctuation}}}" if punctuation else ""


def lines_of(block: str) -> list[str]:
    """Return the formulas of an indented block; a line that begins with a sign goes on with the one before."""
    lines: list[str] = []
    for line in filter(None, map(str.strip, block.splitlines())):
        if lines and re.match(r"[=+]|<=|>=", line):
            lines[-1] += " " + line
        else:
            lines.append(line)
    return lines


def typeset(article: str) -> str:
    """Return a page with its formulas typeset: blocks, what is set in code, and variables in sentences."""
    formulas = Formulas()

    def block(found: re.Match[str]) -> str:
        return "".join(formulas.mark(line, display=True) for line in lines_of(unescape(found[1])))

    def code(found: re.Match[str]) -> str:
        text = " ".join(unescape(found[1]).split())
        return formulas.mark(text) if is_formula(text) else found[0]

    def sentence(text: str) -> str:
        plain = unescape(text)
        parts, at = [], 0
        for found in PROSE.finditer(plain):
            parts += [escape(plain[at : found.start()], quote=False), formulas.mark(found[0])]
            at = found.end()
        return "".join([*parts, escape(plain[at:], quote=False)])

    marked = CODE.sub(code, BLOCK.sub(block, article))
    pieces, at = [], 0
    for found in ELSEWHERE.finditer(marked):
        pieces += [sentence(marked[at : found.start()]), found[0]]
        at = found.end()
    return formulas.set_in("".join([*pieces, sentence(marked[at:])]))


def is_mathematical(path: str, config: Any) -> bool:
    """Say whether a page's code is mathematics: `extra.mathematics` of mkdocs.yml lists such pages."""
    return any(fnmatch(path, pattern) for pattern in config["extra"]["mathematics"])


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Typeset a finished page (MkDocs calls this)."""
    if not is_mathematical(page.file.src_uri, config):
        return output
    return ARTICLE.sub(lambda found: found[1] + typeset(found[2]), output)
