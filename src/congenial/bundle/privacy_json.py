"""Budgets and certificates as plain values, for a manifest."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from congenial.bundle.canonical import read_as
from congenial.errors import BundleError
from congenial.ledger.as_text import certificate_as_json, certificate_from_json
from congenial.privacy.budget import Budget
from congenial.privacy.certificate import THEOREMS, Certificate


def budget_json(budget: Budget | None) -> dict[str, str]:
    """Return what was asked for; nothing where every precision was given."""
    if budget is None:
        return {}
    said = {name: getattr(budget, name) for name in ("epsilon", "delta", "rho")}
    out = {name: str(amount) for name, amount in said.items() if amount is not None}
    return out if budget.rho is None else {**out, "orders": budget.orders}


def budget_of_json(given: Mapping[str, Any], noise: str) -> Budget | None:
    """Read what `budget_json` wrote."""
    return Budget.of(**{name: read_as(str, value) for name, value in given.items()}, noise=noise)


def certificate_json(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as plain values, exact numbers as text."""
    return {**certificate_as_json(certificate), "reasons": list(certificate.reasons), "page": certificate.page}


def certificate_of_json(given: Mapping[str, Any]) -> Certificate:
    """Read what `certificate_json` wrote."""
    values = dict(given)
    reasons, page = values.pop("reasons"), values.pop("page")
    if values["kind"] not in THEOREMS or THEOREMS[values["kind"]].page != page:
        raise BundleError("no theorem makes certificates of this kind")
    return replace(certificate_from_json(values), reasons=tuple(str(reason) for reason in reasons))
