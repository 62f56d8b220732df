"""Which numbers of a release were published before, and by how much the two will differ. Public.

A ledger keeps what each release stated exactly, in words and with its value, and the certificate; not the tables. So
what was exact before is compared by name. Of numbers that had noise then, nothing but their certificate is known.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from congenial.bundle.expected_errors import NO_ERROR
from congenial.ledger.records import Spend
from congenial.privacy.certificate import Certificate

_MOST_NAMED = 4


@dataclass(frozen=True)
class PlannedRelease:
    """What is known of a planned release, to compare earlier ones with.

    Attributes
    ----------
    exact : tuple of (str, str)
        What it will state exactly, as a ledger records it.
    errors : mapping from str to float
        The error to expect of numbers that it will publish with noise, by the names that a ledger would have for them.
    kinds : tuple of (str, float)
        Single cells and the numbers by each dimension, with their root mean squared error.
    """

    release: str
    certificate: Certificate
    exact: tuple[tuple[str, str], ...]
    errors: Mapping[str, float]
    kinds: tuple[tuple[str, float], ...] = ()

    def has_same_design(self, spend: Spend) -> bool:
        """Whether an earlier release had the same certificate and the same exact numbers, so about the same errors."""
        own, other = self.certificate, spend.certificate
        amounts = [(one.kind, one.k, one.loss, one.rho) for one in (own, other)]
        return amounts[0] == amounts[1] and {name for name, _ in self.exact} == {name for name, _ in spend.invariants}


def published_before_lines(planned: PlannedRelease, spends: Sequence[Spend]) -> list[str]:
    """Say which numbers earlier releases of the dataset have out, and about how far these will be from them."""
    return [line for spend in spends if spend.release != planned.release for line in _lines(planned, spend)]


def _lines(planned: PlannedRelease, spend: Spend) -> list[str]:
    name = f"Release {spend.release!r} of {spend.at[:10]}"
    exact, before = (
        {_name_of(text, planned.errors): value for text, value in numbers}
        for numbers in (planned.exact, spend.invariants)
    )
    not_exact_now = [text for text in before if text not in exact]
    off = [(text, planned.errors[text]) for text in not_exact_now if planned.errors.get(text, 0.0) > NO_ERROR]
    unknown = [text for text in not_exact_now if text not in planned.errors]
    moved = [text for text, value in before.items() if exact.get(text, value) != value]
    lines = []
    if off:
        listed = _some([f"{text} by about {error:.2g}" for text, error in off])
        lines.append(
            f"{name} published exactly what has noise here. This release will differ from it: {listed} (root mean"
            " squared). Make them exact here as well, or say which release is to be used."
        )
    if unknown:
        lines.append(
            f"{name} published exactly, under names that this spec does not have: {_some(unknown)}. Where they are sums"
            " of this table, it will differ from them by its own error."
        )
    if moved:
        lines.append(f"{name} states other values of {len(moved):,} numbers that are exact in both: {_some(moved)}.")
    if planned.kinds:
        is_alike = planned.has_same_design(spend)
        about = "about " if is_alike else ""
        times = sqrt(2) if is_alike else 1.0  # two independent errors, or the known one alone
        sizes = [f"{text} by {about}{times * error:.2g}" for text, error in planned.kinds]
        how = "both have the same law" if is_alike else "at least; the ledger does not keep the errors of the other"
        lines.append(f"{name}: numbers with noise in both will differ, {'; '.join(sizes)} ({how}).")
    return lines


def _name_of(text: str, known: Container[str]) -> str:
    """Return the name of a statistic as the errors have it, whichever invariant stated it.

    Examples
    --------
    >>> _name_of("county A: total of sex=f", {"county A: sex=f", "sex=f"}), _name_of("by sex: sex=f", {"sex=f"})
    ('county A: sex=f', 'sex=f')
    """
    head, colon, last = text.rpartition(": ")
    last = last.removeprefix("total of ")
    whole = f"{head}{colon}{last}"
    return last if whole not in known and last in known else whole


def _some(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - _MOST_NAMED:,} more" if len(texts) > _MOST_NAMED else ""
    return "; ".join(texts[:_MOST_NAMED]) + more
