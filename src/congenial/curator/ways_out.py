"""What can be drawn instead of a design that is out of reach: the spec with one thing changed, tried out. Public."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

from congenial.conditions.areas import Areas
from congenial.errors import CongenialError, SamplingError, TooLargeError
from congenial.mechanism import Mechanism
from congenial.noise import DEFAULT
from congenial.progress import Progress, no_news
from congenial.spec.spec import Spec
from congenial.table import Table

TRYING = "it cannot be drawn; looking for what can"
"""The step in which other designs are tried."""

_MOST_NAMED = 3
_MOST_LEFT_OUT = 6  # invariants that are left out one by one


@contextmanager
def ways_out_named(spec: Spec, tables: Table | Mapping[str, Table], progress: Progress = no_news) -> Iterator[None]:
    """Add to a refusal of the samplers which designs near to the spec's can be drawn.

    Parameters
    ----------
    tables : Table or mapping of areas
        Confidential. What the spec's own invariants disclose of them is all that is taken, or less.
    """
    try:
        yield
    except (SamplingError, TooLargeError) as refused:
        progress(TRYING)
        found = ways_out(spec, tables)
        if not found:
            raise
        raise type(refused)(f"{refused}. This can be drawn: {'; or '.join(found)}") from None


def ways_out(spec: Spec, tables: Table | Mapping[str, Table]) -> list[str]:
    """Return changes of a spec after which it can be drawn, in words: other noise first, then fewer exact numbers."""
    found: list[str] = []
    for text, other in _changes(spec):
        if len(found) < _MOST_NAMED and _is_drawn(other, tables):
            found.append(text)
    return found


def _changes(spec: Spec) -> Iterator[tuple[str, Spec]]:
    stated = spec.invariants
    if spec.noise == DEFAULT and spec.epsilon is not None and spec.delta is None:
        rho = Fraction(spec.epsilon) ** 2 / 2  # what a pure epsilon is at most in rho
        yield (
            f"`noise: discrete_gaussian` with `budget: {{rho: {rho}}}`",
            replace(spec, noise="discrete_gaussian", epsilon=None, rho=rho),
        )
    if 1 < len(stated) <= _MOST_LEFT_OUT:
        for one in stated:
            yield (
                f"the same without {one.condition.title}",
                replace(spec, invariants=tuple(other for other in stated if other is not one)),
            )
    if 2 < len(stated) <= _MOST_LEFT_OUT:
        for one in stated:
            yield f"the same with {one.condition.title} alone exact", replace(spec, invariants=(one,))
    if stated:
        yield "the same with nothing exact", replace(spec, invariants=())
    if len(spec.measured) > 1:
        for query in spec.measured:
            left = tuple(other for other in spec.measured if other is not query)
            yield f"the same with {query.title} not measured", replace(spec, measured=left)


def _is_drawn(spec: Spec, tables: Table | Mapping[str, Table]) -> bool:
    """Whether a design is certified and can be drawn, by attempts at made-up tables where those decide."""
    try:
        plan = spec.mechanism.plan(disclosed(spec, spec.mechanism, tables))
        _ = plan.certificate
        plan.check_samplers()
        if not all(sampler.is_steady for sampler in plan.samplers):
            plan.rehearse()
    except CongenialError:
        return False
    return True


def disclosed(spec: Spec, mechanism: Mechanism, tables: Table | Mapping[str, Table]) -> Areas:
    """Return what a mechanism discloses of confidential tables."""
    if isinstance(tables, Table):
        return Areas.one(mechanism.disclose(tables))
    return mechanism.disclose(tables, area="area" if spec.by is None else spec.by.name)
