"""Measured releases from end to end: measurements, tables, editions, keys, resumption, what is refused."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import congenial as cg
from congenial.bundle import file_registry
from congenial.bundle.decide import decide_again
from congenial.bundle.naming_and_versions import Naming
from congenial.bundle.verify import verify_bundle
from congenial.cli.main import main
from congenial.decided_tables import measurements_digest
from congenial.errors import BundleError, ConditionError, CongenialError, PrivacyError, SamplingError, SpecError
from congenial.ledger import Ledger
from congenial.randomness import SecretBytes
from congenial.release import charged, resumed
from congenial.release_key import ReleaseKey
from congenial.rules.nearest import NEAREST
from congenial.spec.load import parse_spec

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["y", "o", "e"]})
NORTH, SOUTH = cg.Table(SCHEMA, [[30, 41, 2], [11, 25, 7]]), cg.Table(SCHEMA, [[3, 0, 0], [8, 2, 1]])
KEY = ReleaseKey(SecretBytes(bytes(range(32))))


def mechanism(**options: Any) -> cg.Mechanism:
    settings: dict[str, Any] = {"epsilon": "1", "method": "measured", "invariants": [cg.total(), cg.margin("sex")]}
    return cg.Mechanism(SCHEMA, measure=[cg.cells()], **(settings | options))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    book = cg.open_ledger(tmp_path / "budget.db", create=True)
    book.create_dataset("county", epsilon="9", neighbours="bounded", who="Ada")
    return book


@contextmanager
def failing_rule() -> Iterator[None]:
    def fail(*_: object, **__: object) -> None:
        raise ConditionError("the moon was full")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(NEAREST), "decide", fail)
        yield


def _release(ledger: Ledger, folder: Path | None = None, name: str = "r", data: Any = NORTH) -> Any:
    return mechanism().release(data, ledger=ledger, dataset="county", release=name, who="Ada", folder=folder)


def test_measurements_have_the_exact_numbers_and_tables_are_in_the_conditions(ledger: Ledger, tmp_path: Path) -> None:
    release = _release(ledger, tmp_path / "r", data={"North": NORTH, "South": SOUTH})
    assert release.measurements.reshape(2, 2, 3).sum(axis=2).tolist() == [[73, 43], [3, 11]]
    assert release.counts.reshape(2, 2, 3).sum(axis=2).tolist() == [[73, 43], [3, 11]]
    assert release.counts.min() >= 0
    bundle = cg.load_bundle(tmp_path / "r")
    assert bundle.measurements is not None
    assert np.array_equal(bundle.measurements, release.measurements)
    assert np.array_equal(bundle.counts, release.counts)
    assert bundle.manifest.certificate.kind == "composition"
    assert release.receipt.loss == 1


def test_the_loss_is_that_of_the_noise_whatever_is_exact() -> None:
    for invariants in ([], [cg.total()], [cg.total(), cg.margin("sex")], [cg.margin("sex"), cg.margin("age")]):
        some = mechanism(invariants=invariants)
        certificate = some.plan(some.disclose(NORTH)).certificate
        assert certificate.kind == "measured_double_geometric"
        assert certificate.loss is not None
        assert certificate.loss <= 1
        assert certificate.orders == "all"


def test_conditional_is_the_default_and_has_no_rule() -> None:
    assert cg.Mechanism(SCHEMA, measure=[cg.cells()], epsilon="1").method == "conditional"
    with pytest.raises(ConditionError, match='is for method="measured"'):
        mechanism(method="conditional", rule="nearest")
    with pytest.raises(ConditionError, match="did you mean 'measured'"):
        mechanism(method="mesured")
    with pytest.raises(ConditionError, match="did you mean 'nearest'"):
        mechanism(rule="nearst")


def test_there_is_no_law_of_tables() -> None:
    with pytest.raises(SamplingError, match="no law of tables"):
        mechanism().law(NORTH)


def test_a_rule_that_fails_costs_no_measurements(ledger: Ledger, tmp_path: Path) -> None:
    with failing_rule():
        release = _release(ledger, tmp_path / "r")
    assert "the moon was full" in release.why_no_tables
    with pytest.raises(BundleError, match="measurements and no table"):
        _ = release.levels
    assert not (tmp_path / "r" / "table.csv").exists()
    verified = verify_bundle(tmp_path / "r", ledger=ledger)
    assert verified.bundle.levels == ()
    assert verified.bundle.measurements is not None
    assert np.array_equal(verified.bundle.measurements, release.measurements)
    assert "the moon was full" in (tmp_path / "r" / "README.txt").read_text(encoding="utf-8")


def test_a_table_is_added_later(ledger: Ledger, tmp_path: Path) -> None:
    with failing_rule():
        _release(ledger, tmp_path / "r")
    decide_again(tmp_path / "r", tmp_path / "edition")
    verified = verify_bundle(tmp_path / "edition", ledger=ledger)
    assert verified.bundle.manifest.decision is not None
    assert not verified.bundle.manifest.decision.is_after_publication  # the rule that was charged for
    assert verified.bundle.manifest.receipt == cg.load_bundle(tmp_path / "r").manifest.receipt
    assert verified.bundle.counts.min() >= 0


def test_another_rule_is_said_to_be_chosen_after_publication(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from congenial.rules import registry

    _release(ledger, tmp_path / "r")
    monkeypatch.setitem(registry.RULES, "other", replace(NEAREST, name="other"))
    decide_again(tmp_path / "r", tmp_path / "edition", rule="other")
    assert verify_bundle(tmp_path / "edition", ledger=ledger).bundle.manifest.decision.is_after_publication  # type: ignore[union-attr]
    assert "chosen after publication" in (tmp_path / "edition" / "README.txt").read_text(encoding="utf-8").replace(
        "\n  ", " "
    )
    manifest = json.loads((tmp_path / "edition" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["rule"]["chosen"] == "after publication"


def test_a_conditional_bundle_has_no_rule_to_run(ledger: Ledger, tmp_path: Path) -> None:
    mechanism(method="conditional").release(
        NORTH, ledger=ledger, dataset="county", release="c", who="Ada", folder=tmp_path / "c"
    )
    with pytest.raises(BundleError, match="conditional method"):
        decide_again(tmp_path / "c", tmp_path / "edition")
    assert not (tmp_path / "edition").exists()


def test_the_decide_command(ledger: Ledger, tmp_path: Path) -> None:
    _release(ledger, tmp_path / "r")
    out = CliRunner().invoke(main, ["decide", str(tmp_path / "r"), "--out", str(tmp_path / "e")])
    assert out.exit_code == 0, out.output
    assert CliRunner().invoke(main, ["verify", str(tmp_path / "e")]).exit_code == 0
    refused = CliRunner().invoke(main, ["decide", str(tmp_path / "r"), "--rule", "x", "--out", str(tmp_path / "f")])
    assert refused.exit_code == 1
    assert "there is no rule" in refused.output


# The same noise never meets other counts.


def _noise(counts: list[list[int]], release: str = "r", digest: str = "d", table: str = "t", level: str = "l") -> Any:
    words = KEY.measurement_streams(release, digest, table).of_level(level, ["a"] * len(counts), np.array(counts))
    return words.keyed(len(counts)).stretch([0], [0], 8)[0]


def test_words_depend_on_everything_that_a_unit_is() -> None:
    first = _noise([[1, 2, 3]])
    assert np.array_equal(first, _noise([[1, 2, 3]]))
    others = [
        _noise([[1, 2, 4]]),
        _noise([[1, 2, 3]], release="s"),
        _noise([[1, 2, 3]], digest="e"),
        _noise([[1, 2, 3]], table="u"),
        _noise([[1, 2, 3]], level="m"),
    ]
    for other in others:
        assert not np.isin(first, other).any()


def test_words_of_the_two_methods_are_apart() -> None:
    counts = np.array([[1, 2, 3]])
    drawn = KEY.streams("r", "d", ["a"], counts).word_rows(1, 8)
    assert not np.isin(
        drawn, KEY.measurement_streams("r", "d", "").of_level("", ["a"], counts).keyed(1).stretch([0], [0], 8)
    ).any()


def test_one_key_with_neighbouring_counts_gives_unrelated_noise() -> None:
    """Were words not keyed by counts, the difference of measurements would be that of the counts."""
    some = mechanism()
    differences, gaps = [], []
    for number in range(300):
        counts = np.array([[30 + number, 41, 2, 11, 25, 7]])
        other = counts + np.array([[1, -1, 0, 0, 0, 0]])
        noise = []
        for table in (counts, other):
            plan = some.plan(some.disclose(cg.Table(SCHEMA, table.reshape(2, 3))))
            streams = KEY.measurement_streams("r", "digest", "table").of_level("", [None], table)
            noise.append(plan.draw(table, streams)[0] - table)
        differences.append((noise[0] - noise[1])[0])
        gaps.append(noise[0][0])
    spread, alone = np.var(differences, axis=0).mean(), np.var(gaps, axis=0).mean()
    assert 1.5 < spread / alone < 2.6  # twice the variance, as of independent noise; 0 were the words the same


def test_the_rule_has_a_seed_of_its_own(ledger: Ledger) -> None:
    release = _release(ledger)
    seed = measurements_digest(release.plan.law, release.measurements)
    changed = release.measurements.copy()
    changed[0, 0] += 1
    assert seed != measurements_digest(release.plan.law, changed)
    again = release.plan.decide((release.measurements,))
    assert np.array_equal(again[0], release.counts)


def test_a_long_table_has_its_intervals_in_parquet_alone(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyarrow import parquet

    monkeypatch.setattr(file_registry, "SPREADSHEET_ROWS", 1)
    release = _release(ledger, tmp_path / "long")
    header = (tmp_path / "long" / "table.csv").read_text().splitlines()[0]
    assert header == '"sex","age","count"'
    columns = parquet.read_table(tmp_path / "long" / "table.parquet").column_names
    assert columns[-3:] == ["measured", "low_90", "high_90"]
    assert not (tmp_path / "long" / "measurements.csv").exists()
    verify_bundle(tmp_path / "long")
    release.write(tmp_path / "alone", outputs=("report",))  # without the Parquet file everything is in the CSV file
    header = (tmp_path / "alone" / "table.csv").read_text().splitlines()[0]
    assert header == '"sex","age","count","measured","low_90","high_90"'
    verify_bundle(tmp_path / "alone")


def test_a_stopped_release_goes_on_with_the_same_measurements(ledger: Ledger, tmp_path: Path) -> None:
    naming = Naming("r", "county", "r")
    ready = mechanism().prepare(NORTH, naming)
    drawn: list[Any] = []

    def stop() -> None:
        with charged(ready, ledger=ledger, who="Ada") as release:
            drawn.append(release.drawn[0].copy())
            raise BundleError("stopped")

    with pytest.raises(BundleError, match="go on with"):
        stop()
    with resumed(mechanism().prepare(NORTH, naming), ledger=ledger) as release:
        assert np.array_equal(release.drawn[0], drawn[0])
        release.write(tmp_path / "r")
    assert verify_bundle(tmp_path / "r", ledger=ledger).bundle.manifest.law.is_measured
    assert len(ledger.history("county")) == 1


def test_other_data_are_not_gone_on_with(ledger: Ledger) -> None:
    naming = Naming("r", "county", "r")
    with pytest.raises(BundleError), charged(mechanism().prepare(NORTH, naming), ledger=ledger, who="Ada"):
        raise BundleError("stopped")
    changed = cg.Table(SCHEMA, [[31, 40, 2], [11, 25, 7]])  # the same exact numbers
    with pytest.raises(BundleError, match="other data"), resumed(mechanism().prepare(changed, naming), ledger=ledger):
        pass


# What verify refuses.


def _edited(folder: Path, column: int) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    file = folder / "measurements.parquet"
    table = parquet.read_table(file, read_dictionary=["table", "level", "unit", "row", "precision"])
    values = table.column("value").to_numpy().copy()
    values[column] += 1
    values[column + 1] -= 1
    table = table.set_column(4, "value", pa.array(values))
    parquet.write_table(table, file, store_schema=False)


def test_other_measurements_are_refused(ledger: Ledger, tmp_path: Path) -> None:
    _release(ledger, tmp_path / "r")
    _edited(tmp_path / "r", 0)
    with pytest.raises(BundleError, match=r"measurements\.parquet was changed"):
        verify_bundle(tmp_path / "r")


def test_exact_numbers_that_are_not_kept_are_told() -> None:
    some = mechanism()
    plan = some.plan(some.disclose(NORTH))
    measurements = plan.draw(NORTH.counts[None, :], cg.replay_rng(1))[0]
    assert plan.has_exact_sums([measurements])
    moved = measurements + np.array([[1, 0, 0, -1, 0, 0]])  # the total stays, the numbers of women and men do not
    assert not plan.has_exact_sums([moved])


# Specs, plans, and structures of all kinds.


def test_a_spec_names_method_and_rule() -> None:
    text = "release: r\ndata: {path: d.csv, kind: counts, count: n}\ndimensions: {sex: [f, m]}\nbudget: {epsilon: 1}\n"
    assert parse_spec(text + "method: measured\n").mechanism.rule == ("nearest", 1)
    with pytest.raises(SpecError, match="a conditional release draws them"):
        parse_spec(text + "rule: nearest\n")
    with pytest.raises(SpecError, match="there is no rule 'nerest'"):
        parse_spec(text + "method: measured\nrule: nerest\n")
    tree = "hierarchy: {file: f.csv, leaf: block, levels: {county: {prefix: 1}}}\n"
    for method in ("", "method: measured\n"):  # the usual one of trees
        spec = parse_spec(text + tree + method)
        assert (spec.method, spec.noise) == ("measured", "double_geometric")  # a tree, in pure epsilon
        assert parse_spec(text.replace("epsilon", "rho") + tree + method).noise == "discrete_gaussian"
    with pytest.raises(SpecError, match="no budget in pure epsilon"):
        parse_spec(text + tree + "method: conditional\n")


@pytest.mark.parametrize(
    "options",
    [
        {"invariants": []},
        {"invariants": [cg.margin("sex"), cg.margin("age")]},
        {"invariants": [cg.total()], "epsilon": None, "rho": "1/2", "noise": "discrete_gaussian"},
        {"invariants": [cg.margin("sex"), cg.margin("age")], "epsilon": None, "rho": "1", "noise": "discrete_gaussian"},
        {"invariants": [cg.total()], "epsilon": "1", "delta": "1e-6", "noise": "discrete_gaussian"},
        {"invariants": [cg.total(), cg.bounds(0, 50)]},
        {"invariants": [], "neighbours": "unbounded"},
        {"invariants": [cg.total()], "rows_per_unit": 3},
    ],
)
def test_structures_of_all_kinds(options: dict[str, Any]) -> None:
    some = mechanism(**options)
    plan = some.plan(some.disclose(NORTH))
    plan.dry_run()
    measurements = plan.draw(NORTH.counts[None, :], cg.replay_rng(3))
    (tables,) = plan.decide(measurements)
    assert plan.law.areas.holds(tables).all()
    assert plan.certificate.kind.startswith("measured_")


def test_sums_alone_are_measured_in_their_own_space() -> None:
    some = cg.Mechanism(
        SCHEMA,
        measure=[cg.margin("sex"), cg.margin("age")],
        invariants=[cg.total()],
        epsilon="1",
        method="measured",
    )
    plan = some.plan(some.disclose(NORTH))
    (measurements,) = plan.draw(NORTH.counts[None, :], cg.replay_rng(3))
    assert measurements.shape == (1, 5)
    assert measurements[0, :2].sum() == measurements[0, 2:].sum() == 116


def test_noise_has_nothing_for_pinned_cells() -> None:
    some = mechanism(invariants=[cg.margin("sex"), cg.structural_zeros({"sex": "m", "age": "e"})])
    table = cg.Table(SCHEMA, [[0, 0, 0], [8, 2, 0]])  # no women: three more cells follow
    plan = some.plan(some.disclose(table))
    (measurements,) = plan.draw(np.tile(table.counts, (1, 1)), cg.replay_rng(1))
    assert measurements[0, [0, 1, 2, 5]].tolist() == [0, 0, 0, 0]


def test_a_bundle_of_the_next_format_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    _release(ledger, tmp_path / "r")
    manifest = tmp_path / "r" / "manifest.json"
    manifest.write_text(
        manifest.read_text(encoding="utf-8").replace('"version": 3', '"version": 4', 1), encoding="utf-8"
    )
    with pytest.raises(BundleError, match="this software reads 2 and 3"):
        verify_bundle(tmp_path / "r")


def test_nothing_is_charged_for_what_cannot_be_certified(ledger: Ledger) -> None:
    with pytest.raises(CongenialError):
        mechanism(epsilon="1e-30").release(NORTH, ledger=ledger, dataset="county", release="r", who="Ada")
    assert not ledger.history("county")


def test_zero_weights_are_for_conditional_releases() -> None:
    some = cg.Mechanism(
        SCHEMA, measure=[cg.cells(precision="1/2", zeros="2")], invariants=[cg.total()], method="measured"
    )
    with pytest.raises(PrivacyError, match="weighted limits"):
        _ = some.plan(some.disclose(NORTH)).certificate


def test_sums_that_64_bits_do_not_hold_are_refused_before_the_charge(ledger: Ledger) -> None:
    schema = cg.Schema({"cell": [str(number) for number in range(600)]})
    some = cg.Mechanism(schema, measure=[cg.cells(), cg.total()], epsilon="1", method="measured")
    table = cg.Table(schema, [2**53] * 600)
    with pytest.raises(ConditionError, match="2\\^61 or more"):
        some.release(table, ledger=ledger, dataset="county", release="r", who="Ada")
    assert not ledger.history("county")


def _grid(n: int) -> cg.Schema:
    return cg.Schema({"a": [f"a{number}" for number in range(n)], "b": [f"b{number}" for number in range(n)]})


def test_measured_sums_that_coincide_on_what_can_move_do_not_stop_a_paid_release(
    ledger: Ledger, tmp_path: Path
) -> None:
    """Rows a=a2 and a in {a1, a2} are one where nobody is in a1; which rows have noise of their own goes by places."""
    schema = _grid(8)
    counts = np.random.default_rng(1).poisson(4, (8, 8))
    counts[1] = 0
    some = cg.Mechanism(
        schema,
        measure=[cg.cells(), cg.margin("a"), cg.margin("b"), cg.total({"a": ["a1", "a2"]})],
        invariants=[cg.total({"a": "a1"})],
        epsilon="4",
        method="measured",
    )
    table = cg.Table(schema, counts)
    some.release(table, ledger=ledger, dataset="county", release="r", who="Ada", folder=tmp_path / "r")
    bundle = cg.load_bundle(tmp_path / "r")
    plan = bundle.manifest.plan
    text = (tmp_path / "r" / "README.txt").read_text(encoding="utf-8")
    assert bool(plan.untied_sums) == ("noise of their own" in " ".join(text.split()))


def test_every_exact_sum_that_measurements_lack_is_named() -> None:
    """But for those that the conditions state as following from others."""
    schema = _grid(12)
    counts = np.random.default_rng(2).poisson(6, (12, 12))
    some = cg.Mechanism(
        schema, measure=[cg.cells()], invariants=[cg.margin("a"), cg.margin("b")], epsilon="1", method="measured"
    )
    plan = some.plan(some.disclose(cg.Table(schema, counts)))
    assert plan.dropped_sums
    gaps = plan.draw(counts.reshape(1, -1), cg.replay_rng(1))[0].reshape(12, 12) - counts
    lost = {f"a=a{number}" for number in np.flatnonzero(gaps.sum(axis=1))}
    lost |= {f"b=b{number}" for number in np.flatnonzero(gaps.sum(axis=0))}
    stated = {limited.row.name for limited in plan.law.areas[None].equalities}
    assert lost & stated <= set(plan.dropped_sums)
    assert len(lost - stated) <= 1


@pytest.mark.parametrize(
    ("measure", "invariants"),
    [
        ([cg.total({"sex": "f"})], []),
        ([cg.cells()], [cg.margin("sex", "age")]),
        ([cg.margin("sex")], [cg.total()]),
    ],
)
def test_odd_requests_are_planned(measure: list[Any], invariants: list[Any]) -> None:
    some = cg.Mechanism(SCHEMA, measure=measure, invariants=invariants, epsilon="1", method="measured")
    plan = some.plan(some.disclose(NORTH))
    plan.dry_run()
    measurements = plan.draw(NORTH.counts[None, :], cg.replay_rng(1))
    assert plan.has_exact_sums(measurements)
    assert plan.law.areas.holds(plan.decide(measurements)[0]).all()


def test_measurements_outside_the_lattice_are_told() -> None:
    margins = cg.Mechanism(
        SCHEMA, measure=[cg.margin("sex"), cg.margin("age")], invariants=[cg.total()], epsilon="1", method="measured"
    )
    plan = margins.plan(margins.disclose(NORTH))
    (right,) = plan.draw(NORTH.counts[None, :], cg.replay_rng(1))
    assert plan.has_exact_sums([right])
    assert not plan.has_exact_sums([right + np.array([[1, 0, 0, 0, 0]])])
    pinned = mechanism(invariants=[cg.structural_zeros({"sex": "m", "age": "e"})])
    table = cg.Table(SCHEMA, [[3, 4, 5], [8, 2, 0]])
    plan = pinned.plan(pinned.disclose(table))
    (right,) = plan.draw(table.counts[None, :], cg.replay_rng(1))
    assert plan.has_exact_sums([right])
    assert not plan.has_exact_sums([right + np.array([[0, 0, 0, 0, 0, 7]])])
