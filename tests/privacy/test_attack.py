"""Exact losses of pairs, and the search that comes close to the certificate without being one."""

from math import exp, log

import numpy as np
import pytest

from congenial.errors import PrivacyError
from congenial.exact import log_of
from congenial.examples import p12_mechanism, p12_table
from congenial.privacy.audit import Losses, search_worst_pair
from congenial.randomness import replay_rng
from congenial.sampling.enumeration import EnumeratedLaw, worst_ratio
from congenial.sampling.target_and_system import Target
from systems import SYSTEMS


@pytest.mark.parametrize("name", [name for name in SYSTEMS if name not in {"Gaussian noise", "one table"}])
def test_pair_losses_agree_with_the_brute_force(name: str) -> None:
    """The defect: normalisers swapped, or the distance of nominal instead of real precisions."""
    target = SYSTEMS[name]().target
    losses = Losses.of(target.constraints, target.measured)
    law = EnumeratedLaw.of(target)
    others = law.tables[:: max(1, len(law.tables) // 12)]
    for other in others:
        exact = log_of(worst_ratio(law, EnumeratedLaw.of(Target(target.constraints, target.measured, other))))
        found = losses.pair(target.centre, other)
        assert abs(found.value - exact) <= found.error + 1e-14 * (1 + exact)
        assert found.error < 1e-10
        assert float(found.upper) >= exact - 1e-15 * (1 + exact)
        swapped = losses.pair(other, target.centre)
        assert swapped.value + found.value == pytest.approx(2 * found.distance, abs=1e-9)


def test_search_reaches_the_bound_of_p12() -> None:
    """GM's example: the worst pair lies within a ten-thousandth of what the certificate allows."""
    mechanism = p12_mechanism()
    constraints = mechanism.disclose(p12_table())
    certificate = mechanism.certificate(constraints)
    found = search_worst_pair(
        constraints, mechanism.calibrate(constraints).measured, rng=replay_rng("p12"), n_steps=600
    )
    bound = log(2 - exp(-1))
    assert 0.9999 * bound < found.loss - 1 <= bound
    assert certificate.loss is not None
    assert found.loss <= certificate.loss
    assert constraints.holds(np.array(found.table))
    assert constraints.holds(np.array(found.other))
    assert np.abs(np.array(found.table) - np.array(found.other)).sum() == 2


@pytest.mark.parametrize("relation", ["bounded", "unbounded"])
@pytest.mark.parametrize("name", ["asymmetric centre", "soft margin", "range row", "crossing margins", "weighted row"])
def test_search_never_passes_the_certificate(name: str, relation: str) -> None:
    from congenial.privacy.certify import certify

    target = SYSTEMS[name]().target
    found = search_worst_pair(target.constraints, target.measured, relation, rng=replay_rng(name), n_steps=200)
    loss = certify(target.constraints, target.measured, relation).loss
    assert loss is not None
    assert found.loss <= loss


def test_gaussian_pairs_and_single_tables_are_refused() -> None:
    target = SYSTEMS["Gaussian noise"]().target
    with pytest.raises(PrivacyError, match="double_geometric noise only"):
        Losses.of(target.constraints, target.measured)
    one = SYSTEMS["one table"]().target
    with pytest.raises(PrivacyError, match="no two tables"):
        search_worst_pair(one.constraints, one.measured, rng=replay_rng(1))


def test_pairs_must_share_the_invariants() -> None:
    mechanism = p12_mechanism()
    constraints = mechanism.disclose(p12_table())
    losses = Losses.of(constraints, mechanism.calibrate(constraints).measured)
    other = p12_table().counts + 1
    with pytest.raises(PrivacyError, match="must share the invariants") as caught:
        losses.pair(p12_table().counts, other)
    assert str(int(other.sum())) not in str(caught.value)
