"""A query cut into signs and names."""

from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass

from congenial.errors import InferenceError

SIGNS = ("!=", *"&={}(),|/!")
COMPARISONS = (">=", "<=", ">", "<")
QUOTES = "\"'"
TAIL_WORDS = ("over", "by")
_STARTS = frozenset(sign[0] for sign in SIGNS)


@dataclass(frozen=True)
class Token:
    """A sign, or a name with the spaces around it taken off."""

    text: str
    place: int
    is_sign: bool
    is_quoted: bool = False

    def is_word(self, *words: str) -> bool:
        """Whether it is one of the language's own words; what stands in quotes never is."""
        return not self.is_sign and not self.is_quoted and self.text.lower() in words


def tokens(text: str, names: Collection[str]) -> list[Token]:
    """Cut a query into signs and names; a name runs to the next sign.

    A comparison is a sign only after the name of a dimension, or after quotes: labels may have one, as ``0 to <18``.

    Examples
    --------
    >>> [token.text for token in tokens("sex='a, b' & age >= 65-66", ["sex", "age"])]
    ['sex', '=', 'a, b', '&', 'age', '>=', '65-66']
    """
    out: list[Token] = []
    place = 0
    while place < len(text):
        letter = text[place]
        comparison = next((sign for sign in COMPARISONS if text.startswith(sign, place)), "")
        if letter.isspace():
            place += 1
        elif letter in QUOTES:
            end = text.find(letter, place + 1)
            if end < 0:
                raise InferenceError(f"the quote at character {place + 1} of the query is not closed")
            out.append(Token(text[place + 1 : end], place, is_sign=False, is_quoted=True))
            place = end + 1
        elif letter in _STARTS or (comparison and out and not out[-1].is_sign):
            sign = comparison or next(sign for sign in SIGNS if text.startswith(sign, place))
            out.append(Token(sign, place, is_sign=True))
            place += len(sign)
        else:
            end = _end(text, place, names)
            out.append(Token(" ".join(text[place:end].split()), place, is_sign=False))
            place = end
    return out


def _end(text: str, start: int, names: Collection[str]) -> int:
    """Return where the name that starts here ends."""
    place = start
    while place < len(text) and text[place] not in _STARTS and text[place] not in QUOTES:
        if text[place] in "<>" and " ".join(text[start:place].split()) in names:
            return place
        place += 1
    return place


def with_tail_words(cut: Sequence[Token], known: Container[str]) -> list[Token]:
    """Make signs of the words ``over`` and ``by`` that stand outside brackets, cut off the names that run into them.

    A name with such a word in it that is known as it stands is left alone; if its beginning is known too, it can be
    read in two ways.

    Examples
    --------
    >>> [(token.text, token.is_sign) for token in with_tail_words(tokens("all by age", ["age"]), {"age"})]
    [('all', False), ('by', True), ('age', False)]
    """
    out: list[Token] = []
    depth = 0
    for token in cut:
        depth += token.is_sign and (token.text in "({") - (token.text in ")}")
        out += [token] if depth or token.is_sign or token.is_quoted else _apart(token, known)
    return out


def _apart(token: Token, known: Container[str]) -> list[Token]:
    words = token.text.split(" ")
    at = next((place for place, word in enumerate(words) if word.lower() in TAIL_WORDS), None)
    if at is None:
        return [token]
    head, tail = " ".join(words[:at]), " ".join(words[at + 1 :])
    if token.text in known:
        if head in known:
            raise InferenceError(
                f"{token.text!r} can be read in two ways, for a label has the word {words[at]} in it; put it in quotes"
            )
        return [token]
    after = token.place + len(head) + bool(head)
    out = [Token(head, token.place, is_sign=False)] if head else []
    out.append(Token(words[at].lower(), after, is_sign=True))
    return out + (_apart(Token(tail, after + len(words[at]) + 1, is_sign=False), known) if tail else [])
