"""Measurements cut into tasks: any cut, drawn from structure that was pickled, gives the measurements drawn here."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import congenial as cg
from congenial import measurement
from congenial.bundle.naming_and_versions import Naming
from congenial.engines.draw_tasks import (
    DrawJob,
    DrawnNumbers,
    GatheredTables,
    cut_into_tasks,
    drawn_columns,
    released_content,
    software_digest,
)
from congenial.engines.key_location import KeyLocation
from congenial.measurement import MeasurementDrawing
from congenial.randomness import SecretBytes
from congenial.release import Prepared, simulate
from congenial.release_key import ReleaseKey
from congenial.sampling.lattice_noise.choose import LatticeChoice, choose_lattice_sampler
from congenial.sampling.lattice_noise.system import LatticeSystem
from congenial.table import AreaTables
from congenial.tree.areas_across import AreasAcross

KEY = ReleaseKey(SecretBytes(bytes(range(32))))
SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["young", "middle", "old"]})


def measured(noise: str, n: int = 40, *, sums: bool = False, largest: int = 0) -> Prepared:
    """Areas of several kinds: in some, nobody is of one sex, so that its cells are pinned."""
    counts = np.random.default_rng(5).poisson(3, (n, 6))
    counts[::5, 3:] = 0
    counts[-1, 1] += largest
    tables = AreaTables(SCHEMA, [f"a{number}" for number in range(n)], counts)
    budget: dict[str, Any] = {"epsilon": "1"} if noise == "double_geometric" else {"rho": "1/2"}
    mechanism = cg.Mechanism(
        SCHEMA,
        measure=[cg.cells(), cg.margin("age")] if sums else [cg.cells()],
        invariants=[cg.total(), cg.margin("sex")],
        noise=noise,
        method="measured",
        **budget,
    )
    naming = Naming("r", "d", "r", "person", status="simulated")
    return mechanism.prepare(tables, naming, area="county")


def job_of(ready: Prepared) -> DrawJob:
    place, law = KeyLocation(folder="nowhere"), ready.plan.law
    levels, columns = tuple(name for name, _ in law.names_and_codes), DrawnNumbers.of(law).columns
    software = software_digest()
    return DrawJob("r", ready.digest, place, "k", KEY.commitment, software, ready.plan.drawings, levels, columns)


@pytest.mark.parametrize("noise", ["double_geometric", "discrete_gaussian"])
@pytest.mark.parametrize("sums", [False, True])
def test_any_cut_gives_the_measurements_drawn_here(noise: str, sums: bool) -> None:
    ready = measured(noise, sums=sums)
    assert isinstance(ready.plan.drawing, MeasurementDrawing)
    assert len(ready.plan.drawing.kinds) > 1
    (expected,) = ready.draw(ready.streams(KEY))
    assert expected.shape == (40, 9 if sums else 6)
    job = pickle.loads(pickle.dumps(job_of(ready)))
    for at_once in (1, 7, 10**6):
        _, work = cut_into_tasks(ready, KEY, at_once)
        assert len(work) == -(-40 // at_once)
        gathered = GatheredTables(ready)
        for task, counts in reversed(work):
            gathered.add(pickle.loads(pickle.dumps(task)).draw(job, counts, KEY))
        (drawn,) = gathered.tables
        ready.plan.check((drawn,))
        assert np.array_equal(drawn, expected)


def test_words_of_a_unit_depend_on_its_level_and_its_counts() -> None:
    """The same noise never meets other counts: a task with one person more has unrelated noise."""
    ready = measured("double_geometric")
    job, (_, work) = job_of(ready), cut_into_tasks(ready, KEY, 40)
    ((task, counts),) = work
    other = counts.copy()
    other[:, 0] += 1
    noises = []
    for tables, levels in ((counts, job.levels), (other, job.levels), (counts, ("tract",))):
        there = replace(job, levels=levels)
        (piece,) = task.draw(there, tables, KEY)
        noises.append(piece.tables - tables)
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert (noises[first] == noises[second]).all(axis=1).mean() < 0.3  # small noise agrees by chance


def test_tables_of_a_sampler_stay_behind_and_are_made_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = measured("double_geometric")
    ready.plan.check_samplers()  # made here
    sent = pickle.dumps(job_of(ready))
    assert len(sent) < 100_000
    made: list[object] = []
    choose = choose_lattice_sampler
    measurement._choice.cache_clear()

    def counted(system: LatticeSystem) -> LatticeChoice:
        made.append(system)
        return choose(system)

    monkeypatch.setattr(measurement, "choose_lattice_sampler", counted)
    _, work = cut_into_tasks(ready, KEY, 5)
    for task, counts in work:  # as a worker that gets task after task
        for _ in pickle.loads(pickle.dumps(task)).draw(pickle.loads(sent), counts, KEY):
            pass
    drawing = ready.plan.drawing
    assert isinstance(drawing, MeasurementDrawing)
    assert len(made) == len({kind.space.system for kind in drawing.kinds}) > 1


def test_what_travels_holds_neither_key_nor_count() -> None:
    ready = measured("double_geometric", largest=271_828_182_845)
    number = int(ready.confidential[-1, 1])
    _, work = cut_into_tasks(ready, KEY, 7)
    sent = pickle.dumps((job_of(ready), [task for task, _ in work]))
    for secret in (KEY.secret, KEY.secret.hex().encode(), number.to_bytes(8, "little")):
        assert secret not in sent


def test_columns_and_digest_are_those_of_the_measurements() -> None:
    ready = measured("double_geometric", sums=True)
    release = simulate(ready, 1)
    names = drawn_columns(ready.plan.law)
    assert names[:1] == ["sex=f, age=young"]
    assert names[6:] == ["age=young", "age=middle", "age=old"]
    digest = released_content(release)
    assert digest == released_content(simulate(ready, 1))
    assert digest != released_content(simulate(ready, 2))


def test_a_tree_with_one_unit_at_the_top_is_measured_alike_wherever_it_is() -> None:
    tree = cg.Tree.of_prefixes(["1a", "1b", "1c"], {"state": 1}, "block")
    hierarchy = cg.Hierarchy(tree, cg.Schema({"sex": ["f", "m"]}), invariants=[cg.total()], rho="1", method="measured")
    ready = hierarchy.prepare([[3, 4], [0, 1], [9, 2]], Naming("r", "d", "r", "person"))
    job, (_, work) = job_of(ready), cut_into_tasks(ready, KEY, 2)
    gathered = GatheredTables(ready)
    for task, counts in work:
        gathered.add(task.draw(job, counts, KEY))
    here = ready.draw(ready.streams(KEY))
    assert all(np.array_equal(*pair) for pair in zip(gathered.tables, here, strict=True))


def test_levels_of_other_rows_and_areas_across_are_measured_alike_wherever_they_are() -> None:
    """Totals are exact at the top and measured below; a number that a level has not is null in its rows."""
    pytest.importorskip("pyspark", reason="needs the extra spark")
    from congenial.engines.spark.session_data_and_tasks import batch_of

    tree = cg.Tree.of_prefixes([f"{county}{block}" for county in "12" for block in "abcde"], {"county": 1}, "block")
    hierarchy = cg.Hierarchy(
        tree,
        cg.Schema({"sex": ["f", "m"]}),
        invariants=[cg.total()],
        measure=[cg.total(portion=1), cg.cells(portion=2)],
        across=AreasAcross.of(tree, "ward", ["east", "east", None, "west", "west"] * 2, "1/5"),
        rho="1",
    )
    ready = hierarchy.prepare([[3, block] for block in range(10)], Naming("r", "d", "r", "person"))
    here = ready.draw(ready.streams(KEY))
    assert [numbers.shape for numbers in here] == [(2, 2), (10, 3), (2, 3)]
    names = drawn_columns(ready.plan.law)
    assert sorted(names) == ["sex=f", "sex=m", "total"]
    job = job_of(ready)
    for at_once in (1, 3, 100):
        gathered = GatheredTables(ready)
        for task, counts in cut_into_tasks(ready, KEY, at_once)[1]:
            for piece in task.draw(job, counts, KEY):
                gathered.add([piece])
                rows = batch_of(piece, job.columns)
                n_null = [rows.column(3 + place).null_count for place in range(3)]
                missing = names.index("total") if piece.level == 0 else None
                assert n_null == [len(piece.tables) if place == missing else 0 for place in range(3)]
        assert all(np.array_equal(*pair) for pair in zip(gathered.tables, here, strict=True))
