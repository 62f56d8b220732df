"""What a choice does in a tree of areas: noise and certificate at once, errors level by level when they are drawn.

Of the confidential leaves only what the invariants disclose enters, as in `congenial plan`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from congenial.bundle.tree_report import level_deviation
from congenial.conditions.kinds.query import Query
from congenial.conditions.lattice import dependence
from congenial.curator.tree_preview import TreePreview
from congenial.hierarchy.plan import ChainPlan
from congenial.spec.spec import Spec
from congenial.tree_release import prepare_tree
from congenial.workbench.desk import Leaves
from congenial.workbench.grid import Grid
from congenial.workbench.picture import Bar, error_bars

_MOST_NUMBERS = 3_000_000  # of all levels together, that are drawn while somebody waits
_WIDER = 1.25  # the picture's scale leaves that much room, so that a small change does not move it

Row = dict[int, int]


@dataclass(frozen=True, repr=False)
class TreePanel:
    """The plan of a tree, and what a page shows of it. Public: of the data it has the disclosed values alone.

    Attributes
    ----------
    preview : TreePreview
        What `congenial plan` says of it.
    """

    preview: TreePreview
    grid: Grid

    @classmethod
    def of(cls, spec: Spec, leaves: Leaves, grid: Grid) -> "TreePanel":
        """Plan a tree. Nothing is charged, nothing drawn."""
        ready = prepare_tree(spec.tree_mechanism(leaves.tree, leaves.zeros), leaves.counts, spec.naming)
        if ready.chain is None:
            raise ValueError("the spec has no hierarchy")
        return cls(TreePreview(spec, ready.chain, ready.digest, ready.reviews), grid)

    @property
    def chain(self) -> ChainPlan:
        """The plan of all levels."""
        return self.preview.chain

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels, the top first."""
        return self.chain.law.tree.levels

    @property
    def noise(self) -> list[float]:
        """The standard deviation of each level's noise, before anything is made exact or adds up."""
        return [level_deviation(self.chain, number) for number in range(len(self.levels))]

    @property
    def shares(self) -> dict[str, str]:
        """What each level gets of the budget, in words; nothing where every precision is given."""
        given = self.chain.shares or ()
        return {name: f"{float(share):.0%}" for name, share in zip(self.levels, given, strict=False)}

    @property
    def n_numbers(self) -> int:
        """How many numbers all levels have together."""
        return self.chain.law.n_cells * sum(len(codes) for codes in self.chain.law.tree.codes)

    @property
    def has_errors(self) -> bool:
        """Whether errors are drawn here; larger trees take too long while somebody waits."""
        return self.n_numbers <= _MOST_NUMBERS

    def exact_at(self) -> dict[tuple[int | None, int | None], str]:
        """Return for sums of the grid the lowest level at which they are exact, and so in all above it."""
        found: dict[tuple[int | None, int | None], str] = {}
        rows: list[Row] = []
        for level in reversed(self.levels):
            rows += self._stated(level)
            for key in self.grid.places:
                if key not in found and rows and _follows(self.grid.cells_of(key), rows):
                    found[key] = level
        return found

    def _stated(self, level: str) -> list[Row]:
        """Return the sums that are stated to be exact in every unit of a level."""
        conditions = [one.condition for one in self.preview.spec.invariants if (one.at or self.levels[0]) == level]
        rows = [row for one in conditions if isinstance(one, Query) for row in one.rows(self.preview.spec.schema)]
        return [dict(zip(row.cells, row.coefficients, strict=True)) for row in rows]

    def picture(self) -> Markup:
        """Return the errors to expect of a cell and of a total, level by level, around a made-up population."""
        bars: list[Bar] = []
        for one in self.preview.errors:
            bars += [
                (f"{one.name}: a cell", one.cell, one.cell, 0.0),
                (f"{one.name}: its total", one.total, one.total, 0.0),
            ]
        return error_bars(bars, _WIDER * max((bar[2] for bar in bars), default=1.0))


def _follows(cells: Sequence[int], rows: Sequence[Row]) -> bool:
    """Whether a sum of cells is a combination of rows."""
    return len(rows) in dependence([*rows, dict.fromkeys(sorted(cells), 1)]).follows
