"""The key of a release: one spend, one key, one table; resumed to the same bytes, found nowhere afterwards."""

import contextlib
import copy
import fcntl
import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from traceback import TracebackException
from typing import Any

import numpy as np
import pytest

import congenial as cg
from commands import run_python
from congenial.bundle.naming_and_versions import Naming
from congenial.curator import pipeline
from congenial.errors import AlreadySpentError, BudgetError, BundleError, LedgerBusyError, LedgerError, UncertainError
from congenial.ledger import Ledger, open_ledger
from congenial.published_release import Release
from congenial.randomness import SecretBytes, UnitStreams
from congenial.release import Prepared, abandon, begun, charged, resumed
from congenial.release_key import KeyFile, KeyFolder, ReleaseKey
from congenial.spec.load import load_spec
from congenial.table import Table
from releases import CASES, ledger_for, place

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["y", "o", "v"]})
MECHANISM = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/2")], invariants=[cg.total()])


def tables(n: int = 5) -> dict[str, Table]:
    counts = cg.replay_rng("tables").below(np.full((n, 6), 40))
    return {f"a{i}": Table(SCHEMA, line.reshape(2, 3)) for i, line in enumerate(counts)}


def prepared(areas: dict[str, Table] | None = None) -> Prepared:
    return MECHANISM.prepare(tables() if areas is None else areas, Naming("spring", "town", "Spring", "person"))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    result = open_ledger(tmp_path / "budget.db", create=True)
    result.create_dataset("town", epsilon="100", neighbours="bounded", who="Ada")
    return result


class Stopped(BaseException):
    pass


def stopped(ready: Prepared, ledger: Ledger) -> KeyFile:
    """Charge, draw, and stop before the release is handed over; return a copy of its key."""
    with pytest.raises(Stopped), charged(ready, ledger=ledger, who="Ada"):
        raise Stopped
    assert ledger.keys is not None
    key_file = KeyFolder(ledger.keys, ledger.dataset("town").hash).find("town", "spring")
    assert key_file is not None
    key_file.close()
    return key_file


def begin(ledger: Ledger, ready: Prepared) -> KeyFile:
    """Write a new key as a release does before its charge."""
    assert ledger.keys is not None
    keys = KeyFolder(ledger.keys, ledger.dataset("town").hash)
    return keys.begin(ReleaseKey(), "town", "spring", {}, ready.facts, ready.confidential)


def again_of(ready: Prepared, ledger: Ledger) -> list[Callable[[], AbstractContextManager[Release]]]:
    """Return the two ways to try for a second table."""
    return [lambda: resumed(ready, ledger=ledger), lambda: charged(ready, ledger=ledger, who="Ada")]


# -- The words of units


def test_words_are_aes_in_counter_mode_from_each_unit_s_own_block() -> None:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = bytes(range(32))
    starts = [bytes(15) + b"\x07", b"\xff" * 16, bytes(8) + b"\xff" * 8]
    for n in (1, 2, 7, 64):
        lines = UnitStreams(key, starts).word_rows(3, n)
        for line, start in zip(lines, starts, strict=True):
            stream = Cipher(algorithms.AES(key), modes.CTR(start)).encryptor().update(bytes(8 * n))
            assert np.array_equal(line, np.frombuffer(stream, "<u8"))


def test_further_words_follow_on_the_first_ones() -> None:
    starts = [bytes([i]) * 16 for i in range(3)]
    long = UnitStreams(bytes(32), starts).word_rows(3, 100)
    short = UnitStreams(bytes(32), starts)
    first = short.word_rows(3, 33)
    assert np.array_equal(np.concatenate([first[1], short.stream(1).words(67)]), long[1])
    subset = UnitStreams(bytes(32), starts).subset([2, 0])
    assert np.array_equal(subset.word_rows(2, 100), long[[2, 0]])
    with pytest.raises(ValueError, match="taken once"):
        short.word_rows(3, 33)


