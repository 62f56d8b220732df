"""What a published law costs: the certificate of all its tables together, from public information alone."""

from dataclasses import dataclass
from fractions import Fraction

from congenial.errors import PrivacyError
from congenial.privacy.certificate import Certificate
from congenial.privacy.certify import Case
from congenial.privacy.compose import compose
from congenial.public_law import PublicLaw


@dataclass(frozen=True)
class _Area:
    """One area as `compose` wants it."""

    case: Case
    precisions: tuple[tuple[str, Fraction], ...]

    @property
    def certificate(self) -> Certificate:
        return self.case.certificate([precision for _, precision in self.precisions])


def certificate_of(law: PublicLaw, neighbours: str, rows_per_unit: int = 1) -> Certificate:
    """Return the certificate of a release for one privacy unit.

    Parameters
    ----------
    rows_per_unit : int
        How many records one unit may have: the certificate covers all of them changing together. Where published
        numbers tie records together, so many units change at once, each with all its records.
    """
    classes = tuple(query.rows for query in law.queries)
    named = tuple((query.text, query.precision) for query in law.queries)
    cases = [Case(constraints, classes, law.noise, neighbours) for _, constraints in law.tables]
    if len(cases) == 1:
        case, precisions = cases[0], [precision for _, precision in named]
        if rows_per_unit == 1:
            return case.certificate(precisions)
        if neighbours == "bounded" and not case.moves.total_is_fixed:
            # A unit that changes may have fewer or more rows than before: no table of the same size is its neighbour.
            raise PrivacyError(
                f"a unit may have up to {rows_per_unit} rows, so that a changed unit can change the number of rows,"
                " which bounded neighbours never do: publish the total exactly, or use unbounded neighbours"
            )
        return case.certificate(precisions, rows_per_unit * (case.structure.k or 1))
    if rows_per_unit > 1:
        raise PrivacyError(
            f"a unit may have {rows_per_unit} rows, in several areas, and no certificate covers that; release one"
            " table, or keep one row for each unit"
        )
    return compose([_Area(case, named) for case in cases], over="areas").certificate
