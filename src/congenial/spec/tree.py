"""The section `hierarchy:`: a public file of leaves, and what they are part of."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from congenial.conditions.condition import Condition
from congenial.conditions.queries import Query, cells
from congenial.errors import ConditionError, CongenialError, did_you_mean
from congenial.hierarchy.disclosed import exact_rows
from congenial.privacy.budget import Budget
from congenial.privacy.chain import refuse_pure
from congenial.schema import Schema
from congenial.spec.conditions import Statement
from congenial.spec.mistakes import Mistakes

if TYPE_CHECKING:
    from congenial.spec.model import SpecFile

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
    """

    file: str
    leaf: str
    code: str
    column: str
    levels: tuple[LevelOfCode, ...]
    separator: str
    uninhabited: str | None
    shares: dict[str, Fraction] | None

    @property
    def names(self) -> tuple[str, ...]:
        """All levels, the top first."""
        return (*(level.name for level in self.levels), self.leaf)


def read_hierarchy(file: "SpecFile", measured: Sequence[Query], mistakes: Mistakes) -> TreeFile | None:
    """Return the tree's file, if there is one; what a tree cannot have is noted."""
    said = file.hierarchy
    if said is None:
        return None
    before = len(mistakes.found)
    for key in ("file", "leaf"):
        if getattr(said, key) is None:
            what = "the public list of all leaves" if key == "file" else "what a leaf is called, such as block"
            mistakes.add(("hierarchy",), f"a hierarchy needs a `{key}:`, {what}")
    if not said.levels:
        mistakes.add(
            ("hierarchy",), "a hierarchy needs `levels:` above its leaves, the top first: {state: {prefix: 2}}"
        )
    if file.by is not None:
        mistakes.add(("by",), "areas are a list, `by`, or a tree, `hierarchy`, and not both", at_key=True)
    levels = []
    for name, entry in said.levels.items():
        if (entry.prefix is None) == (entry.column is None):
            mistakes.add(
                ("hierarchy", "levels", name), f"level {name!r} has a `prefix` of the code, or a `column`: one of them"
            )
        levels.append(LevelOfCode(name, entry.prefix, entry.column))
    names = [*said.levels, said.leaf or ""]
    _check_names(names, file, mistakes)
    _check_shares(said.shares, names, mistakes)
    if file.measure is not None and list(measured) not in ([cells()], []):
        mistakes.add(
            ("measure",), "a tree measures every cell at every level; leave `measure` out, or write `measure: [cells]`"
        )
    if file.unit is not None and (file.unit.at_most or 1) > 1:
        mistakes.add(("unit", "at_most"), "a tree is certified for units with one row each; count each of them once")
    _check_budget(file, mistakes)
    if len(mistakes.found) > before or said.file is None or said.leaf is None:
        return None
    leaf, shares = said.leaf, dict(said.shares) if said.shares else None
    return TreeFile(
        *(said.file, leaf, said.code or leaf, said.column or leaf, tuple(levels)),
        *(said.separator, said.uninhabited, shares),
    )


def check_levels_of(invariants: Sequence[Statement], file: "SpecFile", schema: Schema, mistakes: Mistakes) -> None:
    """Note invariants of levels that there are not, or that cannot be exact below the top."""
    said = file.hierarchy
    levels = [] if said is None else [*said.levels, said.leaf or ""]
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
                    if rows is not None:
                        rows.check(_SOME_CHILDREN)


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
    said = file.budget
    if said is None:
        return
    try:
        if said.epsilon is not None and said.delta is None and said.rho is None:
            refuse_pure(Budget(epsilon=said.epsilon))
        budget = Budget.of(epsilon=said.epsilon, delta=said.delta, rho=said.rho, noise=tree_noise(file, mistakes))
        if budget is not None:
            refuse_pure(budget)
    except CongenialError as refused:
        mistakes.add(("budget",), str(refused))


def tree_noise(file: "SpecFile", mistakes: Mistakes) -> str:
    """Return the noise of a tree: discrete Gaussian unless the spec says otherwise."""
    return file.noise if "noise" in mistakes.document.tree else "discrete_gaussian"
