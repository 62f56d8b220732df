"""A validated spec: everything that is public about a release before the data are read."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from congenial.bundle.naming_and_versions import (
    Naming,
    PublicFile,
    RowFilter,
    membership_sentences,
    runs_of,
    unpublished_sentences,
)
from congenial.conditions.base import Condition
from congenial.conditions.queries import Query
from congenial.errors import ConditionError, CongenialError, Mistake, SpecError, did_you_mean
from congenial.mechanism_and_hierarchy import Hierarchy, Mechanism
from congenial.privacy.budget import Budget
from congenial.privacy.certificate_inputs import CONDITIONAL
from congenial.privacy.tree_loss import refuse_pure
from congenial.request_to_plan import measure_of_tree, usual_noise_of_trees
from congenial.schema import Schema
from congenial.spec.dimension_levels_and_public_lists import Levels, schema_of
from congenial.spec.entries_and_sentences import Statement
from congenial.spec.stated_tables import StatedTables, record_schema_of
from congenial.spec.yaml_and_mistakes import Mistakes
from congenial.tree.areas_across import USUAL_PORTION, AreasAcross
from congenial.tree.exact_sums import exact_rows
from congenial.tree.tree_and_zeros import Tree, Zeros
from congenial.workload.workload import Workload

if TYPE_CHECKING:
    from congenial.spec.file_format import SpecFile

# The section `hierarchy:`: a public file of leaves, and what they are part of.

_SOME_CHILDREN = 4  # rows that cross are refused from so many children on; how many there are is known later

TRUTH = {"1": True, "true": True, "0": False, "false": False}
"""How a list of leaves says whether nobody can be in one."""


@dataclass(frozen=True)
class LevelOfCode:
    """How the unit of a leaf at one level is found: by the first letters of its code, or in a column."""

    name: str
    prefix: int | None
    column: str | None


@dataclass(frozen=True)
class TreeFile:
    """Where the leaves are listed, and how they are read. Public.

    Attributes
    ----------
    file : str
        CSV or Parquet, a row a leaf; relative to the folder of the spec.
    leaf : str
        The name of the lowest level.
    code : str
        The column of the leaves' codes in the file.
    column : str
        The column of the leaves' codes in the data.
    levels : tuple of LevelOfCode
        Above the leaves, the top first.
    uninhabited : str or None
        A column of the file, 1 or true where nobody can be.
    shares : mapping from level to Fraction, or None
    across : AcrossFile or None
        Areas that cross the tree.
    """

    file: str
    leaf: str
    code: str
    column: str
    levels: tuple[LevelOfCode, ...]
    separator: str
    uninhabited: str | None
    shares: dict[str, Fraction] | None
    across: "AcrossFile | None" = None

    @property
    def lists(self) -> tuple[str, ...]:
        """The public files of leaves."""
        return (self.file, *([self.across.file] if self.across is not None and self.across.file else []))

    @property
    def names(self) -> tuple[str, ...]:
        """All levels, the top first."""
        return (*(level.name for level in self.levels), self.leaf)


@dataclass(frozen=True)
class AcrossFile:
    """Where it is listed in which area across the tree each leaf is. Public.

    Attributes
    ----------
    file : str or None
        None where it is a column of the list of leaves.
    portion : Fraction
        Of the budget.
    """

    name: str
    column: str
    file: str | None
    portion: Fraction


def read_hierarchy(file: "SpecFile", measured: Sequence[Query], mistakes: Mistakes) -> TreeFile | None:
    """Return the tree's file, if there is one; what a tree cannot have is noted."""
    entry = file.hierarchy
    if entry is None:
        return None
    before = len(mistakes.by_path)
    if entry.unpublished:
        mistakes.add(
            ("hierarchy", "unpublished"),
            "every table of a tree is the sum of its parts: what is left out is the difference of what is published."
            " Leave out the whole level, or release the areas apart from each other, with `by:`",
        )
    for key in ("file", "leaf"):
        if getattr(entry, key) is None:
            what = "the public list of all leaves" if key == "file" else "what a leaf is called, such as block"
            mistakes.add(("hierarchy",), f"a hierarchy needs a `{key}:`, {what}")
    if not entry.levels:
        mistakes.add(
            ("hierarchy",), "a hierarchy needs `levels:` above its leaves, the top first: {state: {prefix: 2}}"
        )
    if file.by is not None:
        mistakes.add(("by",), "areas are a list, `by`, or a tree, `hierarchy`, and not both", at_key=True)
    levels = []
    for name, level in entry.levels.items():
        if (level.prefix is None) == (level.column is None):
            mistakes.add(
                ("hierarchy", "levels", name), f"level {name!r} has a `prefix` of the code, or a `column`: one of them"
            )
        levels.append(LevelOfCode(name, level.prefix, level.column))
    names = [*entry.levels, entry.leaf or ""]
    across = _read_across(file, mistakes)
    _check_names(names if across is None else [*names, across.name], file, mistakes)
    _check_shares(entry.shares, names, mistakes)
    if file.measure and measured:
        with mistakes.at(("measure",)):
            measure_of_tree(file.method_in_use, measured)
    if file.unit is not None and (file.unit.at_most or 1) > 1:
        mistakes.add(("unit", "at_most"), "a tree is certified for units with one row each; count each of them once")
    _check_budget(file, mistakes)
    if len(mistakes.by_path) > before or entry.file is None or entry.leaf is None:
        return None
    leaf, shares = entry.leaf, dict(entry.shares) if entry.shares else None
    return TreeFile(
        *(entry.file, leaf, entry.code or leaf, entry.column or leaf, tuple(levels)),
        *(entry.separator, entry.uninhabited, shares, across),
    )


