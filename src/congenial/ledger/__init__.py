"""The budget ledger: docs/ledger.md."""

from congenial.ledger.hash_chain import Verification, verify_export
from congenial.ledger.ledger import Disclosure, Ledger, open_ledger
from congenial.ledger.records import Dataset, Head, Receipt, Spend, Withdrawal
from congenial.ledger.requests import Request
from congenial.ledger.status import Status

__all__ = [
    "Dataset",
    "Disclosure",
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
