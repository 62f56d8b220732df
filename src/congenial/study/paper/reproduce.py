"""The whole paper in one folder: a page, every figure, and the data behind each."""

import csv
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from congenial.errors import StudyError
from congenial.examples import p12_schema
from congenial.pages.page import render
from congenial.progress_and_interrupts import Progress, silent
from congenial.randomness import RandomStream, replay_rng
from congenial.study.paper.exhibits_table_1_and_figures import (
    SIMULATED,
    Exhibit,
    Finding,
    check_new_folder,
    figure_1,
    figure_2,
    figure_3,
    simulated_tables,
    table_1,
    write_csv,
)
from congenial.study.paper.sections_and_appendices import appendix_a_exhibit, appendix_b, section_4, section_5, table_2
from congenial.table import Table

N_TABLES = 20


def reproduce(
    folder: Path,
    *,
    tables: Path | None = None,
    seed: int = 2020,
    progress: Progress = silent,
) -> list[Exhibit]:
    """Write the paper's tables and figures into a new folder, and return them.

    Parameters
    ----------
    folder : Path
        A folder that does not exist yet, or is empty.
    tables : Path, optional
        A CSV of public P12 tables, a line each, with columns ``m_00_04`` to ``f_85p``: figure 1 is drawn for them too.
    seed : int
        The same seed gives the same numbers and pictures.
    progress : callable
        Is told each part before it begins.
    """
    check_new_folder(folder)
    real = None if tables is None else read_p12_tables(tables)
    start = time.perf_counter()
    exhibits = []
    for name, part in _parts(seed, real, tables):
        progress(name)
        exhibits.append(part())
    seconds = time.perf_counter() - start
    folder.mkdir(parents=True, exist_ok=True)
    findings = [finding for exhibit in exhibits for finding in exhibit.findings]
    for exhibit in exhibits:
        exhibit.write(folder)
    _write_numbers(folder / "numbers.csv", findings)
    page = render(
        "paper.html",
        title="Congenial differential privacy, reproduced",
        exhibits=exhibits,
        findings=findings,
        version=version("congenial"),
        seed=seed,
        seconds=round(seconds),
        tables="simulated" if tables is None else f"simulated, and {tables.name}",
    )
    (folder / "index.html").write_text(page, encoding="utf-8")
    return exhibits


def _parts(seed: int, real: Sequence[Table] | None, path: Path | None) -> list[tuple[str, Callable[[], Exhibit]]]:
    """Return the parts in the order of the paper, each with random bits of its own."""

    def rng(part: str) -> RandomStream:
        return replay_rng(f"reproduce {seed} {part}")

    def simulated() -> Exhibit:
        return figure_1(simulated_tables(N_TABLES, rng("tables")), SIMULATED, rng("figure 1"))

    parts: list[tuple[str, Callable[[], Exhibit]]] = [
        ("Table 1", lambda: table_1(rng("table 1"))),
        ("Figure 1", simulated),
    ]
    if real is not None and path is not None:
        parts.append(
            ("Figure 1, given tables", lambda: figure_1(real, path.stem, rng("figure 1 given"), key="figure-1-given"))
        )
    return [
        *parts,
        ("Section 4", section_4),
        ("Table 2", lambda: table_2(rng("table 2"))),
        ("Section 5.1", section_5),
        ("Appendix A", appendix_a_exhibit),
        ("Appendix B", appendix_b),
        ("Figure 2", lambda: figure_2(rng("figure 2"))),
        ("Figure 3", lambda: figure_3(rng("figure 3"))),
    ]


def n_parts(*, with_tables: bool) -> int:
    """Return how many parts a run has, for a progress bar."""
    return len(_parts(0, [] if with_tables else None, Path()))


def _write_numbers(path: Path, findings: Sequence[Finding]) -> None:
    names = ("where", "what", "printed", "computed", "difference", "note")
    values = {name: [getattr(finding, name) for finding in findings] for name in names}
    write_csv(path, {name: ["" if value is None else value for value in column] for name, column in values.items()})


def read_p12_tables(path: Path) -> list[Table]:
    """Read public P12 tables: a line a table, 46 columns named by sex and age, women first in what is returned."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines)
            columns = _p12_columns(reader.fieldnames or (), path)
            records = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as trouble:
        raise StudyError(
            f"{path} cannot be read as CSV: {trouble.__class__.__name__}; give the path of a CSV file"
        ) from None
    if not records:
        raise StudyError(f"{path} has no table below its header")
    schema = p12_schema()
    out = []
    for number, record in enumerate(records, 1):
        try:
            counts = [int(record[column]) for column in columns]
        except (TypeError, ValueError):
            raise StudyError(f"{path}: line {number + 1} has a count that is not a whole number") from None
        out.append(Table(schema, [counts[: schema.shape[1]], counts[schema.shape[1] :]]))
    return out


def _p12_columns(header: Sequence[str], path: Path) -> list[str]:
    female, male = ([name for name in header if name.startswith(letter)] for letter in ("f_", "m_"))
    if len(female) != 23 or len(male) != 23:
        raise StudyError(
            f"{path} has {len(female)} columns f_... and {len(male)} columns m_..., and 23 of each are needed,"
            " from f_00_04 to f_85p and m_00_04 to m_85p"
        )
    return [*sorted(female), *sorted(male)]
