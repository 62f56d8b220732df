"""Where a release is read and drawn: on this machine, or by an engine for many. The tables are the same."""

from pathlib import Path
from typing import Protocol

from congenial.arrays import Ints
from congenial.progress import Progress
from congenial.reading.grouped import Grouped
from congenial.release import Prepared, draw_here
from congenial.release_key import KeyFile
from congenial.released import Release
from congenial.spec.spec import Spec


class Engine(Protocol):
    """What reads and draws. Plan, certificate, charge and bundle are made by the process that asks for a release."""

    def read(self, spec: Spec, folder: Path) -> Grouped | None:
        """Return the rows that a spec names, equal ones put together; None where they are read here. Confidential."""
        ...

    def check(self, keys: Path | None) -> None:
        """Refuse, before anything is charged, machines that could not draw; `keys` is the folder of keys."""
        ...

    def draw(self, ready: Prepared, file: KeyFile, progress: Progress) -> tuple[Ints, ...]:
        """Return one draw of everything, as `congenial.release.draw_here` does."""
        ...

    def finish(self, made: Release) -> None:
        """Do what is done when the bundle is there, and before the key is destroyed."""
        ...


class Local:
    """The machine that this process runs on, alone."""

    def read(self, spec: Spec, folder: Path) -> Grouped | None:  # noqa: ARG002
        """Leave the files to be read here."""
        return None

    def check(self, keys: Path | None) -> None:
        """Have nothing to check: what is rehearsed is rehearsed here."""

    def draw(self, ready: Prepared, file: KeyFile, progress: Progress) -> tuple[Ints, ...]:
        """Draw in this process."""
        return draw_here(ready, file, progress)

    def finish(self, made: Release) -> None:
        """Have nothing more to write."""


LOCAL = Local()
