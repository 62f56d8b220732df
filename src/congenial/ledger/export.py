"""A ledger as text, one JSON object a line, that can be verified without the database."""

import json
from collections.abc import Iterable

from congenial.errors import LedgerError, TamperedError
from congenial.ledger.as_text import Row, canonical
from congenial.ledger.chain import TITLES, Chain, Verification, verify_chains
from congenial.ledger.records import DATASET, FIELDS, Head


def export_text(chains: Iterable[Chain]) -> str:
    """Return chains as lines: each dataset, then its records in order."""
    lines = []
    for chain in chains:
        lines.append(canonical({"kind": DATASET, **chain.dataset}))
        lines += [canonical({"kind": kind, **row}) for kind, row in chain.records]
    return "".join(line + "\n" for line in lines)


def verify_export(text: str, head: Head | None = None) -> Verification:
    """Verify an exported ledger from its text alone.

    Parameters
    ----------
    text : str
        What `Ledger.export` returned.
    head : Head, optional
        A place that was seen before, such as ``receipt.head``.
    """
    if not isinstance(text, str):
        raise LedgerError(f"an exported ledger is text, not a {type(text).__name__}")
    return verify_chains(chains_of(text), head)


def chains_of(text: str) -> list[Chain]:
    """Read exported lines into chains; their records may be wrong, their shape may not."""
    datasets: dict[str, Row] = {}
    records: dict[str, list[tuple[str, Row]]] = {}
    name = ""
    for number, line in enumerate(text.splitlines(), 1):
        kind, row = _row(line, number)
        if kind == DATASET:
            name = str(row["name"])
            if name in datasets:
                raise _broken(f"line {number} repeats dataset {name!r}")
            datasets[name], records[name] = row, []
        elif not datasets:
            raise _broken(f"it starts with a {TITLES[kind]} and not with its dataset")
        else:
            # A record that stands below another dataset shows as one that does not belong.
            records[name].append((kind, row))
    return [Chain(row, tuple(records[name])) for name, row in datasets.items()]


def _row(line: str, number: int) -> tuple[str, Row]:
    try:
        value = json.loads(line)
        kind = value.pop("kind")
        if set(value) == set(FIELDS[kind]) and canonical({"kind": kind, **value}) == line:
            return kind, value
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError):
        pass
    raise _broken(f"line {number} is no record as a ledger writes it")


def _broken(finding: str) -> TamperedError:
    return TamperedError(f"the export is broken: {finding}; export the ledger again", (finding,))
