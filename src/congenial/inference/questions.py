"""The analyst's questions in a small language, one number or one for each level.

::

    all                                           the total
    sex=female & age in {65-66, 67-69}            a count; dimensions not named are free
    sex=female & age >= 65-66                     a range along the labels in their order; age 18-19..22-24
    sex=female & voting                           a group that the spec names
    difference(sex=female, sex=male)              one count less another
    share(age in {65-66, 67-69} | sex=female)     a part of a whole
    ratio(sex=male / sex=female) by age           one ratio for each age
    odds_ratio(sex=male, age >= 65-66)            of the two-by-two table that two sets of cells make
    median(age | sex=female)                      the first age at which half of the women are reached
    age >= 65-66 over areas                       added up over all areas
    difference(area=North, area=South)            of two areas
    "marital status"="never married"              quotes where a name has signs in it
"""

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from congenial.conditions.areas_and_bounds import Area, Areas
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import InferenceError, SchemaError, did_you_mean
from congenial.inference.statistics_registry import COUNT, STATISTICS, Statistic, StatisticArguments
from congenial.schema import Dimension, Schema

# A query cut into signs and names.

SIGNS = ("!=", *"&={}(),|/!")
COMPARISONS = (">=", "<=", ">", "<")
QUOTES = "\"'"
KEYWORDS = ("over", "by")
_STARTS = frozenset(sign[0] for sign in SIGNS)


@dataclass(frozen=True)
class Token:
    """A sign, or a name with the spaces around it taken off."""

    text: str
    place: int
    is_sign: bool
    is_quoted: bool = False

    def is_keyword(self, *keywords: str) -> bool:
        """Whether it is one of the language's own words; what stands in quotes never is."""
        return not self.is_sign and not self.is_quoted and self.text.lower() in keywords


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


def split_keywords(cut: Sequence[Token], known: Container[str]) -> list[Token]:
    """Make signs of the words ``over`` and ``by`` that stand outside brackets, cut off the names that run into them.

    A name with such a word in it that is known as it stands is left alone; if its beginning is known too, it can be
    read in two ways.

    Examples
    --------
    >>> [(token.text, token.is_sign) for token in split_keywords(tokens("all by age", ["age"]), {"age"})]
    [('all', False), ('by', True), ('age', False)]
    """
    out: list[Token] = []
    depth = 0
    for token in cut:
        depth += token.is_sign and (token.text in "({") - (token.text in ")}")
        out += [token] if depth or token.is_sign or token.is_quoted else _apart(token, known)
    return out


def _apart(token: Token, known: Container[str]) -> list[Token]:
    names = token.text.split(" ")
    at = next((place for place, name in enumerate(names) if name.lower() in KEYWORDS), None)
    if at is None:
        return [token]
    head, tail = " ".join(names[:at]), " ".join(names[at + 1 :])
    if token.text in known:
        if head in known:
            raise InferenceError(
                f"{token.text!r} can be read in two ways, for a label has the word {names[at]} in it; put it in quotes"
            )
        return [token]
    after = token.place + len(head) + bool(head)
    out = [Token(head, token.place, is_sign=False)] if head else []
    out.append(Token(names[at].lower(), after, is_sign=True))
    return out + (_apart(Token(tail, after + len(names[at]) + 1, is_sign=False), known) if tail else [])


# The words that a query may use: dimensions, labels, groups of labels, and areas.

AREA = "area"
RANGE = ".."


