"""What a release will take and what it will cost, before any table is drawn. Public."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt
from textwrap import wrap

from congenial.errors import PrivacyError
from congenial.noise import FAMILIES
from congenial.privacy.calibrate import Budget
from congenial.privacy.certificate import Certificate, shown, shown_below
from congenial.privacy.certify import Case
from congenial.privacy.neighbours import Neighbours
from congenial.privacy.semantics import Meaning, meaning
from congenial.sampling.contraction.layout import Engine
from congenial.sampling.contraction.order import MergeOrder
from congenial.sampling.system import System
from congenial.sampling.target import Measured


@dataclass(frozen=True, repr=False)
class ReleasePlan:
    """How a release is sampled, at which precisions, and the certificate of its loss.

    Attributes
    ----------
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

    case: Case
    precisions: tuple[tuple[str, Fraction], ...]
    measured: tuple[Measured, ...]
    budget: Budget | None

    @cached_property
    def sampling(self) -> MergeOrder:
        """The order in which the exact sampler merges cells, and its size; made when first asked for."""
        return Engine.of(System.of(self.case.constraints, self.measured)).order

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

    def __repr__(self) -> str:
        return "\n".join([str(self.sampling), _measured_text(self.precisions, self.case.noise), self._certified()])

    def _certified(self) -> str:
        try:
            return str(self.certificate)
        except PrivacyError as refused:
            return f"not certified: {str(refused).removeprefix('no certificate: ')}"

    def explain(self) -> str:
        """Return the whole account for a curator: cost, meaning, noise, what is not protected, proof, sampler."""
        parts = []
        if self.budget is not None:
            spent = self.budget.cost(self.certificate)
            parts.append(
                f"Budget: {self.budget.text}, {self.case.neighbours} neighbours;"
                f" certified cost {shown(spent) if spent is not None else 'none'} for {self.certificate.per_record}."
            )
        parts += [str(self.meaning), "\n".join(["Noise:", *(f"  {line}" for line in self._noise())])]
        parts += [str(self.structure), f"Certificate {self._certified()}", f"Sampler: {self.sampling}"]
        if not self.is_exact:
            parts.append(
                "This CANNOT BE DRAWN by the exact sampler: measure fewer overlapping sums or state fewer invariants."
            )
        return "\n\n".join(_wrapped(part) for part in parts)

    def _noise(self) -> list[str]:
        """Say of every query how large its noise is, and how large GM's halving would make it."""
        make = FAMILIES[self.case.noise]
        moving = {one.klass for one in self.case.moves.soft} | {
            c for kind in self.case.moves.kinds for c, _ in kind.own
        }
        lines = []
        for number, (text, precision) in enumerate(self.precisions):
            if not precision:
                continue
            deviation = sqrt(float(make(precision).variance))
            line = f"{text}: precision {shown_below(precision)}, standard deviation {deviation:.3g} before conditioning"
            if number not in moving:
                line += "; the invariants fix it already, so measuring it adds nothing"
            elif (halved := self._halved(precision)) is not None:
                line += f"; GM's halving would give precision {shown_below(halved)}"
                if halved >= make.least:
                    line += f", standard deviation {sqrt(float(make(halved).variance)):.3g}"
            lines.append(line)
        if self._is_capped:
            lines.append(
                "part of the budget is not used: precision never exceeds that of the same noise with no conditions at"
                f" all, nor {float(make.most):g}"
            )
        return lines

    def _halved(self, precision: Fraction) -> Fraction | None:
        """Return what GM's Theorem 2 allows: half of the budget, shared by k records; None if that is no less."""
        certificate, plain = self.certificate, self.certificate.loss_without_invariants
        if (
            self.case.is_gaussian
            or self.budget is None
            or self.budget.epsilon is None
            or not plain
            or not certificate.k
        ):
            return None
        halved = precision * self.budget.epsilon / (2 * certificate.k * plain)
        return halved if halved < precision else None

    @property
    def _is_capped(self) -> bool:
        """Whether noticeably less than the budget is spent."""
        if self.budget is None or self.certificate.k == 0:
            return False
        spent, limit = (
            self.budget.cost(self.certificate),
            self.budget.epsilon if self.budget.rho is None else self.budget.rho,
        )
        return spent is not None and limit is not None and spent < limit * Fraction(999, 1000)


def _wrapped(text: str) -> str:
    """Break lines at 100 characters, with the indentation of their beginning."""
    lines = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        lines += wrap(line, 100, subsequent_indent=indent + "  " * bool(indent), break_long_words=False) or [""]
    return "\n".join(lines)


def _measured_text(precisions: Sequence[tuple[str, Fraction]], noise: str) -> str:
    return ", ".join(f"{text} at precision {shown_below(value)}" for text, value in precisions) + f", {noise} noise"
