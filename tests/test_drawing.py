"""A release does not depend on chunks, threads or order: an area's words follow from the key and the area."""

import pickle
from fractions import Fraction

import numpy as np
import pytest

import congenial as cg
from congenial import memory_and_threads as chunks
from congenial.arrays import Ints
from congenial.bundle.naming_and_versions import Naming
from congenial.conditions.base import by_area
from congenial.errors import SamplingError
from congenial.law import AreaDrawing
from congenial.plan import Plan
from congenial.randomness import SecretBytes, UnitStreams, replay_rng
from congenial.release_key import ReleaseKey

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["0-17", "18-64", "65+"]})
KEY = ReleaseKey(SecretBytes(b"not a secret, for it is a test!!"))
N_AREAS = 90


def counts_of(name: str) -> Ints:
    return replay_rng(name).below(np.full((N_AREAS, 6), 9))


def planned(counts: Ints, labels: list[str]) -> Plan:
    """Two groups: every other area has a cap of its own kind."""
    caps = by_area({label: cg.bounds(0, 99 if int(label) % 2 else 50) for label in labels})
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/2")], invariants=[cg.total(), caps])
    tables = {label: cg.Table(SCHEMA, line.reshape(2, 3)) for label, line in zip(labels, counts, strict=True)}
    return mechanism.prepare(tables, Naming("r", "d", "a title")).plan


@pytest.fixture(scope="module")
def counts() -> Ints:
    return counts_of("areas to draw")


@pytest.fixture(scope="module")
def plan(counts: Ints) -> Plan:
    return planned(counts, [str(number) for number in range(N_AREAS)])


def words_of(labels: list[str], counts: Ints) -> UnitStreams:
    return KEY.streams("r", "digest", labels, counts)


@pytest.fixture(scope="module")
def drawn(plan: Plan, counts: Ints) -> Ints:
    return plan.draw_areas(counts, words_of(list(map(str, range(N_AREAS))), counts), at_once=N_AREAS, n_threads=1)


def test_there_are_two_groups_and_noise(plan: Plan, counts: Ints, drawn: Ints) -> None:
    assert len(plan.law.areas.groups) == 2
    assert (drawn != counts).any(axis=1).mean() > 0.9


@pytest.mark.parametrize(("at_once", "n_threads"), [(1, 1), (7, 1), (7, 2), (40, 5), (1_000, 2)])
def test_chunks_and_threads_do_not_matter(at_once: int, n_threads: int, plan: Plan, counts: Ints, drawn: Ints) -> None:
    words = words_of(list(map(str, range(N_AREAS))), counts)
    assert np.array_equal(plan.draw_areas(counts, words, at_once=at_once, n_threads=n_threads), drawn)


def test_order_does_not_matter(counts: Ints, drawn: Ints) -> None:
    order = np.argsort(replay_rng("an order").words(N_AREAS))
    labels = [str(number) for number in order]
    again = planned(counts[order], labels).draw_areas(counts[order], words_of(labels, counts[order]))
    assert np.array_equal(again, drawn[order])


def test_a_chunk_is_drawn_from_what_travels(plan: Plan, counts: Ints, drawn: Ints) -> None:
    """Whoever has the public part, some tables and their words draws the same, in another process too."""
    sent = pickle.loads(pickle.dumps(plan.drawing))
    some = [70, 3, 4, 15]
    words = words_of(list(map(str, some)), counts[some])
    assert np.array_equal(sent.draw(plan.law.areas.group_numbers[some], counts[some], words), drawn[some])


def test_words_that_follow_the_place_are_found(plan: Plan, counts: Ints, drawn: Ints) -> None:
    """The mutant: one stream for all areas, whose words depend on what was drawn before."""
    rng = replay_rng("one stream")
    half = np.arange(N_AREAS) >= N_AREAS // 2
    drawing, groups = plan.drawing, plan.law.areas.group_numbers
    late = drawing.draw(groups[half], counts[half], rng)
    assert not np.array_equal(late, plan.draw_areas(counts, replay_rng("one stream"))[half])


def test_a_draw_that_breaks_a_sum_is_never_handed_on(counts: Ints) -> None:
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/2")], invariants=[cg.total()])
    drawing = AreaDrawing.of(mechanism.calibrate(mechanism.disclose(cg.Table(SCHEMA, counts[0].reshape(2, 3)))))

    class Wrong:
        def draw_each(self, centres: Ints, *_: object) -> Ints:
            return centres + 1

    drawing.__dict__["samplers"] = (Wrong(),)
    with pytest.raises(SamplingError, match="breaks an invariant"):
        drawing.draw(np.zeros(3, np.int64), counts[:3], replay_rng(1))


def test_what_is_made_ahead_is_bounded() -> None:
    begun: list[int] = []

    def work(part: slice) -> int:
        begun.append(part.start)
        return int(part.start)

    made = chunks.map_in_threads(work, chunks.parts_of(100, 1), 2)
    assert next(made) == 0
    assert len(begun) < 10
    assert list(made) == list(range(1, 100))
    assert Fraction(len(set(begun)), 100) == 1
