"""The manifest: what was released, by which law, at what cost, under whose mandate. Public, versioned."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.bundle.canonical_json import (
    budget_json,
    budget_of_json,
    canonical_json,
    certificate_json,
    certificate_of_json,
    check_texts,
    counted_json,
    counted_of_json,
    digest,
    first_difference,
    is_untouched,
    parse_json,
    read_as,
    read_texts,
)
from congenial.bundle.law_and_tree_json import (
    AreaValues,
    StatedTree,
    TreeParts,
    condition_of_entry,
    law_as_json,
    law_of_json,
    tree_as_json,
    tree_of_json,
)
from congenial.bundle.naming_and_versions import Naming, PublicFile, RowFilter, plan_digest
from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.base import Condition
from congenial.conditions.queries import Query
from congenial.conditions.rows_and_intervals import row_values
from congenial.errors import BundleError, CongenialError
from congenial.law import PublicLaw
from congenial.ledger.records import Receipt
from congenial.memory_and_threads import parts_of
from congenial.plan import Plan
from congenial.privacy.certificate import Certificate
from congenial.privacy.disclosure import Disclosure, DisclosureSummary
from congenial.rules.rule_and_input import Learned
from congenial.schema import Schema

# What a release states exactly, in words and with its values, read off tables that obey it.

_LONGEST = 18  # digits of a number that 64 bits hold


@dataclass(frozen=True, eq=False)
class ExactStatistic:
    """A statistic that came out exactly: in words, by which mandate, and its value in each table.

    Attributes
    ----------
    values : array (area,)
        Whole numbers of up to 18 digits, or else texts (objects): longer numbers, and shares.
    """

    text: str
    mandate: str | None
    values: NDArray[np.int64] | NDArray[np.object_]

    @classmethod
    def of(cls, text: str, mandate: str | None, values: Sequence[str] | NDArray[np.int64]) -> "ExactStatistic":
        """Return a statistic with whole numbers as such where that is possible."""
        is_whole = isinstance(values, np.ndarray) and values.dtype != object
        if is_whole and int(np.abs(values).max(initial=0)) < 10**_LONGEST:
            return cls(text, mandate, np.asarray(values))
        texts = [str(value) for value in values]
        if all(map(_is_number, texts)):
            return cls(text, mandate, np.array(texts, np.int64))
        return cls(text, mandate, np.array(texts, object))

    def value(self, place: int = 0) -> str:
        """Return the value in one table, as text."""
        return str(self.values[place])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ExactStatistic)
            and (self.text, self.mandate, self.values.dtype) == (other.text, other.mandate, other.values.dtype)
            and np.array_equal(self.values, other.values)
        )

    __hash__ = None  # type: ignore[assignment]  # an array inside


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isdecimal() and len(digits) <= _LONGEST and str(int(text)) == text


def with_commas(value: str) -> str:
    """Write a whole number with commas; a value in words as it is.

    Examples
    --------
    >>> with_commas("-12345"), with_commas("1/3")
    ('-12,345', '1/3')
    """
    return f"{int(value):,}" if value.removeprefix("-").isdecimal() else value


def exact_statistics(schema: Schema, conditions: Sequence[Condition], tables: Ints) -> tuple[ExactStatistic, ...]:
    """Return every statistic that conditions state exactly; a margin has one for each of its sums.

    Tables (area, cell) that obey the conditions have the disclosed values.
    """
    out: list[ExactStatistic] = []
    for condition in conditions:
        first = condition.exact_values(schema, tables[0].tolist())
        if not first:
            continue
        if isinstance(condition, Query):  # all areas at once: one by one, 8,000 of them take seconds
            rows = condition.rows(schema)
            columns = list(np.concatenate([row_values(rows, tables[part]) for part in parts_of(len(tables))]).T)
            values: list[Sequence[str] | NDArray[np.int64]] = [np.ascontiguousarray(column) for column in columns]
        else:
            lines = [condition.exact_values(schema, table) for table in tables.tolist()]
            values = [[line[place][1] for line in lines] for place in range(len(first))]
        out += [
            ExactStatistic.of(text, condition.mandate, of_areas)
            for (text, _), of_areas in zip(first, values, strict=True)
        ]
    return tuple(out)


def points_of(areas: Areas) -> Ints:
    """Return a table of each area that obeys its conditions (area, cell): public, and nothing to do with the data."""
    return np.array([areas.at(place).point for place in range(len(areas))], np.int64)


FORMAT = "congenial bundle"
VERSION = 3
READ_VERSIONS = (2, 3)
"""Formats that this software reads; 2 had no methods, and its levels' files no names."""

