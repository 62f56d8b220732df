"""From confidential records to measurements: words of their own, lattices that miss no promised pair, and no leak."""

import itertools
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import congenial as cg
from congenial.arrays import Ints
from congenial.bundle.naming_and_versions import Naming
from congenial.errors import BrokenError, BundleError, CongenialError, PrivacyError
from congenial.ledger import Ledger
from congenial.randomness import LevelStreams, SecretBytes
from congenial.release import begun, charged, resumed
from congenial.release_key import ReleaseKey
from congenial.workload.plan import WorkloadPlan
from congenial.workload.workload import PreparedWorkload

LABELS = {"county": ["n", "s"], "sex": ["f", "m"], "ill": ["a", "b"]}
TABLES = {"one": cg.margin("county", "sex"), "two": cg.margin("county", "ill"), "three": cg.margin("sex", "ill")}
NAMING = Naming("spring", "town", "Spring", "person")
KEY = ReleaseKey(SecretBytes(bytes(range(32))))


def workload(**options: Any) -> cg.Workload:
    settings: dict[str, Any] = {"tables": TABLES, "rho": "1"}
    return cg.Workload(LABELS, **(settings | options))


def records(cells: Any, some: cg.Workload, counts: Any = None) -> cg.Records:
    return cg.Records.of_cells(some.schema, np.asarray(cells, np.int64), counts)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    (tmp_path / "keys").mkdir(mode=0o700)
    book = cg.open_ledger(tmp_path / "budget.db", create=True, keys=tmp_path / "keys")
    book.create_dataset("town", rho="9", neighbours="bounded", who="Ada")
    return book


# Words of their own.


def noises(ready: PreparedWorkload, streams: LevelStreams) -> list[Ints]:
    drawn = ready.plan.draw(ready.confidential, streams)
    return [one - other for one, other in zip(drawn, ready.plan.split(ready.confidential), strict=True)]


def copies() -> PreparedWorkload:
    """Two dimensions that are the same of every record: their tables with a third have the same counts."""
    labels = {"home": ["n", "s"], "work": ["n", "s"], "ill": list("abcdefgh")}
    tables = {"at home": cg.margin("home", "ill"), "at work": cg.margin("work", "ill")}
    some = cg.Workload(labels, tables=tables, rho="1/8")
    cells = [(place * 2 + place) * 8 + ill for place in (0, 1) for ill in range(8)]
    return some.prepare(records(cells, some, range(16)), NAMING)


class SharedWords:
    """A mutant: every table gets the words of one."""

    def __init__(self, streams: LevelStreams) -> None:
        self._streams = streams

    def of_level(self, level: str, codes: Any, counts: Ints) -> Any:
        return self._streams.of_level("at home", codes, counts)


def test_a_table_and_its_copy_have_noise_of_their_own() -> None:
    ready = copies()
    one, other = noises(ready, ready.streams(KEY))
    assert not np.array_equal(one, other)
    one, other = noises(ready, SharedWords(ready.streams(KEY)))
    assert np.array_equal(one, other), "the mutant publishes the same noise twice"


def test_words_depend_on_names_counts_plan_and_key() -> None:
    ready = copies()
    first = noises(ready, ready.streams(KEY))
    again = noises(ready, ready.streams(KEY))
    assert all(map(np.array_equal, first, again))
    moved = PreparedWorkload(ready.plan, NAMING, ready.conditions, ready.confidential + np.eye(1, 32, dtype=np.int64))
    others = [
        noises(ready, ready.streams(ReleaseKey())),
        noises(moved, moved.streams(KEY)),
        noises(ready, PreparedWorkload(ready.plan, Naming("x", "y", "z", "w"), (), ready.confidential).streams(KEY)),
    ]
    for other in others:
        assert not np.array_equal(first[0], other[0])
    assert np.array_equal(first[1], others[1][1]), "the counts of the other table are as they were"


def test_the_same_table_is_not_measured_twice() -> None:
    with pytest.raises(CongenialError, match="are over the same dimensions; measure them once"):
        workload(tables={"one": cg.margin("county", "sex"), "again": cg.margin("sex", "county")})
    with pytest.raises(CongenialError, match="two tables are called"):
        workload(tables={"one": cg.margin("county", "sex"), "ONE": cg.margin("ill")})


