"""GM's Table 1: the confidential P12 table, the release they print, and one of ours."""

import numpy as np
from numpy.typing import NDArray

from congenial.examples import P12_AGES, p12_mechanism, p12_printed_release, p12_table
from congenial.pictures.lines import cell_law
from congenial.pictures.picture import Picture
from congenial.randomness import RandomStream
from congenial.study.exhibit import Columns, Exhibit, Finding, Grid

_CELL = {"sex": "female", "age": "45-49"}  # one person: the cell where conditioning changes most


def table_1(rng: RandomStream, *, n_draws: int = 100_000) -> Exhibit:
    """Return both printed tables with their sums, how usual the printed release is, and a release of our own."""
    confidential, printed, mechanism = p12_table(), p12_printed_release(), p12_mechanism()
    law = mechanism.law(confidential)
    draws = law.sample(n_draws, rng)
    own = draws[0]
    l1 = np.abs(draws - confidential.counts).sum(axis=1)
    printed_l1 = int(np.abs(printed.counts - confidential.counts).sum())
    farthest = np.abs(draws - confidential.counts).max(axis=1)
    findings = [*_sums("confidential", confidential.counts), *_sums("printed release", printed.counts)]
    findings += [
        Finding("Table 1", "independent equalities among the invariants", mechanism.disclose(confidential).rank, 3),
        Finding(
            "Table 1",
            "L1 distance of the printed release",
            printed_l1,
            note=f"the conditional law's own is {l1.mean():.1f} on average;"
            f" {np.mean(l1 <= printed_l1):.0%} of draws lie as near or nearer",
        ),
        Finding(
            "Table 1",
            "largest change of a cell in the printed release",
            int(np.abs(printed.counts - confidential.counts).max()),
            note=f"60-61, male: 11 to 23; so large a change comes in {np.mean(farthest >= 12):.1%} of draws",
        ),
    ]
    return Exhibit(
        "table-1",
        "Table 1: a confidential table and a release",
        (
            "GM simulate a table of 46 cells, and print one release with Double Geometric noise of precision 1/2 a"
            " cell, given the total, the share of women, the voting-age population, and no negative count.",
            "Both printed tables add up to every printed sum. GM head the first four ages <5, 6-10, 11-15 and 16-17;"
            " the Census's own groups are under 5, 5-9, 10-14 and 15-17, and those are used here.",
        ),
        tuple(findings),
        (_law_picture(),),
        (_grid(confidential.counts, printed.counts, own),),
        {"table-1": _columns(confidential.counts, printed.counts, own)},
    )


def _sums(which: str, counts: NDArray[np.int64]) -> list[Finding]:
    table = counts.reshape(2, -1)
    young = len(P12_AGES) - 19
    found = {
        "women": (table[0].sum(), 130),
        "men": (table[1].sum(), 126),
        "under 18": (table[:, :young].sum(), 43),
        "voting age": (table[:, young:].sum(), 213),
        "total": (table.sum(), 256),
    }
    return [Finding("Table 1", f"{which}: {name}", int(value), sum_) for name, (value, sum_) in found.items()]


def _columns(confidential: NDArray[np.int64], printed: NDArray[np.int64], own: NDArray[np.int64]) -> Columns:
    return {
        "sex": ["female"] * len(P12_AGES) + ["male"] * len(P12_AGES),
        "age": [*P12_AGES, *P12_AGES],
        "confidential": confidential.tolist(),
        "printed_release": printed.tolist(),
        "exact_draw": own.tolist(),
    }


def _grid(*tables: NDArray[np.int64]) -> Grid:
    sexes = [column for table in tables for column in table.reshape(2, -1).tolist()]
    rows = [(age, *(str(column[i]) for column in sexes)) for i, age in enumerate(P12_AGES)]
    rows.append(("total", *(str(sum(column)) for column in sexes)))
    return Grid(
        "Confidential (c), the release GM print (p), and one exact draw (e); women (f) and men (m)",
        ("age", "c, f", "c, m", "p, f", "p, m", "e, f", "e, m"),
        tuple(rows),
    )


def law_of_a_cell() -> Columns:
    """Return the exact law of one cell of P12, conditional and unconstrained, on a common range."""
    table, mechanism = p12_table(), p12_mechanism()
    law = mechanism.law(table)
    marginal = law.marginal(_CELL)
    truth = int(table.counts[table.schema.cell(_CELL)])
    values = np.arange(-8, 13)
    known = dict(zip(marginal.values.tolist(), marginal.probabilities.tolist(), strict=True))
    noise = law.target.measured[0].noise
    return {
        "count": values.tolist(),
        "conditional": [known.get(value, 0.0) for value in values.tolist()],
        "unconstrained": noise.pmf(values - truth).tolist(),
    }


def _law_picture() -> Picture:
    columns = law_of_a_cell()
    table = p12_table()
    figure = cell_law(
        columns["count"],
        columns["conditional"],
        columns["unconstrained"],
        truth=int(table.counts[table.schema.cell(_CELL)]),
        name="women of 45-49",
    )
    return Picture(
        "law-of-a-cell",
        figure,
        "The law of one released cell, computed exactly: conditioning moves the mass of impossible counts to possible"
        " ones.",
        "Bars: Double Geometric noise around a count of 1, half of it spread over negative and high counts. Points: the"
        " released cell's law, zero below zero and higher from 0 to 4.",
    )