def _read_across(file: "SpecFile", mistakes: Mistakes) -> AcrossFile | None:
    entry = file.hierarchy.across if file.hierarchy is not None else None
    if entry is None:
        return None
    place = ("hierarchy", "across")
    if entry.name is None:
        mistakes.add(place, "areas across a tree need a `name:`, what one is called, such as district")
    if file.method_in_use == CONDITIONAL:
        mistakes.add(place, "only a measured tree can measure areas across it: leave out `method: conditional`")
    portion, name = entry.portion or USUAL_PORTION, entry.name or ""
    if portion >= 1:
        mistakes.add((*place, "portion"), f"a portion of the budget is below 1, such as 1/10, and this is {portion}")
    return AcrossFile(name, entry.column or name, entry.file, portion)


def check_levels_of(invariants: Sequence[Statement], file: "SpecFile", schema: Schema, mistakes: Mistakes) -> None:
    """Note invariants of levels that there are not, or that cannot be exact below the top."""
    entry = file.hierarchy
    levels = [] if entry is None else [*entry.levels, entry.leaf or ""]
    stated: dict[str, list[Condition]] = {}
    for statement in invariants:
        if statement.at is None:
            continue
        with mistakes.at((*statement.path, "at")):
            if not levels:
                raise ConditionError("`at` names a level of a `hierarchy:`, and this spec has none; leave it out")
            if statement.at not in levels:
                raise ConditionError(
                    f"{statement.at!r} is not a level of the hierarchy; {did_you_mean(statement.at, levels)}"
                )
            if statement.at != levels[0]:
                stated.setdefault(statement.at, []).append(statement.condition)
                for rows in exact_rows(levels[1:], schema, stated):
                    if rows is not None and file.method_in_use == CONDITIONAL:
                        rows.check(_SOME_CHILDREN)
                    elif rows is not None:
                        rows.check_decided()


def _check_names(names: Sequence[str], file: "SpecFile", mistakes: Mistakes) -> None:
    seen: dict[str, str] = {name.casefold(): f"dimension {name!r}" for name in file.dimensions}
    for name in names:
        if name.casefold() in seen:
            mistakes.add(
                ("hierarchy",), f"the level {name!r} has the name of {seen[name.casefold()]}; every level needs its own"
            )
        seen.setdefault(name.casefold(), f"another level, {name!r}")


def _check_shares(shares: dict[str, Fraction] | None, names: Sequence[str], mistakes: Mistakes) -> None:
    if shares is None:
        return
    if unknown := [name for name in shares if name not in names]:
        mistakes.add(("hierarchy", "shares", unknown[0]), f"{unknown[0]!r} is not a level of the hierarchy")
    if missing := [name for name in names if name not in shares]:
        mistakes.add(("hierarchy", "shares"), f"every level has a share of the budget, and {missing[0]!r} has none")


def _check_budget(file: "SpecFile", mistakes: Mistakes) -> None:
    entry = file.budget
    if entry is None:
        if "budget" not in mistakes.document.tree:
            mistakes.add(("budget",), "a `budget:` is needed, such as {rho: 1/2}")
        return
    try:
        is_chain = file.method_in_use == CONDITIONAL
        if is_chain and entry.epsilon is not None and entry.delta is None and entry.rho is None:
            refuse_pure(Budget(epsilon=entry.epsilon))
        budget = Budget.of(epsilon=entry.epsilon, delta=entry.delta, rho=entry.rho, noise=tree_noise(file, mistakes))
        if is_chain and budget is not None:
            refuse_pure(budget)
    except CongenialError as refused:
        mistakes.add(("budget",), str(refused))


