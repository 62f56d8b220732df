"""A release cut into tasks: drawn in any order, from structure that was pickled, it is the same release."""

import pickle

import numpy as np
import pytest

import congenial as cg
from congenial.bundle.naming_and_versions import Naming
from congenial.engines.draw_tasks import DrawJob, GatheredTables, cut_into_tasks, software_digest
from congenial.engines.key_location import KeyLocation
from congenial.errors import EngineError
from congenial.examples import p12_mechanism, p12_schema
from congenial.randomness import SecretBytes
from congenial.release import Prepared
from congenial.release_key import ReleaseKey
from congenial.table import AreaTables
from congenial.tree.tree_and_zeros import Zeros

KEY = ReleaseKey(SecretBytes(bytes(range(32))))


def areas(n: int = 40) -> Prepared:
    counts = np.random.default_rng(5).poisson(3, (n, 46))
    tables = AreaTables(p12_schema(), [f"a{number}" for number in range(n)], counts)
    return p12_mechanism().prepare(tables, Naming("r", "d", "r", "person"), area="county")


def tree(*, exact: bool = False, largest: int = 9) -> Prepared:
    codes = [f"{county}{tract:02}{block}" for county in range(3) for tract in range(30) for block in "abc"]
    blocks = cg.Tree.of_prefixes(codes, {"county": 1, "tract": 3}, "block")
    schema = cg.Schema({"sex": ["f", "m"], "age": ["young", "old"]})
    zeros = Zeros.of(blocks, 4, {"block": {"000a": [True, False, False, True]}})
    below = {"tract": [cg.total()]} if exact else {}
    invariants = {"county": [cg.total()], **below}
    hierarchy = cg.Hierarchy(blocks, schema, invariants=invariants, rho="1", zeros=zeros, method="conditional")
    counts = np.random.default_rng(6).poisson(4, (len(codes), 4))
    counts[zeros.masks[-1]] = 0
    counts[7, 2] = largest
    return hierarchy.prepare(counts, Naming("r", "d", "r", "person"))


def job_of(ready: Prepared) -> DrawJob:
    place = KeyLocation(folder="nowhere")
    return DrawJob("r", ready.digest, place, "k", KEY.commitment, software_digest(), ready.plan.drawings)


def test_tasks_in_any_order_give_the_same_release() -> None:
    for ready, at_once in ((areas(), 7), (tree(), 20), (tree(exact=True), 20), (tree(), 10**6)):
        expected = ready.draw(ready.streams(KEY))
        above, work = cut_into_tasks(ready, KEY, at_once)
        assert len(work) > 5 or at_once == 10**6
        gathered = GatheredTables(ready)
        gathered.add(above)
        job = pickle.loads(pickle.dumps(job_of(ready)))
        for task, counts in reversed(work):
            sent = pickle.loads(pickle.dumps(task))
            gathered.add(sent.draw(job, counts, KEY))
        tables = gathered.tables
        ready.plan.check(tables)
        assert all(np.array_equal(whole, other) for whole, other in zip(expected, tables, strict=True))


def test_what_travels_beside_the_tables_holds_neither_key_nor_count() -> None:
    ready = tree(largest=271_828_182_845)
    assert (ready.confidential == 271_828_182_845).sum() == 1
    _, work = cut_into_tasks(ready, KEY, 20)
    sent = pickle.dumps((job_of(ready), [task for task, _ in work]))
    for secret in (KEY.secret, KEY.secret.hex().encode(), (271_828_182_845).to_bytes(8, "little")):
        assert secret not in sent


def test_a_unit_drawn_twice_or_never_is_refused() -> None:
    ready = areas(6)
    _, work = cut_into_tasks(ready, KEY, 2)
    for chosen in (work[1:], [*work, work[0]]):
        gathered = GatheredTables(ready)
        for task, counts in chosen:
            gathered.add(task.draw(job_of(ready), counts, KEY))
        with pytest.raises(EngineError, match="not once"):
            _ = gathered.tables


def test_another_version_draws_nothing() -> None:
    job = job_of(areas(2))
    other = DrawJob(job.release, job.plan_digest, job.place, "k", job.commitment, "0" * 64, job.drawings)
    with pytest.raises(EngineError, match="other versions of congenial"):
        other.key()
