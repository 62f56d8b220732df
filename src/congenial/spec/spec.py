"""A validated spec: everything that is public about a release before the data are read."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from congenial.bundle.kept_rows import KeptRows, left_unpublished, membership
from congenial.bundle.naming import Naming, PublicFile, runs_of
from congenial.conditions.condition import Condition
from congenial.conditions.queries import Query
from congenial.hierarchy.hierarchy import Hierarchy
from congenial.hierarchy.tree import Tree
from congenial.hierarchy.zeros import Zeros
from congenial.mechanism import Mechanism
from congenial.privacy.budget import Budget
from congenial.schema import Schema
from congenial.spec.conditions import Statement
from congenial.spec.levels import Levels, schema_of
from congenial.spec.tree import TreeFile


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
    kept_rows : tuple of KeptRows
        Which rows of the data are counted; empty where all are.
    unpublished : tuple of str
        Areas that are read and not released.
    replaces : str or None
        The earlier release that this one is the corrected edition of.
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
    kept_rows: tuple[KeptRows, ...] = ()
    unpublished: tuple[str, ...] = ()
    replaces: str | None = None

    @cached_property
    def schema(self) -> Schema:
        """The dimensions of one area's table."""
        return schema_of(self.dimensions)

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
        return tuple(own for label, own in zip(self.by.labels, parents, strict=True) if label not in left_out)

    @property
    def public_files(self) -> tuple[tuple[Path, PublicFile], ...]:
        """The public files that list levels and areas, or hold values of areas, and what the manifest says of each."""
        levels = (*self.dimensions, *(() if self.by is None else (self.by,)))
        lists = [(own.listed.path, own.listed.file) for own in levels if own.listed is not None]
        for statement in (*self.invariants, *self.conditions):
            lists += [(rows.path, rows.as_fact(f"values of {statement.condition.title}")) for rows in statement.files]
        return tuple(lists)

    @property
    def membership(self) -> list[str]:
        """Whose rows are counted, and whether that is protected, in sentences."""
        kept = membership(self.kept_rows, self.neighbours, "person" if self.unit is None else self.unit.word)
        return [*kept, *left_unpublished(self.unpublished, None if self.by is None else self.by.name)]

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
            kept_rows=self.kept_rows,
            unpublished=self.unpublished,
            replaces=self.replaces,
        )

    @property
    def rows_per_unit(self) -> int:
        """How many rows, so how many counts, one privacy unit may touch."""
        return 1 if self.unit is None else self.unit.rows_per_unit

    def tree_mechanism(self, tree: Tree, zeros: Zeros) -> Hierarchy:
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
            zeros=zeros,
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
        )