def tree_noise(file: "SpecFile", mistakes: Mistakes) -> str:
    """Return the noise of a tree: what the spec says, or the usual one of its budget."""
    if "noise" in mistakes.document.tree:
        return str(file.noise)
    entry = file.budget
    is_pure = entry is not None and entry.epsilon is not None and entry.delta is None and entry.rho is None
    return usual_noise_of_trees(file.method_in_use, is_pure=is_pure)


@dataclass(frozen=True)
class DataFiles:
    """Where the data are and how to read them.

    Attributes
    ----------
    paths : tuple of str
        Files or patterns with ``*``, relative to the folder of the spec.
    kind : str
        ``"counts"`` (one row a cell) or ``"microdata"`` (one row a record).
    count : str or None
        The column of counts.
    status : str
        ``"confidential"``, ``"public"`` or ``"simulated"``.
    missing_cells : str
        What a cell without a row means in counts: ``"zero"`` or ``"error"``.
    separator : str
        Between the columns of a CSV file.
    """

    paths: tuple[str, ...]
    kind: str
    count: str | None
    status: str
    missing_cells: str
    separator: str


@dataclass(frozen=True)
class PrivacyUnit:
    """Whose privacy is protected.

    Attributes
    ----------
    word : str
        What a unit is called in the report.
    id_column : str or None
        The column that says which unit a row belongs to, when there is one to check.
    rows_per_unit : int
        How many rows one unit may have at most.
    """

    word: str
    id_column: str | None
    rows_per_unit: int


def _has_codes(levels: Levels) -> bool:
    return len(levels.codes) == len(levels.labels) and tuple(levels.codes) != tuple(levels.labels)


