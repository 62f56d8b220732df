"""What used to fail only after the charge: odd labels; and what a ledger must hear of."""

from pathlib import Path

import pytest

import congenial as cg
from congenial.ledger import open_ledger
from releases import prepare, release

DATA = "sex,pay,n\nf,$0 to 5% of $100,3\nf,\\x_k_ {#},4\nm,$0 to 5% of $100,5\nm,\\x_k_ {#},2\n"
SPEC = r"""release: r
data: {path: data.csv, kind: counts, count: n}
dimensions: {sex: [f, m], pay: ['$0 to 5% of $100', '\x_k_ {#}']}
measure: [{cells: all, portion: 1}, {total: {pay: '$0 to 5% of $100'}, portion: 1}]
invariants: [total, {cells: {sex: f, pay: '\x_k_ {#}'}}]
budget: {epsilon: 1}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    (tmp_path / "data.csv").write_text(DATA, encoding="utf-8")
    (tmp_path / "spec.yaml").write_text(SPEC, encoding="utf-8")
    return tmp_path / "spec.yaml"


def test_labels_of_any_kind_are_drawn_and_single_cells_reach_the_ledger(spec: Path, tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "budget.db", create=True)
    ledger.create_dataset("r", epsilon="4", neighbours="bounded", who="Ada")
    release(spec, tmp_path / "bundle", ledger=ledger, who="Ada")
    cg.load_bundle(tmp_path / "bundle")
    assert [(exact.statistic[:9], exact.value) for exact in ledger.disclosed("r")] == [
        ("total", "14"),
        ("sex=f, pa", "4"),
    ]


def test_any_failure_after_the_charge_says_so(spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = open_ledger(tmp_path / "budget.db", create=True)
    ledger.create_dataset("r", epsilon="4", neighbours="bounded", who="Ada")

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("congenial.bundle.write.bundle_files", broken)
    with pytest.raises(cg.CongenialError, match=r"ZeroDivisionError.*The budget was charged"):
        release(spec, tmp_path / "bundle", ledger=ledger, who="Ada")
    assert len(ledger.history("r")) == 1
    assert not (tmp_path / "bundle").exists()


def test_names_that_differ_in_capitals_are_refused_early(spec: Path) -> None:
    spec.write_text(SPEC.replace("pay:", "Sex:"), encoding="utf-8")
    with pytest.raises(cg.CongenialError, match="differ only in capitals"):
        prepare(spec)
