"""Questions answered from releases of real tables: coverage of 90 % intervals and errors, next to the goals."""

import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from real_tables import small_tables

import congenial as cg
from congenial.examples import P12_AGES, p12_mechanism, p12_schema
from congenial.study.answered import CELLS, Question, answered_study, chi_square

OLD = 17  # the first of the ages from 65 on
DISPERSION = "chi-square"


def _ratio(tables: NDArray[np.int64]) -> NDArray[np.float64]:
    old = tables.reshape(-1, 2, len(P12_AGES))[:, :, OLD:].sum(axis=2)
    return np.asarray((old[:, 1] + 0.5) / (old[:, 0] + 0.5))


def questions() -> dict[str, str | Question]:
    """Return what is asked of each table."""

    def ages(first: int, last: int | None = None) -> str:
        return f"age in {{{', '.join(P12_AGES[first:last])}}}"

    return {
        "65+": ages(OLD),
        "25-44": ages(8, 12),
        "18-24": ages(4, 8),
        "share of 65+ among women": f"share({ages(OLD)} | sex=female)",
        "men for a woman, 65+": _ratio,
        DISPERSION: chi_square(p12_schema()),
    }


def answer_small_tables(folder: Path, n_releases: int) -> bool:
    """Print a row a question for each law; FAILING where coverage or error is worse than was hoped for."""
    schema, tables = p12_schema(), small_tables(folder)
    invariants = {"P12": p12_mechanism().invariants, "every age's total": [cg.margin("age")]}
    gaussian = {"rho": "1/2", "noise": "discrete_gaussian"}
    budgets = {"epsilon 1": ({"epsilon": "1"}, 0.82, 0.75), "epsilon 4": ({"epsilon": "4"}, 0.87, 0.80)}
    budgets["rho 1/2"] = (gaussian, 0.87, 0.80)
    is_kept = True
    print("twenty P12 tables: coverage of 90 % intervals (standard error), by error law; error of release, of estimate")
    for budget, (given, least, least_dispersion) in budgets.items():
        for exact, conditions in invariants.items():
            mechanism = cg.Mechanism(schema, measure=[cg.cells()], invariants=conditions, **given)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                found = answered_study(mechanism, tables, questions(), source="public", n_releases=n_releases)
            for name, _, coverage, error, by_law, _, released, estimate in zip(*found.columns.values(), strict=True):
                goal = least_dispersion if name == DISPERSION else least
                is_exact = released == estimate == 0
                is_short = coverage < goal or estimate > released
                is_bad = is_short and not is_exact and not name.startswith(f"{CELLS} ")
                law = "" if np.isnan(by_law) else f"{by_law:6.1%}"
                line = f"  {budget}, {exact:18}{name:26}{coverage:6.1%} ({error:.1%}) {law:7}"
                said = f"  FAILING: the goal is {goal:.0%}, and an error below the release's" if is_bad else ""
                print(f"{line}{released:8.3g}{estimate:8.3g}{said}", flush=True)
                is_kept &= not is_bad
    return is_kept
