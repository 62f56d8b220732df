"""Layers point one way, and what is dangerous or heavy is imported in one place only."""

import ast
from functools import cache
from pathlib import Path

import pytest

import congenial

SOURCE = Path(congenial.__file__).parent

# From the ground up: a module imports from its own layer and those before it.
LAYERS = [
    {
        "safe_text",
        "errors",
        "arrays",
        "arrow_and_unit_codes",
        "portable_math",
        "memory_and_threads",
        "disk_and_gzip",
        "progress_and_interrupts",
    },
    {"proven_decisions", "exact", "randomness", "schema"},
    {"display", "pages", "table", "noise", "conditions", "workload.records"},
    {"sampling", "rules"},
    {"privacy"},
    {"tree"},
    {
        "law",
        "measurement",
        "decided_tables",
        "dry_run",
        "measured_tree_facts",
        "plan",
        "request_to_plan",
        "tree_margins",
    },
    {"workload.law", "workload.later", "workload.plan"},
    {"ledger"},
    {"bundle", "workload.estimates"},
    {"release_key"},
    {"published_release", "release", "workload.release"},
    {"mechanism_and_hierarchy", "workload.workload"},
    {"examples", "opendp_measurement"},
    {"spec"},
    {"reading"},
    {"curator", "inference"},
    {"study"},
    {"engines"},
    {"workbench"},
    {"cli"},
    {"__main__"},
]
ONLY_HERE = {
    "numba": {"sampling.elimination.kernels_convolve", "sampling.jit"},
    "llvmlite": {"sampling.elimination.kernels_convolve"},
    "cryptography": {"bundle.signing", "randomness"},
    "daqp": {"study.baselines.base_and_least_squares"},
    "flint": {
        *(
            "conditions.grouped_cells_and_lattice",
            "proven_decisions",
            "exact",
            "privacy.bounds_and_enumerated_losses",
            "privacy.unimodular",
        ),
        *("noise.noise_and_discrete_noise", "noise.families", "noise.weight"),
        *(f"privacy.weighted_zeros.{name}" for name in ("calibrate", "group_cost", "group_cost_given_total")),
        *(
            "sampling.allocation_to_children.exact_fallback",
            "sampling.two_way.attempts",
            "sampling.two_way.weights_and_buffers",
        ),
        *(f"sampling.elimination.{name}" for name in ("merging", "exact_fallback", "program")),
        *(
            f"sampling.lattice_noise.{name}"
            for name in ("free_coordinates", "klein", "sum_decisions", "sum_forest", "sum_masses", "system")
        ),
        "study.independence_and_rejection_samplers",
    },
    "narwhals": {"inference.posterior", "table"},
    "opendp": {"opendp_measurement"},
    "pyspark": {"engines.spark.session_data_and_tasks", "engines.spark.engine"},
    "psycopg": {"ledger.postgresql"},
    "sqlite3": {"ledger.sqlite"},
    "highspy": {"conditions.integer_program", "rules.integer_least_squares"},
    "scipy": {
        *(f"inference.models.{name}" for name in ("design_and_parameter_steps", "goodness_of_fit", "log_linear")),
        *("inference.priors", "inference.smooth.chains", "privacy.audit"),
        *("study.baselines.projection", "study.baselines.topdown_and_leaves_alone"),
    },
    "duckdb": {"reading.duckdb_session_and_queries"},
    "pyarrow": {
        *("bundle.workload_bundle", "bundle.workload_files"),
        *("arrow_and_unit_codes", "bundle.parquet", "bundle.areas_spine_and_level_files", "bundle.table_files"),
        "bundle.measurement_files",
        *(
            "engines.spark.session_data_and_tasks",
            "engines.spark.engine",
            "reading.duckdb_session_and_queries",
            "reading.tables_and_data_checks",
            "reading.leaf_list",
        ),
    },
    "pydantic": {"spec.file_format", "spec.yaml_and_mistakes"},
    "ruamel": {"spec.yaml_and_mistakes", "workbench.spec_edit"},
    "starlette": {
        f"workbench.{name}"
        for name in (
            *("app_and_guard", "ask_pages", "choose_exact_pages", "endpoints_and_templates", "jobs_and_errors"),
            *("release_and_ledger_pages", "spec_and_describe_pages"),
        )
    },
    "uvicorn": {"workbench.app_and_guard"},
    "rich": {"cli.curator", "cli.command_and_output", "cli.study"},
    "click": {
        f"cli.{name}"
        for name in (
            *("analyst", "command_and_output", "curator", "ledger", "main"),
            *("release_withdraw_keygen", "study"),
        )
    },
    "matplotlib": {"pages.matplotlib_figures"},
    "jinja2": {"pages.page", "workbench.endpoints_and_templates"},
    "arviz_stats": {"inference.estimates_and_draw_quality"},
    "arviz_base": {"inference.posterior"},
}
# `constraints.count()` is a question to the set that only the engine can answer: a late import.
LOOKS_UP = {("conditions.constraints", "sampling.counting")}
MAKES_RANDOMNESS = {"random", "secrets"}


@cache  # every file is parsed once, and asked about by hundreds of tests
def modules() -> dict[str, Path]:
    paths = {path: path.relative_to(SOURCE).with_suffix("").parts for path in SOURCE.rglob("*.py")}
    return {".".join(part for part in parts if part != "__init__"): path for path, parts in paths.items()}


@cache
def imports(path: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names if node.module == "congenial"}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "import_extra":
            found.add(ast.literal_eval(node.args[0]))
    return frozenset(found)


