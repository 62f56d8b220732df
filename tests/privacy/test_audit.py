"""Audits catch mechanisms that are broken on purpose, and leave the honest one alone."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

import congenial as cg
from congenial.errors import FractionError, PrivacyError
from congenial.examples import p12_mechanism, p12_table
from congenial.noise import FAMILIES
from congenial.privacy.audit import Losses, audit, audit_draws, audit_exactly, search_worst_pair
from congenial.randomness import RandomStream, replay_rng
from congenial.sampling.elimination.sampler import messages
from congenial.sampling.target_and_system import Measured, Target

Ints = NDArray[np.int64]

SCHEMA = cg.Schema({"age": ["a", "b", "c", "d"]})
MECHANISM = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/2")], invariants=[cg.total()])
CONSTRAINTS = MECHANISM.disclose(cg.Table(SCHEMA, [2, 3, 1, 2]))
MEASURED = MECHANISM.calibrate(CONSTRAINTS).measured


def at(factor: str) -> tuple[Measured, ...]:
    """Return the mechanism's noise with every precision off by a factor."""
    return tuple(
        replace(one, noise=FAMILIES[one.noise.family](one.noise.precision * Fraction(factor))) for one in MEASURED
    )


def sampler(measured: tuple[Measured, ...], rng: RandomStream) -> Callable[[Ints, int], Ints]:
    return lambda table, n: messages(Target(CONSTRAINTS, measured, table)).sample(n, rng)


def test_exact_audit_agrees_with_the_certificate() -> None:
    certificate = MECHANISM.certificate(CONSTRAINTS)
    found = audit(CONSTRAINTS, MEASURED, certificate, rng=replay_rng(1))
    assert found.confidence == 1
    assert not found.is_violated
    assert float(certificate.loss or 0) - found.loss < 1e-9


@pytest.mark.parametrize(
    ("defect", "claim"),
    [
        ("charged without the cost of conditioning", "1"),
        ("sensitivity off by two: a changed record counted in one cell", "1/2"),
    ],
)
def test_exact_audit_catches_a_claim_that_is_too_small(defect: str, claim: str) -> None:
    found = audit_exactly(CONSTRAINTS, MEASURED, claim)
    assert found.is_violated, defect
    assert "VIOLATED" in str(found)


def test_exact_audit_catches_noise_of_the_wrong_scale() -> None:
    loss = MECHANISM.certificate(CONSTRAINTS).loss
    assert audit_exactly(CONSTRAINTS, at("1.05"), loss).is_violated
    assert not audit_exactly(CONSTRAINTS, at("0.95"), loss).is_violated


class TestByDraws:
    """Black box: nothing is known of the mechanism but its draws at the worst pair of tables."""

    n = 1_000_000

    def pair(self, rng: RandomStream) -> tuple[tuple[int, ...], tuple[int, ...], Fraction]:
        worst = search_worst_pair(CONSTRAINTS, MEASURED, rng=rng)
        exact = Losses.of(CONSTRAINTS, MEASURED).pair(worst.table, worst.other)
        return worst.table, worst.other, exact.upper

    def test_the_honest_mechanism_is_left_alone_and_nearly_reached(self, request: pytest.FixtureRequest) -> None:
        rng = replay_rng(request.node.nodeid)
        table, other, exact = self.pair(rng)
        found = audit_draws(sampler(MEASURED, rng), table, other, exact, n_draws=self.n)
        assert not found.is_violated
        assert found.loss > 0.95 * float(exact)  # an audit that finds nothing would find no defect either

    @pytest.mark.parametrize(
        ("defect", "claim"), [("charged without the cost of conditioning", "1"), ("sensitivity off by two", "1/2")]
    )
    def test_claims_that_are_too_small(self, request: pytest.FixtureRequest, defect: str, claim: str) -> None:
        rng = replay_rng(request.node.nodeid)
        table, other, _ = self.pair(rng)
        assert audit_draws(sampler(MEASURED, rng), table, other, claim).is_violated, defect

    def test_noise_scale_off_by_five_percent(self, request: pytest.FixtureRequest) -> None:
        rng = replay_rng(request.node.nodeid)
        table, other, exact = self.pair(rng)
        assert audit_draws(sampler(at("1.05"), rng), table, other, exact, n_draws=self.n).is_violated

    def test_a_seed_reused(self) -> None:
        def stuck(table: Ints, n: int) -> Ints:
            return np.concatenate(
                [messages(Target(CONSTRAINTS, MEASURED, table)).sample(1, replay_rng(3)) for _ in range(n)]
            )

        found = audit_draws(stuck, [8, 0, 0, 0], [7, 1, 0, 0], "1.49", n_draws=400)
        assert found.is_violated
        assert found.loss > 2.5

    def test_an_approximate_claim_needs_its_delta(self, request: pytest.FixtureRequest) -> None:
        """A mechanism that now and then publishes the table itself is no pure one, and is one at a delta."""
        rng = replay_rng(request.node.nodeid)
        honest = sampler(MEASURED, rng)

        def leaky(table: Ints, n: int) -> Ints:
            out = honest(table, n)
            out[rng.uniforms(n) < 0.2] = table
            return out

        table, other, exact = self.pair(rng)
        assert audit_draws(leaky, table, other, exact).is_violated
        assert not audit_draws(leaky, table, other, exact, delta="1/5").is_violated


def test_large_systems_are_audited_at_the_pair_that_a_search_finds() -> None:
    mechanism = p12_mechanism()
    constraints = mechanism.disclose(p12_table())
    certificate = mechanism.certificate(constraints)
    measured = mechanism.calibrate(constraints).measured
    found = audit(constraints, measured, certificate, rng=replay_rng("p12"), n_draws=40_000)
    assert not found.is_violated
    assert found.confidence < 1
    assert found.loss > 0.2  # the worst pair's best event is rare, so draws see little of its 1.49
    small = replace(certificate, loss=Fraction(1, 5))
    again = audit(constraints, measured, small, rng=replay_rng("p12"), n_draws=40_000)
    assert again.is_violated


def test_bad_input() -> None:
    draw = sampler(MEASURED, replay_rng(1))
    with pytest.raises(FractionError, match="must be exact"):
        audit_draws(draw, [8, 0, 0, 0], [7, 1, 0, 0], 1.0)
    with pytest.raises(PrivacyError, match="confidence lies strictly between 0 and 1"):
        audit_draws(draw, [8, 0, 0, 0], [7, 1, 0, 0], 1, confidence=1.0)
    with pytest.raises(PrivacyError, match="at least 100 draws, not 10"):
        audit_draws(draw, [8, 0, 0, 0], [7, 1, 0, 0], 1, n_draws=10)
    gaussian = cg.Mechanism(SCHEMA, measure=[cg.cells()], invariants=[cg.total()], rho="1", noise="discrete_gaussian")
    free = gaussian.disclose(cg.Table(SCHEMA, [20, 30, 10, 20]))
    with pytest.raises(PrivacyError, match="bounds no pure loss"):
        audit(free, gaussian.calibrate(free).measured, gaussian.certificate(free), rng=replay_rng(1))
