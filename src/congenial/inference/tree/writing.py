"""Estimates as files: a Parquet file for each level, a summary in words, a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from congenial.bundle.parquet import arrays_to_parquet
from congenial.bundle.tree_files import cell_columns
from congenial.errors import InferenceError
from congenial.pictures.drawing import as_svg
from congenial.pictures.tree_estimates import PanelOfUnits, tree_estimates

if TYPE_CHECKING:
    from congenial.inference.tree.estimate import TreeEstimate

SUMMARY, PICTURE = "summary.txt", "estimates.svg"
STATISTICS = ("released", "mean", "median", "integers", "low", "high")


def estimate_file(number: int) -> str:
    """Return the name of a level's file; the top is level 1."""
    return f"estimate-{number}.parquet"


def check_new(folder: Path) -> None:
    """Refuse a folder that is there already."""
    if folder.exists():
        raise InferenceError(f"{folder} is there already; estimates are written into a new folder")


def write_estimate(found: "TreeEstimate", folder: str | Path, probability: float) -> None:
    """Write everything into a new folder: a row for each unit and cell, the unit's total among the cells."""
    place = Path(folder)
    check_new(place)
    place.mkdir(parents=True)
    cells = np.array([*cell_columns(found.law.top.schema), "total"], object)
    panels = []
    for number, name in enumerate(found.law.tree.levels, 1):
        level = found.level(name, probability)
        n_units = len(level.codes)
        columns: dict[str, Any] = {
            name if name not in {"cell", *STATISTICS} else "unit": np.repeat(np.array(level.codes, object), len(cells)),
            "cell": np.tile(cells, n_units),
        }
        columns |= {statistic: getattr(level, statistic).reshape(-1) for statistic in STATISTICS}
        (place / estimate_file(number)).write_bytes(arrays_to_parquet(columns))
        panels.append(
            PanelOfUnits(name, *(getattr(level, part)[:, -1] for part in ("released", "median", "low", "high")))
        )
    (place / SUMMARY).write_text("\n".join(summary(found, probability)) + "\n", encoding="utf-8")
    (place / PICTURE).write_text(as_svg(tree_estimates(panels, probability)), encoding="utf-8")


def summary(found: "TreeEstimate", probability: float) -> list[str]:
    """Return what a reader has to know, in lines."""
    from congenial.inference.tree.estimate import WORDS

    n_draws, tree = len(found.draws.leaves), found.law.tree
    lines = [
        f"Estimates for a {tree}.",
        WORDS,
        f"{probability:.0%} intervals, one by one, from {n_draws:,} draws in {found.draws.n_chains} chains.",
        "",
    ]
    for number, name in enumerate(tree.levels, 1):
        level = found.level(name, probability)
        moved = np.abs(level.released - level.median)
        width = level.high - level.low
        lines.append(
            f"{estimate_file(number)}: {len(level.codes):,} {name} units; the median lies {moved[:, :-1].mean():.2f}"
            f" from the release for a cell, {moved[:, -1].mean():.2f} for a total; mean width of the interval"
            f" {width[:, :-1].mean():.1f} and {width[:, -1].mean():.1f}"
        )
    lines += ["", "Chains, half of the numbers at least / split R-hat at most (but for one in twenty) / poor draws:"]
    lines += [
        f"  {name}: {ess:.0f} effective draws, {rhat:.2f}, {poor:.0%}"
        for name, (ess, rhat, poor) in found.draws.diagnosed.items()
    ]
    lines += ["", "Does the prior fit? Figures of the release beside those of releases as the prior would have them:"]
    lines += [f"  {'BAD FIT: ' if check.is_bad else ''}{check}" for check in found.draws.fit] or [
        "  too few units to say"
    ]
    return lines


def as_plain_values(found: "TreeEstimate", probability: float) -> dict[str, Any]:
    """Return the summary as plain values for JSON."""
    return {
        "levels": list(found.law.tree.levels),
        "units": [len(codes) for codes in found.law.tree.codes],
        "files": [estimate_file(number) for number in range(1, len(found.law.tree.levels) + 1)],
        "probability": probability,
        "draws": len(found.draws.leaves),
        "chains": found.draws.n_chains,
        "effective_draws": {name: ess for name, (ess, _, _) in found.draws.diagnosed.items()},
        "split_rhat": {name: rhat for name, (_, rhat, _) in found.draws.diagnosed.items()},
        "poor_draws": {name: poor for name, (_, _, poor) in found.draws.diagnosed.items()},
        "fit": [
            {
                "level": check.level,
                "figure": check.figure,
                "released": check.released,
                "expected": check.mean,
                "low": check.low,
                "high": check.high,
                "is_bad": check.is_bad,
            }
            for check in found.draws.fit
        ],
    }
