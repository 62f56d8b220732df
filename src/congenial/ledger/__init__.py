"""The budget ledger: docs/ledger.md."""

from congenial.ledger.chain import Verification
from congenial.ledger.export import verify_export
from congenial.ledger.ledger import Disclosure, Ledger, open_ledger
from congenial.ledger.receipt import Receipt
from congenial.ledger.records import Dataset, Head, Spend
from congenial.ledger.request import Request
from congenial.ledger.status import Status
from congenial.ledger.withdrawal import Withdrawal

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
