"""Formulas as the pages write them, in plain text, and the same in TeX.

The pages write `c(s') / c(s) <= exp(2 m)`, which reads well in an editor and in a terminal; the site shows it as
mathematics. Nothing is reordered: a quotient stays on its line, and every sign comes out once.
"""

import re

GREEK = "alpha|beta|gamma|delta|kappa|lambda|mu|nu|phi|rho|sigma|tau|theta|Phi|Psi"
FUNCTIONS = "arccosh|asinh|ceil|cosh|det|exp|floor|inf|log|max|min|sinh|sup|Var"
WORDS = {
    "eps": r"\varepsilon",
    "epsilon": r"\varepsilon",
    "Lam": r"\Lambda",
    "sum": r"\textstyle\sum",
    "prod": r"\textstyle\prod",
    "infinity": r"\infty",
    "in": r"\in",
    **{name: rf"\{name}" for name in GREEK.split("|")},
    **{name: rf"\operatorname{{{name}}}" for name in FUNCTIONS.split("|")},
}
SIGNS = {
    "<=": r"\le",
    ">=": r"\ge",
    "!=": r"\ne",
    "->": r"\to",
    "+-": r"\pm",
    "//": r"\mathbin{/\!/}",
    "...": r"\dots",
    "..": r"\dots",
    "~": r"\sim",
    "{": r"\{",
    "}": r"\}",
    "#": r"\#",
    "%": r"\%",
}
RELATIONS = {"<=", ">=", "!=", "=", "<", ">", "+", "-", "/"}
AROUND = {"(": ")", "{": "}"}
TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<power>\d+(?:\.\d+)?e-?\d+)"  # 1e-13
    r"|(?P<number>\d+(?:,\d{3})*(?:\.\d+)?)"
    r"|(?P<name>[A-Za-z]{2,}_[A-Za-z]{2,}\w*)"  # a name of the code inside a formula
    r"|(?P<word>[A-Za-z]+)"
    r"|(?P<script>[_^])"
    r"|(?P<prime>'+)"
    r"|(?P<sign><=|>=|!=|->|\+-|//|\.\.\.|\.\.|\|\||.)",
    re.S,
)
CODE = re.compile(
    r"[\w./-]+\.(?:py|md|csv|json|yaml)"  # a file
    r"|\w{2}[\w.]*\.\w{2}[\w.]*(?:\(.*\))?[\w.]*"  # a name inside a module or a class
    r"|[A-Za-z]{2,}_[A-Za-z]{2,}\w*(?:\(.*\))?"  # a name of the code, with its arguments
    r"|[A-Za-z]{5,}_\w|\w+=|(?:make|python|congenial) .*"
    r'|[^"]*".*'
    r"|at most \d+",  # a reason to refuse, in the words of the software
    re.S,
)


def is_formula(code: str) -> bool:
    """Say whether something set in code is mathematics: not a file, a command or a name of the software."""
    if CODE.fullmatch(code):
        return False
    name = re.fullmatch(r"([A-Za-z]{3,})(?:\((?:[a-z]{2,}|\w)\)(?:\.\w+)?)?", code)
    return name is None or name[1] in {*WORDS, "sqrt", "abs"}


def to_tex(formula: str) -> str:
    """Return a formula of the pages in TeX."""
    reader = _Reader(formula)
    return re.sub(r" +(?=['_^])| +(?= )", "", " ".join(reader.until(""))).strip()