@dataclass(frozen=True)
class Spec:
    """What is released, how, and under which budget. Public: there are no data in it.

    Attributes
    ----------
    release, title, dataset : str
        The release's name, its title for the report, and whose budget is charged.
    unit : PrivacyUnit or None
        None for counts, which are taken to be counts of the units.
    dimensions : tuple of Levels
    by : Levels or None
        The areas, when there is one table for each.
    measured : tuple of Query
    invariants, conditions : tuple of Statement
    epsilon, delta, rho : Fraction or None
    outputs : tuple of str
    hierarchy : TreeFile or None
        The tree of areas, when they add up.
    row_filters : tuple of RowFilter
        Which rows of the data are counted; empty where all are.
    unpublished : tuple of str
        Areas that are read and not released.
    replaces : str or None
        The earlier release that this one is the corrected edition of.
    method : str
        ``conditional`` or ``measured``.
    rule : str or None
        Of a measured release, how its tables are decided; None for the usual rule.
    tables : StatedTables or None
        Several tables of the same records, where such are released.
    text : str
        The file as it was written.
    """

    file_name: str
    text: str
    release: str
    title: str
    dataset: str
    data: DataFiles
    unit: PrivacyUnit | None
    dimensions: tuple[Levels, ...]
    by: Levels | None
    measured: tuple[Query, ...]
    invariants: tuple[Statement, ...]
    conditions: tuple[Statement, ...]
    noise: str
    epsilon: Fraction | None
    delta: Fraction | None
    rho: Fraction | None
    neighbours: str
    outputs: tuple[str, ...]
    hierarchy: TreeFile | None = None
    row_filters: tuple[RowFilter, ...] = ()
    unpublished: tuple[str, ...] = ()
    replaces: str | None = None
    method: str = CONDITIONAL
    rule: str | None = None
    tables: StatedTables | None = None

    @cached_property
    def schema(self) -> Schema:
        """The dimensions of one area's table; of several tables of the same records, those of the records."""
        return schema_of(self.dimensions) if self.tables is None else record_schema_of(self.dimensions, self.by)

    @property
    def level_names(self) -> tuple[str, ...]:
        """What tables are released for, the top first: no level beside one table, one of areas, several of a tree."""
        if self.hierarchy is not None:
            return self.hierarchy.names
        return () if self.by is None else (self.by.name,)

    @property
    def area_column(self) -> str | None:
        """The column of the data that says to which area, or leaf, a row belongs; None when there is one table."""
        areas = self.by or self.hierarchy
        return None if areas is None else areas.column

    @property
    def areas(self) -> tuple[str, ...] | None:
        """The labels of the areas that are released; None when there is one table."""
        left_out = set(self.unpublished)
        return None if self.by is None else tuple(label for label in self.by.labels if label not in left_out)

    @property
    def parents(self) -> tuple[str, ...]:
        """What each released area is part of, where a list of areas says it."""
        if self.by is None or self.by.listed is None or not self.by.listed.parents:
            return ()
        parents = (*self.by.listed.parents, *((self.by.labels[-1],) if self.by.has_empty else ()))
        left_out = set(self.unpublished)
        return tuple(parent for label, parent in zip(self.by.labels, parents, strict=True) if label not in left_out)

    @property
    def public_files(self) -> tuple[tuple[Path, PublicFile], ...]:
        """The public files that list levels and areas, or hold values of areas, and what the manifest says of each."""
        levels = (*self.dimensions, *(() if self.by is None else (self.by,)))
        lists = [(dimension.listed.path, dimension.listed.file) for dimension in levels if dimension.listed is not None]
        for statement in (*self.invariants, *self.conditions):
            lists += [(rows.path, rows.as_fact(f"values of {statement.condition.title}")) for rows in statement.files]
        return tuple(lists)

    @property
    def membership(self) -> list[str]:
        """Whose rows are counted, and whether that is protected, in sentences."""
        sentences = membership_sentences(
            self.row_filters, self.neighbours, "person" if self.unit is None else self.unit.word
        )
        return [*sentences, *unpublished_sentences(self.unpublished, None if self.by is None else self.by.name)]

    @property
    def budget(self) -> Budget | None:
        """What the release may cost; None where every precision is given."""
        return Budget.of(epsilon=self.epsilon, delta=self.delta, rho=self.rho, noise=self.noise)

    @property
    def naming(self) -> Naming:
        """What the manifest says of the release besides its law, but for the files that it names."""
        unit = "person" if self.unit is None else self.unit.word
        return Naming(
            self.release,
            self.dataset,
            self.title,
            unit=unit,
            status=self.data.status,
            parents=runs_of(self.parents),
            kept_rows=self.row_filters,
            unpublished=self.unpublished,
            replaces=self.replaces,
            codes=self._codes,
        )

    @property
    def _codes(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The codes of dimensions and areas whose labels are others, in the order of the published labels."""
        out = [(each.name, tuple(each.codes)) for each in self.dimensions if _has_codes(each)]
        if self.by is not None and _has_codes(self.by):
            left_out = set(self.unpublished)
            pairs = zip(self.by.labels, self.by.codes, strict=True)
            out.append((self.by.name, tuple(code for label, code in pairs if label not in left_out)))
        return tuple(out)

    @property
    def rows_per_unit(self) -> int:
        """How many rows, so how many counts, one privacy unit may touch."""
        return 1 if self.unit is None else self.unit.rows_per_unit

    def tree_mechanism(self, tree: Tree, zeros: Zeros, across: AreasAcross | None = None) -> Hierarchy:
        """Return what releases the tree that the spec names."""
        invariants: dict[str, list[Condition]] = {level: [] for level in tree.levels}
        for statement in (*self.invariants, *self.conditions):
            invariants[statement.at or tree.levels[0]].append(statement.condition)
        return Hierarchy(
            tree,
            self.schema,
            invariants=invariants,
            noise=self.noise,
            epsilon=self.epsilon,
            delta=self.delta,
            rho=self.rho,
            shares=None if self.hierarchy is None else self.hierarchy.shares,
            neighbours=self.neighbours,
            measure=self.measured or None,
            across=across,
            zeros=zeros,
            method=self.method,
            rule=self.rule,
        )

    def workload_in(self, folder: Path) -> Workload:
        """What releases several tables of the same records, with the release that they agree with, which is verified.

        Parameters
        ----------
        folder : Path
            Where the spec is.
        """
        workload, agree = self.workload, None if self.tables is None else self.tables.agree_with
        if agree is None or agree.bundle is None:
            return workload
        workload = copy(workload)
        workload.agree_with(folder / agree.bundle, how=agree.how, records=agree.records)
        return workload

    @cached_property
    def workload(self) -> Workload:
        """What releases several tables of the same records; the release that they agree with is in `workload_in`."""
        if self.tables is None:
            raise SpecError([Mistake(self.file_name, 1, 1, "", "the spec names no `tables:` of the same records")])
        return Workload(
            self.schema,
            tables=self.tables.published,
            also_measure=self.tables.also_measured,
            invariants=[statement.condition for statement in (*self.invariants, *self.conditions)],
            noise=self.noise,
            epsilon=self.epsilon,
            delta=self.delta,
            rho=self.rho,
            shares=self.tables.shares,
            protects=self.tables.protects,
            neighbours=self.neighbours,
            is_part=self.tables.agree_with is not None,
        )

    @cached_property
    def mechanism(self) -> Mechanism:
        """The mechanism for one area's table."""
        return Mechanism(
            self.schema,
            measure=self.measured,
            invariants=[statement.condition for statement in (*self.invariants, *self.conditions)],
            noise=self.noise,
            epsilon=self.epsilon,
            delta=self.delta,
            rho=self.rho,
            neighbours=self.neighbours,
            rows_per_unit=self.rows_per_unit,
            method=self.method,
            rule=self.rule if self.hierarchy is None else None,  # of a tree: `tree_mechanism`
        )
