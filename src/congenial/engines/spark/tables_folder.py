"""The released tables as a folder of Parquet, written by the tasks and committed by the driver. Public.

Tasks write into a hidden folder beside the one that is asked for, where Spark keeps what each attempt has written apart
until the attempt is taken. The driver reads it back, sees that every unit is there once, and gives the folder its name
when the bundle is there. Whoever stops this at any moment leaves the whole folder or none; a hidden remainder may stay.
"""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from congenial.disk import flush_folder
from congenial.engines.content import cells_of, released_content
from congenial.engines.spark import running
from congenial.engines.task import Piece
from congenial.errors import BundleError
from congenial.release import Prepared
from congenial.released import Release

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONTENT = "_content.json"  # readers of Parquet folders pass over names that begin so


class TablesFolder:
    """A folder that is being made."""

    def __init__(self, place: Path) -> None:
        self.place = place.absolute()
        self._attempt = self.place.parent / f".{self.place.name}.unfinished-{uuid4().hex}"

    def check(self) -> None:
        """Refuse, before anything is spent, a place where the folder could not be made."""
        if not self.place.parent.is_dir():
            raise BundleError(
                f"the folder {self.place.parent} does not exist; make it, or name another place for tables"
            )
        if self.place.exists() and not (self.place / CONTENT).is_file():
            raise BundleError(f"{self.place} is there already; name a new folder for tables")

    def written(self, session: "SparkSession", frame: "DataFrame", ready: Prepared) -> "DataFrame":
        """Let the tasks write what they draw; return what is there then."""
        frame.toDF(*running.UNIT, *cells_of(ready)).write.parquet(str(self._attempt))
        return session.read.parquet(str(self._attempt))

    def add(self, above: Sequence[Piece], ready: Prepared) -> None:
        """Add the upper levels of a tree, which the driver has drawn, as a file of its own."""
        if not above:
            return
        import pyarrow as pa
        from pyarrow import parquet

        parts = pa.Table.from_batches([running.batch_of(piece) for piece in above])
        parquet.write_table(
            parts.rename_columns([*running.UNIT, *cells_of(ready)]), self._attempt / "part-driver.parquet"
        )

    def commit(self, made: Release) -> None:
        """Give the folder its name; one that is there already must hold the same content."""
        facts = {
            "release": made.naming.release,
            "dataset": made.naming.dataset,
            "content": released_content(made),
            "levels": [made.plan.law.areas.name or "table"] if made.chain is None else list(made.chain.law.tree.levels),
        }
        text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
        if self.place.exists():
            shutil.rmtree(self._attempt, ignore_errors=True)
            there = self.place / CONTENT
            if not there.is_file() or there.read_text(encoding="utf-8") != text:
                raise BundleError(
                    f"{self.place} is there already, and has not the tables of this release; move it away"
                )
            return
        (self._attempt / CONTENT).write_text(text, encoding="utf-8")
        flush_folder(self._attempt)
        os.rename(self._attempt, self.place)
        flush_folder(self.place.parent)
