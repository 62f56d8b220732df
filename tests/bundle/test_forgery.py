"""Forged manifests with a right digest: what contradicts the law, the receipt or the ledger is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from congenial.bundle.canonical import digest, rendered
from congenial.bundle.loading import load_bundle
from congenial.cli import main
from congenial.errors import BundleError
from releases import Maker


def forged(bundle: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Change the manifest and give it a digest that fits; the signature goes."""
    (bundle / "signature.json").unlink(missing_ok=True)
    values = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    values.pop("digest")
    change(values)
    (bundle / "manifest.json").write_bytes(rendered({**values, "digest": digest(rendered(values))}))
    return bundle


def at(*path: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(values: dict[str, Any]) -> None:
        part = values
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = value

    return change


CERTIFICATE = ("privacy", "certificate")
FORGERIES = {
    "more records": at(*CERTIFICATE, "k", value=1000),
    "another epsilon": at(*CERTIFICATE, "epsilon", value="1/1000"),
    "no bound at all": at(*CERTIFICATE, "epsilon", value=None),
    "rho at all orders": at(*CERTIFICATE, "rho_at_all_orders", value="1/1000000"),
    "orders": at(*CERTIFICATE, "orders", value="all of them"),
    "without invariants": at(*CERTIFICATE, "without_invariants", value="1/1000"),
    "a statement": at(*CERTIFICATE, "statement", value="nothing can be learned"),
    "reasons": at(*CERTIFICATE, "reasons", value=["trust me"]),
    "rows of a unit": at("unit", "rows", value=-5),
    "no receipt": at("receipt", value=None),
    "another release": at("release", value="other"),
    "another dataset": at("dataset", value="other"),
    "a free receipt": at("receipt", "loss", value="0"),
    "a simulation": at("is_for_release", value=False),
    "unknown keys": at("more", value=1),
    "a title that moves the cursor": at("title", value="x\x1b[2J"),
}


def test_nothing_forged_is_accepted(bundle: Path) -> None:
    load_bundle(forged(bundle, lambda values: None))


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_refused(name: str, bundle: Path) -> None:
    with pytest.raises(BundleError):
        load_bundle(forged(bundle, FORGERIES[name]))


def test_a_spend_pays_for_one_plan_only(bundle: Path, made: Maker) -> None:
    """A title is not part of the plan; the noise and the invariants are."""
    ledger = str(made("one table") / "budget.db")
    run = CliRunner().invoke(main, ["verify", str(bundle), "--ledger", ledger])
    assert run.exit_code == 0, run.output
    assert "holds the spend" in run.stdout

    def other_reasons(values: dict[str, Any]) -> None:
        values["law"]["measured"][0]["query"] = "another plan"

    run = CliRunner().invoke(main, ["verify", str(forged(bundle, other_reasons)), "--ledger", ledger])
    assert run.exit_code == 1
    assert "another plan" in run.stderr or "not the one that its law has" in run.stderr
