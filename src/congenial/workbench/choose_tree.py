"""Choose what is exact in a tree of areas, and what each level gets of the budget."""

from dataclasses import dataclass, field
from typing import Any

from congenial.bundle.tree_report import MOST_NUMBERS
from congenial.privacy.chain import default_shares
from congenial.spec.spec import Spec
from congenial.spec.tree import TreeFile
from congenial.workbench.asked import Asked, budget_of
from congenial.workbench.desk import Desk, digest_of, forget_some
from congenial.workbench.grid import Grid
from congenial.workbench.pages import figure, render
from congenial.workbench.tree_panel import TreePanel

_MOST_KEPT = 16
TREE_CURRENCIES = ("rho", "epsilon and delta")
"""Below the top, conditioning can double a pure epsilon at every level: it is refused."""


@dataclass
class TreeChooser:
    """Answers pages that choose for trees; remembers what it computed."""

    desk: Desk
    _panels: dict[object, TreePanel] = field(default_factory=dict)

    def panel(self, spec: Spec, asked: Asked) -> TreePanel:
        """Return what a choice does, in the computing thread."""
        key = (asked.key, self.desk.data_key(spec, asked.file))
        if key not in self._panels:
            forget_some(self._panels, _MOST_KEPT)
            leaves = self.desk.leaves(spec, asked.file)
            self._panels[key] = TreePanel.of(spec, leaves, Grid.of(spec.schema, asked.down, asked.across))
        return self._panels[key]

    def shown(self, spec: Spec, asked: Asked) -> dict[str, Any]:
        """Return what a page shows of a choice at once, as plain values and pieces of HTML."""
        found = self.panel(spec, asked)
        currency, amount = budget_of(spec)
        return {
            "digest": digest_of(asked.text),
            "text": asked.text,
            "is_bound": False,
            "noise": figure(found.noise[-1]),
            "error": "",
            "cost": found.chain.spent.text,
            "currency": currency,
            "amount": amount,
            "noise_family": spec.noise,
            "shares": found.shares,
            "weights": {} if spec.hierarchy is None else dict(shares_of(spec.hierarchy)),
            "grid": _cells(found),
            "invariants": render("invariants.html", stated=spec.invariants, conditions=spec.conditions),
            "html": render(
                "tree_panel.html",
                found=found,
                levels=zip(found.levels, _units(found), found.shares.values(), map(figure, found.noise), strict=False),
                sections=found.preview.screen(),
                certificate=found.chain.certificate,
            ),
        }

    def levels(self, spec: Spec, asked: Asked) -> dict[str, Any]:
        """Return the errors to expect at each level, from draws around a made-up population."""
        found = self.panel(spec, asked)
        if not found.has_errors:
            html = render("tree_levels.html", found=found, picture="", rows=(), header=(), most=MOST_NUMBERS)
            return {"html": html, "error": ""}
        header, rows = found.preview.lines
        html = render("tree_levels.html", found=found, picture=found.picture(), rows=rows, header=header)
        return {"html": html, "error": rows[-1][4]}


def shares_of(given: TreeFile) -> list[tuple[str, str]]:
    """Return what each level gets of the budget, as numbers to change: as the spec says, or in hundredths."""
    if given.shares is not None:
        return [(name, str(given.shares[name])) for name in given.names]
    usual = default_shares(len(given.names))
    return [(name, f"{100 * float(share):.3g}") for name, share in zip(given.names, usual, strict=True)]


def _units(found: TreePanel) -> list[str]:
    return [f"{len(codes):,}" for codes in found.chain.law.tree.codes]


def _cells(found: TreePanel) -> dict[str, dict[str, Any]]:
    """Return what the grid says of every sum: the lowest level at which it is exact."""
    exact = found.exact_at()
    out = {}
    for i, j in found.grid.places:
        level = exact.get((i, j))
        name = f"{'' if i is None else i}.{'' if j is None else j}"
        out[name] = {
            "error": "",
            "exact": level is not None,
            "known": False,
            "text": "" if level is None else f"every {level}",
        }
    return out