# Lattices: noise keeps nothing that differs between two sets of records with the same exact numbers.

EXACT: dict[str, list[Any]] = {
    "nothing": [],
    "total": [cg.total()],
    "one-way": [cg.margin("county"), cg.margin("ill")],
    "two-way": [cg.margin("sex", "county")],
    "overlapping": [cg.margin("sex", "county"), cg.margin("ill", "county")],
    "a ring": [cg.margin("sex", "county"), cg.margin("ill", "county"), cg.margin("ill", "sex")],
    "a group": [cg.total(), cg.total({"sex": "f"})],
    "a cell": [cg.margin("county"), cg.total({"sex": "f", "ill": "a"})],
    "a part of a margin": [cg.total(), cg.margin("county", where={"sex": "f"})],
    "zeros": [cg.margin("ill"), cg.structural_zeros({"sex": "f", "ill": "a"})],
    "zeros across": [cg.total(), cg.structural_zeros({"county": "n", "sex": "f", "ill": "a"})],
}


def misses(plan: WorkloadPlan, difference: Ints) -> bool:
    """Whether the noise of some table cannot make up for a difference of two sets of records."""
    for table, measured in zip(plan.law.measured_tables_of_records, plan.tables, strict=True):
        axes = tuple(axis for axis, name in enumerate(LABELS) if name not in table.dimensions)
        moved = difference.reshape(2, 2, 2).sum(axis=axes).reshape(-1)
        (level,) = measured.measured_levels
        (kind,) = level.drawing.kinds
        if moved[list(kind.pinned)].any():
            return True
        of_coordinates = np.array([[row.value(moved.tolist()) for row in kind.coordinates]], np.int64)
        if not kind.choice.system.holds(of_coordinates):
            return True
    return False


@pytest.mark.parametrize("name", EXACT)
def test_noise_reaches_every_other_set_of_records_with_the_same_exact_numbers(name: str) -> None:
    """All sets of four records in eight cells, those with the same exact numbers compared with the first of them."""
    tables = {**TABLES, "all": cg.margin("county", "sex", "ill")} if name != "a ring" else {"all": cg.cells()}
    some = workload(tables=tables, invariants=EXACT[name])
    alike: dict[Any, list[Ints]] = {}
    for cells in itertools.combinations_with_replacement(range(8), 4):
        counts = np.bincount(cells, minlength=8)
        try:
            exact = some.disclose(records(cells, some))
        except BrokenError:
            continue
        alike.setdefault(tuple(each.values for each in exact), []).append(counts)
    n_pairs = 0
    for first, *others in alike.values():
        if not others:
            continue
        try:
            plan = some.plan(some.disclose(records(np.repeat(np.arange(8), first), some)))
            _ = plan.certificate
        except PrivacyError:  # exact numbers of 0 leave a table that no change moves
            continue
        for other in others:
            n_pairs += 1
            assert not misses(plan, other - first)
    assert n_pairs > 0


def test_noise_that_keeps_too_much_is_found() -> None:
    """The mutant keeps the counts of a dimension that are not exact."""
    some = workload(invariants=[cg.margin("county")])
    stricter = workload(invariants=[cg.margin("county"), cg.margin("sex")])
    plan = stricter.plan(stricter.disclose(records([0, 3, 5, 6], stricter)))
    pair = np.bincount([0], minlength=8) - np.bincount([2], minlength=8)  # one record's sex
    assert misses(plan, pair)
    assert not misses(some.plan(some.disclose(records([0, 3, 5, 6], some))), pair)


# Charged once, gone on with only as it was.


def interrupted(some: cg.Workload, data: cg.Records, ledger: Ledger) -> PreparedWorkload:
    ready = some.prepare(data, NAMING)

    def killed(*_: object) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), charged(ready, ledger=ledger, who="Ada", draw=killed):
        pass
    return ready


