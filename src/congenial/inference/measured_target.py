"""How likely the measurements of a release are, as a function of the confidential table: no normaliser is in it.

Measurements are ``n = x + u``, and the law of u is the same for every table x. Given them, x has probability
proportional to ``prior(x) prod_r w_r(n_r - q_r(x))`` on the tables that obey the conditions; n itself need not, and is
negative in places. Chains go from a table that the release's rule decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.areas_and_bounds import Area, Areas
from congenial.conditions.rows_and_intervals import row_values
from congenial.decided_tables import cell_columns, rule_input, rule_of
from congenial.errors import CongenialError, InferenceError, SamplingError
from congenial.law import PublicLaw
from congenial.noise import Noise
from congenial.sampling.sampler_and_registry import Drawer, sampler_of
from congenial.sampling.target_and_system import Measured, Target

NEEDS_NO_PRIOR = "intervals from the measurements need no prior (bundle.confidence, congenial infer without --prior)"


@dataclass(frozen=True)
class MeasuredTarget(Target):
    """``weight(x) = prod_r w_r(n_r - q_r(x))`` over the tables x that obey the constraints; the centre n need not.

    Attributes
    ----------
    start : array (cell,)
        A table that does, near the measurements.

    Examples
    --------
    >>> from congenial.conditions.constraints import Constraints
    >>> from congenial.conditions.queries import total
    >>> from congenial.conditions.rows_and_intervals import Row
    >>> from congenial.noise import DoubleGeometric
    >>> from congenial.schema import Schema
    >>> schema = Schema({"age": ["0-17", "18+"]})
    >>> measured = tuple(Measured(Row.of("", [cell]), DoubleGeometric(1)) for cell in range(2))
    >>> constraints = Constraints.of(schema, [total(equals=3)])
    >>> MeasuredTarget(constraints, measured, np.array([-1, 4]), np.array([0, 3])).log_weight(np.array([[0, 3]]))
    array([-2.])
    """

    start: Ints = field(repr=False)

    def __post_init__(self) -> None:
        if not self.constraints.holds(self.start):
            raise SamplingError("the table from which chains start does not obey the constraints")

    @property
    def around_start(self) -> Target:
        """The law of the noise around the start, from which whole tables are proposed."""
        return Target(self.constraints, self.measured, self.start)

    def proposals(self) -> Drawer | None:
        """Return what draws whole tables around the start; None where no exact sampler fits the conditions."""
        sampler = sampler_of(self.around_start)
        return sampler.at(self.start) if sampler.is_exact else None

    def log_excess(self, tables: Ints) -> Floats:
        """Return what the log weight of tables (table, cell) has more than that of the law around the start."""
        return log_excess(self.measured, tables, self.centre[None, :], self.start[None, :])


def log_excess(measured: Sequence[Measured], tables: Ints, centres: Ints, starts: Ints) -> Floats:
    """Return the log weight of each table (table, cell) around its centre, less that around its start."""
    of_noise: dict[Noise, list[int]] = {}
    for number, query in enumerate(measured):
        of_noise.setdefault(query.noise, []).append(number)
    out = np.zeros(len(tables))
    for noise, numbers in of_noise.items():
        rows = [measured[number].row for number in numbers]
        values = row_values(rows, tables)
        for sign, around in ((1, centres), (-1, starts)):
            out += sign * noise.log_weight(values - row_values(rows, around)).sum(axis=1)
    return out


def cell_measurements(law: PublicLaw, measurements: Ints | None) -> Ints:
    """Return the measurements of cells (unit, cell), which say all that measured sums do; refused where there are none.

    Parameters
    ----------
    measurements : array (unit, measured row), or None
    """
    columns = cell_columns(law)
    if measurements is None:
        raise InferenceError(
            "the table of a measured release is no draw, and says less than the measurements: pass them on, as"
            " bundle.posterior does"
        )
    if columns is None:
        raise InferenceError(
            "the posterior is not offered yet for measured releases in which some cell is measured in sums only;"
            f" {NEEDS_NO_PRIOR}"
        )
    cells = np.ascontiguousarray(measurements[:, columns], np.int64)
    if not np.array_equal(row_values([query.row for query in law.measured], cells), measurements):
        raise InferenceError(
            "the posterior is not offered yet for measured releases whose measured sums have noise of their own;"
            f" {NEEDS_NO_PRIOR}"
        )
    return cells


def check_offered(law: PublicLaw, what: str) -> None:
    """Refuse what is computed from a draw of a table, where the table was decided."""
    if law.is_measured:
        raise InferenceError(f"{what} is not offered yet for measured releases; {NEEDS_NO_PRIOR}")


def start_tables(law: PublicLaw, cells: Ints) -> Ints:
    """Return tables near measurements of cells (area, cell) that obey the conditions: the law's rule for a unit alone.

    Where the rule refuses, some table that obeys them, near or not.
    """
    rows = [query.row for query in law.measured]
    try:
        tables = rule_of(law).alone.decide(rule_input(law, row_values(rows, cells)))
        if law.areas.holds(tables).all():
            return tables
    except (CongenialError, ArithmeticError):
        pass
    return np.array([law.areas.at(place).point for place in range(len(law.areas))], np.int64)


def target_of(law: PublicLaw, area: Area, released: Ints) -> Target:
    """Return how likely an area's release (cell,), or its measurements of cells, are, as a function of its table."""
    if not law.is_measured:
        return law.target(area, released)
    alone = replace(law, areas=Areas.one(law.areas[area]), tree_below=None)
    return MeasuredTarget(law.areas[area], law.measured, released, start_tables(alone, released[None, :])[0])
