"""Everything that was asked of a bundle: numbers of each area, and numbers that span areas."""

from collections.abc import Sequence
from dataclasses import dataclass
from warnings import catch_warnings, simplefilter

from congenial.bundle.loading import Bundle
from congenial.conditions.areas import Area
from congenial.errors import InferenceError
from congenial.inference.across_areas import error_intervals_across, estimates_across
from congenial.inference.answers import Answer, answer
from congenial.inference.areas_posterior import AreasPosterior
from congenial.inference.intervals import check_level
from congenial.inference.known_answers import known_answers
from congenial.inference.posterior import Posterior
from congenial.inference.priors import prior_of
from congenial.inference.question import parse_query
from congenial.progress import Progress, no_news
from congenial.randomness import RandomStream

SMOOTH = "smooth"
_MOST_WARNINGS = 5  # of single areas


@dataclass(frozen=True)
class Replies:
    """The answers, the posteriors of the areas asked about, and what was said aloud on the way.

    Attributes
    ----------
    numbers : tuple of Answer
        Those that span areas first; they have no area.
    posteriors : tuple of Posterior
        None where the published numbers determine every answer.
    is_pooled : bool
        Whether the areas' own numbers lean on the other areas.
    """

    numbers: tuple[Answer, ...]
    posteriors: tuple[Posterior, ...]
    warnings: tuple[str, ...]
    is_pooled: bool = False


def ask(
    bundle: Bundle,
    queries: Sequence[str],
    areas: Sequence[Area] = (),
    *,
    level: float = 0.9,
    prior: str = SMOOTH,
    n_draws: int = 4_000,
    is_simultaneous: bool = False,
    is_pooled: bool = False,
    needs_draws: bool = False,
    together: AreasPosterior | None = None,
    rng: RandomStream,
    progress: Progress = no_news,
) -> Replies:
    """Answer queries about some areas, or all of them, and queries that span areas.

    Parameters
    ----------
    areas : sequence of areas
        None given, all of them, which lean on each other under the smooth prior. Areas that are named are asked each
        by itself, which is quick however many there are.
    is_pooled : bool
        Whether areas that are named lean on all others too.
    needs_draws : bool
        Whether draws are wanted even if the published numbers determine every answer.
    together : AreasPosterior, optional
        Draws of all areas together under this prior, if there are some already.
    progress : Progress
        Told what is being done.
    """
    spanning = [query for query in queries if parse_query(query, bundle.law.schema, bundle.law.areas)[0].areas]
    own = [query for query in queries if query not in spanning]
    if spanning and areas:
        raise InferenceError(
            f"{spanning[0]!r} spans areas, and is answered from all of them: leave --area out, and name areas in the"
            f" query, such as {bundle.law.areas.name}={areas[0]}"
        )
    check_level(level)
    prior_of(bundle.law.schema, prior)
    for area in areas:
        bundle.released(area)  # refused here, before anything is drawn
    chosen = list(areas) if areas else list(bundle.tables)
    known = None if needs_draws else known_answers(bundle, spanning, own, chosen, level)
    if known is not None:
        return Replies(tuple(known), (), ())
    is_pooled = prior == SMOOTH and len(bundle.tables) > 1 and (is_pooled or not areas)
    numbers: list[Answer] = []
    posteriors: list[Posterior] = []
    with catch_warnings(record=True) as heard:
        simplefilter("always")
        if spanning or is_pooled:
            progress("all areas together")
            if together is None:
                together = bundle.posterior(prior=prior, n_draws=n_draws, rng=rng)
            if spanning:
                numbers += answer_across(
                    bundle, together, spanning, level=level, is_simultaneous=is_simultaneous, rng=rng
                )
        places: list[Area] = [None] * len(heard)  # which area each warning is about
        for number, area in enumerate(chosen if own else []):
            progress("one table" if area is None else "one by one", number, len(chosen))
            found = answer(
                bundle,
                own,
                area,
                level=level,
                prior=prior,
                n_draws=n_draws,
                is_simultaneous=is_simultaneous,
                rng=rng,
                together=together if is_pooled else None,
            )
            numbers += found.numbers
            posteriors.append(found.posterior)
            places += [area] * (len(heard) - len(places))
        if not own and together is not None:
            posteriors = [together[area] for area in chosen]
    places += [None] * (len(heard) - len(places))
    said = [
        (area, str(warning.message))
        for area, warning in zip(places, heard, strict=True)
        if issubclass(warning.category, UserWarning)
    ]
    return Replies(tuple(numbers), tuple(posteriors), _in_words(said), is_pooled)


def _in_words(said: Sequence[tuple[Area, str]]) -> tuple[str, ...]:
    """Return warnings with the areas that they are about: those of the first areas, and how many more there are.

    Examples
    --------
    >>> _in_words([(None, "few draws"), *((f"{number}", "it contradicts") for number in range(9))])[3:]
    ('2: it contradicts', '3: it contradicts', '4: it contradicts', 'there are 4 more warnings like these of areas')
    """
    told = dict.fromkeys(text if area is None else f"{area}: {text}" for area, text in said)
    of_areas = [f"{area}: {text}" for area, text in said if area is not None]
    rest = dict.fromkeys(of_areas[_MOST_WARNINGS:])
    more = [f"there are {len(rest):,} more warnings like these of areas"] if rest else []
    return tuple([text for text in told if text not in rest] + more)


def answer_across(
    bundle: Bundle,
    together: AreasPosterior,
    queries: Sequence[str],
    *,
    level: float,
    is_simultaneous: bool,
    rng: RandomStream,
) -> list[Answer]:
    """Return the answers to queries that span areas, from the posterior of all areas together."""
    statistics = [found for query in queries for found in parse_query(query, bundle.law.schema, bundle.law.areas)]
    without = bundle.confidence(queries, level=level, is_simultaneous=is_simultaneous)
    by_error = error_intervals_across(together, statistics, level, rng)
    estimates = estimates_across(together, statistics, level, is_simultaneous=is_simultaneous)
    return [Answer(None, *parts) for parts in zip(estimates, without, by_error, strict=True)]
