"""The mechanism inside OpenDP: its map, OpenDP's own composition, and OpenDP's own filter."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import congenial as cg
from congenial.errors import PrivacyError
from congenial.exact import double_above
from congenial.examples import p12_mechanism, p12_table
from congenial.opendp_measurement import as_measurement
from congenial.privacy.certify import certify

dp: Any = pytest.importorskip("opendp.prelude", reason="needs the extra opendp")

SCHEMA = cg.Schema({"age": ["a", "b", "c"]})


@pytest.fixture(autouse=True)
def features() -> Iterator[None]:
    dp.enable_features("contrib", "honest-but-curious")
    yield
    dp.disable_features("honest-but-curious")


def made(**budget: Any) -> tuple[cg.Mechanism, cg.Constraints]:
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells()], invariants=[cg.total()], **budget)
    return mechanism, mechanism.disclose(cg.Table(SCHEMA, [40, 50, 60]))


def test_the_map_is_the_certificate_rounded_up() -> None:
    mechanism = p12_mechanism()
    constraints = mechanism.disclose(p12_table())
    measurement = as_measurement(mechanism, constraints)
    loss = mechanism.certificate(constraints).loss
    assert loss is not None
    assert measurement.map(2) == double_above(loss)
    assert Fraction(measurement.map(2)) >= loss
    assert measurement.map(0) == measurement.map(1) == 0.0  # the total is fixed: no two tables are that close
    two = certify(constraints, mechanism.calibrate(constraints).measured, k=2).loss
    assert two is not None
    assert Fraction(measurement.map(4)) >= two
    draw = measurement(p12_table().counts.tolist())
    assert constraints.holds(np.array(draw))


def test_distances_are_of_tables_and_not_of_bounded_pairs() -> None:
    """Without an invariant total an L1 distance of 2 can be two added records, which a bounded claim leaves out."""
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/2"), cg.total(precision="1")])
    constraints = mechanism.disclose(cg.Table(SCHEMA, [4, 5, 6]))
    bounded = mechanism.certificate(constraints).loss
    assert bounded is not None
    assert float(bounded) < 1.6  # a changed record leaves the measured total alone
    assert as_measurement(mechanism, constraints).map(2) > 3  # two added records do not


def test_composed_by_opendp() -> None:
    measurement = as_measurement(*made(epsilon="1"))
    both = dp.c.make_composition([measurement, measurement])
    assert 2 * measurement.map(2) <= both.map(2) <= 2 * measurement.map(2) + 1e-12
    draws = both([40, 50, 60])
    assert [sum(draw) for draw in draws] == [150, 150]


def test_refused_by_opendps_own_filter() -> None:
    """A budget of 2 answers two releases of 0.9 and refuses the third."""
    mechanism, constraints = made(epsilon="0.9")
    measurement = as_measurement(mechanism, constraints)
    odometer = dp.c.make_fully_adaptive_composition(
        measurement.input_domain, measurement.input_metric, measurement.output_measure
    )
    queryable = dp.c.make_privacy_filter(odometer, d_in=2, d_out=2.0)([40, 50, 60])
    assert sum(queryable(measurement)) == 150
    assert sum(queryable(measurement)) == 150
    with pytest.raises(dp.OpenDPException, match=r"filter|budget|exceed|d_out"):
        queryable(measurement)


def test_zcdp_has_all_orders() -> None:
    mechanism, constraints = made(rho="1/10", noise="discrete_gaussian")
    certificate = mechanism.certificate(constraints)
    assert certificate.orders == "integer"
    assert certificate.rho_at_all_orders is not None
    assert as_measurement(mechanism, constraints, "zcdp").map(2) == double_above(certificate.rho_at_all_orders)
    with pytest.raises(dp.OpenDPException, match="bounds no pure loss"):
        as_measurement(mechanism, constraints).map(2)


def test_tables_outside_are_refused_without_their_numbers() -> None:
    measurement = as_measurement(*made(epsilon="1"))
    for table in ([987654321, 1, 2], [1, 2], "987654321", [None, 987654321, 1]):
        with pytest.raises(dp.OpenDPException, match="does not obey the published conditions") as caught:
            measurement(table)
        assert "987654321" not in str(caught.value)


def test_domains_of_other_invariants_do_not_compose() -> None:
    mechanism, constraints = made(epsilon="1")
    other = mechanism.disclose(cg.Table(SCHEMA, [41, 50, 60]))
    with pytest.raises(dp.OpenDPException):
        dp.c.make_composition([as_measurement(mechanism, constraints), as_measurement(mechanism, other)])


def test_an_undecided_search_is_not_taken_for_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where fewer records than were found may change after all, the map must not say 0."""
    from dataclasses import replace

    from congenial.privacy import certificate_inputs as certified_case
    from congenial.privacy.closest_neighbours_and_unprotected import neighbours_of

    def undecided(constraints: cg.Constraints, relation: str) -> object:
        return replace(neighbours_of(constraints, relation), is_smallest=False)

    mechanism, constraints = made(epsilon="1")
    monkeypatch.setattr(certified_case, "neighbours_of", undecided)
    assert as_measurement(mechanism, constraints).map(1) > 0.9


def test_unknown_measure() -> None:
    with pytest.raises(PrivacyError, match="known: 'pure', 'zcdp'"):
        as_measurement(*made(epsilon="1"), "zCDP")
