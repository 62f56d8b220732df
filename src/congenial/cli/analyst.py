"""Commands of an analyst: verify, show, infer, estimate."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from congenial.cli.command_and_output import (
    bundle_argument,
    command,
    progress_bar,
    quiet_bar,
    rng_of,
    say,
    seed_option,
    show_json,
    show_table,
)

if TYPE_CHECKING:
    from congenial.inference.analyst_bundle import AnalystBundle
    from congenial.inference.frequentist import Confidence

NOT_CHECKED = 3
"""Exit code when nothing was found wrong, and something could not be checked."""


@command
@bundle_argument
@click.option(
    "--key", type=click.Path(path_type=Path), help="The publisher's public key; the bundle must be signed by it."
)
@click.option("--ledger", "place", help="A ledger that must hold the bundle's receipt: a file or a postgresql:// URL.")
def verify(bundle: Path, key: Path | None, place: str | None, as_json: bool) -> None:
    """Check BUNDLE against itself: whatever follows from its tables and conditions is computed again.

    Without a signature it can only agree with itself. With --key, it is as that key published it. With --ledger, the
    ledger holds the spend that paid for it, and says whether the release was withdrawn or replaced since.

    The exit code is 1 when anything is wrong, and 3 when nothing is, but something could not be checked because other
    versions of the software made it.
    """
    from congenial.bundle.report_and_readme import replacement_sentences
    from congenial.bundle.verify import verify_bundle
    from congenial.ledger import open_ledger

    ledger = None if place is None else open_ledger(place)
    with quiet_bar(f"verifying {bundle.name}") as step:
        verification = verify_bundle(bundle, key=key, ledger=ledger, progress=step)
    if as_json:
        show_json(
            {
                "bundle": str(bundle),
                "standing": verification.standing,
                "checked": verification.checked,
                "not_checked": verification.not_checked,
                "left_out": verification.bundle.manifest.left_out,
                "signed_by": verification.bundle.signed_by,
                "replaces": verification.bundle.manifest.naming.replaces,
                "withdrawn": None if verification.became is None else verification.became.row,
                "is_for_release": verification.bundle.manifest.is_for_release,
            }
        )
    else:
        say(str(verification.bundle))
        say(f"It {verification.standing}.")
        if verification.became is not None:
            say(f"The ledger says that it should no longer be used: it was {verification.became.text}.", bold=True)
        say(*replacement_sentences(verification.bundle.manifest))
        for line in verification.checked:
            say(f"  {line}")
        for name, reason in verification.bundle.manifest.left_out.items():
            say(f"  {name} was left out: {reason}")
        for line in verification.not_checked:
            say(f"  NOT checked: {line}", bold=True)
    if verification.not_checked:
        raise SystemExit(NOT_CHECKED)


@command
@bundle_argument
@click.option("--rule", help="The rule; the one that the release was charged with when not given.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="A new folder for the edition.")
@click.option("--sign", type=click.Path(path_type=Path), help="A private key to sign the edition with.")
def decide(bundle: Path, rule: str | None, out: Path, sign: Path | None, as_json: bool) -> None:
    """Make a further edition of BUNDLE: tables by a rule, from its measurements alone.

    For measured releases: where a rule failed, by another rule, or by newer software. Nothing is charged. The edition
    has the same measurements and the same receipt; where the rule is another one than was charged for, it says that it
    was chosen after publication.
    """
    from congenial.bundle.decide import decide_again

    with quiet_bar(f"deciding {bundle.name}") as step:
        place = decide_again(bundle, out, rule=rule, sign=sign, progress=step)
    if as_json:
        show_json({"bundle": str(place)})
    else:
        say(f"Written: {place}")


# `congenial show`: a bundle's tables and facts in the terminal.

_MOST_UNITS = 100


@command
@bundle_argument
@click.option("--area", help="Which area's table to show; the first when not given.")
@click.option("--level", help="Of a tree: show the units of this level, a line each.")
@click.option("--within", help="With --level: only units whose codes begin so.", default="")
@click.option("--table", "table_name", help="Of several tables: which one to lay out; the first when not given.")
@click.option("--estimates", is_flag=True, help="Of several tables: the measurements and estimates of the table too.")
def show(
    bundle: Path,
    area: str | None,
    level: str | None,
    within: str,
    table_name: str | None,
    estimates: bool,
    as_json: bool,
) -> None:
    """Show what BUNDLE publishes: exact numbers, privacy, and a table. It is verified first."""
    from congenial.bundle import report_and_readme as promises
    from congenial.bundle.manifest import with_commas
    from congenial.bundle.table_files import formula_warnings
    from congenial.cli.workload_bundles import is_of_several_tables, refuse_options, show_tables
    from congenial.display import as_text
    from congenial.errors import BundleError, did_you_mean
    from congenial.inference.analyst_bundle import load_bundle

    loaded = load_bundle(bundle)
    if is_of_several_tables(loaded):
        refuse_options({"--area": area, "--level": level, "--within": within}, "choose a table with --table")
        show_tables(loaded, table_name, estimates=estimates, as_json=as_json)
        return
    if table_name is not None or estimates:
        raise BundleError("--table and --estimates are for several tables of the same records, and this is none")
    manifest = loaded.manifest
    if level is not None:
        _show_level(loaded, level, within, as_json=as_json)
        return
    areas = loaded.law.areas
    if area is not None and area not in areas:
        known = [name for name in areas if name is not None]
        raise BundleError(
            f"the bundle has no area {area!r}; {did_you_mean(area, known) if known else 'it has one table'}"
        )
    chosen = area if area is not None else areas.labels[0]
    place = areas.places[chosen]
    if as_json:
        show_json(
            {
                "release": manifest.naming.release,
                "dataset": manifest.naming.dataset,
                "replaces": manifest.naming.replaces,
                "made_at": manifest.made_at,
                "is_for_release": manifest.is_for_release,
                "not_checked": loaded.not_checked,
                "cost": promises.cost_text(manifest),
                "exactly": [
                    {"text": exact.text, "mandate": exact.mandate, "value": exact.value(place)}
                    for exact in manifest.exact_statistics
                ],
                "area": chosen,
                "counts": loaded.tables[chosen].tolist() if loaded.levels else None,
                **_measurements_json(loaded, place),
            }
        )
        return
    say(manifest.naming.title, bold=True)
    say(str(loaded))
    say(*promises.replacement_sentences(manifest))
    for line in loaded.not_checked:
        say(f"NOT checked: {line}", bold=True)
    if not manifest.is_for_release:
        say(promises.SIMULATED, bold=True)
    say(f"Privacy loss {promises.cost_text(manifest)}.")
    for line in manifest.plan.noise_text:
        say(f"Noise on {line}.")
    if manifest.exact_statistics:
        say("Exact:")
        for exact in manifest.exact_statistics[:40]:
            mandate = f"  ({exact.mandate})" if exact.mandate else ""
            say(f"  {exact.text}: {with_commas(exact.value(place))}{mandate}")
    say(*formula_warnings(manifest.law.schema, (manifest.law.areas.name, *manifest.law.areas)))
    where = "" if chosen is None else f" of {manifest.law.areas.name} {chosen}"
    _show_measurements(loaded, place, where)
    if loaded.levels:
        say("", f"{'Table, decided from the measurements' if loaded.law.is_measured else 'Released table'}{where}:")
        say(*as_text(manifest.law.schema, loaded.tables[chosen]).split("\n"))


def _measurements_json(bundle: "AnalystBundle", place: int) -> dict[str, object]:
    """Return the measurements of an area as plain values; nothing of a conditional release."""
    if bundle.measurements is None:
        return {}
    names = [query.row.name for query in bundle.law.measured]
    values = bundle.measurements[place].tolist()
    return {
        "method": bundle.law.method,
        "rule": bundle.law.rule and bundle.law.rule[0],
        "measurements": [{"row": name, "value": value} for name, value in zip(names, values, strict=True)],
    }


def _show_measurements(bundle: "AnalystBundle", place: int, where: str) -> None:
    """Print the measurements of an area: cells as a table, and what else was measured as lines."""
    from congenial.bundle.method_text import NEGATIVE, table_text
    from congenial.decided_tables import cell_columns
    from congenial.display import as_text

    if bundle.measurements is None:
        return
    law, values = bundle.law, bundle.measurements[place]
    columns = cell_columns(law)
    say("", f"Measurements{where}, true counts plus noise. {NEGATIVE}")
    of_cells = set() if columns is None else set(columns.tolist())
    if columns is not None:
        say(*as_text(law.schema, values[columns]).split("\n"))
    for number, query in enumerate(law.measured):
        if number not in of_cells:
            say(f"  {query.row.name}: {int(values[number]):,}")
    say(table_text(bundle.manifest))


def _show_level(bundle: "AnalystBundle", level: str, within: str, *, as_json: bool) -> None:
    codes, tables = bundle.level(level)
    chosen = [place for place, code in enumerate(codes) if code.startswith(within)]
    names = [bundle.law.schema.cell_name(cell) for cell in range(bundle.law.schema.n_cells)]
    if as_json:
        show_json({"level": level, "cells": names, "units": {codes[place]: tables[place].tolist() for place in chosen}})
        return
    shown = chosen[:_MOST_UNITS]
    rows = [
        [codes[place], f"{int(tables[place].sum()):,}", *(f"{n:,}" for n in tables[place].tolist())] for place in shown
    ]
    show_table([level, "total", *names], rows, f"{len(chosen):,} {level} units")
    if len(chosen) > len(shown):
        say(f"These are the first {len(shown)}; --within with the beginning of a code shows others.")


# `congenial infer`: what a bundle says about a number, and how surely.

_FEW_UNITS = 10


@command
@bundle_argument
@click.option("--query", "queries", multiple=True, required=True, help='Such as "sex=female & age in {65-66, 67-69}".')
@click.option("--level", type=float, default=0.9, show_default=True, help="Probability of the intervals.")
@click.option("--area", "areas", multiple=True, help="Area to ask about; may be repeated. Default: all of them.")
@click.option("--units", help="Of a measured tree, the level whose units are asked about. Default: those at the top.")
@click.option(
    "--district",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Of a measured tree: a file with the codes of some leaves, one a line, which are asked about together.",
)
@click.option(
    "--combined",
    is_flag=True,
    help="With --units or --district, or of the top of a measured tree: narrower intervals, from all levels together.",
)
@click.option("--pooled", is_flag=True, help="Let areas named by --area lean on all others, as all areas do together.")
@click.option(
    "--prior",
    help="smooth, flat, dirichlet or independence. Default: smooth; of measured releases none, for their measurements"
    " answer without one.",
)
@click.option("--draws", type=int, default=4_000, show_default=True, help="Posterior draws of each area.")
@click.option("--simultaneous", is_flag=True, help="Intervals that hold for all numbers of an area together.")
@seed_option
@click.option("--plot", type=click.Path(path_type=Path), help="Write a picture of the intervals (SVG or PNG).")
@click.option("--export-draws", type=click.Path(path_type=Path), help="Write the draws behind these intervals as CSV.")
@click.option(
    "--from-records",
    is_flag=True,
    help="Of several tables: count made-up records where no measured table says a number; a model, without interval.",
)
def infer(
    bundle: Path,
    queries: tuple[str, ...],
    level: float,
    areas: tuple[str, ...],
    units: str | None,
    district: Path | None,
    combined: bool,
    pooled: bool,
    prior: str | None,
    draws: int,
    simultaneous: bool,
    seed: int | None,
    plot: Path | None,
    export_draws: Path | None,
    from_records: bool,
    as_json: bool,
) -> None:
    """Answer questions about the confidential table from BUNDLE alone, with honest intervals.

    A query picks cells (sex=female & age >= 65-66), or asks for share(part | whole), ratio(one / other),
    difference(one, other), odds_ratio(one, other) or median(age | part); `by age` asks for each age, `over areas` adds
    areas up, and difference(area=North, area=South) compares two. Numbers that the invariants determine are given as
    exact.

    Of a measured release, counts, differences, sums over areas and shares of exact numbers have intervals from the
    measurements, exact and at once; with --prior there is a posterior beside them, which other numbers need.

    Of several tables of the same records all answer together, by least squares: counts, differences and shares whose
    dimensions lie in a measured table. An area is a dimension there, and the options of areas, units and priors are not
    for them.
    """
    from congenial.cli.workload_bundles import infer_tables, is_of_several_tables, refuse_from_records
    from congenial.decided_tables import cell_columns
    from congenial.errors import InferenceError
    from congenial.inference.ask_and_answers import ask, check_picture, plot_answers, write_draws
    from congenial.inference.priors import DEFAULT_PRIOR

    if plot is not None:
        check_picture(plot)
    if export_draws is not None and export_draws.exists():
        raise InferenceError(f"{export_draws} exists, and draws are written to a new file; name another")
    loaded = _load(bundle)
    if is_of_several_tables(loaded):
        infer_tables(
            *(loaded, queries),
            {"--area": areas, "--units": units, "--district": district, "--pooled": pooled, "--prior": prior}
            | {"--plot": plot, "--export-draws": export_draws, "--combined": combined},
            level=level,
            is_simultaneous=simultaneous,
            from_records=from_records,
            as_json=as_json,
        )
        return
    refuse_from_records(from_records)
    if combined:
        _refuse_draws(prior, pooled, export_draws, plot)
        _infer_combined(loaded, queries, units, areas, district, level, is_simultaneous=simultaneous, as_json=as_json)
        return
    if district is not None:
        _infer_district(loaded, district, queries, level, is_simultaneous=simultaneous, as_json=as_json)
        return
    if units is not None:
        loaded = loaded.units(units)
    with progress_bar("inferring") as step:
        answers = ask(
            loaded,
            queries,
            areas,
            level=level,
            prior=prior,
            n_draws=draws,
            is_simultaneous=simultaneous,
            is_pooled=pooled,
            needs_draws=export_draws is not None,
            rng=rng_of("infer", seed),
            progress=step,
        )
    for line in answers.warnings:
        say(f"WARNING: {line}.", bold=True, err=True)
    numbers = answers.numbers
    has_posterior = not loaded.law.is_measured or any(number.is_drawn for number in numbers)
    if export_draws is not None:
        write_draws(export_draws, answers.posteriors)
    if plot is not None:
        plot_answers(plot, numbers)
    if as_json:
        drawn = {
            "prior": (prior or DEFAULT_PRIOR) if has_posterior else None,
            "draws": draws if has_posterior else None,
            "seed": seed,
            "is_pooled": answers.is_pooled,
            "warnings": list(answers.warnings),
        }
        show_json([number.as_json() | drawn for number in numbers])
        return
    named = list(loaded.law.areas.labels) != [None]
    if loaded.law.is_measured:
        names, parts = measured_names(has_posterior), [n.as_measured_row(has_posterior=has_posterior) for n in numbers]
    else:
        names, parts = _NAMES, [number.as_row() for number in numbers]
    rows = [(*([n.area or "together"] if named else []), *part) for n, part in zip(numbers, parts, strict=True)]
    if not loaded.manifest.is_for_release:
        say("NOT FOR RELEASE: this bundle is a simulation.", bold=True)
    how = [f"{level:.0%} intervals", *([f"prior {prior or DEFAULT_PRIOR}"] if has_posterior else [])]
    how += [*(["areas pooled"] if answers.is_pooled else []), *(["all together"] if simultaneous else [])]
    show_table((*(["area"] if named else []), *names), rows, ", ".join(how))
    say(*_about(loaded))
    if has_posterior and any(number.estimate.is_median and not number.estimate.is_exact for number in numbers):
        say("Estimates of ratios and medians are posterior medians, the others posterior means.")
    say(_ABOUT_MEASURED if loaded.law.is_measured else _ABOUT_ERRORS)
    for why in dict.fromkeys(number.confidence.why for number in numbers if not number.confidence.is_available):
        is_offered = not has_posterior and cell_columns(loaded.law) is not None
        say(f"Not available without a prior: {why}.{' Name one, such as --prior smooth.' if is_offered else ''}")


_NAMES = (
    *("number", "released", "by error law*", "estimate", "MC error", "low", "high", "without a prior", "eff. draws"),
)
_ABOUT_ERRORS = (
    "* approximate: the released number less the errors of releases of tables like this one. Estimate, low and high"
    " rest on the prior; where they disagree with the error law, it is the prior that speaks."
)
_ABOUT_MEASURED = (
    "* exact: the measurement and as much on both sides as its noise reaches with the probability under coverage,"
    " whatever the table is; cut at what is possible. It holds for numbers that are named before looking."
)


def measured_names(has_posterior: bool) -> tuple[str, ...]:
    """Return the columns of answers from measurements."""
    posterior = ("estimate", "MC error", "low", "high", "eff. draws") if has_posterior else ()
    return "number", "table", "measured", "interval*", "coverage", *posterior


def _refuse_draws(*options: object) -> None:
    """Refuse options of draws beside --combined."""
    from congenial.errors import InferenceError

    if any(options):
        raise InferenceError("--combined answers without a prior, in words: leave out what is about draws or a plot")


def _load(bundle: Path) -> "AnalystBundle":
    """Read a bundle that questions are put to, and say what of it could not be checked."""
    from congenial.inference.analyst_bundle import load_bundle

    loaded = load_bundle(bundle)
    for line in loaded.not_checked:
        say(f"NOT checked: {line}", bold=True, err=True)
    return loaded


def _infer_district(
    bundle: "AnalystBundle",
    file: Path,
    queries: tuple[str, ...],
    level: float,
    *,
    is_simultaneous: bool,
    as_json: bool,
) -> None:
    """Answer questions about leaves put together, from the measurements of all levels."""
    district = bundle.district(_codes_in(file, bundle.tree.levels[-1]))
    answers = district.confidence(queries, level=level, is_simultaneous=is_simultaneous)
    if as_json:
        show_json([_confidence_json(one) for one in answers])
        return
    rows = [_confidence_row(one) for one in answers]
    show_table(("number", "measured", "interval", "coverage"), rows, f"{level:.0%} intervals of {file.name}")
    for query in queries:
        used = ", ".join(f"{n:,} {name}" for name, n in district.units_in_use(query).items())
        say(f"{query}: read off {used} units.")


def _codes_in(file: Path, leaf: str) -> list[str]:
    """Return the codes of leaves in a file, one a line; a first line with the name of the level is a header."""
    codes = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    return list(dict.fromkeys(codes[1:] if codes[:1] == [leaf] else codes))


def _confidence_json(one: "Confidence") -> dict[str, object]:
    return {name: getattr(one, name) for name in ("query", "low", "high", "measured", "coverage", "how")}


def _confidence_row(one: "Confidence") -> tuple[str, str, str, str]:
    from congenial.inference.frequentist import coverage_text

    ends = f"{one.low:,.10g} to {one.high:,.10g}" if one.is_available else one.why
    ends = "exact" if one.is_available and one.low == one.high and one.coverage == 1 else ends
    measured = "" if one.measured is None else f"{one.measured:,.1f}".removesuffix(".0")
    return one.query, measured, ends, "" if one.coverage is None else coverage_text(one.coverage)


def _infer_combined(
    bundle: "AnalystBundle",
    queries: tuple[str, ...],
    units: str | None,
    codes: tuple[str, ...],
    file: Path | None,
    level: float,
    *,
    is_simultaneous: bool,
    as_json: bool,
) -> None:
    """Answer questions about units of a level, or about leaves put together, from all levels of a measured tree."""
    name = units or bundle.tree.levels[0]
    with progress_bar("inferring") as step:
        options: dict[str, Any] = {"level": level, "is_simultaneous": is_simultaneous, "progress": step}
        if file is not None:
            leaves = _codes_in(file, bundle.tree.levels[-1])
            answers = {file.name: bundle.combined.district(leaves, queries, **options)}
        else:
            answers = bundle.combined.units(name, queries, codes or None, **options)
    if as_json:
        show_json([{"area": area} | _confidence_json(one) for area, numbers in answers.items() for one in numbers])
        return
    if not bundle.manifest.is_for_release:
        say("NOT FOR RELEASE: this bundle is a simulation.", bold=True)
    rows = [(area, *_confidence_row(one)) for area, numbers in answers.items() for one in numbers]
    joint = ", all together" if is_simultaneous else ""
    header = ("district" if file is not None else name, "number", "estimate", "interval*", "coverage")
    show_table(header, rows, f"{level:.0%} intervals{joint}")
    say(*dict.fromkeys(f"* {one.why}." for numbers in answers.values() for one in numbers if one.is_available))


def _about(bundle: "AnalystBundle") -> list[str]:
    """Say which units of a tree the answers are about, and how to ask for others; nothing of tables without levels."""
    tree = bundle.tree
    if len(tree.levels) == 1:
        return []
    codes, _ = bundle.level(tree.levels[0])
    units = ", ".join(codes) if len(codes) <= _FEW_UNITS else f"units, {len(codes):,} of them"
    others = f"For each {tree.levels[-1]} and every unit between: congenial estimate BUNDLE --out FOLDER, or workbench"
    if bundle.law.is_measured:
        others = f"For those of another level: --units {tree.levels[-1]}"
    return [f"These answers are about the top of the tree: {tree.levels[0]} {units}. {others}."]


# `congenial estimate`: what the release of a tree says of every unit, as files.


@command
@bundle_argument
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A new folder for the estimates.")
@click.option("--level", type=float, default=0.9, show_default=True, help="Probability of the intervals.")
@click.option("--draws", type=int, help="Posterior draws to keep; 1,000 for small trees, 100 for large ones.")
@seed_option
def estimate(bundle: Path, out: Path, level: float, draws: int | None, seed: int | None, as_json: bool) -> None:
    """Estimate every unit and cell of a tree from BUNDLE alone: mean, median, integers that add up, intervals.

    For trees of `method: conditional`, whose tables are draws: for small areas use the estimate. Measured trees have
    intervals for every unit: infer --units LEVEL. The estimate rests on a prior that is learned from the release, and
    says loudly where that does not fit. Files: a Parquet file for each level, summary.txt, estimates.svg.
    """
    from congenial.cli.workload_bundles import is_of_several_tables
    from congenial.errors import InferenceError
    from congenial.inference.estimates_and_draw_quality import check_level
    from congenial.inference.tree.chain import check_draws
    from congenial.inference.tree.estimate_and_files import (
        FEWEST_DRAWS,
        as_plain_values,
        check_new,
        summary,
        write_estimate,
    )

    check_draws(FEWEST_DRAWS if draws is None else draws, check_level(level))
    check_new(out)
    loaded = _load(bundle)
    if is_of_several_tables(loaded):
        raise InferenceError(
            "the estimates of several tables are in their files, with intervals, and congenial infer answers for sums;"
            " this command is for trees of areas"
        )
    with progress_bar("estimating") as step:
        estimates = loaded.estimate(n_draws=draws, rng=rng_of("estimate", seed), progress=step)
    write_estimate(estimates, out, level)
    if as_json:
        show_json({"folder": str(out), "seed": seed, **as_plain_values(estimates, level)})
        return
    if not loaded.manifest.is_for_release:
        say("NOT FOR RELEASE: this bundle is a simulation.", bold=True)
    say(*summary(estimates, level))
    say(f"Written to {out}.")