def test_a_unit_s_words_depend_on_what_it_is_and_on_nothing_else() -> None:
    key, counts = ReleaseKey(), np.arange(12).reshape(3, 4)

    def words(
        key: ReleaseKey = key, release: str = "r", digest: str = "0" * 64, areas: str = "abc", counts: object = counts
    ) -> list[bytes]:
        return [
            line.tobytes() for line in key.streams(release, digest, list(areas), np.asarray(counts)).word_rows(3, 9)
        ]

    mine = words()
    assert len(set(mine)) == 3
    turned = words(areas="cab", counts=counts[[2, 0, 1]])
    assert turned == [mine[2], mine[0], mine[1]]
    changed = counts.copy()
    changed[0, 0] += 1
    assert words(counts=changed)[1:] == mine[1:]
    others = [
        words(counts=changed)[0],
        words(release="s")[0],
        words(digest="1" * 64)[0],
        words(areas="xbc")[0],
        words(key=ReleaseKey())[0],
    ]
    assert len({mine[0], *others}) == 6


def test_order_chunks_and_threads_do_not_change_a_release() -> None:
    key, ready = ReleaseKey(), prepared(tables(40))
    (whole,) = ready.draw(ready.streams(key))
    backwards = prepared(dict(reversed(tables(40).items())))
    assert backwards.digest != ready.digest  # the order of areas is part of the plan, so compare under one digest
    labels, counts = ready.plan.law.areas.labels, ready.confidential
    sampler = ready.plan.samplers[0]
    for places in (np.arange(39, -1, -1), np.arange(0, 40, 7), np.array([11])):
        streams = key.streams("spring", ready.digest, [labels[place] for place in places.tolist()], counts[places])
        assert np.array_equal(sampler.draw_each(counts[places], streams, n_threads=2), whole[places])


def test_the_slow_path_takes_further_words_of_its_own_unit() -> None:
    """Windows so narrow that every draw is decided without rounding, in any company the same."""
    from congenial.sampling.elimination import sampler as exact
    from congenial.sampling.elimination.compiled_layout import Elimination

    ready, key = prepared(), ReleaseKey()
    engine = Elimination(exact.elimination_of(MECHANISM.law(tables()["a0"]).target).order.with_nats(1.0))
    streams = ready.streams(key)
    assert isinstance(streams, UnitStreams)
    together = exact.sample_batch(engine, ready.confidential, streams)
    alone = key.streams("spring", ready.digest, ["a3"], ready.confidential[3:4])
    assert np.array_equal(exact.sample_one(engine, ready.confidential[3], alone), together[3])


# -- One spend, one key, one table


def test_what_was_stopped_is_gone_on_with(ledger: Ledger) -> None:
    ready = prepared()
    key = stopped(ready, ledger).key
    assert key is not None
    with resumed(ready, ledger=ledger) as result:
        pass
    assert np.array_equal(result.counts, ready.draw(ready.streams(key))[0])
    assert ledger.verify().n_spends == 1
    assert ledger.keys is not None
    assert not list(ledger.keys.iterdir())
    for again in again_of(ready, ledger):
        with pytest.raises((BundleError, AlreadySpentError)), again():
            pass
        assert not list(ledger.keys.iterdir())  # a refused attempt leaves no key that a later one could use
    assert ledger.verify().n_spends == 1


def test_a_release_that_is_under_way_is_not_begun_again(ledger: Ledger) -> None:
    ready = prepared()
    stopped(ready, ledger)
    with pytest.raises(AlreadySpentError, match=r"not finished.*--resume"), charged(ready, ledger=ledger, who="Ada"):
        pass
    with resumed(ready, ledger=ledger):
        for again in again_of(ready, ledger):
            with pytest.raises(LedgerBusyError, match="under way in another process"), again():
                pass


def changed_plan(ready: Prepared) -> Prepared:
    return replace(ready, naming=replace(ready.naming, title="Other"))


def changed_data(ready: Prepared) -> Prepared:
    other = tables()
    counts = other["a1"].counts.copy()
    counts[:2] += (1, -1)
    return prepared({**other, "a1": Table(SCHEMA, counts.reshape(2, 3))})


