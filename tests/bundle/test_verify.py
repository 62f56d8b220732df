"""What `verify` says: of an unsigned bundle, of a signed one, by a ledger, and of what other versions made."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from congenial.bundle.file_registry import NOT_REQUESTED
from congenial.bundle.verify import verify_bundle
from congenial.cli.main import main
from congenial.errors import BundleError
from congenial.inference.analyst_bundle import load_bundle
from congenial.ledger import open_ledger
from forger import at, both, forge, nothing
from releases import Maker, prepare, simulate

CERTIFICATE = ("privacy", "certificate")

# What another version made


def verified(bundle: Path, *options: str) -> tuple[int, str]:
    run = CliRunner().invoke(main, ["verify", str(bundle), *options])
    return run.exit_code, run.output


def test_words_of_another_version_are_not_checked(bundle: Path) -> None:
    """It may word its certificate as it likes. That is said, and the exit code is its own."""
    words = at(*CERTIFICATE, "statement", value="nothing can be learned")
    code, output = verified(forge(bundle, both(words, at("software", "congenial", value="0.0.1")), pages=True))
    assert code == 3, output
    assert "NOT checked: the words of the certificate and of the sampler" in output
    assert "NOT checked: README.txt" in output
    assert "NOT checked: report.html" in output
    assert "made again and is the same" not in output


@pytest.mark.parametrize("asked", [["show"], ["infer", "--query", "sex=f", "--draws", "100", "--seed", "1"]])
def test_whoever_uses_a_bundle_is_told_what_is_not_checked(bundle: Path, asked: list[str]) -> None:
    words = at(*CERTIFICATE, "statement", value="nothing can be learned")
    folder = str(forge(bundle, both(words, at("software", "congenial", value="0.0.1")), pages=True))
    command, *options = asked
    for extra in ([], ["--json"]):
        run = CliRunner().invoke(main, [command, folder, *options, *extra])
        assert run.exit_code == 0, run.output
        assert "the words of the certificate and of the sampler, for they are of congenial 0.0.1" in run.output
        if extra:
            json.loads(run.stdout)


def test_another_version_may_certify_more_than_is_lost(bundle: Path) -> None:
    """A later version that proves a smaller bound does not make the older one wrong."""
    larger = both(
        at(*CERTIFICATE, "epsilon", value="2"),
        at("privacy", "budget", "epsilon", value="2"),
        at("receipt", "loss", value="2"),
        at("receipt", "spent", value="2"),
        at("receipt", "left", value="2"),
        at("software", "congenial", value="0.0.1"),
    )
    loaded = load_bundle(forge(bundle, larger))
    assert any("larger precisions" in what for what in loaded.not_checked)


@pytest.mark.parametrize(("name", "pages"), [("jinja2", 1), ("python", 3), ("pyarrow", 0)])
def test_pages_by_other_versions_are_not_checked(name: str, pages: int, bundle: Path) -> None:
    (bundle / "report.html").write_text("trust me", encoding="utf-8")
    folder = forge(bundle, at("software", name, value="0"))
    if pages == 0:
        with pytest.raises(BundleError, match=r"README\.txt is not the file"):
            verify_bundle(folder)
        return
    if pages == 1:  # README.txt names the versions, so the forger makes it again
        folder = forge(bundle, nothing, pages=True)
        (bundle / "report.html").write_text("trust me", encoding="utf-8")
        folder = forge(bundle, nothing)
    code, output = verified(folder)
    assert code == 3, output
    assert output.count("NOT checked") == pages
    assert f"{name} 0 there and " in output


# Signatures and ledgers


def test_the_words_say_what_was_checked(bundle: Path, case_folder: Maker) -> None:
    key, ledger = str(case_folder("one table") / "key.pub"), str(case_folder("one table") / "budget.db")
    code, output = verified(bundle, "--key", key)
    assert code == 0, output
    assert "It is as key.pub published it." in output
    assert "It is as key " in verified(bundle)[1]
    assert "--ledger says" in output
    assert "the ledger holds the spend" in verified(bundle, "--ledger", ledger)[1]
    (bundle / "signature.json").unlink()
    code, output = verified(bundle)
    assert code == 0, output
    assert "It agrees with itself; it is not signed" in output
    assert "published it" not in output
    output = json.loads(CliRunner().invoke(main, ["verify", str(bundle), "--json"]).stdout)
    assert output["standing"].startswith("agrees with itself")
    assert (output["not_checked"], output["left_out"], output["signed_by"]) == ([], {}, None)


def test_what_was_left_out_is_in_the_manifest(case_folder: Maker, tmp_path: Path) -> None:
    spec = case_folder("one table") / "spec.yaml"
    text = spec.read_text(encoding="utf-8").replace("count: n", "count: n, status: public")
    (tmp_path / "spec.yaml").write_text(text + "outputs: [csv]\n", encoding="utf-8")
    shutil.copy(spec.with_name("data.csv"), tmp_path)
    folder = simulate(tmp_path / "spec.yaml", tmp_path / "bundle", seed=1).folder
    values = json.loads((folder / "manifest.json").read_bytes())
    assert values["left_out"] == {"table.parquet": NOT_REQUESTED, "report.html": NOT_REQUESTED}
    assert list(values["files"]) == ["table.csv", "expected-errors.csv", "README.txt"]
    code, output = verified(folder)
    assert code == 0, output
    assert "report.html was left out: not asked for" in output
    with pytest.raises(BundleError, match="it is a simulation, and no ledger knows it"):
        verify_bundle(folder, ledger=open_ledger(case_folder("one table") / "budget.db"))
    with pytest.raises(BundleError, match="what is left out has a reason"):
        load_bundle(forge(Path(shutil.copytree(folder, tmp_path / "b")), at("left_out", "report.html", value="")))
    with pytest.raises(BundleError, match="it has no receipt, as a simulation, and its status is"):
        load_bundle(forge(folder, at("status", value="confidential")))


def test_a_spend_pays_for_one_plan_only(bundle: Path, case_folder: Maker) -> None:
    """The same release of the same dataset, as it was planned, with a spend that paid for something else."""
    ledger = case_folder("one table") / "budget.db"
    assert prepare(case_folder("one table") / "spec.yaml").digest == load_bundle(bundle).manifest.plan_digest
    code, output = verified(forge(bundle, at("title", value="Other"), pages=True), "--ledger", str(ledger))
    assert code == 1
    assert "paid for another plan" in output
