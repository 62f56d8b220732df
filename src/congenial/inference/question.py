"""The analyst's questions in a small language: counts, shares and ratios of cells, one or one for each level.

::

    all                                           the total
    sex=female & age in {65-66, 67-69}            a count; dimensions not named are free
    share(age in {65-66, 67-69} | sex=female)     a part of a whole
    ratio(sex=male / sex=female) by age           one ratio for each age
    "marital status"="never married"              quotes where a name has spaces or signs
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.rows import Row, row_values
from congenial.errors import InferenceError, SchemaError, did_you_mean
from congenial.schema import Schema

_SIGNS = "&={}(),|/!"
_QUOTES = "\"'"


@dataclass(frozen=True)
class Statistic:
    """A number of a table: a count, or one count over another.

    Attributes
    ----------
    kind : str
        ``"count"``, ``"share"`` or ``"ratio"``.
    """

    text: str
    kind: str
    above: Row
    below: Row | None = field(default=None)

    def values(self, tables: Ints) -> Floats:
        """Return the number for each table (draw, cell); NaN where it would be 0/0, infinite where it is n/0."""
        top = row_values([self.above], tables)[:, 0].astype(np.float64)
        if self.below is None:
            return top
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(top / row_values([self.below], tables)[:, 0].astype(np.float64))


@dataclass(frozen=True)
class _Token:
    text: str
    place: int
    is_sign: bool
    is_quoted: bool = False


def parse_query(text: object, schema: Schema) -> tuple[Statistic, ...]:
    """Read a query; one statistic, or one for each combination of levels after ``by``.

    Examples
    --------
    >>> schema = Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    >>> [statistic.text for statistic in parse_query("ratio(sex=male / sex=female) by age", schema)]
    ['ratio(sex=male / sex=female), age=0-17', 'ratio(sex=male / sex=female), age=18+']
    >>> parse_query("sex=female & age in {18+}", schema)[0].above.cells
    (1,)
    """
    if not isinstance(text, str) or not text.strip():
        raise InferenceError('a query is text such as "sex=female & age in {65-66, 67-69}" or "all"')
    if len(text) > 10_000:
        raise InferenceError(f"the query has {len(text):,} characters, and the limit is 10,000")
    text = " ".join(text.split()) if not any(quote in text for quote in _QUOTES) else text
    body, dimensions = _split_by(text, schema)
    if dimensions and _reads(text, schema):
        raise InferenceError(
            f"{text!r} can be read in two ways, for a label has the word by in it; put the label in quotes"
        )
    kind, first, second = _Parser(_tokens(body), schema, body).statistic()
    out = []
    for labels in product(*(schema.labels(name) for name in dimensions)):
        level = {name: {label} for name, label in zip(dimensions, labels, strict=True)}
        suffix = "".join(f", {name}={label}" for name, label in zip(dimensions, labels, strict=True))
        name = body.strip() + suffix
        above = _row(schema, _both(schema, first, level), name)
        below = None if second is None else _row(schema, _both(schema, second, level), name)
        if kind == "share" and below is not None:  # the part of the whole
            above = _row_of(sorted(set(above.cells) & set(below.cells)), name)
        out.append(Statistic(name, kind, above, below))
    return tuple(out)


Where = dict[str, set[str]]


def _reads(text: str, schema: Schema) -> bool:
    """Whether a text is a query as it stands, nothing taken off."""
    try:
        _Parser(_tokens(text), schema, text).statistic()
    except InferenceError:
        return False
    return True


def _split_by(text: str, schema: Schema) -> tuple[str, list[str]]:
    """Take a trailing ``by a, b`` off: outside quotes and brackets."""
    depth, quote, found = 0, "", None
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in _QUOTES:
            quote = letter
        elif letter in "({":
            depth += 1
        elif letter in ")}":
            depth -= 1
        elif depth == 0 and text[place : place + 4].lower() == " by ":
            found = place
    if found is None:
        return text, []
    tokens = _tokens(text[found + 4 :])
    names = [token.text for token in tokens if not token.is_sign]
    if [token.text for token in tokens if token.is_sign] != [","] * (len(names) - 1) or not names:
        raise InferenceError("after `by`, name dimensions with commas between them")
    for name in names:
        if name not in schema.names:
            raise InferenceError(f"after `by`, {name!r} is not a dimension; {did_you_mean(name, schema.names)}")
    if len(set(names)) != len(names):
        raise InferenceError("`by` names a dimension twice")
    return text[:found], names


def _tokens(text: str) -> list[_Token]:
    """Cut a query into signs and names; a name runs to the next sign, spaces around it taken off."""
    out: list[_Token] = []
    place = 0
    while place < len(text):
        letter = text[place]
        if letter.isspace():
            place += 1
        elif letter in _QUOTES:
            end = text.find(letter, place + 1)
            if end < 0:
                raise InferenceError(f"the quote at character {place + 1} of the query is not closed")
            out.append(_Token(text[place + 1 : end], place, is_sign=False, is_quoted=True))
            place = end + 1
        elif letter in _SIGNS:
            out.append(_Token(letter, place, is_sign=True))
            place += 1
        else:
            start = place
            while place < len(text) and text[place] not in _SIGNS + _QUOTES:
                place += 1
            out.append(_Token(text[start:place].strip(), start, is_sign=False))
    return out


class _Parser:
    """Reads tokens from left to right."""

    def __init__(self, tokens: Sequence[_Token], schema: Schema, text: str) -> None:
        self.tokens, self.schema, self.text, self.place = list(tokens), schema, text, 0

    def statistic(self) -> tuple[str, Where, Where | None]:
        head = self._peek()
        if _is_word(head, "share", "ratio") and head is not None and self._sign_at(1, "("):
            kind = head.text.lower()
            self.place += 2
            first = self._where()
            sign = "|" if kind == "share" else "/"
            self._expect(sign, f"{kind}(... {sign} ...)")
            second: Where | None = self._where()
            self._expect(")", f"{kind}(... {sign} ...)")
        else:
            kind, first, second = "count", self._where(), None
        if (left := self._peek()) is not None:
            raise self._error(left, "nothing more is expected here")
        return kind, first, second

    def _where(self) -> Where:
        token = self._peek()
        if _is_word(token, "all") and not self._sign_at(1, "=") and not self._sign_at(1, "!"):
            self.place += 1
            return {}
        out: Where = {}
        while True:
            name, labels = self._condition()
            out[name] = out[name] & labels if name in out else labels
            if not self._sign_at(0, "&"):
                return out
            self.place += 1

    def _condition(self) -> tuple[str, set[str]]:
        token = self._name("a dimension")
        words = token.text
        if not token.is_quoted and words.lower().endswith(" in") and self._sign_at(0, "{"):
            return self._members(words[:-3].rstrip())
        if token.is_quoted and _is_word(self._peek(), "in"):
            self.place += 1
            return self._members(words)
        is_not = self._sign_at(0, "!")
        self.place += is_not
        if not self._sign_at(0, "="):
            raise self._error(token, f'after {words!r}, write = and a label, or "in {{...}}"')
        self.place += 1
        label = self._name("a label")
        picked = {self._label(words, label)}
        return words, set(self.schema.labels(words)) - picked if is_not else picked

    def _members(self, name: str) -> tuple[str, set[str]]:
        self._dimension(name)
        self._expect("{", f"{name} in {{...}}")
        labels = {self._label(name, self._name("a label"))}
        while self._sign_at(0, ","):
            self.place += 1
            labels.add(self._label(name, self._name("a label")))
        self._expect("}", f"{name} in {{...}}")
        return name, labels

    def _dimension(self, name: str) -> None:
        if name not in self.schema.names:
            raise InferenceError(f"{name!r} is not a dimension; {did_you_mean(name, self.schema.names)}")

    def _label(self, name: str, token: _Token) -> str:
        self._dimension(name)
        try:
            self.schema.dimensions[self.schema.axis(name)].position(token.text)
        except SchemaError as unknown:
            hint = "; labels with commas, braces or other signs go in quotes"
            raise InferenceError(f"{unknown}{hint if any(s in token.text for s in ' ') else ''}") from None
        return token.text

    def _peek(self, ahead: int = 0) -> _Token | None:
        return self.tokens[self.place + ahead] if self.place + ahead < len(self.tokens) else None

    def _sign_at(self, ahead: int, sign: str) -> bool:
        token = self._peek(ahead)
        return token is not None and token.is_sign and token.text == sign

    def _name(self, what: str) -> _Token:
        token = self._peek()
        if token is None or token.is_sign:
            raise self._error(token, f"{what} is expected here")
        self.place += 1
        return token

    def _expect(self, sign: str, form: str) -> None:
        if not self._sign_at(0, sign):
            raise self._error(self._peek(), f"{sign!r} is expected here, as in {form}")
        self.place += 1

    def _error(self, token: _Token | None, message: str) -> InferenceError:
        where = "at the end" if token is None else f"at character {token.place + 1} ({token.text[:40]!r})"
        return InferenceError(f"the query {self.text.strip()!r} cannot be read {where}: {message}")


def _is_word(token: _Token | None, *words: str) -> bool:
    """Whether a token is one of the language's own words; what stands in quotes never is."""
    return token is not None and not token.is_sign and not token.is_quoted and token.text.lower() in words


def _both(schema: Schema, where: Where, level: Where) -> Where:
    out = dict(where)
    for name, labels in level.items():
        out[name] = out.get(name, set(schema.labels(name))) & labels
    return out


def _row(schema: Schema, where: Where, name: str) -> Row:
    if any(not labels for labels in where.values()):
        return _row_of([], name)
    return _row_of([int(cell) for cell in schema.cells({key: sorted(labels) for key, labels in where.items()})], name)


def _row_of(cells: Sequence[int], name: str) -> Row:
    return Row(name, tuple(cells), (1,) * len(cells))