@dataclass(frozen=True)
class Vocabulary:
    """What the names in a query can mean.

    Attributes
    ----------
    areas : Areas or None
        Where there are several tables: areas are then one more dimension, by their own name and as ``area``.
    """

    schema: Schema
    areas: Areas | None = None

    @cached_property
    def area_name(self) -> str | None:
        """What areas are called as a dimension, if there are several."""
        if self.areas is None or self.areas.name is None:
            return None
        return AREA if self.areas.name in self.schema.names else self.areas.name

    @cached_property
    def dimensions(self) -> Mapping[str, Dimension]:
        """The dimensions by name, areas first."""
        by_name = {dimension.name: dimension for dimension in self.schema.dimensions}
        if self.area_name is None or self.areas is None:
            return by_name
        return {self.area_name: Dimension(self.area_name, tuple(map(str, self.areas.labels))), **by_name}

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name that stands for a dimension."""
        also = {AREA} if self.area_name is not None else set()
        return frozenset({*self.dimensions, *also})

    @cached_property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """The dimensions that each group's name belongs to."""
        out: dict[str, tuple[str, ...]] = {}
        for dimension in self.schema.dimensions:
            for group, _ in dimension.groups:
                out[group] = (*out.get(group, ()), dimension.name)
        return out

    @cached_property
    def known(self) -> frozenset[str]:
        """Every name of a dimension, label or group."""
        labels = (label for dimension in self.dimensions.values() for label in dimension.labels)
        return frozenset({*self.names, *labels, *self.groups})

    def dimension(self, name: str) -> Dimension:
        """Return the dimension of that name."""
        if name == AREA and AREA not in self.dimensions and self.area_name is not None:
            return self.dimensions[self.area_name]
        if name not in self.dimensions:
            hint = did_you_mean(name, [*self.dimensions, *self.groups])
            if name == AREA:
                hint = "the bundle has one table, and no areas"
            raise InferenceError(f"{name!r} is not a dimension; {hint}")
        return self.dimensions[name]

    def picked(self, dimension: Dimension, name: str) -> set[str]:
        """Return the labels that a label, a group, or a range ``first..last`` stands for."""
        try:
            return set(dimension.picked(name))
        except SchemaError as unknown:
            first, dots, last = name.partition(RANGE)
            if not dots:
                hint = "; labels with commas, braces or other signs go in quotes" if " " in name else ""
                raise InferenceError(f"{unknown}{hint}") from None
        return self.between(dimension, first.strip() or None, last.strip() or None)

    def between(self, dimension: Dimension, first: str | None, last: str | None) -> set[str]:
        """Return the labels from one to another in the order of the list, both included; None is the end."""
        order = dimension.labels
        start = 0 if first is None else order.index(self._label(dimension, first))
        end = len(order) - 1 if last is None else order.index(self._label(dimension, last))
        if start > end:
            raise InferenceError(f"{first!r} comes after {last!r} in {dimension.name!r}; swap them")
        return set(order[start : end + 1])

    def _label(self, dimension: Dimension, label: str) -> str:
        try:
            dimension.position(label)
        except SchemaError as unknown:
            raise InferenceError(f"{unknown}; a range or comparison takes single labels") from None
        return label


# A query read from left to right: what is counted, and how counts become a number.

Where = dict[str, set[str]]
"""Labels by dimension; dimensions not named are free."""


