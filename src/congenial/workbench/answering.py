"""Answers of a bundle: kept while its files stay; of many areas together what is known at once comes first."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.loading import Bundle
from congenial.bundle.verifying import Verified
from congenial.errors import InferenceError
from congenial.inference.across_areas import error_intervals_across
from congenial.inference.areas_posterior import AreasPosterior, areas_posterior
from congenial.inference.asking import SMOOTH, Replies, ask
from congenial.inference.error_law import ErrorInterval
from congenial.inference.known_answers import known_answers
from congenial.inference.priors import prior_of
from congenial.inference.question import parse_query
from congenial.public_law import PublicLaw
from congenial.randomness import replay_rng
from congenial.workbench.desk import forget_some

SEED = 1
"""The same question has the same answer, whoever asks it again."""

LEVELS = ("0.5", "0.8", "0.9", "0.95", "0.99")
DRAWS, DRAWS_OF_AREAS = 4_000, 400  # of sixty areas together, a minute; poor draws are said to be so
_MOST_KEPT = 32

Together = tuple[AreasPosterior, tuple[str, ...]]
"""Draws of all areas, and what has to be said of them."""


@dataclass(frozen=True)
class Question:
    """A query of a bundle, the level of its interval, and of which area; none is all of them."""

    query: str
    level: str
    area: str = ""

    @classmethod
    def of(cls, said: Any) -> "Question":
        """Read what a page sends."""
        found = cls(*(str(said.get(name) or "") for name in ("query", "level", "area")))
        if found.level not in LEVELS:
            raise InferenceError(f"a level is one of {', '.join(LEVELS)}")
        return found

    def n_draws(self, bundle: Bundle) -> int:
        """Return how many draws are made."""
        return DRAWS if len(bundle.tables) == 1 else DRAWS_OF_AREAS

    def spans_areas(self, bundle: Bundle) -> bool:
        """Whether it asks for numbers of several areas together."""
        return not self.area and bool(parse_query(self.query, bundle.law.schema, bundle.law.areas)[0].areas)


@dataclass
class Answering:
    """Answers questions, and keeps answers and the draws of all areas together, which take longest.

    Attributes
    ----------
    key_of : function
        From a bundle's name to what tells it from another, and from itself with other files.
    """

    key_of: Callable[[str], object]
    _replies: dict[object, Replies] = field(default_factory=dict)
    _together: dict[object, Together] = field(default_factory=dict)

    def at_once(self, verified: Verified, asked: Question) -> list[ErrorInterval]:
        """Return intervals of numbers that span areas, by the law of the noise around the released tables.

        Approximate: the tables that are drawn around are the released ones, and not what is likely given them.
        """
        bundle = _one_table_or_areas(verified)
        if not asked.spans_areas(bundle):
            return []
        released = _released(bundle)
        prior = prior_of(bundle.law.schema, SMOOTH)
        around = AreasPosterior(bundle.law, released, prior, released[None, None].astype(np.int32), 1.0)
        statistics = parse_query(asked.query, bundle.law.schema, bundle.law.areas)
        return error_intervals_across(around, statistics, float(asked.level), replay_rng(f"infer {SEED}"))

    def missing(self, name: str, verified: Verified, asked: Question) -> tuple[PublicLaw, Ints, int] | None:
        """Return what `draw_together` needs before a question can be answered; None where nothing is to be drawn."""
        bundle, key = _one_table_or_areas(verified), self.key_of(name)
        is_there = (key, asked) in self._replies or key in self._together
        if is_there or asked.area or len(bundle.tables) == 1:
            return None
        spans_areas = asked.spans_areas(bundle)
        queries = ([asked.query], []) if spans_areas else ([], [asked.query])
        if known_answers(bundle, *queries, list(bundle.tables), float(asked.level)) is not None:
            return None
        return bundle.law, _released(bundle), asked.n_draws(bundle)

    def keep(self, name: str, together: Together) -> None:
        """Keep the draws of all areas of a bundle, for its further questions."""
        self._together.clear()  # those of one bundle are large
        self._together[self.key_of(name)] = together

    def answers(self, name: str, verified: Verified, asked: Question) -> Replies:
        """Answer a question, from a public seed: what `congenial infer --seed 1` says."""
        bundle, key = _one_table_or_areas(verified), self.key_of(name)
        if (key, asked) not in self._replies:
            forget_some(self._replies, _MOST_KEPT)
            self._replies[key, asked] = self._asked(bundle, asked, key)
        return self._replies[key, asked]

    def _asked(self, bundle: Bundle, asked: Question, key: object) -> Replies:
        areas = [asked.area] if asked.area else []
        together, said = (None, ()) if areas else self._together.get(key, (None, ()))
        found = ask(
            bundle,
            [asked.query],
            areas,
            level=float(asked.level),
            n_draws=asked.n_draws(bundle),
            together=together,
            rng=replay_rng(f"infer {SEED}"),
        )
        return replace(found, posteriors=(), warnings=(*said, *found.warnings))


def draw_together(law: PublicLaw, released: Ints, n_draws: int) -> Together:
    """Draw the tables of all areas together, with the warnings of doing so. In a process of its own."""
    rng = replay_rng(f"infer {SEED}")
    with catch_warnings(record=True) as heard:
        simplefilter("always")
        found = areas_posterior(law, released, prior=SMOOTH, n_draws=n_draws, rng=rng)
    said = [str(one.message) for one in heard if issubclass(one.category, UserWarning)]
    return found, tuple(said)


def _released(bundle: Bundle) -> Ints:
    return np.stack([np.asarray(bundle.released(area), np.int64) for area in bundle.law.areas.labels])


def _one_table_or_areas(verified: Verified) -> Bundle:
    if verified.bundle.tree is not None:
        raise InferenceError("a tree of areas is asked by its units; open its page again")
    return verified.bundle
