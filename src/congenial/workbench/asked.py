"""What a page that chooses asks for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from congenial.errors import CongenialError
from congenial.spec.spec import Spec
from congenial.workbench.choice import changed
from congenial.workbench.desk import Desk, digest_of


@dataclass(frozen=True)
class Asked:
    """What a page asks for: a spec, the changes that are not saved, and how the grid lies."""

    file: str
    text: str
    down: str | None
    across: str | None

    @classmethod
    def of(cls, desk: Desk, said: Mapping[str, Any]) -> "Asked":
        """Read a request; a spec that was changed elsewhere in the meantime is refused."""
        file = str(said.get("file", ""))
        text = desk.spec_text(file)
        if said.get("digest") not in (None, digest_of(text)):
            raise CongenialError(
                f"{file} was changed since this page was opened, in another tab or by an editor. Open it again to see"
                " it as it is now"
            )
        changes = said.get("changes") or []
        down, across = (None if said.get(name) is None else str(said[name]) for name in ("down", "across"))
        return cls(file, changed(text, changes) if changes else text, down, across)

    @property
    def key(self) -> tuple[str, ...]:
        """What the answer depends on, besides the data."""
        return (self.file, digest_of(self.text), self.down or "", self.across or "")


def budget_of(spec: Spec) -> tuple[str, str | None]:
    """Return the currency of a spec's budget, and its amount as a decimal; None where every precision is given."""
    if spec.rho is not None:
        return "rho", f"{float(spec.rho):g}"
    if spec.epsilon is None:
        return "epsilon", None
    return ("epsilon" if spec.delta is None else "epsilon and delta"), f"{float(spec.epsilon):g}"
