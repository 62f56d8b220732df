"""`congenial show`: a bundle's tables and facts in the terminal."""

from pathlib import Path

import click

from congenial.cli.output import as_json_option, refusals_in_words, say, show_json


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--area", help="Which area's table to show; the first when not given.")
@as_json_option
@refusals_in_words
def show(bundle: Path, area: str | None, as_json: bool) -> None:
    """Show what BUNDLE publishes: exact numbers, privacy, and a table. It is verified first."""
    from congenial.bundle import promises
    from congenial.bundle.loading import load_bundle
    from congenial.bundle.table_csv import formula_warnings
    from congenial.display import as_text
    from congenial.errors import BundleError, did_you_mean

    found = load_bundle(bundle)
    manifest = found.manifest
    if area is not None and area not in found.tables:
        known = [name for name in found.tables if name is not None]
        raise BundleError(
            f"the bundle has no area {area!r}; {did_you_mean(area, known) if known else 'it has one table'}"
        )
    chosen = area if area is not None else next(iter(found.tables))
    if as_json:
        show_json(
            {
                "release": manifest.naming.release,
                "dataset": manifest.naming.dataset,
                "made_at": manifest.made_at,
                "is_for_release": manifest.is_for_release,
                "not_checked": found.not_checked,
                "cost": promises.cost(manifest),
                "exactly": [
                    {"text": exact.text, "mandate": exact.mandate, "value": exact.values[chosen]}
                    for exact in manifest.exactly
                ],
                "area": chosen,
                "counts": found.tables[chosen].tolist(),
            }
        )
        return
    say(manifest.naming.title, bold=True)
    say(str(found))
    for line in found.not_checked:
        say(f"NOT checked: {line}", bold=True)
    if not manifest.is_for_release:
        say(promises.SIMULATED, bold=True)
    say(f"Privacy loss {promises.cost(manifest)}.")
    for line in manifest.plan.noise_text:
        say(f"Noise on {line}.")
    if manifest.exactly:
        say("Exact:")
        for exact in manifest.exactly[:40]:
            mandate = f"  ({exact.mandate})" if exact.mandate else ""
            say(f"  {exact.text}: {exact.values[chosen]}{mandate}")
    say(*formula_warnings(manifest.law.schema, (manifest.law.areas.name, *manifest.law.areas)))
    where = "" if chosen is None else f" of {manifest.law.areas.name} {chosen}"
    say("", f"Released table{where}:")
    say(*as_text(manifest.law.schema, found.tables[chosen]).split("\n"))