def layer_of(module: str) -> int:
    top = module.split(".", maxsplit=1)[0]
    return next(number for number, layer in enumerate(LAYERS) if module in layer or top in layer)


@pytest.mark.parametrize("module", [name for name in modules() if name not in {"", "workload"}])
def test_layers_point_one_way(module: str) -> None:
    for name in imports(modules()[module]):
        if name.startswith("congenial."):
            below = name.removeprefix("congenial.")
            if (module, below) in LOOKS_UP:
                continue
            assert layer_of(below) <= layer_of(module), f"{module} imports {below} from a later layer"


@pytest.mark.parametrize("package", ONLY_HERE)
def test_heavy_packages_have_one_home(package: str) -> None:
    users = {name for name, path in modules().items() if any(i.split(".")[0] == package for i in imports(path))}
    assert users == ONLY_HERE[package]


def test_no_internals_of_numba() -> None:
    for name, path in modules().items():
        assert not any(i.startswith(("numba.core", "numba.np", "numba.typed")) for i in imports(path)), name


def test_generators_are_made_in_randomness_only() -> None:
    for name, path in modules().items():
        assert not MAKES_RANDOMNESS & {i.split(".")[0] for i in imports(path)}, name
        text = path.read_text(encoding="utf-8")
        for word in ("np.random", "default_rng", "urandom"):
            assert word not in text or name == "randomness", f"{name} uses {word}"


def test_public_types_cannot_hold_a_table() -> None:
    """What is computed from public structure alone must not even know the type of a confidential table."""
    for name in modules():
        if name.startswith(("conditions", "noise", "privacy", "tree", "law", "plan", "request_to_plan", "spec")):
            assert not any("table" in i.split(".") for i in imports(modules()[name])), name


def test_rules_see_measurements_and_public_structure_alone() -> None:
    """What decides tables cannot even import what reads, holds or draws confidential ones, nor the key of the noise."""
    for name in modules():
        if name.startswith(("rules", "decided_tables", "bundle.decide", "bundle.cell_intervals")):
            for needed in imports(modules()[name]):
                barred = ("congenial.release", "congenial.table", "congenial.reading", "congenial.curator")
                assert not any(needed == module or needed.startswith(f"{module}.") for module in barred), name
                assert "release_key" not in needed.split("."), name


def test_tables_of_records_are_decided_without_the_records() -> None:
    """Law, plan and estimates of several tables, and the files of their bundles, see measurements and exact numbers."""
    for name in ("workload.law", "workload.plan", "workload.estimates", "workload.release"):
        for needed in imports(modules()[name]):
            assert not needed.startswith(("congenial.workload.records", "congenial.workload.workload")), name
            assert not needed.startswith(("congenial.table", "congenial.reading", "congenial.release_key")), name
    users = [name for name, path in modules().items() if "congenial.workload.records" in imports(path)]
    of_workbench = [
        f"workbench.{name}" for name in ("panel_and_design", "spec_and_describe_pages", "workload_panel", "workspace")
    ]
    elsewhere = ["", "reading.tables_and_data_checks", "study.compare_workload"]
    assert sorted(users) == [*elsewhere, *of_workbench, "workload.workload"]


CURATORS = tuple(f"congenial.{name}" for name in ("table", "release", "mechanism_and_hierarchy", "reading", "curator"))


def test_inference_reads_no_data() -> None:
    """The analyst's side works from the bundle alone: it imports neither tables nor what reads or draws releases."""
    for name in modules():
        if name.startswith("inference"):
            for found in imports(modules()[name]):
                assert not found.startswith(
                    (
                        "congenial.table",
                        "congenial.curator.pipeline",
                        "congenial.release",
                        "congenial.mechanism_and_hierarchy",
                        "congenial.reading",
                        "congenial.curator",
                    )
                ), name


def test_import_is_light() -> None:
    """`import congenial` and planning load neither numba nor any frame library."""
    import subprocess
    import sys

    code = (
        "import congenial as cg, congenial.ledger, sys; from congenial.examples import *; m = p12_mechanism();"
        "constraints = m.disclose(cg.Table(p12_schema(), [[1] * 23] * 2)); m.plan(constraints).certificate;"
        "print(*sorted({m.split('.')[0] for m in sys.modules}))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numba", "pandas", "polars", "pyarrow", "rich"} & set(loaded)


def test_nobody_needs_the_workbench() -> None:
    """Its extra may be missing: nothing imports it but its own command, when that is called."""
    for name, path in modules().items():
        if not name.startswith(("workbench", "cli.curator")):
            assert not any(found.startswith("congenial.workbench") for found in imports(path)), name
    tree = ast.parse(modules()["cli.curator"].read_text(encoding="utf-8"))
    at_once = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not any("workbench" in ast.unparse(node) for node in at_once)


def test_a_file_is_a_subject() -> None:
    """None is longer than 700 lines, and none is shorter than 60 that a single module imports."""
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in modules().items()}
    assert {name: n for name, n in lengths.items() if n > 700} == {}
    importers: dict[str, set[str]] = {name: set() for name in modules()}
    for name, path in modules().items():
        for found in imports(path):
            importers.get(found.removeprefix("congenial."), set()).add(name)
    packages = {name for name, path in modules().items() if path.name in {"__init__.py", "__main__.py"}}
    thin = {name for name, n in lengths.items() if n < 60 and len(importers[name]) < 2}
    assert thin - packages == set()