ReadTree = Callable[[StatedTree, Schema], TreeParts]
"""Given what the manifest says of it, and the cells: the tree, its zeros and exact numbers."""

ReadAreas = Callable[[int], tuple[AreaValues, list[NDArray[Any]]]]
"""Given how many statistics came out exactly: the areas' values, and those statistics in every area."""


@dataclass(frozen=True)
class Decision:
    """How the tables of a measured release were made of its measurements.

    Attributes
    ----------
    rule : (str, int)
        Name and version.
    is_after_publication : bool
        Whether somebody chose the rule who could see the measurements: a further edition of the tables.
    why_no_tables : str
        Why the rule made none; nothing where there are tables.
    learned : mapping from name to whole numbers
        What the rule learned from the measurements of all areas; of most rules, nothing.
    """

    rule: tuple[str, int]
    is_after_publication: bool = False
    why_no_tables: str = ""
    learned: Learned = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """Everything that is published about a release besides its tables.

    Attributes
    ----------
    naming : Naming
    made_at : str
    plan : Plan
        The law, and what its price is computed from.
    certificate : Certificate
        What the release costs, as it is stated.
    conditions : tuple of Condition
        What every table obeys, as it was stated.
    exact_statistics : tuple of ExactStatistic
        What came out exactly, with its values.
    sampler : str
        How the tables were drawn, in words.
    receipt : Receipt or None
        Of the ledger; None for a simulation with a public seed, whose noise protects nobody.
    software : mapping from package to version
    files : mapping from file name to SHA-256
    left_out : mapping from file name to the reason
        What a bundle can have and this one has not.
    disclosure_summaries : tuple of DisclosureSummary
        How much the exact numbers disclose by themselves, for each level.
    decision : Decision or None
        Of a measured release, how its tables were made.
    version : int
        Of the bundle's format.
    """

    naming: Naming
    made_at: str
    plan: Plan
    certificate: Certificate
    conditions: tuple[Condition, ...]
    exact_statistics: tuple[ExactStatistic, ...]
    sampler: str
    is_exact: bool
    receipt: Receipt | None
    software: Mapping[str, str]
    files: Mapping[str, str]
    left_out: Mapping[str, str]
    disclosure_summaries: tuple[DisclosureSummary, ...]
    decision: Decision | None = None
    version: int = VERSION
    known_disclosures: tuple[Disclosure, ...] = field(default=(), repr=False, compare=False)
    """What the exact numbers disclose, if that is computed already."""

    @classmethod
    def of(
        cls,
        naming: Naming,
        made_at: str,
        plan: Plan,
        conditions: Sequence[Condition],
        tables: Ints,
        receipt: Receipt | None,
        software: Mapping[str, str],
        disclosures: tuple[Disclosure, ...] = (),
        decision: Decision | None = None,
    ) -> "Manifest":
        """Return what follows from a plan and the released tables (area, cell); no file is listed yet.

        Of a tree, the tables are those of the units at the top; of a release without tables, any that obey the
        conditions.
        """
        certificate = plan.certificate  # first: a law without one is not looked at any further
        disclosures = disclosures or plan.disclosures(conditions)
        titles = [sampler.title for sampler in plan.samplers] + [step.title for step in plan.law.steps]
        return cls(
            naming=naming,
            made_at=made_at,
            plan=plan,
            certificate=certificate,
            conditions=tuple(conditions),
            exact_statistics=exact_statistics(plan.law.schema, conditions, tables),
            sampler="; ".join(dict.fromkeys(titles)),
            is_exact=plan.is_exact,
            receipt=receipt,
            software=software,
            files={},
            left_out={},
            disclosure_summaries=tuple(disclosure.summary for disclosure in disclosures),
            decision=decision,
            known_disclosures=disclosures,
        )

    @property
    def has_tables(self) -> bool:
        """Whether there are tables, and not measurements alone."""
        return self.decision is None or not self.decision.why_no_tables

    @cached_property
    def disclosures(self) -> tuple[Disclosure, ...]:
        """What the exact numbers disclose, unit by unit, for each level."""
        return self.known_disclosures or self.plan.disclosures(self.conditions)

    @property
    def discloses_cells(self) -> bool:
        """Whether the exact numbers determine any cell that was not declared to have its value."""
        return any(counted.n_exact for counted in self.disclosure_summaries)

    @property
    def law(self) -> PublicLaw:
        """The law of the release, but for the confidential tables."""
        return self.plan.law

    @property
    def is_for_release(self) -> bool:
        """Whether it was charged to a ledger and drawn from secret bits."""
        return self.receipt is not None

    def as_bytes(self) -> bytes:
        """Return the file: canonical JSON that ends with a digest of all before it."""
        values = self.as_json()
        return canonical_json({**values, "digest": digest(canonical_json(values))})

    def as_json(self) -> dict[str, Any]:
        """Return plain values, all but the digest."""
        naming, is_one = self.naming, self.law.areas.name is None
        newer = {
            "method": self.law.method,
            "rule": _decision_json(self.decision),
            "codes": [{"name": name, "codes": list(codes)} for name, codes in naming.codes],
        }
        return {
            "format": FORMAT,
            "version": self.version,
            **(newer if self.version > 2 else {}),
            "release": naming.release,
            "title": naming.title,
            "dataset": naming.dataset,
            "replaces": naming.replaces,
            "made_at": self.made_at,
            "status": naming.status,
            "is_for_release": self.is_for_release,
            "unit": {"word": naming.unit, "rows": self.plan.rows_per_unit},
            "public_files": [asdict(file) for file in naming.public_files],
            "parents": [list(run) for run in naming.parents],
            "unpublished": list(naming.unpublished),
            "kept_rows": [{**asdict(rows), "values": list(rows.values)} for rows in naming.kept_rows],
            "conditions": [{"text": condition.title, **condition.as_json()} for condition in self.conditions],
            "measured": [{"text": query.title, **query.as_json()} for query in self.plan.requested],
            "exactly": [
                {"text": exact.text, "mandate": exact.mandate, "value": exact.value() if is_one else None}
                for exact in self.exact_statistics
            ],
            "privacy": {
                "neighbours": self.plan.neighbours,
                "budget": budget_json(self.plan.budget),
                "certificate": certificate_json(self.certificate),
            },
            "given_away": [counted_json(counted) for counted in self.disclosure_summaries],
            "sampler": {"name": self.sampler, "is_exact": self.is_exact},
            "law": self.law_as_json,
            "receipt": None if self.receipt is None else self.receipt.as_json(),
            "software": dict(self.software),
            "files": dict(self.files),
            "left_out": dict(self.left_out),
        }

    @property
    def law_as_json(self) -> dict[str, Any]:
        """The law as plain values."""
        return {**law_as_json(self.law), "tree": None, **tree_as_json(self.plan)}

    @property
    def plan_digest(self) -> str:
        """SHA-256 of the plan that was charged: what the ledger keeps of it."""
        return plan_digest(self.naming, self.plan, self.conditions, self.certificate)

    @classmethod
    def from_values(
        cls, values: Mapping[str, Any], read_areas: ReadAreas | None = None, read_tree: ReadTree | None = None
    ) -> Self:
        """Read the values that `untouched_values` gives; refuses what contradicts itself.

        Parameters
        ----------
        read_areas : callable, optional
            Gives the areas' values and exact statistics, given how many exact statistics there are.
        read_tree : callable, optional
            Gives the tree.
        """
        try:
            manifest = cls._read(values, read_areas, read_tree)
            if difference := first_difference(values, manifest.as_json()):
                raise BundleError("it has {1} at {0}, and from its other parts follows {2}".format(*difference))
            return manifest
        except (KeyError, TypeError, ValueError, AttributeError, CongenialError) as wrong:
            reason = str(wrong) if isinstance(wrong, CongenialError) else "a part is missing or has the wrong form"
            raise BundleError(f"manifest.json cannot be read: {reason}") from None

    @classmethod
    def read_plan(
        cls, values: Mapping[str, Any], read_areas: ReadAreas | None, read_tree: ReadTree | None
    ) -> tuple[Plan, tuple[ExactStatistic, ...]]:
        """Return the plan, and what came out exactly, of a manifest's values."""
        stated = values["exactly"]
        areas: AreaValues | None = None
        if values["law"]["area"] is None:
            columns: list[Any] = [[read_as(str, entry["value"])] for entry in stated]
        elif read_areas is not None:
            areas, columns = read_areas(len(stated))
        else:
            raise BundleError("the values of its areas are missing")
        law = law_of_json(values["law"], areas)
        statistics = tuple(
            ExactStatistic.of(
                read_as(str, entry["text"]),
                None if entry["mandate"] is None else read_as(str, entry["mandate"]),
                column,
            )
            for entry, column in zip(stated, columns, strict=True)
        )
        budget = budget_of_json(values["privacy"]["budget"], law.noise)
        plan = Plan.of(
            law,
            read_as(str, values["privacy"]["neighbours"]),
            read_as(int, values["unit"]["rows"]),
            budget,
            tuple(map(read_query, values["measured"])),
        )
        if values["law"]["tree"] is not None:
            tree = tree_of_json(values["law"]["tree"])
            tree.check_budget(budget, is_measured=law.is_measured)
            if read_tree is None:
                raise BundleError("its tree is missing")
            law = tree.law(law, read_tree(tree, law.schema))
            plan = replace(plan, law=law, shares=tree.shares, invariants_below=tree.invariants_below)
        return plan, statistics

    @classmethod
    def _read(cls, values: Mapping[str, Any], read_areas: ReadAreas | None, read_tree: ReadTree | None) -> Self:
        plan, statistics = cls.read_plan(values, read_areas, read_tree)
        return cls(
            naming=Naming(
                release=read_as(str, values["release"]),
                dataset=read_as(str, values["dataset"]),
                title=read_as(str, values["title"]),
                unit=read_as(str, values["unit"]["word"]),
                status=read_as(str, values["status"]),
                public_files=tuple(
                    PublicFile(*read_texts(file[key] for key in ("gives", "name", "sha256")))
                    for file in values["public_files"]
                ),
                parents=tuple((read_as(str, parent), read_as(int, n)) for parent, n in values["parents"]),
                unpublished=tuple(read_texts(values["unpublished"])),
                kept_rows=tuple(
                    RowFilter(
                        read_as(str, rows["column"]),
                        tuple(read_texts(rows["values"])),
                        read_as(bool, rows["is_public"]),
                    )
                    for rows in values["kept_rows"]
                ),
                replaces=None if values["replaces"] is None else read_as(str, values["replaces"]),
                codes=tuple(
                    (read_as(str, entry["name"]), tuple(read_texts(entry["codes"])))
                    for entry in values.get("codes", ())
                ),
            ),
            made_at=read_as(str, values["made_at"]),
            plan=plan,
            certificate=certificate_of_json(values["privacy"]["certificate"]),
            conditions=tuple(map(condition_of_entry, values["conditions"])),
            exact_statistics=statistics,
            sampler=read_as(str, values["sampler"]["name"]),
            is_exact=read_as(bool, values["sampler"]["is_exact"]),
            receipt=None if values["receipt"] is None else Receipt.from_json(values["receipt"]),
            software=dict(zip(values["software"], read_texts(values["software"].values()), strict=True)),
            files=dict(zip(values["files"], read_texts(values["files"].values()), strict=True)),
            left_out=dict(zip(values["left_out"], read_texts(values["left_out"].values()), strict=True)),
            disclosure_summaries=tuple(counted_of_json(entry) for entry in values["given_away"]),
            decision=_read_decision(values, plan.law),
            version=values["version"],
        )


