"""The mechanism as an OpenDP measurement, so that it composes with that library: the extra ``congenial[opendp]``."""

from typing import TYPE_CHECKING, Any

import numpy as np

from congenial.conditions.constraints import Constraints
from congenial.errors import PrivacyError, did_you_mean
from congenial.exact import double_above
from congenial.mechanism_and_hierarchy import Mechanism
from congenial.privacy.certify import certificate_of
from congenial.randomness import secure_rng

if TYPE_CHECKING:
    import opendp.prelude as dp

MEASURES = ("pure", "zcdp")


def as_measurement(mechanism: Mechanism, constraints: Constraints, measure: str = "pure") -> "dp.Measurement":
    """Return one exact draw from the conditional law as an OpenDP measurement with its certified privacy map.

    Input distances are L1 distances between tables: 1 for a record added or removed, 2 for a record that changes. The
    map covers every pair of tables of S* that close, and gives 0 where there is none. Call
    ``dp.enable_features("contrib", "honest-but-curious")`` first: OpenDP asks for that before it trusts a foreign map.

    Parameters
    ----------
    constraints : Constraints
        What `Mechanism.disclose` returned. Tables outside are refused when the measurement is invoked.
    measure : str
        ``"pure"`` (epsilon, max divergence) or ``"zcdp"`` (rho at all orders).
    """
    if measure not in MEASURES:
        raise PrivacyError(f"measure={measure!r} is not known; {did_you_mean(str(measure), MEASURES)}")
    try:
        import opendp.prelude as dp
    except ImportError:
        raise PrivacyError("OpenDP is not installed; install the extra: pip install 'congenial[opendp]'") from None
    plan = mechanism.plan(constraints)
    plan.check_samplers()
    case = plan.structures[0].case.unbounded

    def privacy_map(d_in: int) -> float:
        smallest = case.neighbourhood.k
        if case.is_one_table or smallest is None or (d_in < smallest and case.neighbourhood.is_smallest):
            return 0.0
        certificate = certificate_of(
            case, plan.law.precisions, d_in, zero_weights=plan.law.zero_weights
        )  # fewer than the fewest that were found are covered too
        bound = certificate.loss if measure == "pure" else certificate.rho_at_all_orders
        if bound is None:
            raise PrivacyError(f"a {certificate.kind} certificate bounds no {measure} loss")
        return double_above(bound)

    def function(table: Any) -> list[int]:
        try:
            counts = np.array(table, np.int64).reshape(-1)
            is_inside = counts.size == constraints.schema.n_cells and bool(constraints.holds(counts))
        except Exception:  # noqa: BLE001  - whatever is wrong with the table, its numbers stay out of the message
            is_inside = False
        if not is_inside:
            raise PrivacyError("the table does not obey the published conditions of this measurement")
        try:
            drawn: list[int] = plan.draw_areas(counts[None, :], secure_rng())[0].tolist()
        except KeyboardInterrupt:  # unwinding through foreign code would end the process
            raise PrivacyError("interrupted") from None
        return drawn

    # OpenDP tells domains apart by their identifier alone, so it holds every condition.
    domain = dp.user_domain(_identifier(constraints), lambda table: bool(constraints.holds(np.asarray(table))))
    divergence = dp.max_divergence() if measure == "pure" else dp.zero_concentrated_divergence()
    return dp.m.make_user_measurement(domain, dp.l1_distance(T="u32"), divergence, function, privacy_map, TO="Vec<i64>")


def _identifier(constraints: Constraints) -> str:
    limits = [f"{low}..{high}" for low, high in zip(constraints.lower, constraints.upper, strict=True)]
    rows = [
        f"{limited.lower}<={list(zip(limited.row.cells, limited.row.coefficients, strict=True))}<={limited.upper}"
        for limited in constraints.rows
    ]
    return f"congenial tables of {constraints.schema!r}: {' '.join(limits)}; {'; '.join(rows)}"
