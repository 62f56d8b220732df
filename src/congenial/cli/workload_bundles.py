"""What show and infer print of bundles of several tables of the same records."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeGuard

from congenial.cli.command_and_output import say, show_json, show_table
from congenial.errors import InferenceError

if TYPE_CHECKING:
    from congenial.inference.workload_answers import AnalystWorkloadBundle

_MOST_EXACT = 12
_MOST_ROWS = 40

ABOUT = (
    "* exact: as much on both sides of the estimate as its error reaches with this probability, whatever the records"
    " are; cut at what is possible. It holds for numbers that are named before looking. The count is that of the"
    " published tables."
)


def is_of_several_tables(bundle: object) -> "TypeGuard[AnalystWorkloadBundle]":
    """Whether a bundle has several tables of the same records."""
    from congenial.inference.workload_answers import AnalystWorkloadBundle

    return isinstance(bundle, AnalystWorkloadBundle)


def refuse_options(options: Mapping[str, object], instead: str) -> None:
    """Refuse options that have no meaning for several tables of the same records."""
    for name, value in options.items():
        if value:
            raise InferenceError(f"{name} is not for several tables of the same records: {instead}")


def refuse_from_records(is_stated: object) -> None:
    """Refuse to count made-up records of a bundle that has none."""
    if is_stated:
        raise InferenceError("--from-records is for several tables of the same records, and this bundle has none")


def show_tables(bundle: "AnalystWorkloadBundle", name: str | None, *, estimates: bool, as_json: bool) -> None:
    """Print exact numbers, privacy, the list of tables, and one of them laid out."""
    from congenial.bundle import report_and_readme as promises
    from congenial.bundle.manifest import with_commas
    from congenial.bundle.table_files import formula_warnings
    from congenial.display import as_text

    manifest, law = bundle.manifest, bundle.law
    chosen = bundle.names[0] if name is None else name
    counts = bundle.table(chosen) if bundle.levels or name not in {None, *bundle.names} else None
    schema = bundle.schema_of(chosen)
    if as_json:
        show_json(_shown_json(bundle, chosen, estimates=estimates))
        return
    say(manifest.naming.title, bold=True)
    say(str(bundle))
    say(*promises.replacement_sentences(manifest))
    for line in bundle.not_checked:
        say(f"NOT checked: {line}", bold=True)
    if not manifest.is_for_release:
        say(promises.SIMULATED, bold=True)
    say(f"Privacy loss of all tables together: {promises.cost_text(manifest)}.")
    say(*(f"  {line}" for line in manifest.plan.price_lines))
    for line in manifest.plan.not_protected_text:
        say(f"  NOT PROTECTED: {line}", bold=True)
    if manifest.exact_statistics:
        say("Exact:")
        for exact in manifest.exact_statistics[:_MOST_EXACT]:
            mandate = f"  ({exact.mandate})" if exact.mandate else ""
            say(f"  {exact.text}: {with_commas(exact.value())}{mandate}")
        if len(manifest.exact_statistics) > _MOST_EXACT:
            say(f"  and {len(manifest.exact_statistics) - _MOST_EXACT:,} more: --json, or manifest.json")
    say("Tables, counts of the same made-up records:")
    for table in law.published:
        n_cells = law.schema.part(table.dimensions).n_cells
        say(f"  {table.name}: {' x '.join(table.dimensions)}, {n_cells:,} cells")
    for line in manifest.plan.noise_text:
        say(f"Noise on {line}.")
    say(*formula_warnings(law.schema, ()))
    if counts is None:
        say("", "There are measurements and no tables: congenial decide makes them.")
        return
    say("", f"{chosen}, decided from the measurements of all tables:")
    say(*as_text(schema, counts.reshape(-1)).split("\n"))
    if estimates:
        _show_columns(bundle, chosen)
    else:
        say("Its measurements and estimates with intervals: --estimates; another table: --table NAME.")


def _show_columns(bundle: "AnalystWorkloadBundle", name: str) -> None:
    columns = bundle.frame(name)
    header, lines = list(columns), list(zip(*columns.values(), strict=True))
    rows = [[value if isinstance(value, str) else f"{value:,}" for value in line] for line in lines[:_MOST_ROWS]]
    show_table(header, rows, f"{name}: counts, measurements and estimates with 90% intervals")
    if len(lines) > _MOST_ROWS:
        say(f"These are the first {_MOST_ROWS} of {len(lines):,} cells; all are in the table's file, and with --json.")


def _shown_json(bundle: "AnalystWorkloadBundle", chosen: str, *, estimates: bool) -> dict[str, Any]:
    from congenial.bundle import report_and_readme as promises

    manifest, law = bundle.manifest, bundle.law
    plan = manifest.plan
    return {
        "release": manifest.naming.release,
        "dataset": manifest.naming.dataset,
        "replaces": manifest.naming.replaces,
        "made_at": manifest.made_at,
        "is_for_release": manifest.is_for_release,
        "not_checked": bundle.not_checked,
        "cost": promises.cost_text(manifest),
        "changes": plan.price_lines,
        "not_protected": plan.not_protected_text,
        "exactly": [
            {"text": exact.text, "mandate": exact.mandate, "value": exact.value()}
            for exact in manifest.exact_statistics
        ],
        "tables": [{"name": table.name, "dimensions": list(table.dimensions)} for table in law.published],
        "table": chosen,
        "counts": bundle.table(chosen).tolist() if bundle.levels else None,
        **({"columns": bundle.frame(chosen)} if estimates and bundle.levels else {}),
    }


def infer_tables(
    bundle: "AnalystWorkloadBundle",
    queries: Sequence[str],
    options: Mapping[str, object],
    *,
    level: float,
    is_simultaneous: bool,
    from_records: bool,
    as_json: bool,
) -> None:
    """Print what queries ask, from least squares over all tables; options of other bundles are refused."""
    refuse_options(options, "all of them answer together, and an area is a dimension of the query")
    answers = bundle.estimate(queries, level=level, is_simultaneous=is_simultaneous, from_records=from_records)
    if as_json:
        show_json([asdict(one) | {"is_exact": one.is_exact, "is_model": one.is_model} for one in answers])
        return
    if not bundle.manifest.is_for_release:
        say("NOT FOR RELEASE: this bundle is a simulation.", bold=True)
    how = f"{level:.0%} intervals{', all together' if is_simultaneous else ''}"
    show_table(
        ("number", "count", "estimate", "s.e.", "interval*", "coverage"), [answer.as_row() for answer in answers], how
    )
    if not all(one.is_model for one in answers):
        say(ABOUT)
    if any(one.is_model for one in answers):
        say("A model: no measured table says it, and how far it is from the truth is not known.", bold=True)