def _decision_json(decision: Decision | None) -> dict[str, Any] | None:
    if decision is None:
        return None
    return {
        "name": decision.rule[0],
        "version": decision.rule[1],
        "chosen": AFTER_PUBLICATION if decision.is_after_publication else BEFORE_CHARGE,
        "why_no_tables": decision.why_no_tables or None,
        **(
            {"learned": {name: list(numbers) for name, numbers in decision.learned.items()}} if decision.learned else {}
        ),
    }


BEFORE_CHARGE, AFTER_PUBLICATION = "before the charge", "after publication"


def _whole_numbers(values: list[Any]) -> tuple[int, ...]:
    numbers = tuple(read_as(int, value) for value in values)
    if any(abs(number) >= 2**62 for number in numbers):
        raise BundleError("a number that a rule learned is 2^62 or more")
    return numbers


def _read_decision(values: Mapping[str, Any], law: PublicLaw) -> Decision | None:
    entry = values.get("rule")
    if (entry is None) != (not law.is_measured) or values.get("method", law.method) != law.method:
        raise BundleError("a measured release has a rule, and another has none")
    if entry is None:
        return None
    if entry["chosen"] not in {BEFORE_CHARGE, AFTER_PUBLICATION}:
        raise BundleError("it does not say when the rule was chosen")
    why = entry["why_no_tables"]
    decision = Decision(
        (read_as(str, entry["name"]), read_as(int, entry["version"])),
        entry["chosen"] == AFTER_PUBLICATION,
        "" if why is None else read_as(str, why),
        {read_as(str, name): _whole_numbers(some) for name, some in entry.get("learned", {}).items()},
    )
    if decision.why_no_tables and decision.learned:
        raise BundleError("its rule made no tables, and is said to have learned something")
    if decision.is_after_publication and (decision.why_no_tables or decision.rule == law.rule):
        raise BundleError("a rule that was chosen afterwards is another one, and has made tables")
    if not decision.is_after_publication and decision.rule != law.rule:
        raise BundleError("the rule is not the one that was charged for, and is not said to be chosen afterwards")
    return decision


def untouched_values(content: bytes) -> dict[str, Any]:
    """Return the plain values of a manifest, without its digest; refuses what was changed, or another version wrote."""
    values = parse_json(content)
    _check_version(values)
    if not is_untouched(values, content):
        raise BundleError("manifest.json was changed since it was published: its digest does not fit")
    check_texts(values)
    return values


def read_query(entry: Mapping[str, Any]) -> Query:
    """Read a measured query; refuses one with a stated value or a mandate."""
    query = condition_of_entry(entry)
    if not isinstance(query, Query) or query.is_stated or query.mandate is not None:
        raise BundleError("a measured query is none, or has a stated value or a mandate")
    return query


def _check_version(values: Mapping[str, Any]) -> None:
    if values.get("format") != FORMAT:
        raise BundleError("manifest.json is not the manifest of a congenial bundle")
    version = values.get("version")
    if type(version) is not int or version < 1:
        raise BundleError("manifest.json has no version; it is not the manifest of a congenial bundle")
    if version not in READ_VERSIONS:
        way_out = "install a newer congenial" if version > VERSION else "the congenial that made it reads it"
        versions = " and ".join(map(str, READ_VERSIONS))
        raise BundleError(f"the bundle has format version {version}, and this software reads {versions}; {way_out}")