def test_a_release_goes_on_with_the_same_noise(ledger: Ledger, tmp_path: Path) -> None:
    some = workload(invariants=[cg.margin("county")])
    data = records([0, 1, 3, 5, 6, 7, 7], some)
    ready = interrupted(some, data, ledger)
    with begun(ledger, "town", "spring") as (file, _):
        assert file.key is not None
        expected = ready.draw(ready.streams(file.key))
    with resumed(some.prepare(data, NAMING), ledger=ledger) as release:
        release.write(tmp_path / "out")
    bundle: Any = cg.load_bundle(tmp_path / "out")
    assert all(map(np.array_equal, bundle.measured_levels, expected))
    assert ledger.status("town").dataset.name == "town"
    with pytest.raises(CongenialError), resumed(some.prepare(data, NAMING), ledger=ledger):
        pass


@pytest.mark.parametrize("cells", [[0, 1, 3, 5, 6, 7, 6], [0, 1, 3, 5, 6, 7, 3], [0, 1, 3, 5, 6, 7, 7, 7]])
def test_a_release_does_not_go_on_with_other_records(cells: list[int], ledger: Ledger) -> None:
    some = workload(tables={"one": cg.margin("county", "ill")}, invariants=[cg.margin("county", "sex")])
    interrupted(some, records([0, 1, 3, 5, 6, 7, 7], some), ledger)
    ready = some.prepare(records(cells, some), NAMING)
    with pytest.raises(BundleError, match="other data, another spec"), resumed(ready, ledger=ledger):
        pass


def test_an_exact_margin_in_no_measured_table_is_in_the_seal(ledger: Ledger) -> None:
    """The counts of sex are exact and in no measured table: the plan's digest holds them."""
    some = workload(tables={"one": cg.margin("county", "ill")}, invariants=[cg.margin("sex"), cg.total()])
    one, other = records([0, 5], some), records([2, 5], some)
    ready, changed = some.prepare(one, NAMING), some.prepare(other, NAMING)
    assert np.array_equal(ready.confidential, changed.confidential)
    assert ready.digest != changed.digest
    interrupted(some, one, ledger)
    with pytest.raises(BundleError, match="other data"), resumed(changed, ledger=ledger):
        pass


# Nothing of a cell in words or bytes.

CANARIES = (71_828_182, 31_415_926, 57_721_566, 16_180_339)


def canary_words() -> list[str]:
    return [form for number in CANARIES for form in (str(number), f"{number:,}", hex(number)[2:])]


def refusals() -> Iterator[str]:
    """Yield what is said of records that break a condition, wherever they break it."""
    for place in range(8):
        data = np.array([*CANARIES, *CANARIES])
        cells = [*range(8)]
        zeros = workload(invariants=[cg.structural_zeros({"sex": "f", "ill": "a"})])
        stated = workload(invariants=[cg.margin("county", equals=[1, 2])])
        for some in (zeros, stated):
            moved = np.roll(data, place)
            try:
                some.disclose(records(cells, some, moved))
            except BrokenError as refused:
                yield "".join(traceback.format_exception_only(refused))


def test_refusals_name_the_condition_alone() -> None:
    said = set(refusals())
    assert len(said) == 2, "the same words whichever cell it is"
    assert not any(word in text for text in said for word in canary_words())


def test_no_cell_is_in_a_bundle_a_log_or_a_repr(
    ledger: Ledger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Cells are far apart, and noise is small: a confidential count in bytes would be there as itself or nearly."""
    caplog.set_level(logging.DEBUG)
    labels = {"county": list("nsw"), "sex": ["f", "m"], "ill": ["a", "b"]}
    some = cg.Workload(labels, tables={"one": cg.margin("county", "sex"), "two": cg.margin("sex", "ill")}, rho="1/100")
    data = cg.Records.of_cells(some.schema, np.arange(12), [number // 1000 for number in (*CANARIES * 3,)])
    ready = some.prepare(data, NAMING)
    with charged(ready, ledger=ledger, who="Ada") as release:
        release.write(tmp_path / "out", outputs=("csv", "parquet", "report"))
    secret = {str(number // 1000) for number in CANARIES}
    texts = [path.read_bytes() for path in (tmp_path / "out").iterdir()] + [caplog.text.encode()]
    texts += [repr(ready).encode(), repr(data).encode(), repr(release).encode(), repr(ready.plan).encode()]
    for text in texts:
        assert not any(word.encode() in text for word in secret)
