"""Nothing is charged without consent, nothing is planned that cannot be charged, and editions are corrected."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from congenial.cli.main import main
from congenial.curator import pipeline
from congenial.ledger import Ledger
from releases import CASES, ledger_for, place

BOOK = ["--ledger", "budget.db", "--who", "Ada"]


def run(*words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    place(tmp_path, CASES["one table"])
    monkeypatch.chdir(tmp_path)
    return ledger_for(tmp_path, CASES["one table"])


def edition(name: str, extra: str = "") -> str:
    text = CASES["one table"].spec.replace("release: small", f"release: {name}\n{extra}")
    Path(f"{name}.yaml").write_text(text, encoding="utf-8")
    return f"{name}.yaml"


def test_without_a_terminal_a_release_needs_yes(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("something was read or charged")

    monkeypatch.setattr(pipeline, "prepare", never)
    monkeypatch.setattr(Ledger, "charge", never)
    before = sorted(Path().iterdir())
    for extra in ([], ["--json"]):
        done = run("release", "spec.yaml", *BOOK, *extra, code=1)
        assert done.stdout == ""
        assert done.stderr.startswith("Error: this cannot be undone, and there is no terminal to ask: charge release")
        assert "at most epsilon 1, to dataset 'town'" in done.stderr
        assert "(4 of epsilon 4 is left, and nothing is ever refunded)? If so, add --yes" in done.stderr
    for words in (["release", "spec.yaml", "--abandon", *BOOK], ["withdraw", "town", "small", "--reason", "x", *BOOK]):
        assert "add --yes" in run(*words, code=1).stderr
    assert ledger.verify().n_spends == 0
    assert sorted(Path().iterdir()) == before


def test_what_cannot_be_charged_is_refused_before_any_data_are_read(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("release", "spec.yaml", *BOOK, "--yes", "--no-confidential-report")
    Path("large.yaml").write_text(CASES["one table"].spec.replace("small", "large").replace("epsilon: 1", "epsilon: 9"))
    Path("other.yaml").write_text(CASES["unbounded"].spec.replace("small", "other"))
    monkeypatch.setattr(pipeline, "prepare", lambda *_: pytest.fail("the release was planned"))
    for spec, words in (
        ("spec.yaml", "release 'small' of dataset 'town' was charged on"),
        ("large.yaml", "release 'large' asks for up to epsilon 9, and dataset 'town' has 3 left"),
        ("other.yaml", "plan it with neighbours: bounded"),
        (edition("new", "replaces: smal"), "release 'smal' of dataset 'town' was never charged; did you mean 'small'"),
    ):
        assert words in run("release", spec, *BOOK, "--out", "out", "--yes", code=1).stderr
    assert ledger.verify().n_spends == 1


def test_a_corrected_edition_says_what_it_replaces(ledger: Ledger) -> None:
    run("release", "spec.yaml", *BOOK, "--yes", "--no-confidential-report")
    withdrawn = run("withdraw", "town", "small", "--reason", "age was misread", *BOOK, "--yes").stdout
    assert "What it cost stays spent, because copies of it may be kept: epsilon 1 of 4, as before." in withdrawn
    assert "it was withdrawn on" in run("verify", "small", *BOOK[:2]).stdout
    run("release", edition("small-2", "replaces: small"), *BOOK, "--yes", "--no-confidential-report")
    assert [spend.release for spend in ledger.history("town")] == ["small", "small-2"]
    assert ledger.status("town").spent > 1
    sentence = "A corrected edition: it replaces release small, which should not be used."
    assert sentence in Path("small-2/README.txt").read_text(encoding="utf-8")
    assert sentence in Path("small-2/report.html").read_text(encoding="utf-8")
    for words in (["show", "small-2"], ["verify", "small-2", *BOOK[:2]]):
        assert sentence in run(*words).stdout
        assert json.loads(run(*words, "--json").stdout)["replaces"] == "small"
    old = run("verify", "small", *BOOK[:2])
    assert "should no longer be used: it was replaced by release 'small-2' on" in old.stdout
    assert json.loads(run("verify", "small", *BOOK[:2], "--json").stdout)["withdrawn"]["replaced_by"] == "small-2"
    assert "replaces" in run("check", edition("same", "replaces: same"), code=1).stderr
