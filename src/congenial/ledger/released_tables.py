"""Which tables of the same records releases measured, as spends keep it, and what all cost together by changes.

A spend keeps sizes, tables with their precisions, and over which dimensions sums are exact: no value, and nothing of
the data. Structural zeros are left out, which leaves more changes than there are, and so bounds what they cost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from congenial.errors import CongenialError
from congenial.ledger.requests_and_canonical_text import read_fraction
from congenial.noise import FAMILIES
from congenial.privacy import RELATIONS
from congenial.privacy.certificate import EXCHANGE, ONE_RECORD, Certificate, shown
from congenial.privacy.workload import WorkloadFacts, WorkloadTable
from congenial.privacy.workload_composition import TablesTogether, compose_workloads

if TYPE_CHECKING:
    from congenial.ledger.records import Spend

Names = tuple[str, ...]

_FIELDS = {"dimensions", "exact", "neighbours", "noise", "sums", "tables"}


@dataclass(frozen=True)
class ReleasedTables:
    """Public structure of several tables of the same records, for a spend.

    Attributes
    ----------
    dimensions : tuple of (str, int)
        Each with its number of labels.
    noise, neighbours : str
    tables : tuple of (tuple of str, Fraction)
        The dimensions of each measured table, and its precision.
    exact : tuple of tuple of str
        The dimensions of each exact margin; none for the number of records.
    sums : tuple of tuple of str
        The dimensions of every further exact sum.

    Examples
    --------
    >>> facts = WorkloadFacts((2, 3), (WorkloadTable((0, 1), Fraction(1, 4)),), "discrete_gaussian", exact=((0,),))
    >>> tables = ReleasedTables.of(facts, ["sex", "age"])
    >>> tables.as_json()["tables"], ReleasedTables.of_json(tables.as_json()) == tables
    ([[['sex', 'age'], '1/4']], True)
    """

    dimensions: tuple[tuple[str, int], ...]
    noise: str
    neighbours: str
    tables: tuple[tuple[Names, Fraction], ...]
    exact: tuple[Names, ...] = ()
    sums: tuple[Names, ...] = ()

    @classmethod
    def of(cls, facts: WorkloadFacts, names: Sequence[str]) -> "ReleasedTables":
        """Return the structure of what a certificate depends on."""

        def named(axes: Sequence[int]) -> Names:
            return tuple(names[axis] for axis in axes)

        return cls(
            tuple(zip(names, facts.sizes, strict=True)),
            facts.noise,
            facts.neighbours,
            tuple((named(table.axes), table.precision) for table in facts.tables),
            tuple(map(named, facts.exact)),
            tuple(dict.fromkeys(named(axes) for axes, _ in facts.sums)),
        )

    def as_json(self) -> dict[str, Any]:
        """Return plain values, fractions as text."""
        return {
            "dimensions": [[name, size] for name, size in self.dimensions],
            "exact": [list(names) for names in self.exact],
            "neighbours": self.neighbours,
            "noise": self.noise,
            "sums": [list(names) for names in self.sums],
            "tables": [[list(names), str(precision)] for names, precision in self.tables],
        }

    @classmethod
    def of_json(cls, value: object) -> "ReleasedTables":
        """Read what `as_json` returned; raises ValueError when it is something else."""
        if not isinstance(value, Mapping) or set(value) != _FIELDS:
            raise ValueError("tables do not have the fields of such")
        try:
            read = cls(
                tuple((name, size) for name, size in value["dimensions"]),
                value["noise"],
                value["neighbours"],
                tuple((tuple(names), read_fraction(precision)) for names, precision in value["tables"]),
                tuple(map(tuple, value["exact"])),
                tuple(map(tuple, value["sums"])),
            )
            known = {name for name, _ in read.dimensions}
            over = [*read.exact, *read.sums, *(names for names, _ in read.tables)]
            is_sound = (
                all(known.issuperset(names) and len(set(names)) == len(names) for names in over)
                and all(precision >= 0 for _, precision in read.tables)
                and all(type(name) is str and type(size) is int and size > 0 for name, size in read.dimensions)
                and read.noise in FAMILIES
                and read.neighbours in RELATIONS
            )
        except (TypeError, ValueError):
            is_sound = False
        if not is_sound:
            raise ValueError("tables are not over dimensions with sizes")
        return read

    def within(self, sizes: Mapping[str, int]) -> WorkloadFacts:
        """Return what a certificate depends on, among all dimensions of a dataset; further exact sums left out."""
        places = {name: axis for axis, name in enumerate(sizes)}

        def mapped(names: Names) -> tuple[int, ...]:
            return tuple(sorted(places[name] for name in names))

        return WorkloadFacts(
            tuple(sizes.values()),
            tuple(WorkloadTable(mapped(names), precision) for names, precision in self.tables),
            self.noise,
            tuple(map(mapped, self.exact)),
            neighbours=self.neighbours,
        )


@dataclass(frozen=True)
class CostOfChanges:
    """What all releases of a dataset cost together, by kinds of change. Public.

    Attributes
    ----------
    currency : str
    one_record, exchange : Fraction or None
        At most; None where there is no such change.
    is_bound : bool
        Whether the structure of some release is not known, or some exact sum is no margin, so that bounds are charged.
    unaltered : tuple of str
        Dimensions of a record that no change of it alone alters, as all exact numbers together stay; there may be more
        where structure is not known.
    """

    currency: str
    one_record: Fraction | None
    exchange: Fraction | None
    is_bound: bool
    unaltered: tuple[str, ...]

    @property
    def lines(self) -> list[str]:
        """What an account says of it."""
        more = "; bounds, for the structure of some exact numbers is not in the ledger" if self.is_bound else ""
        held = " and ".join(self.unaltered) or "nothing"
        return [
            f"all releases together, one record: {self._amount(self.one_record)}",
            f"all releases together, two records that exchange an exact attribute: {self._amount(self.exchange)}{more}",
            f"no change of one record alters, as all exact numbers together stay: {'at least ' * self.is_bound}{held}",
        ]

    def _amount(self, amount: Fraction | None) -> str:
        return "there is no such change" if amount is None else f"at most {self.currency} {shown(amount)}"


def cost_of_changes(
    spends: "Sequence[Spend]", currency: str, planned: ReleasedTables | None = None
) -> CostOfChanges | None:
    """Return what releases cost together by kinds of change; None if none is of several tables of the same records.

    Where the structure of a release is not known, its charge is taken for one record, if it is for as many records
    apart. For two that exchange, what any two records can cost is taken: the charge where it is for two or more;
    otherwise ``2 k`` times what one record costs without exact numbers in epsilon, ``2 k^2`` times in rho, with k = 2
    for bounded neighbours. Twice, for a table that is drawn under conditions may cost twice as much as one with free
    noise. Of unbounded neighbours records leave and come, so that k = 4; and where the number of records follows from
    exact numbers one record that changes leaves and comes, so that one record is k = 2.

    Parameters
    ----------
    planned : ReleasedTables, optional
        A release that is not charged yet.
    """
    sizes: dict[str, int] = {}
    known: list[ReleasedTables] = []
    others: list[Spend] = []
    for tables, spend in [*((spend.tables, spend) for spend in spends), (planned, None)]:
        if tables is not None and all(sizes.get(name, size) == size for name, size in tables.dimensions):
            sizes |= dict(tables.dimensions)
            known.append(tables)
        elif spend is not None:
            others.append(spend)
    if not known:
        return None
    is_bound = bool(others) or any(tables.sums for tables in known)
    releases = [tables.within(sizes) for tables in known]
    together = compose_workloads(releases, list(sizes))
    one_record, exchange = (_price(together, kind, currency) for kind in (ONE_RECORD, EXCHANGE))
    if is_bound:
        # Without all exact numbers, an exchange may look like two changes of one record each, which are no exchange.
        zero = Fraction(0)
        is_alone = releases[0].neighbours == "bounded" or not any(release.exact for release in releases)
        one_record = (one_record or zero) + _of_others(others, 1 if is_alone else 2, currency)
        exchange = sum((_any_exchange(release, currency) for release in releases), zero)
        exchange += _of_others(others, 2 if releases[0].neighbours == "bounded" else 4, currency)  # two leave, two come
    return CostOfChanges(currency, one_record, exchange, is_bound, together.unaltered_attributes)


def _price(together: TablesTogether, kind: str, currency: str) -> Fraction | None:
    price = next(price for price in together.prices if price.kind == kind)
    return price.epsilon if currency == "epsilon" else price.rho


def _any_exchange(release: WorkloadFacts, currency: str) -> Fraction:
    """Return what two records cost at most that change: 4 or 8 in each table, sums of absolutes or of squares."""
    total = 4 * sum(release.precisions, Fraction(0))
    return total**2 / 2 if currency == "rho" and release.exponent == 1 else total


def _of_others(spends: "Sequence[Spend]", k: int, currency: str) -> Fraction:
    """Return what pairs k records apart cost at most in releases of which only the certificates are known."""
    return sum((_of_other(spend.certificate, spend.loss, k, currency) for spend in spends), Fraction(0))


def _of_other(certificate: Certificate, charge: Fraction, k: int, currency: str) -> Fraction:
    if not certificate.k or (certificate.k >= k and (certificate.change != EXCHANGE or k < certificate.k)):
        return charge
    plain = certificate.loss_without_invariants
    if currency == "epsilon":
        return 2 * k * max(charge, plain)
    return 2 * k**2 * max(charge, plain if certificate.loss is None else plain**2 / 2)


def lines_of_changes(spends: "Sequence[Spend]", currency: str, planned: ReleasedTables | None = None) -> list[str]:
    """Return what an account or a plan says of all releases together; nothing where none is of several tables."""
    try:
        cost = cost_of_changes(spends, currency, planned)
    except CongenialError as refused:
        return [f"all releases together, by kinds of change: not known: {refused}"]
    return [] if cost is None else cost.lines
