"""What decides a draw is computed by operations that are the same on every machine."""

import ast
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

import congenial
from congenial import portable_math
from congenial.exact import circle_points
from congenial.sampling import kernel_scaled_floats as kernel_numbers

SOURCE = Path(congenial.__file__).parent
TESTS = Path(__file__).parents[1]

# Orders, tilts, bounds and tables that decide which table given words lead to. Elsewhere a mathematics library may say
# how large a tolerance is, or how long something takes: docs/claims/exact-sampling.md, section 6.
DECIDING = [
    *["arrow_and_unit_codes", "exact", "noise/weight", "portable_math", "randomness", "sampling/kernel_scaled_floats"],
    *[f"sampling/allocation_to_children/{name}" for name in ("kernels", "sampler", "tilts_and_normaliser")],
    *[f"sampling/elimination/{name}" for name in ("merging", "order", "windows")],
    *[f"sampling/two_way/{name}" for name in ("counts_given_margins", "grid", "prepared", "weights_and_buffers")],
    *[f"sampling/two_way/kernels_{name}" for name in ("attempt", "lookahead", "tilt")],
    *["measurement", "sampling/lattice_noise/sum_forest", "sampling/lattice_noise/system"],
    *["tree/exact_sums", "tree/drawing", "tree/tree_and_zeros"],
]
# Normalisers and tolerances, which decide no draw.
OTHERS = {
    "sampling/allocation_to_children/tilts_and_normaliser": {"Normaliser", "_weights"},
    "sampling/kernel_scaled_floats": {
        *("_LOG_STEP", "log_of_number", "shortfall", "shortfall_at", "joint_shortfall", "settle", "log_of_shortfall"),
    },
    "sampling/two_way/counts_given_margins": {"_sum"},
}
LIBRARY = {
    *["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "logaddexp", "pow", "power", "float_power", "hypot"],
    *["sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "gamma", "lgamma", "erf", "cbrt"],
}


def differing(text: str) -> dict[str, list[str]]:
    """Return what of each definition may differ between machines: functions of a library, and powers of floats."""
    tree, found = ast.parse(text), {}
    taken = {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in {"math", "numpy", "cmath"}
        for name in node.names
        if name.name in LIBRARY
    }
    for definition in tree.body:
        if isinstance(definition, ast.Import | ast.ImportFrom):
            continue
        uses = []
        for node in ast.walk(definition):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                uses += [node.attr] if node.value.id in {"math", "np", "numpy"} and node.attr in LIBRARY else []
            if isinstance(node, ast.Name):
                uses += [node.id] if node.id in taken else []
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
                is_float = isinstance(node.right, ast.Constant) and isinstance(node.right.value, float)
                uses += [ast.unparse(node)] if is_float else []
        if uses:
            found[getattr(definition, "name", ast.unparse(definition).partition(" ")[0])] = uses
    return found


@pytest.mark.parametrize("name", DECIDING)
def test_what_decides_a_draw_asks_no_mathematics_library(name: str) -> None:
    found = differing((SOURCE / f"{name}.py").read_text(encoding="utf-8"))
    assert {*found} == OTHERS.get(name, set())


@pytest.mark.parametrize("text", ["from math import exp\nexp(2)", "math.log(2)", "x = v**0.5", "np.log1p(x)"])
def test_what_differs_is_found(text: str) -> None:
    assert differing(text)


def test_portable_functions_are_near_the_library() -> None:
    for number in range(1, 400):
        x = number * number / 9_000.0
        for ours, theirs in (
            (portable_math.log_e(x), math.log(x)),
            (portable_math.exp_e(-x), math.exp(-x)),
            (portable_math.exp_e(x), math.exp(x)),
            (portable_math.log_1_plus(x / 18), math.log1p(x / 18)),
            (portable_math.log_1_plus(-x / 18), math.log1p(-x / 18)),
            (portable_math.exp_minus_1(-x / 18), math.expm1(-x / 18)),
        ):
            assert math.isclose(ours, theirs, rel_tol=1e-14, abs_tol=1e-15)


def test_kernels_have_the_same_functions() -> None:
    for number in range(1, 60):
        x = number / 7
        assert portable_math.log_e(x) == kernel_numbers.log_e(x)
        assert portable_math.exp_e(-x) == kernel_numbers.exp_e(-x)


def drawn_off_by(error: float, *mutant: str) -> dict[str, object]:
    """Return the tables that a release draws where every function of the mathematics library is off."""
    done = subprocess.run(
        [sys.executable, TESTS / "libm_off.py", str(error), *mutant], capture_output=True, text=True, check=True
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def drawn_here() -> dict[str, object]:
    return drawn_off_by(0.0)


@pytest.mark.parametrize("error", [2.0**-51, 0.02])
def test_the_same_key_draws_the_same_tables_where_the_library_is_off(
    error: float, drawn_here: dict[str, object]
) -> None:
    """By one or two units in the last place, as libraries are; by a fiftieth, as none is, for that would show."""
    assert drawn_off_by(error) == drawn_here


@pytest.mark.parametrize(
    ("mutant", "error", "others"),
    [("base", 0.02, {"areas", "both_margins", "children"}), ("powers", 1e-3, {"both_margins"})],
)
def test_draws_that_ask_the_library_are_seen(
    mutant: str, error: float, others: set[str], drawn_here: dict[str, object]
) -> None:
    found = drawn_off_by(error, mutant)
    assert {name for name in drawn_here if found[name] != drawn_here[name]} == others


def test_bits_are_those_of_every_machine() -> None:
    """Written down once: a machine that computes others would draw other tables from the same words."""
    assert [portable_math.exp_e(-0.7).hex(), portable_math.log_e(0.3).hex()] == [EXP, LOG]
    assert [value.hex() for value in circle_points(32)[3]] == [COSINE, SINE]


EXP, LOG = "0x1.fc80db9dd5542p-2", "-0x1.34378fcbda720p+0"
COSINE, SINE = "0x1.a9b66290ea1a3p-1", "0x1.1c73b39ae68c8p-1"