class _Reader:
    """One formula, read from left to right."""

    def __init__(self, formula: str) -> None:
        self._tokens = [(str(found.lastgroup), found[0]) for found in TOKEN.finditer(formula)]
        self._at = 0
        self._closes: dict[str, bool] = {"|": False, "||": False}

    def until(self, closing: str) -> list[str]:
        """Read on to a closing sign, which is taken too, or to the end."""
        opening, depth, parts = {after: before for before, after in AROUND.items()}.get(closing), 0, []
        while self._at < len(self._tokens):
            text = self._text_at(0)
            if text == closing and depth == 0:
                self._at += 1
                break
            depth += (text == opening) - (text == closing)
            parts.append(self._one())
        return parts

    def _kind_at(self, ahead: int) -> str:
        place = self._at + ahead
        return self._tokens[place][0] if 0 <= place < len(self._tokens) else "end"

    def _text_at(self, ahead: int) -> str:
        place = self._at + ahead
        return self._tokens[place][1] if 0 <= place < len(self._tokens) else ""

    def _one(self) -> str:
        kind, text = self._tokens[self._at]
        before = self._kind_at(-1)
        self._at += 1
        match kind:
            case "space":
                is_apart = len(text) > 1 and "\n" not in text
                return r"\quad" if is_apart and not {self._text_at(-2), self._text_at(0)} & RELATIONS else ""
            case "power":
                digits, _, exponent = text.partition("e")
                return f"10^{{{exponent}}}" if digits == "1" else rf"{digits} \cdot 10^{{{exponent}}}"
            case "number":
                return text.replace(",", "{,}")
            case "name":
                return r"\texttt{" + text.replace("_", r"\_") + "}"
            case "word":
                return self._word(text, before)
            case "script":
                return text + self._script()
            case "prime":
                return text
        return self._sign(text, before)

    def _sign(self, text: str, before: str) -> str:
        if text == "*":  # S* is a set of tables; a product stands between spaces
            return r"\cdot" if before == "space" else "^*"
        if text in self._closes:
            if before == self._kind_at(0) == "space":
                return r"\mid"
            self._closes[text] = not self._closes[text]
            letter = "Vert" if text == "||" else "vert"
            return rf"\l{letter}" if self._closes[text] else rf"\r{letter}"
        if text == "." and self._text_at(-2) == "(":  # P(. | s)
            return r"\cdot"
        return SIGNS.get(text, text)

    def _word(self, text: str, before: str) -> str:
        if self._text_at(0) == "~":
            self._at += 1
            return rf"\tilde{{{text}}}"
        if text in {"sqrt", "abs"} and self._text_at(0) == "(":
            self._at += 1
            inside = " ".join(self.until(")"))
            return rf"\sqrt{{{inside}}}" if text == "sqrt" else rf"\lvert {inside} \rvert"
        if text in WORDS:
            return WORDS[text]
        if len(text) == 1:
            return text + self._digits("_{{{}}}")  # v0
        if self._kind_at(0) in {"script", "prime"} or self._text_at(0) == "(":
            return rf"\operatorname{{{text}}}"
        words = [text]
        left = before == "space" and self._text_at(-3) not in RELATIONS
        while self._kind_at(0) == "space" and self._kind_at(1) == "word" and not self._is_variable(1):
            words.append(self._text_at(1))
            self._at += 2
        right = self._kind_at(0) == "space" and self._text_at(1) not in RELATIONS
        return rf"\text{{{' ' * left}{' '.join(words)}{' ' * right}}}"

    def _is_variable(self, ahead: int) -> bool:
        text = self._text_at(ahead)
        if text == "a":  # the article, if words go on
            return self._kind_at(ahead + 2) != "word" or self._is_variable(ahead + 2)
        return len(text) == 1 or text in WORDS or self._text_at(ahead + 1) == "("

    def _digits(self, frame: str) -> str:
        digits = self._text_at(0)
        if not digits.isdigit():
            return ""
        self._at += 1
        return frame.format(digits)

    def _script(self) -> str:
        kind, text = self._kind_at(0), self._text_at(0)
        self._at += 1
        if text in AROUND:  # brackets that only hold the script together
            return "{" + " ".join(self.until(AROUND[text])) + "}"
        if text == "|":
            return r"{\lvert " + " ".join(self.until("|")) + r" \rvert}"
        if text == "-":
            bracket = self._text_at(0) == "("
            inside = self._script()
            return "{-(" + inside[1:-1] + ")}" if bracket else "{-" + inside + "}"
        if kind != "word":
            return "{" + text + "}"
        known = WORDS.get(text, text if len(text) <= 2 else rf"\mathrm{{{text}}}") + self._digits("{}")
        if text == "s" and self._kind_at(0) == "prime":  # P_s' is the law around s'
            known += self._text_at(0)
            self._at += 1
        return "{" + known + "}"
