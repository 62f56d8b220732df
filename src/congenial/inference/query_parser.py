"""A query read from left to right: what is counted, and how counts become a number."""

from dataclasses import dataclass

from congenial.errors import InferenceError, did_you_mean
from congenial.inference.query_tokens import COMPARISONS, Token, tokens, with_tail_words
from congenial.inference.statistic import COUNT, DIFFERENCE, MEDIAN, ODDS_RATIO, RATIO, SHARE
from congenial.inference.vocabulary import Vocabulary, order_of
from congenial.schema import Dimension

Where = dict[str, set[str]]
"""Labels by dimension; dimensions not named are free."""

_FORMS = {
    SHARE: "share(part | whole)",
    RATIO: "ratio(one / other)",
    DIFFERENCE: "difference(one, other)",
    ODDS_RATIO: "odds_ratio(one, other)",
    MEDIAN: "median(dimension | part)",
}
_BETWEEN = {SHARE: "|", RATIO: "/", DIFFERENCE: ",", ODDS_RATIO: ","}


@dataclass(frozen=True)
class Asked:
    """What a query says.

    Attributes
    ----------
    kind : str
    wheres : tuple of Where
        The sets of cells it is about, in the order of the text.
    along : str or None
        The dimension of a median.
    is_over_areas : bool
        Whether areas are added up, or named.
    by : tuple of str
        Dimensions for each of whose levels the number is wanted.
    body : str
        The text without `by`.
    """

    kind: str
    wheres: tuple[Where, ...]
    along: str | None
    is_over_areas: bool
    by: tuple[str, ...]
    body: str


