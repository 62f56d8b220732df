"""What a certificate means for one person, in numbers and in plain words: docs/claims/semantics.md."""

from dataclasses import dataclass
from fractions import Fraction
from math import exp

import numpy as np

from congenial.conditions.constraints import Constraints
from congenial.conditions.queries import cells, total
from congenial.exact import Exact, exact_fraction
from congenial.noise import DoubleGeometric
from congenial.privacy.bounds_and_enumerated_losses import conditional_loss, odds_factor
from congenial.privacy.certificate import USUAL_DELTA, Certificate, odds_text, rho_text, weak_promise
from congenial.privacy.closest_neighbours_and_unprotected import Neighbours
from congenial.sampling.enumeration import EnumeratedLaw, worst_ratio
from congenial.sampling.target_and_system import Measured, Target
from congenial.schema import Schema

_UNPROTECTED = "The published totals themselves are not protected, nor anything that follows from them."


@dataclass(frozen=True, repr=False)
class Meaning:
    """What an observer can learn about one person. Public.

    Attributes
    ----------
    odds : float
        Whoever knows everybody else's record can multiply the odds of one value against another, for this person, by at
        most this factor, if the invariants treat both values alike.
    between_releases : float
        What an observer believes after a release differs by at most this factor from what the same release would have
        led to believe had the records in question been others, whatever the prior.
    """

    certificate: Certificate
    neighbourhood: Neighbours
    odds: float
    between_releases: float

    @property
    def warning(self) -> str:
        """A warning of a weak promise: an epsilon above 10, of a rho at the usual delta; else empty."""
        return "" if self.certificate.k == 0 else weak_promise(self.certificate.epsilon(USUAL_DELTA))

    def __repr__(self) -> str:
        relation, k = self.certificate.neighbours, self.certificate.k
        is_open = not self.neighbourhood.constraints.rows
        alike = "" if is_open else ", between values that the published numbers treat alike"
        if self.certificate.k == 0:
            head = "The release adds nothing to what the published conditions say already."
        elif self.certificate.loss == 0:
            head = f"No measured query changes with {self.certificate.per_record}, so the release tells nothing of it."
        elif self.certificate.loss is None:
            head = strength_text(self.certificate)
        elif k == 1 and relation == "unbounded":
            head = (
                "Even someone who already knows every other record can raise the odds that this person's record is"
                f" there at most {self.odds:.3g}-fold."
            )
        elif k == 1:
            head = (
                "Even someone who already knows everybody else's record can raise the odds of one value over another"
                f" for this person at most {self.odds:.3g}-fold{alike}."
            )
        else:
            what = "change together" if relation == "bounded" else "come or go together"
            fewest = self.neighbourhood.k or 1
            tie = f"The published totals tie records together: {fewest} or more {what}. " if fewest > 1 else ""
            head = (
                f"{tie}Someone who knows all but {k} records can raise the odds of one possibility for these {k} over"
                f" another at most {self.odds:.3g}-fold."
            )
        return head if is_open else f"{head} {_UNPROTECTED}"


def strength_text(certificate: Certificate) -> str:
    """Return how far the release can tell apart two data sets that the certificate compares, in a sentence.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> mechanism = p12_mechanism()
    >>> strength_text(mechanism.plan(mechanism.disclose(p12_table())).certificate)
    'For one record changed, no event is more than 4.44 times as likely with one of two such tables as with the other.'
    """
    if certificate.loss is not None:
        return (
            f"For {certificate.per_record}, no event is more than {odds_text(certificate.loss)} times as likely with"
            " one of two such tables as with the other."
        )
    return (
        f"No factor bounds odds with certainty under Gaussian noise. For {certificate.per_record} the loss is at most"
        f" {rho_text(certificate.rho or Fraction(0))}: with one of two such tables no event is more than"
        f" {odds_text(certificate.epsilon(USUAL_DELTA))} times as likely as with the other, plus a probability of"
        f" {float(USUAL_DELTA):g}."
    )


def meaning(certificate: Certificate, neighbourhood: Neighbours) -> Meaning:
    """Return what a certificate means.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> mechanism = p12_mechanism()
    >>> plan = mechanism.plan(mechanism.disclose(p12_table()))
    >>> meaning(plan.certificate, plan.neighbourhood).odds
    4.44
    """
    loss = certificate.loss
    if loss is None:
        return Meaning(certificate, neighbourhood, float("inf"), float("inf"))
    return Meaning(certificate, neighbourhood, odds_factor(loss), odds_factor(2 * loss))


@dataclass(frozen=True)
class Vacuous:
    """Knowledge from suppression: GM's M0, described by lower and upper probabilities instead of one probability.

    Examples
    --------
    >>> Vacuous().probabilities(possible=3, among=10)
    (0, 1)
    >>> Vacuous().probabilities(possible=10, among=10)
    (1, 1)
    """

    @staticmethod
    def probabilities(possible: int, among: int) -> tuple[int, int]:
        """Return the lower and upper probability of a set of so many tables among all that obey the conditions."""
        return int(possible == among), int(possible > 0)


@dataclass(frozen=True)
class Counterexample:
    """Two people tied together by invariants, where the one-record bound fails.

    Attributes
    ----------
    ratio : float
        The posterior probability of a value for person 1 over its prior probability, after the worst release.
    one_record_factor : float
        ``exp(L)``, L the loss of one changed record in such tables.
    all_pairs_factor : float
        ``exp`` of the largest loss over all pairs of S*, which always bounds the ratio.
    """

    ratio: float
    one_record_factor: float
    all_pairs_factor: float


def two_people(precision: Exact = 1, prior: Exact = "1/1000") -> Counterexample:
    """Compute the counterexample: cells FY, FO, MY, MO; two people, one of them female, both numbers published.

    Person 1 is FY or MY, person 2 FO or MO. One female in all means that person 1 is FY exactly when person 2 is MO: no
    single record can change alone, and what an observer believes of one person can move by the loss of *two* records.

    Examples
    --------
    >>> example = two_people()
    >>> round(example.ratio, 1), round(example.one_record_factor, 1), round(example.all_pairs_factor, 1)
    (51.8, 13.8, 54.6)
    """
    schema = Schema({"sex": ["F", "M"], "age": ["Y", "O"]})
    constraints = Constraints.of(schema, [total(equals=2), total({"sex": "F"}, equals=1)])
    noise, belief = DoubleGeometric(precision), exact_fraction(prior, "prior")
    measured = tuple(Measured(row, noise) for row in cells().rows(schema))
    # Person 1 FY and person 2 MO, or person 1 MY and person 2 FO.
    first, second = (np.array(counts, np.int64) for counts in ([1, 0, 0, 1], [0, 1, 1, 0]))
    law, other = (EnumeratedLaw.of(Target(constraints, measured, centre)) for centre in (first, second))
    worst = worst_ratio(law, other)
    ratio = worst / (belief * worst + 1 - belief)
    loss = conditional_loss(2 * noise.precision, noise.precision)
    return Counterexample(float(ratio), exp(loss), float(worst))