def changed_software(ready: Prepared) -> Prepared:
    return replace(ready, software={**ready.software, "numpy": "0.0"})


@pytest.mark.parametrize("change", [changed_plan, changed_data, changed_software])
def test_data_spec_and_software_must_be_those_of_the_charge(
    change: Callable[[Prepared], Prepared], ledger: Ledger
) -> None:
    ready = prepared()
    stopped(ready, ledger)
    other = change(ready)
    with pytest.raises(BundleError, match=r"other data, another spec or other versions.*--abandon"):  # noqa: SIM117
        with resumed(other, ledger=ledger):
            pass
    with resumed(ready, ledger=ledger):
        pass


@pytest.mark.parametrize("name", ["kernel.py", "page/report.html"])
def test_an_edited_copy_of_one_version_is_other_software(
    name: str, tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    (source / "page").mkdir(parents=True)
    (source / name).write_text("one")
    monkeypatch.setattr("congenial.bundle.naming_and_versions._SOURCE", source)
    ready = prepared()
    stopped(ready, ledger)
    (source / name).write_text("two")
    with pytest.raises(BundleError, match="other versions of the software"), resumed(ready, ledger=ledger):
        pass
    (source / name).write_text("one")
    monkeypatch.setattr("congenial.bundle.naming_and_versions.version", lambda name: "0.0")
    with pytest.raises(BundleError, match="other versions of the software"), resumed(ready, ledger=ledger):
        pass


def test_what_is_given_up_stays_spent_and_never_comes_back(ledger: Ledger) -> None:
    ready = prepared()
    stopped(ready, ledger)
    assert abandon(ledger, "town", "spring").number == 1
    assert ledger.verify().n_spends == 1
    for again in again_of(ready, ledger):
        with pytest.raises((BundleError, AlreadySpentError), match="new"), again():
            pass
    with pytest.raises(BundleError, match="its key is not in "):
        abandon(ledger, "town", "spring")
    with pytest.raises(BundleError, match="was not charged"):
        abandon(ledger, "town", "summer")


def test_another_key_cannot_take_the_place_of_the_one_that_was_paid_for(ledger: Ledger) -> None:
    """The ledger's commitment decides: a key of another run, or of another computer, draws nothing."""
    ready = prepared()
    stopped(ready, ledger).path.unlink()
    assert ledger.keys is not None
    begin(ledger, ready).close()
    with pytest.raises(BundleError, match="its key is not in "), resumed(ready, ledger=ledger):
        pass


def test_the_keys_of_two_ledgers_in_one_folder_do_not_meet(tmp_path: Path) -> None:
    """A typo in --ledger must not cost a key that was paid for."""
    ready, ledgers = prepared(), []
    for name in ("first.db", "second.db"):
        ledgers.append(open_ledger(tmp_path / name, create=True, keys=tmp_path / "keys"))
        ledgers[-1].create_dataset("town", epsilon="100", neighbours="bounded", who=name)
    stopped(ready, ledgers[0])
    with pytest.raises(BundleError, match="was not charged"), resumed(ready, ledger=ledgers[1]):
        pass
    with resumed(ready, ledger=ledgers[0]):
        pass


def test_a_charge_of_which_nobody_knows_keeps_its_key(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The spend may appear later: then it is gone on with."""
    ready, charge = prepared(), Ledger.charge

    def unclear(*arguments: object, **options: object) -> object:
        charge(*arguments, **options)  # type: ignore[arg-type]
        raise UncertainError("it is not known whether the last record was written")

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "charge", unclear)
        with pytest.raises(UncertainError), charged(ready, ledger=ledger, who="Ada"):
            pass
    with resumed(ready, ledger=ledger):
        pass
    assert ledger.verify().n_spends == 1


def test_a_planted_bundle_is_not_taken_for_the_real_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forger who can write beside the bundle knows the receipt and the law; the draw decides."""
    spec_path, ledger = place(tmp_path, CASES["one table"]), ledger_for(tmp_path, CASES["one table"])
    spec = load_spec(spec_path)
    with monkeypatch.context() as patched:
        patched.setattr("congenial.release.Release.write", lambda *_, **__: 1 / 0)
        with pytest.raises(BundleError, match="ZeroDivisionError"):
            pipeline.release(spec, tmp_path, tmp_path / "out", ledger=ledger, who="Ada")
    ready = pipeline.prepare(spec, tmp_path)
    with begun(ledger, "town", "small") as (file, _):
        terms = file.terms
    with contextlib.suppress(Stopped), resumed(ready, ledger=ledger, terms=terms) as result:
        planted = replace(result, drawn=(np.array([[9, 0, 0, 0, 0, 0]]),))
        planted.write(tmp_path / "out", outputs=spec.outputs)
        raise Stopped
    with pytest.raises(BundleError, match="is not the bundle of this release"):
        pipeline.resume(spec, tmp_path, ledger=ledger)
    (tmp_path / "out").rename(tmp_path / "planted")
    finished = pipeline.resume(spec, tmp_path, ledger=ledger)
    assert np.array_equal(finished.release.counts, result.counts)


def test_a_refused_charge_leaves_no_key(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "budget.db", create=True)
    ledger.create_dataset("town", epsilon="1/100", neighbours="bounded", who="Ada")
    with pytest.raises(BudgetError), charged(prepared(), ledger=ledger, who="Ada"):
        pass
    assert not list((tmp_path / "budget.db.keys").iterdir())


def test_what_is_left_of_a_key_that_is_none_does_not_stop_a_release(ledger: Ledger) -> None:
    ready = prepared()
    remainder = begin(ledger, ready)
    remainder.close()
    for content in (b'{"key": "ab', bytes(300), b"[" * 200_000, b"9" * 9_999, b'["key"]', b""):
        remainder.path.write_bytes(content)
        with pytest.raises(BundleError, match=r"was not charged .* begin it, without --resume"):  # noqa: SIM117
            with resumed(ready, ledger=ledger):
                pass
    with charged(ready, ledger=ledger, who="Ada"):
        pass
    assert ledger.verify().n_spends == 1
    assert not remainder.path.exists()


def test_a_key_that_this_ledger_knows_no_charge_of_is_left_alone(ledger: Ledger) -> None:
    """It may have been charged to a newer copy of the ledger: the refusal says which file it is, and the way out."""
    ready = prepared()
    remainder = begin(ledger, ready)
    remainder.close()
    content = remainder.path.read_bytes()
    for again in again_of(ready, ledger):
        with pytest.raises((BundleError, LedgerError), match="was not charged") as refused, again():
            pass
        assert str(remainder.path) in str(refused.value)
        assert "older copy" in str(refused.value)
        assert remainder.path.read_bytes() == content
    assert ledger.verify().n_spends == 0
    remainder.path.unlink()  # as the refusal says, where there is no newer ledger
    with charged(ready, ledger=ledger, who="Ada"):
        pass
    assert ledger.verify().n_spends == 1


def older_copy(ledger: Ledger, place: Path) -> Ledger:
    """Return a copy of a ledger as it is now, which uses the same folder for keys."""
    path = place / "older.db"
    shutil.copy(place / "budget.db", path)
    return open_ledger(path, keys=ledger.keys)


def test_a_damaged_key_of_a_paid_release_is_not_destroyed(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One byte of its terms is damaged, and the release begun again: the file stays, for a backup to mend it."""
    with monkeypatch.context() as patched:
        patched.setattr(Release, "write", _full_disk)
        with pytest.raises(BundleError, match="was charged"):
            from_python("release", ledger, who="Ada", folder=tmp_path / "bundle")
    assert ledger.keys is not None
    (path,) = ledger.keys.glob("*.key")
    whole = path.read_bytes()
    damaged = whole.replace(b'"terms"', b'"termz"')
    path.write_bytes(damaged)
    with pytest.raises(LedgerError, match="is damaged"):
        from_python("release", ledger, who="Ada", folder=tmp_path / "bundle")
    assert path.read_bytes() == damaged
    path.write_bytes(whole)
    assert from_python("resume", ledger, folder=tmp_path / "bundle").receipt is not None


def _full_disk(*_: object, **__: object) -> None:
    raise BundleError("no space left on device")


def test_a_run_destroys_no_key_but_its_own(tmp_path: Path) -> None:
    """Two runs begin at once, and the key's file of the first was replaced by the second: its key stays."""
    keys, counts = KeyFolder(tmp_path / "keys", "account"), np.zeros((1, 2), np.int64)
    first = keys.begin(ReleaseKey(), "town", "spring", {}, {}, counts)
    first.path.unlink()
    second = keys.begin(ReleaseKey(), "town", "spring", {}, {}, counts)
    content = second.path.read_bytes()
    first.destroy()
    assert second.path.read_bytes() == content
    first.close()
    second.destroy()
    assert not second.path.exists()
    second.close()


def test_an_older_copy_of_the_ledger_does_not_cost_the_key(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Charged, then resumed, given up and begun again against a copy without the charge: the key outlives all three."""
    older, folder, drawn = older_copy(ledger, tmp_path), tmp_path / "bundle", []

    def full(result: Release, *_: object, **__: object) -> None:
        drawn.append(result.counts)
        raise BundleError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Release, "write", full)
        with pytest.raises(BundleError, match="was charged"):
            from_python("release", ledger, who="Ada", folder=folder)
    for attempt in (
        lambda: from_python("resume", older, folder=folder),
        lambda: abandon(older, "town", "spring"),
        lambda: from_python("release", older, who="Ada", folder=folder),
    ):
        with pytest.raises((BundleError, LedgerError), match=r"was not charged to .*older\.db.* older copy .*--ledger"):
            attempt()
    assert older.verify().n_spends == 0
    result = from_python("resume", ledger, folder=folder)
    assert np.array_equal(result.counts, drawn[0])
    assert cg.load_bundle(folder).manifest.receipt == result.receipt
    assert ledger.keys is not None
    assert not list(ledger.keys.iterdir())


def test_a_copy_of_the_ledger_that_went_its_own_way_does_not_cost_the_key(tmp_path: Path, ledger: Ledger) -> None:
    """The copy was charged for the same name with another key: that is no proof that this one was never paid for."""
    ready, older = prepared(), replace(older_copy(ledger, tmp_path), keys=tmp_path / "elsewhere")
    stopped(ready, ledger)
    with charged(ready, ledger=older, who="Ada"):
        pass
    other = replace(older, keys=ledger.keys)
    for again in again_of(ready, other):
        with pytest.raises((BundleError, AlreadySpentError), match="and stays"), again():
            pass
    with pytest.raises(BundleError, match=r"its key is not in .* and stays"):
        abandon(other, "town", "spring")
    with resumed(ready, ledger=ledger):
        pass


def test_what_is_given_up_leaves_no_drawn_table(tmp_path: Path) -> None:
    """Killed while it writes: the hidden folder holds the table, and goes with the key; what others keep stays."""
    folder = tmp_path / "town"
    program = """
import os, signal, sys
import congenial as cg
from congenial.bundle import write as writing
before = writing.Unfinished.add
def add(self, name, content):
    before(self, name, content)
    if name == "README.txt":
        os.kill(os.getpid(), signal.SIGKILL)
writing.Unfinished.add = add
ledger = cg.open_ledger(sys.argv[1], create=True)
ledger.create_dataset("town", epsilon="100", neighbours="bounded", who="Ada")
schema = cg.Schema({"sex": ["f", "m"]})
mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/2")], invariants=[cg.total()])
names = {"dataset": "town", "release": "spring", "who": "Ada"}
mechanism.release(cg.Table(schema, [3, 4]), ledger=ledger, folder=sys.argv[2], **names)
"""
    assert run_python(program, tmp_path / "budget.db", folder).returncode == -9
    (remainder,) = tmp_path.glob(".town.unfinished-*")
    assert list(remainder.rglob("table.csv"))
    (tmp_path / ".village.unfinished-1").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".town.unfinished-link").symlink_to(tmp_path / "elsewhere")
    ledger = open_ledger(tmp_path / "budget.db")
    abandon(ledger, "town", "spring")
    assert not remainder.exists()
    assert not list(tmp_path.rglob("table.*"))
    assert (tmp_path / ".village.unfinished-1").is_dir()
    assert (tmp_path / "elsewhere").is_dir()
    assert ledger.keys is not None
    assert not list(ledger.keys.iterdir())


def test_a_table_that_cannot_be_removed_is_said_and_the_key_stays(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Release, "write", lambda *_, **__: 1 / 0)
        with pytest.raises(BundleError, match="ZeroDivisionError"):
            from_python("release", ledger, who="Ada", folder=tmp_path / "bundle")
    (tmp_path / ".bundle.unfinished-1").mkdir()

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", refused)
        with pytest.raises(BundleError, match=r"\.bundle\.unfinished-\*, cannot be removed: permission denied"):
            abandon(ledger, "town", "spring")
    abandon(ledger, "town", "spring")
    assert not (tmp_path / ".bundle.unfinished-1").exists()


# -- From Python


def from_python(name: str, ledger: Ledger, **options: Any) -> Release:
    settings = {"ledger": ledger, "dataset": "town", "release": "spring", **options}
    result: Release = getattr(MECHANISM, name)(tables(), **settings)
    return result


def test_what_was_begun_from_python_is_gone_on_with_there(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[np.ndarray[tuple[int, int], np.dtype[np.int64]]] = []

    def full(result: Release, *_: object, **__: object) -> None:
        drawn.append(result.counts)
        raise BundleError("no space left on device")

    folder = tmp_path / "bundle"
    with monkeypatch.context() as patched:
        patched.setattr(Release, "write", full)
        with pytest.raises(BundleError, match=r"was charged.*mechanism\.resume if it was begun from Python"):
            from_python("release", ledger, who="Ada", folder=folder)
    for other in (None, tmp_path / "elsewhere"):
        with pytest.raises(BundleError, match=r"begun with other terms \(bundle: .*mechanism\.resume"):
            from_python("resume", ledger, folder=other)
    result = from_python("resume", ledger, folder=folder)
    assert np.array_equal(result.counts, drawn[0])
    assert cg.load_bundle(folder).manifest.receipt == result.receipt
    assert ledger.verify().n_spends == 1
    assert ledger.keys is not None
    assert not list(ledger.keys.iterdir())


def test_a_bundle_that_python_has_written_is_found_by_the_resumption(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies between the bundle and the end of the key."""

    def dies(*_: object) -> None:
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(KeyFile, "destroy", dies)
        with pytest.raises(Stopped):
            from_python("release", ledger, who="Ada", folder=tmp_path / "bundle")
    result = from_python("resume", ledger, folder=tmp_path / "bundle")
    assert cg.load_bundle(tmp_path / "bundle").manifest.receipt == result.receipt


def test_a_place_that_cannot_be_written_is_seen_before_the_charge(tmp_path: Path, ledger: Ledger) -> None:
    for wrong in (tmp_path, tmp_path / "nowhere" / "bundle"):
        with pytest.raises(BundleError, match=r"already|does not exist"):
            from_python("release", ledger, who="Ada", folder=wrong)
    assert ledger.verify().n_spends == 0


def test_a_release_in_python_leaves_no_core_file(tmp_path: Path) -> None:
    program = """
import resource, sys
import congenial as cg
before = resource.getrlimit(resource.RLIMIT_CORE)
from congenial.ledger import open_ledger
ledger = open_ledger(sys.argv[1], create=True)
ledger.create_dataset("town", epsilon="100", neighbours="bounded", who="Ada")
schema = cg.Schema({"sex": ["f", "m"]})
mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/2")], invariants=[cg.total()])
mechanism.release(cg.Table(schema, [3, 4]), ledger=ledger, dataset="town", release="spring", who="Ada")
soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
assert hard == before[1] and soft == (1 if hard else 0), (before, soft, hard)
"""
    run = run_python(program, tmp_path / "budget.db")
    assert run.returncode == 0, run.stderr


# -- Where the key is, and where it is not


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_for_keys_that_others_can_use_is_refused(mode: int, ledger: Ledger) -> None:
    assert ledger.keys is not None
    ledger.keys.mkdir()
    ledger.keys.chmod(mode)
    ready = prepared()
    for again in again_of(ready, ledger):
        with pytest.raises(LedgerError, match=rf"has mode {mode:o}, and it must be yours alone.*chmod 700 "), again():
            pass
    assert ledger.verify().n_spends == 0
    ledger.keys.chmod(0o700)
    with charged(ready, ledger=ledger, who="Ada"):
        pass
    assert ledger.keys.is_dir()  # a folder that the curator has made is not removed


def test_a_folder_for_keys_of_another_user_is_refused(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ledger.keys is not None
    ledger.keys.mkdir(mode=0o700)
    monkeypatch.setattr("os.geteuid", lambda: 4711)
    with pytest.raises(LedgerError, match="must be yours alone, of user 4711"), resumed(prepared(), ledger=ledger):
        pass


def linked(path: Path) -> None:
    path.rename(path.with_suffix(".real"))
    path.symlink_to(path.with_suffix(".real"))


def twice_named(path: Path) -> None:
    os.link(path, path.with_suffix(".copy"))


def padded(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" " * (1 << 20))


def given_away(path: Path) -> None:
    if os.geteuid():
        pytest.skip("needs to be root: a file is given to another user")
    os.chown(path, 4711, -1)


def no_file(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (linked, "cannot be read from"),
        (twice_named, "with 2 names"),
        (padded, r"and 1,04[0-9],\d+ bytes.*at most 1,048,576 bytes"),
        (given_away, "file of user 4711 .* and a key is one of user 0 "),
        (no_file, "no ordinary file"),
    ],
)
def test_what_no_release_has_written_is_no_key(plant: Callable[[Path], None], words: str, ledger: Ledger) -> None:
    ready = prepared()
    plant(stopped(ready, ledger).path)
    for again in again_of(ready, ledger):
        with pytest.raises(LedgerError, match=words), again():
            pass


def test_a_key_that_is_removed_while_it_is_looked_for(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ready, lock = prepared(), fcntl.flock
    path = stopped(ready, ledger).path

    def late(*arguments: Any) -> None:
        lock(*arguments)
        path.unlink()

    monkeypatch.setattr("fcntl.flock", late)
    with pytest.raises(BundleError, match="its key is not in "), resumed(ready, ledger=ledger):
        pass


def test_ctrl_c_while_the_key_is_opened_leaves_it_to_others(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ready, lock = prepared(), fcntl.flock

    def interrupted(*arguments: Any) -> None:
        lock(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("fcntl.flock", interrupted)
        with pytest.raises(KeyboardInterrupt) as begun_once, charged(ready, ledger=ledger, who="Ada"):
            pass
    stopped(ready, ledger)
    with monkeypatch.context() as patched:
        patched.setattr("fcntl.flock", interrupted)
        with pytest.raises(KeyboardInterrupt) as resumed_once, resumed(ready, ledger=ledger):
            pass
    with resumed(ready, ledger=ledger):
        pass
    del begun_once, resumed_once  # as a notebook keeps the last traceback, and all variables in it


def test_a_traceback_with_variables_does_not_show_the_key(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = SecretBytes(b"0123456789abcdef" * 2)
    monkeypatch.setattr("congenial.release_key.secret_bytes", lambda n: secret)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def breaks(*_: object) -> None:
        raise Stopped

    for name, broken in [
        ("congenial.release_key.flush", full),
        ("congenial.randomness.Cipher", breaks),
        ("congenial.release_key.ReleaseKey.streams", breaks),
    ]:
        with monkeypatch.context() as patched:
            patched.setattr(name, broken)
            with pytest.raises((LedgerError, Stopped)) as caught:  # noqa: SIM117
                with charged(replace(prepared(), naming=Naming(name, "town", "t")), ledger=ledger, who="Ada"):
                    pass
        trace = TracebackException(type(caught.value), caught.value, caught.tb, capture_locals=True)
        text = "".join(
            part for trace_part in (trace, trace.__context__) if trace_part is not None for part in trace_part.format()
        )
        assert "key = " in text
        assert secret.hex() not in text
        assert secret.decode() not in text


def test_the_key_lies_in_a_private_file_and_then_nowhere(tmp_path: Path) -> None:
    spec_path, ledger = place(tmp_path, CASES["one table"]), ledger_for(tmp_path, CASES["one table"])
    spec, seen = load_spec(spec_path), []

    def watch(step: str, done: int = 0, of: int = 0) -> None:
        for path in (tmp_path / "budget.db.keys").glob("*"):
            assert path.stat().st_mode & 0o777 == 0o600
            assert path.parent.stat().st_mode & 0o777 == 0o700
            seen.append((step, bytes.fromhex(json.loads(path.read_text())["key"]), ledger.verify().n_spends))

    result = pipeline.release(spec, tmp_path, tmp_path / "out", ledger=ledger, who="Ada", progress=watch)
    assert [(step, spends) for step, _, spends in seen] == [
        ("charging the budget", 0),
        ("drawing", 1),
        ("writing the bundle", 1),
    ]
    (secret,) = {key for _, key, _ in seen}
    assert result.folder.exists()
    for path in tmp_path.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert secret not in content
            assert secret.hex().encode() not in content


def test_keys_are_not_shown_and_not_copied() -> None:
    key = ReleaseKey()
    streams = key.streams("r", "0" * 64, [None], np.zeros((1, 2), np.int64))
    for secret in (key, streams):
        assert key.secret.hex() not in repr(secret)
        for careless in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be copied"):
                careless(secret)


def test_a_ledger_on_a_server_needs_a_folder_for_keys(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = replace(ledger, keys=None)
    with pytest.raises(LedgerError, match=r"say where the keys.*CONGENIAL_KEYS"):  # noqa: SIM117
        with charged(prepared(), ledger=nowhere, who="Ada"):
            pass
    assert ledger.verify().n_spends == 0


def test_the_folder_of_keys_is_a_setting(tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_ledger(tmp_path / "budget.db", keys=tmp_path / "own").keys == tmp_path / "own"
    monkeypatch.setenv("CONGENIAL_KEYS", str(tmp_path / "elsewhere"))
    assert open_ledger(tmp_path / "budget.db").keys == tmp_path / "elsewhere"
    (tmp_path / "elsewhere").write_text("a file")
    with pytest.raises(LedgerError, match=r"cannot be written to .*elsewhere.*Nothing was charged"):  # noqa: SIM117
        with charged(prepared(), ledger=open_ledger(tmp_path / "budget.db"), who="Ada"):
            pass
    assert ledger.verify().n_spends == 0


def test_a_release_is_gone_on_with_as_it_was_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec_path, ledger = place(tmp_path, CASES["one table"]), ledger_for(tmp_path, CASES["one table"])
    spec = load_spec(spec_path)

    def fails(*_: object, **__: object) -> Iterator[None]:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("congenial.bundle.report_and_readme.readme", fails)
        with pytest.raises(BundleError, match=r"no space left on device.*--resume"):
            pipeline.release(spec, tmp_path, tmp_path / "out", ledger=ledger, who="Ada")
    with pytest.raises(BundleError, match="begun with other terms"):
        pipeline.resume(spec, tmp_path, tmp_path / "elsewhere", ledger=ledger)
    result = pipeline.resume(spec, tmp_path, ledger=ledger)
    assert result.folder == tmp_path / "out"
    assert ledger.verify().n_spends == 1
