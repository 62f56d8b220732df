"""Answers that the published numbers determine: nothing is drawn for them."""

from collections.abc import Sequence

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.loading import Bundle
from congenial.conditions.areas import Area
from congenial.inference.across_areas import known_across
from congenial.inference.answers import Answer
from congenial.inference.error_law import ErrorInterval
from congenial.inference.intervals import estimates_of_draws, exact_value
from congenial.inference.question import parse_query
from congenial.inference.statistic import Statistic


def known_answers(
    bundle: Bundle, spanning: Sequence[str], own: Sequence[str], areas: Sequence[Area], level: float
) -> list[Answer] | None:
    """Return the answers to all queries if the invariants determine every one of them, and None otherwise.

    Parameters
    ----------
    spanning, own : sequence of str
        Queries that span areas, and queries about each of these areas.
    """
    answers: list[Answer] = []
    for area, queries in [(None, spanning)] * bool(spanning) + [(area, own) for area in areas if own]:
        statistics = [found for query in queries for found in parse_query(query, bundle.law.schema, bundle.law.areas)]
        values = [_known(bundle, area, one) for one in statistics]
        if None in values:  # one is enough, and areas may be many
            return None
        table = _all_tables(bundle) if queries is spanning else bundle.released(area)
        released = [float(one.values(table[None, :])[0]) for one in statistics]
        nothing = [np.zeros((1, 1))] * len(statistics)
        found = estimates_of_draws(statistics, nothing, released, values, level=level)
        by_error = [
            ErrorInterval(one.query, one.released, one.mean, one.low, one.high, level, is_exact=True) for one in found
        ]
        without = bundle.confidence(queries, area, level=level)
        answers += [Answer(area, *part) for part in zip(found, without, by_error, strict=True)]
    return answers


def _known(bundle: Bundle, area: Area, statistic: Statistic) -> float | None:
    if statistic.areas is not None:
        return known_across(bundle.law, statistic)
    return exact_value(bundle.law.areas[area], statistic)


def _all_tables(bundle: Bundle) -> Ints:
    return np.concatenate([bundle.tables[area] for area in bundle.law.areas.labels])
