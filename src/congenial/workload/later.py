"""Later tables of the same records: what of an earlier release they agree with, and what either way costs. Public.

To *keep*, the published tables of the earlier release are held exactly while records are decided, which start as the
earlier ones: these have the tables, so that there are such records. They are numbers with noise that were released
before, so nothing of the certificate or of the noise hangs on them. To *revise*, all tables of both releases are
computed anew, from the measurements of both. Measurements of both are used together only where the curator declares
that the records are unchanged: otherwise they are measurements of two different things.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from congenial.arrays import Ints
from congenial.errors import ConditionError, CongenialError, did_you_mean
from congenial.privacy.workload import WorkloadFacts, WorkloadTable
from congenial.privacy.workload_composition import TablesTogether, compose_workloads
from congenial.rules.workload.components import LeastSquares, estimate
from congenial.rules.workload.margins import Axes, count_records, maximal, subsets, sum_onto
from congenial.rules.workload.measurements import ExactSum, WorkloadMeasurements
from congenial.rules.workload.records import start_from_columns
from congenial.schema import Schema
from congenial.tree.tree_and_zeros import TreeTables

if TYPE_CHECKING:
    from congenial.workload.plan import WorkloadPlan

KEEP, REVISE = WAYS = ("keep", "revise")
"""Ways to agree: hold the published tables, or compute those of both releases anew."""

UNCHANGED = "unchanged"

_MEAN_ABSOLUTE = 0.798  # of a normal error, over its standard deviation


@dataclass(frozen=True)
class Agreement:
    """Which release later tables agree with, and how: what a plan says of it.

    Attributes
    ----------
    release : str
    manifest : str
        SHA-256 of its manifest, which lists the digests of all its files.
    how : str
        ``"keep"`` or ``"revise"``.
    is_unchanged : bool
        Whether the curator declares that the records are those of the earlier release.

    Examples
    --------
    >>> Agreement("health-2025", "0" * 64, "revise", False)
    Traceback (most recent call last):
    congenial.errors.ConditionError: to revise 'health-2025', state `records: unchanged` if they are; otherwise keep it
    """

    release: str
    manifest: str
    how: str
    is_unchanged: bool

    def __post_init__(self) -> None:
        if self.how not in WAYS:
            raise ConditionError(f"tables agree with earlier ones in one of two ways; {did_you_mean(self.how, WAYS)}")
        if self.how == REVISE and not self.is_unchanged:  # the measurements of both are taken for those of one thing
            raise ConditionError(
                f"to revise {self.release!r}, state `records: {UNCHANGED}` if they are; otherwise keep it"
            )

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        records = UNCHANGED if self.is_unchanged else None
        return {"release": self.release, "manifest": self.manifest, "how": self.how, "records": records}

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> "Agreement":
        """Read what `as_json` returned."""
        release, manifest, how = (values[name] for name in ("release", "manifest", "how"))
        if not all(isinstance(text, str) for text in (release, manifest, how)):
            raise TypeError("an agreement is said in texts")
        return cls(release, manifest, how, values["records"] == UNCHANGED)


@dataclass(frozen=True, eq=False)
class EarlierRelease:
    """What later tables need of the release that they agree with. Public.

    Attributes
    ----------
    agreement : Agreement
    dataset, status : str
        Of which data it is, and whether these are confidential.
    plan : WorkloadPlan
    measured : tuple of arrays (1, cell)
        Its measurements.
    records : array (record, dimension) or None
        Its made-up records, to keep their tables.
    files : mapping from name to bytes
        The files of its bundle that say so, to be copied into the later one.
    """

    agreement: Agreement
    dataset: str
    status: str
    plan: "WorkloadPlan" = field(repr=False)
    measured: TreeTables = field(repr=False)
    records: Ints | None = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)

    def axes(self, schema: Schema) -> Axes:
        """Return where its dimensions are in a later schema; refuses one without them."""
        names = self.plan.law.schema.names
        for name in names:
            if name not in schema.names:
                raise ConditionError(
                    f"release {self.agreement.release!r} has the dimension {name!r}, and the later tables have not;"
                    " name all of its dimensions"
                )
            if schema.labels(name) != self.plan.law.schema.labels(name):
                raise ConditionError(
                    f"dimension {name!r} has other labels than in release {self.agreement.release!r}; write the same,"
                    " in the same order"
                )
        axes = tuple(schema.axis(name) for name in names)
        if tuple(sorted(axes)) != axes:
            raise ConditionError(
                f"release {self.agreement.release!r} has its dimensions in the order {', '.join(names)}; keep it"
            )
        return axes

    @property
    def kept(self) -> tuple[tuple[str, ...], ...]:
        """The dimensions of the tables that are held, with those that it holds itself."""
        plan, dimensions = self.plan, [table.dimensions for table in self.plan.published]
        if plan.earlier is not None and plan.earlier.agreement.how == KEEP:
            dimensions += plan.earlier.kept
        return maximal(dimensions)  # type: ignore[arg-type, return-value]

    def kept_tables(self, schema: Schema) -> dict[Axes, Ints]:
        """Return the tables that are held, by their attributes in a later schema."""
        assert self.records is not None  # noqa: S101
        law, axes = self.plan.law, self.axes(schema)
        out = {}
        for dimensions in self.kept:
            of_release = law.axes(dimensions)
            later = tuple(axes[axis] for axis in of_release)
            out[later] = count_records(self.records, law.schema.shape, of_release)
        return out

    def together_with(
        self, later: WorkloadMeasurements, schema: Schema, *, zeros: bool = False
    ) -> WorkloadMeasurements:
        """Return later measurements with its own beside them: all exact numbers hold of the same records.

        Parameters
        ----------
        zeros : bool
            Whether its measurements count as 0: what does not depend on them.
        """
        own = self.plan.measurement_structure if zeros else self.plan.measurements(self.measured)
        places = self.axes(schema)

        def mapped(axes: Axes) -> Axes:
            return tuple(places[axis] for axis in axes)

        exact = dict(later.exact)
        return WorkloadMeasurements(
            sizes=later.sizes,
            axes=(*later.axes, *map(mapped, own.axes)),
            values=(*later.values, *own.values),
            variances=(*later.variances, *own.variances),
            exact=(*later.exact, *((mapped(axes), table) for axes, table in own.exact if mapped(axes) not in exact)),
            exact_sums=(
                *later.exact_sums,
                *(ExactSum(mapped(each.axes), each.coefficients, each.value) for each in own.exact_sums),
            ),
            zeros=(*later.zeros, *((mapped(axes), mask) for axes, mask in own.zeros)),
            seed=later.seed,
        )

    def start(self, measurements: WorkloadMeasurements, schema: Schema) -> Ints:
        """Return its records to start from; a dimension that they have not is near to what was measured of it."""
        assert self.records is not None  # noqa: S101
        places = self.axes(schema)
        new = [axis for axis in range(len(measurements.sizes)) if axis not in places]
        columns = [np.ones(size) for size in measurements.sizes]
        if new:
            estimates = estimate(measurements)
            for axis in new:
                columns[axis] = estimates.table((axis,))
        records = start_from_columns(columns, len(self.records), measurements.seed).astype(np.int64)
        records[:, list(places)] = self.records
        return records


def check_agreement(plan: "WorkloadPlan") -> None:
    """Refuse exact numbers that contradict the earlier release: public numbers are compared, and no value is named."""
    earlier = plan.earlier
    if earlier is None:
        return
    release, schema = earlier.agreement.release, plan.law.schema
    places = earlier.axes(schema)
    if earlier.plan.neighbours != plan.neighbours:
        raise ConditionError(
            f"release {release!r} speaks of {earlier.plan.neighbours} neighbours; plan the later tables with the same"
        )
    held = earlier.kept_tables(schema) if earlier.records is not None else {}
    known = [(axes, table, f"the published table {_names(axes, schema)}") for axes, table in held.items()]
    if earlier.agreement.is_unchanged:
        known += [
            (tuple(places[axis] for axis in axes), table, f"the exact {_names(axes, earlier.plan.law.schema)}")
            for axes, table in earlier.plan.measurement_structure.exact
        ]
    own = plan.own_structure
    exact = [each for each in plan.law.exact if each.is_whole_margin]
    for each, (axes, table) in zip(exact, own.exact, strict=True):
        for others, other, what in known:
            shared = tuple(axis for axis in axes if axis in others)
            if not np.array_equal(sum_onto(table, axes, shared), sum_onto(other, others, shared)):
                raise _contradiction(plan, each.condition.title, what)
    sums = [each for each in plan.law.exact if not each.is_whole_margin for _ in each.values]
    for each, row in zip(sums, own.exact_sums, strict=True):
        for others, other, what in known:
            inside = set(row.axes) <= set(others)
            if inside and int((sum_onto(other, others, row.axes) * row.coefficients).sum()) != row.value:
                raise _contradiction(plan, each.condition.title, what)
    for axes, mask in own.zeros:
        for others, other, what in known:
            if set(axes) <= set(others) and sum_onto(other, others, axes)[mask].any():
                raise _contradiction(plan, "a structural zero", what)


def _names(axes: Axes, schema: Schema) -> str:
    return " x ".join(schema.names[axis] for axis in axes) or "total"


def _contradiction(plan: "WorkloadPlan", title: str, what: str) -> ConditionError:
    assert plan.earlier is not None  # noqa: S101
    agreement = plan.earlier.agreement
    if what.startswith("the exact"):
        way_out = "the records are not unchanged, or one of the numbers is wrong"
    else:
        way_out = "leave that number out, or revise the tables, `how: revise`, if the records are unchanged"
    return ConditionError(f"{title} contradicts {what} of release {agreement.release!r}; {way_out}")


def agreement_sentences(plan: "WorkloadPlan") -> list[str]:
    """Say with which release tables agree, and what that means for them; nothing where there is none."""
    if plan.earlier is None:
        return []
    agreement = plan.earlier.agreement
    copied = (
        " What is needed of that release is in this folder, under names that begin with earlier-, with the digests"
        f" that its manifest has; the SHA-256 of that manifest is {agreement.manifest}."
    )
    if agreement.how == REVISE:
        return [
            f"All tables, those of release {agreement.release} among them, are computed anew from the measurements of"
            " both releases, of which the publisher declares that they are of the same records. As estimates, the"
            f" tables of release {agreement.release} are superseded by these; its measurements stand. Its exact numbers"
            " hold in the tables as well." + copied
        ]
    head = (
        f"The tables agree with those of release {agreement.release}, whose published counts are held. These were"
        " estimates, and tables that agree with them have a part of their errors."
    )
    if agreement.is_unchanged:
        rest = (
            " The estimates beside the counts use the measurements of both releases, of which the publisher declares"
            " that they are of the same records. They are nearer, and differ from the tables."
        )
    else:
        rest = (
            " The estimates beside the counts use the measurements of this release alone, for nobody declares that the"
            " records are unchanged. They differ from the tables."
        )
    return [head + rest + copied]


# What both releases cost together, and how large errors are either way.


def together(plan: "WorkloadPlan") -> TablesTogether | None:
    """Return what the releases that agree cost together, by kinds of change; None where there is no earlier one."""
    releases, schema = [plan.facts], plan.law.schema
    earlier = plan.earlier
    while earlier is not None:
        releases.append(facts_within(earlier.plan.facts, earlier.axes(schema), schema.shape))
        earlier = earlier.plan.earlier
    return None if len(releases) == 1 else compose_workloads(releases[::-1], schema.names)


def facts_within(facts: WorkloadFacts, places: Axes, sizes: Sequence[int]) -> WorkloadFacts:
    """Return what a certificate depends on, where attributes are among others."""

    def mapped(axes: Axes) -> Axes:
        return tuple(places[axis] for axis in axes)

    return replace(
        facts,
        sizes=tuple(sizes),
        tables=tuple(WorkloadTable(mapped(table.axes), table.precision) for table in facts.tables),
        exact=tuple(map(mapped, facts.exact)),
        sums=tuple((mapped(axes), rows) for axes, rows in facts.sums),
        zeros=tuple((mapped(axes), mask) for axes, mask in facts.zeros),
    )


@dataclass(frozen=True)
class ErrorsOfWays:
    """The mean absolute error of a table's cell, before counts are whole and nowhere negative.

    Attributes
    ----------
    table : str
    alone, keep, revise : float or None
        From the later measurements alone; with the earlier tables held; from all measurements. None where nothing is.
    """

    table: str
    alone: float | None
    keep: float | None
    revise: float | None

    def __str__(self) -> str:
        parts = (("alone", self.alone), ("keep", self.keep), ("revise", self.revise))
        return f"{self.table}: " + ", ".join(f"{way} {error:.2f}" for way, error in parts if error is not None)


def errors_of_ways(plan: "WorkloadPlan") -> list[ErrorsOfWays]:
    """Return errors of all tables either way, in closed form; structural zeros and single exact sums left out."""
    earlier, schema = plan.earlier, plan.law.schema
    if earlier is None:
        return []
    own = LeastSquares.of(plan.own_structure, with_zeros=False)
    both = LeastSquares.of(earlier.together_with(plan.own_structure, schema, zeros=True), with_zeros=False)
    places = earlier.axes(schema)
    before = {
        tuple(places[axis] for axis in part): precision
        for part, precision in LeastSquares.of(earlier.plan.measurement_structure, with_zeros=False).precisions.items()
    }
    held = {part for dimensions in earlier.kept for part in subsets(plan.law.axes(dimensions))}
    handed_on = {
        part: before.get(part, 0.0) if part in held else own.precisions.get(part, 0.0) for part in both.precisions
    }
    names = [(table.name, plan.law.axes(table.dimensions)) for table in plan.law.published]
    names += [
        (f"{table.name} of release {earlier.agreement.release}", plan.law.axes(table.dimensions))
        for table in earlier.plan.published
    ]
    ways = (own.precisions, handed_on, both.precisions)
    return [
        ErrorsOfWays(name, *(_error(precisions, axes, schema.shape) for precisions in ways)) for name, axes in names
    ]


def _error(precisions: Mapping[Axes, float], axes: Axes, sizes: Sequence[int]) -> float | None:
    variance = 0.0
    for part in subsets(axes):
        if not precisions.get(part):
            return None
        outside = prod(sizes[axis] for axis in axes if axis not in part)
        variance += prod(1 - 1 / sizes[axis] for axis in part) / (precisions[part] * outside**2)
    return _MEAN_ABSOLUTE * sqrt(variance)


def agreement_lines(plan: "WorkloadPlan") -> list[str]:
    """Return what a plan says of the earlier release: the statement of both together, and what each way costs."""
    if plan.earlier is None:
        return []
    agreement = plan.earlier.agreement
    head = f"agrees with release {agreement.release} (how: {agreement.how}); both together, losses added up:"
    try:
        composed = together(plan)
        statement = [] if composed is None else list(composed.lines)
    except CongenialError as refused:
        statement = [f"not known: {refused}"]
    errors = [str(each) for each in errors_of_ways(plan)]
    return [head, *statement, "mean absolute error of a cell, by the way to agree:", *errors]