class Parser:
    """Reads the tokens of one query."""

    def __init__(self, text: str, words: Vocabulary) -> None:
        self.text, self.words, self.place = text, words, 0
        self.tokens = with_tail_words(tokens(text, words.names), words.known)
        self.names_areas = False

    def query(self) -> Asked:
        """Read the whole query."""
        kind, wheres, along = self._number()
        is_over = self._over()
        end = len(self.text) if (token := self._peek()) is None else token.place
        by = self._by()
        if (left := self._peek()) is not None:
            raise self._error(left, "nothing more is expected here")
        return Asked(kind, wheres, along, is_over or self.names_areas, by, self.text[:end].strip())

    def _number(self) -> tuple[str, tuple[Where, ...], str | None]:
        head = self._peek()
        if head is None or head.is_sign or head.is_quoted or not self._sign_at(1, "("):
            return COUNT, (self._where(),), None
        kind = head.text.lower().replace(" ", "_")
        if kind not in _FORMS:
            raise self._error(head, f"numbers are {', '.join(_FORMS.values())}; {did_you_mean(kind, _FORMS)}")
        self.place += 2
        if kind == MEDIAN:
            dimension = self.words.dimension(self._name("a dimension").text)
            order_of(dimension)
            whole = self._where() if self._taken("|") else {}
            self._expect(")", _FORMS[kind])
            return kind, (whole,), dimension.name
        first = self._where()
        self._expect(_BETWEEN[kind], _FORMS[kind])
        second = self._where()
        self._expect(")", _FORMS[kind])
        return kind, (first, second), None

    def _where(self) -> Where:
        head, following = self._peek(), self._peek(1)
        is_all = head is not None and (head.is_word("all") or (head.is_word("sum") and self._sign_at(1, "over")))
        if is_all and (following is None or following.text not in {"=", "!=", "!", *COMPARISONS}):
            self.place += 1
            return {}
        out: Where = {}
        while True:
            dimension, labels = self._condition()
            out[dimension.name] = out[dimension.name] & labels if dimension.name in out else labels
            self.names_areas |= dimension.name == self.words.area_name
            if not self._taken("&"):
                return out

    def _condition(self) -> tuple[Dimension, set[str]]:
        token = self._name("a dimension")
        words = token.text
        if not token.is_quoted and words.lower().endswith(" in") and self._sign_at(0, "{"):
            return self._members(words[:-3].rstrip())
        if token.is_quoted and (following := self._peek()) is not None and following.is_word("in"):
            self.place += 1
            return self._members(words)
        for comparison in COMPARISONS:
            if self._taken(comparison):
                return self._compared(self.words.dimension(words), comparison)
        if self._taken("="):
            dimension = self.words.dimension(words)
            return dimension, self._picked(dimension)
        if self._taken("!=") or (self._sign_at(0, "!") and self._sign_at(1, "=")):
            self.place += self._sign_at(0, "!") and 2
            dimension = self.words.dimension(words)
            return dimension, set(dimension.labels) - self._picked(dimension)
        return self._named(token)

    def _named(self, token: Token) -> tuple[Dimension, set[str]]:
        """Read a condition without a sign: a group by its name, or a dimension followed by a label or range."""
        of = self.words.groups.get(token.text, ())
        if len(of) == 1:
            dimension = self.words.dimensions[of[0]]
            return dimension, self.words.picked(dimension, token.text)
        if of:
            raise self._error(token, f"{token.text!r} is a group of {' and of '.join(of)}; write {of[0]}={token.text}")
        for name in sorted(self.words.names, key=len, reverse=True):
            if not token.is_quoted and token.text.startswith(f"{name} "):
                self.place -= 1
                rest = token.text.removeprefix(f"{name} ")
                self.tokens[self.place] = Token(rest, token.place + len(name) + 1, is_sign=False)
                dimension = self.words.dimension(name)
                return dimension, self._picked(dimension)
        if token.text in self.words.names:
            raise self._error(token, f'after {token.text!r}, write = and a label, or "in {{...}}"')
        self.words.dimension(token.text)
        raise self._error(token, "a dimension is expected here")

    def _compared(self, dimension: Dimension, comparison: str) -> tuple[Dimension, set[str]]:
        label = self._name("a label").text
        is_up = comparison.startswith(">")
        found = self.words.between(dimension, label if is_up else None, None if is_up else label)
        return dimension, found if comparison.endswith("=") else found - {label}

    def _members(self, name: str) -> tuple[Dimension, set[str]]:
        dimension = self.words.dimension(name)
        self._expect("{", f"{name} in {{...}}")
        labels = self._picked(dimension)
        while self._taken(","):
            labels |= self._picked(dimension)
        self._expect("}", f"{name} in {{...}}")
        return dimension, labels

    def _picked(self, dimension: Dimension) -> set[str]:
        """Read a label, a group or a range; what is quoted is one label or group, or an end of a range."""
        token = self._name("a label")
        following = self._peek()
        if following is not None and not following.is_sign and not following.is_quoted and following.text[:2] == "..":
            last = self._name("a label").text.removeprefix("..").strip() or self._name("a label").text
            return self.words.between(dimension, token.text, last)
        if not token.is_quoted and token.text.endswith("..") and following is not None and following.is_quoted:
            return self.words.between(dimension, token.text[:-2].strip(), self._name("a label").text)
        if token.is_quoted and token.text not in {*dimension.positions, *dict(dimension.groups)}:
            dimension_error = f"{token.text!r} is not a label or group of dimension {dimension.name!r}"
            raise InferenceError(f"{dimension_error}; {did_you_mean(token.text, dimension.labels)}")
        return self.words.picked(dimension, token.text)

    def _over(self) -> bool:
        token = self._peek()
        if not self._taken("over"):
            return False
        if self.words.area_name is None:
            raise self._error(token, "there is one table, and no areas to add up; leave it out")
        if self._name("areas").text.lower() not in {"areas", "area", self.words.area_name.lower()}:
            raise self._error(token, f"write `over areas`, which adds up every {self.words.area_name}")
        return True

    def _by(self) -> tuple[str, ...]:
        names: list[str] = []
        while self._taken("by" if not names else ","):
            token = self._peek()
            if token is None or token.is_sign:
                raise InferenceError("after `by`, name dimensions with commas between them")
            self.place += 1
            names.append(self._level_of(token.text))
        if len(set(names)) != len(names):
            raise InferenceError("`by` names a dimension twice")
        return tuple(names)

    def _level_of(self, name: str) -> str:
        if name not in self.words.names:
            raise InferenceError(f"after `by`, {name!r} is not a dimension; {did_you_mean(name, self.words.names)}")
        dimension = self.words.dimension(name)
        self.names_areas |= dimension.name == self.words.area_name
        return dimension.name

    def _peek(self, ahead: int = 0) -> Token | None:
        return self.tokens[self.place + ahead] if self.place + ahead < len(self.tokens) else None

    def _sign_at(self, ahead: int, sign: str) -> bool:
        token = self._peek(ahead)
        return token is not None and token.is_sign and token.text == sign

    def _taken(self, sign: str) -> bool:
        """Go past a sign if it stands here."""
        is_here = self._sign_at(0, sign)
        self.place += is_here
        return is_here

    def _name(self, what: str) -> Token:
        token = self._peek()
        if token is None or token.is_sign:
            raise self._error(token, f"{what} is expected here")
        self.place += 1
        return token

    def _expect(self, sign: str, form: str) -> None:
        if not self._taken(sign):
            raise self._error(self._peek(), f"{sign!r} is expected here, as in {form}")

    def _error(self, token: Token | None, message: str) -> InferenceError:
        where = "at the end" if token is None else f"at character {token.place + 1} ({token.text[:40]!r})"
        return InferenceError(f"the query {self.text.strip()!r} cannot be read {where}: {message}")