@dataclass(frozen=True)
class ParsedQuery:
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

    def __init__(self, text: str, vocabulary: Vocabulary) -> None:
        self.text, self.vocabulary, self.place = text, vocabulary, 0
        self.tokens = split_keywords(tokens(text, vocabulary.names), vocabulary.known)
        self.names_areas = False

    def query(self) -> ParsedQuery:
        """Read the whole query."""
        kind, wheres, along = self._number()
        is_over = self._over()
        end = len(self.text) if (token := self._peek()) is None else token.place
        by = self._by()
        if (surplus := self._peek()) is not None:
            raise self._error(surplus, "nothing more is expected here")
        return ParsedQuery(kind, wheres, along, is_over or self.names_areas, by, self.text[:end].strip())

    def _number(self) -> tuple[str, tuple[Where, ...], str | None]:
        head = self._peek()
        if head is None or head.is_sign or head.is_quoted or not self._sign_at(1, "("):
            return COUNT, (self._where(),), None
        kind = head.text.lower().replace(" ", "_")
        forms = {name: known.form for name, known in STATISTICS.items() if known.form}
        if kind not in forms:
            raise self._error(head, f"numbers are {', '.join(forms.values())}; {did_you_mean(kind, forms)}")
        statistic, along = STATISTICS[kind], None
        self.place += 2
        if statistic.takes_dimension:
            along = self.vocabulary.dimension(self._name("a dimension").text).name
            wheres: tuple[Where, ...] = (self._where() if self._taken(statistic.separator) else {},)
        else:
            first = self._where()
            self._expect(statistic.separator, statistic.form)
            wheres = first, self._where()
        self._expect(")", statistic.form)
        return kind, wheres, along

    def _where(self) -> Where:
        head, following = self._peek(), self._peek(1)
        is_all = head is not None and (head.is_keyword("all") or (head.is_keyword("sum") and self._sign_at(1, "over")))
        if is_all and (following is None or following.text not in {"=", "!=", "!", *COMPARISONS}):
            self.place += 1
            return {}
        out: Where = {}
        while True:
            dimension, labels = self._condition()
            out[dimension.name] = out[dimension.name] & labels if dimension.name in out else labels
            self.names_areas |= dimension.name == self.vocabulary.area_name
            if not self._taken("&"):
                return out

    def _condition(self) -> tuple[Dimension, set[str]]:
        token = self._name("a dimension")
        name = token.text
        if not token.is_quoted and name.lower().endswith(" in") and self._sign_at(0, "{"):
            return self._members(name[:-3].rstrip())
        if token.is_quoted and (following := self._peek()) is not None and following.is_keyword("in"):
            self.place += 1
            return self._members(name)
        for comparison in COMPARISONS:
            if self._taken(comparison):
                return self._compared(self.vocabulary.dimension(name), comparison)
        if self._taken("="):
            dimension = self.vocabulary.dimension(name)
            return dimension, self._picked(dimension)
        if self._taken("!=") or (self._sign_at(0, "!") and self._sign_at(1, "=")):
            self.place += self._sign_at(0, "!") and 2
            dimension = self.vocabulary.dimension(name)
            return dimension, set(dimension.labels) - self._picked(dimension)
        return self._named(token)

    def _named(self, token: Token) -> tuple[Dimension, set[str]]:
        """Read a condition without a sign: a group by its name, or a dimension followed by a label or range."""
        of = self.vocabulary.groups.get(token.text, ())
        if len(of) == 1:
            dimension = self.vocabulary.dimensions[of[0]]
            return dimension, self.vocabulary.picked(dimension, token.text)
        if of:
            raise self._error(token, f"{token.text!r} is a group of {' and of '.join(of)}; write {of[0]}={token.text}")
        for name in sorted(self.vocabulary.names, key=len, reverse=True):
            if not token.is_quoted and token.text.startswith(f"{name} "):
                self.place -= 1
                rest = token.text.removeprefix(f"{name} ")
                self.tokens[self.place] = Token(rest, token.place + len(name) + 1, is_sign=False)
                dimension = self.vocabulary.dimension(name)
                return dimension, self._picked(dimension)
        if token.text in self.vocabulary.names:
            raise self._error(token, f'after {token.text!r}, write = and a label, or "in {{...}}"')
        self.vocabulary.dimension(token.text)
        raise self._error(token, "a dimension is expected here")

    def _compared(self, dimension: Dimension, comparison: str) -> tuple[Dimension, set[str]]:
        label = self._name("a label").text
        is_up = comparison.startswith(">")
        labels = self.vocabulary.between(dimension, label if is_up else None, None if is_up else label)
        return dimension, labels if comparison.endswith("=") else labels - {label}

    def _members(self, name: str) -> tuple[Dimension, set[str]]:
        dimension = self.vocabulary.dimension(name)
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
            return self.vocabulary.between(dimension, token.text, last)
        if not token.is_quoted and token.text.endswith("..") and following is not None and following.is_quoted:
            return self.vocabulary.between(dimension, token.text[:-2].strip(), self._name("a label").text)
        if token.is_quoted and token.text not in {*dimension.positions, *dict(dimension.groups)}:
            dimension_error = f"{token.text!r} is not a label or group of dimension {dimension.name!r}"
            raise InferenceError(f"{dimension_error}; {did_you_mean(token.text, dimension.labels)}")
        return self.vocabulary.picked(dimension, token.text)

    def _over(self) -> bool:
        token = self._peek()
        if not self._taken("over"):
            return False
        if self.vocabulary.area_name is None:
            raise self._error(token, "there is one table, and no areas to add up; leave it out")
        if self._name("areas").text.lower() not in {"areas", "area", self.vocabulary.area_name.lower()}:
            raise self._error(token, f"write `over areas`, which adds up every {self.vocabulary.area_name}")
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
        if name not in self.vocabulary.names:
            raise InferenceError(
                f"after `by`, {name!r} is not a dimension; {did_you_mean(name, self.vocabulary.names)}"
            )
        dimension = self.vocabulary.dimension(name)
        self.names_areas |= dimension.name == self.vocabulary.area_name
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


