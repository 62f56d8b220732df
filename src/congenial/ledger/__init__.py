"""The budget ledger: docs/ledger.md."""

from congenial.ledger.ledger import DisclosedStatistic, Ledger, open_ledger
from congenial.ledger.records import Dataset, Head, Receipt, Spend, Withdrawal
from congenial.ledger.requests_and_canonical_text import Request
from congenial.ledger.status_and_past_releases import Status
from congenial.ledger.verification_and_export import Verification, verify_export

__all__ = [
    "Dataset",
    "DisclosedStatistic",
    "Head",
    "Ledger",
    "Receipt",
    "Request",
    "Spend",
    "Status",
    "Verification",
    "Withdrawal",
    "open_ledger",
    "verify_export",
]
