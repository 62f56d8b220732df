"""What a release of all areas together costs at some precisions, for one privacy unit."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from congenial.conditions.areas import Areas
from congenial.conditions.rows import Row
from congenial.errors import PrivacyError
from congenial.privacy.areas_alike import FEW_AREAS, Structure, structures_of
from congenial.privacy.certificate import Certificate
from congenial.privacy.certify import certificate_of
from congenial.privacy.compose import Part, check_one_row, over_areas


@dataclass(frozen=True)
class Pricing:
    """Everything that the price of a release depends on but the precisions. Public.

    Attributes
    ----------
    areas : Areas
        What the table of each area obeys.
    classes : tuple of tuples of Row
        The measured rows of each query; they share a precision.
    rows_per_unit : int
        How many records one privacy unit may have: all of them may change together. Where published numbers tie records
        together, so many units change at once, each with all its records.
    """

    areas: Areas
    classes: tuple[tuple[Row, ...], ...]
    noise: str
    neighbours: str
    rows_per_unit: int = 1

    @cached_property
    def structures(self) -> tuple[Structure, ...]:
        """The areas by what a certificate can tell apart."""
        return structures_of(self.areas, self.classes, self.noise, self.neighbours)

    @property
    def is_simple(self) -> bool:
        """Whether there is one table, and one row for each unit."""
        return len(self.areas) == 1 and self.rows_per_unit == 1

    @property
    def has_small_sets(self) -> bool:
        """Whether all pairs of tables can be gone through in some area, and there is more than one table."""
        cases = [structure.case for structure in self.structures] if len(self.areas) <= FEW_AREAS else []
        return any(case.is_small and not case.is_one_table for case in cases)

    def one_record_without_invariants(self, precisions: Sequence[Fraction]) -> Fraction:
        """Return what one record costs with the same noise and no condition at all."""
        case = self.structures[0].case
        return case.moves.one_record_without_invariants(precisions, case.family.exponent, self.neighbours)

    def certificate(
        self, precisions: Sequence[Fraction], floors: Sequence[Fraction] = (), *, try_all_pairs: bool = True
    ) -> Certificate:
        """Return the certificate of a release of every area, for one privacy unit; without floors they are 1."""
        if len(self.areas) == 1:
            case = self.structures[0].case
            if self.rows_per_unit == 1:
                return certificate_of(case, precisions, floors=floors, try_all_pairs=try_all_pairs)
            if self.neighbours == "bounded" and not case.moves.total_is_fixed:
                # A unit that changes may have fewer or more rows than before: no table of one size is its neighbour.
                raise PrivacyError(
                    f"a unit may have up to {self.rows_per_unit} rows, so that a changed unit can change the number of"
                    " rows, which bounded neighbours never do: publish the total exactly, or use unbounded neighbours"
                )
            k = self.rows_per_unit * (case.neighbourhood.k or 1)
            return certificate_of(case, precisions, k, floors=floors, try_all_pairs=try_all_pairs)
        check_one_row(self.rows_per_unit)
        parts = [
            Part(structure.case, tuple(precisions), structure.n_areas, tuple(floors)) for structure in self.structures
        ]
        return over_areas(parts, try_all_pairs=try_all_pairs)