__all__ = ["Statistic", "parse_query"]

_LONGEST = 10_000


def parsed_query(text: object, schema: Schema, areas: Areas | None = None) -> ParsedQuery:
    """Return what a query says, before it is made of cells: of a schema with very many, these are never listed."""
    if not isinstance(text, str) or not text.strip():
        raise InferenceError('a query is text such as "sex=female & age in {65-66, 67-69}" or "all"')
    if len(text) > _LONGEST:
        raise InferenceError(f"the query has {len(text):,} characters, and the limit is {_LONGEST:,}")
    line = " ".join(text.split()) if not any(quote in text for quote in QUOTES) else text
    return Parser(line, Vocabulary(schema, areas)).query()


def parse_query(text: object, schema: Schema, areas: Areas | None = None) -> tuple[Statistic, ...]:
    """Read a query; one statistic, or one for each combination of levels after ``by``.

    Parameters
    ----------
    areas : Areas, optional
        Where there are several tables: queries may then name areas, and add over them.

    Examples
    --------
    >>> schema = Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    >>> [statistic.text for statistic in parse_query("ratio(sex=male / sex=female) by age", schema)]
    ['ratio(sex=male / sex=female), age=0-17', 'ratio(sex=male / sex=female), age=18+']
    >>> parse_query("sex=female & age >= 18+", schema)[0].above.cells
    (1,)
    """
    vocabulary = Vocabulary(schema, areas)
    query = parsed_query(text, schema, areas)
    dimensions, spanned = vocabulary.dimensions, None
    if query.is_over_areas and areas is not None:
        schema = Schema({name: dimension.labels for name, dimension in dimensions.items()})
        spanned = tuple(areas.labels)
    levels = product(*(dimensions[name].labels for name in query.by))
    return tuple(_statistic(query, schema, spanned, dict(zip(query.by, level, strict=True))) for level in levels)


def parse_queries(queries: str | Sequence[str], schema: Schema, areas: Areas | None = None) -> list[Statistic]:
    """Read a query or several; the statistics of all of them, one after the other."""
    texts = [queries] if isinstance(queries, str) else queries
    return [statistic for text in texts for statistic in parse_query(text, schema, areas)]


def _statistic(query: ParsedQuery, schema: Schema, areas: tuple[Area, ...] | None, level: dict[str, str]) -> Statistic:
    """Return the number at one level of the dimensions after ``by``.

    Parameters
    ----------
    schema : Schema
        Of one table; or, where the number spans areas, of the tables of all areas one after the other.
    """
    kind = STATISTICS[query.kind]

    def cells(where: Where) -> set[int]:
        if any(not labels for labels in where.values()):
            return set()
        return {int(cell) for cell in schema.cells({name: sorted(labels) for name, labels in where.items()})}

    name = query.body + "".join(f", {dimension}={label}" for dimension, label in level.items())
    whole = cells({dimension: {label} for dimension, label in level.items()})
    sets = [cells(where) & whole for where in query.wheres]
    labels = () if query.along is None else schema.labels(query.along)
    levels = [cells({query.along: {label}}) for label in labels] if query.along is not None else []
    counts = kind.counts(StatisticArguments(sets, whole, levels))
    if not level and not all(counts[: kind.n_nonempty]):  # after `by` some levels may well have no cells
        raise InferenceError(f"{query.body!r} {kind.refusal}")
    above, *more = (Row(name, tuple(count), tuple(count.values())) for count in counts)
    below = more.pop(0) if more and not labels else None
    return Statistic(name, query.kind, above, below, tuple(more), areas, labels)
