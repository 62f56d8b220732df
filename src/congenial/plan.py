"""What a release will take and what it will cost, before any table is drawn. Public."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from congenial.errors import PrivacyError
from congenial.noise import FAMILIES
from congenial.privacy.calibrate import Budget
from congenial.privacy.certificate import Certificate, shown, shown_below
from congenial.privacy.certify import Case
from congenial.privacy.neighbours import Neighbours
from congenial.privacy.semantics import Meaning, meaning
from congenial.sampling.plan import Plan


@dataclass(frozen=True)
class ReleasePlan:
    """How a release is sampled, at which precisions, and the certificate of its loss.

    Attributes
    ----------
    sampling : Plan
        The order in which the exact sampler merges cells, and its size.
    precisions : tuple of (str, Fraction)
        Each measured query in words, with its precision.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> mechanism = p12_mechanism()
    >>> print(mechanism.plan(mechanism.disclose(p12_table())))
    4 groups of cells, width 1, about 7,957 states, exact
    cells() at precision 0.5, double_geometric noise
    limited_cells: at most epsilon 1.4899 and rho 0.5, bounded neighbours, one record changed
      cells with limits, every limit measured at precision 0.5 or more: D = 1 plus 0.4899 for conditioning, which is
      less than log 2
      GM's factor of two would give 2
      proof and audit: docs/claims/conditional-loss.md
    """

    sampling: Plan
    case: Case
    precisions: tuple[tuple[str, Fraction], ...]
    budget: Budget | None

    @property
    def is_exact(self) -> bool:
        """Whether the exact sampler runs within its memory and work limits."""
        return self.sampling.is_exact

    @property
    def width(self) -> int:
        """The largest number of independent open sums that a message is indexed by."""
        return self.sampling.width

    @property
    def n_states(self) -> float:
        """Entries of all messages together."""
        return self.sampling.n_states

    @cached_property
    def certificate(self) -> Certificate:
        """What the release costs at most; raises `PrivacyError` when nothing can be certified."""
        return self.case.certificate([precision for _, precision in self.precisions])

    @property
    def structure(self) -> Neighbours:
        """Which tables are neighbours, and what is no longer protected."""
        return self.case.structure

    @property
    def meaning(self) -> Meaning:
        """What the certificate means for one person."""
        return meaning(self.certificate, self.structure)

    def __str__(self) -> str:
        try:
            certified = str(self.certificate)
        except PrivacyError as refused:
            certified = f"not certified: {refused}"
        return "\n".join([str(self.sampling), _measured_text(self.precisions, self.case.noise), certified])

    def explain(self) -> str:
        """Return the whole account for a curator: budget, cost, comparison with GM's halving, neighbours, meaning."""
        lines = [str(self), "", str(self.structure), "", str(self.meaning)]
        if self.budget is not None:
            lines[1:1] = ["", f"{self.budget!r}, {self.case.neighbours} neighbours", *self._against_halving()]
        return "\n".join(lines)

    @property
    def _plain_rho(self) -> Fraction:
        distance = self.certificate.loss_without_invariants
        return self.certificate.k**2 * (distance if self.case.is_gaussian else distance**2 / 2)

    def _against_halving(self) -> list[str]:
        """Compare with a mechanism that has half the budget, which GM's Theorem 2 asks for."""
        certificate, plain = self.certificate, self.certificate.loss_without_invariants
        if not plain or not certificate.k:
            return [
                "one table obeys the conditions: precision costs nothing, and is kept at what it would be without them"
            ]
        if self.case.is_gaussian or self.budget is None or self.budget.epsilon is None:
            same = f"{certificate.k} records" if certificate.k > 1 else "one record"
            return [
                f"rho {shown(certificate.rho or plain)}; without conditions {same} would cost {shown(self._plain_rho)}"
            ]
        factor = self.budget.epsilon / (2 * self.certificate.k * plain)
        make = FAMILIES[self.case.noise]
        lines = []
        for text, precision in self.precisions:
            if not precision:
                continue
            halved = precision * factor
            more = (
                float(make(halved).variance) / float(make(precision).variance) if halved >= make.least else float("inf")
            )
            lines.append(
                f"{text}: precision {shown_below(precision)}; GM's halving would give {shown_below(halved)},"
                f" a noise variance {more:.3g} times as large"
            )
        return lines


def _measured_text(precisions: Sequence[tuple[str, Fraction]], noise: str) -> str:
    return ", ".join(f"{text} at precision {shown_below(value)}" for text, value in precisions) + f", {noise} noise"
