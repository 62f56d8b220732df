"""What a release promises, in plain words: for the report and the README of a bundle."""

from congenial.bundle.manifest import Manifest
from congenial.noise import FAMILIES
from congenial.privacy.certificate import shown
from congenial.privacy.neighbours import neighbours_of
from congenial.privacy.semantics import meaning

SIMULATED = "NOT FOR RELEASE: a simulation. Its noise comes from a public seed and protects nobody."


def strength(manifest: Manifest) -> str:
    """Return what an observer can learn about one unit, in a sentence or two."""
    structure = neighbours_of(manifest.law.tables[0][1], manifest.neighbours)
    text = str(meaning(manifest.certificate, structure))
    if manifest.rows_per_unit > 1:
        text = (
            f"One {manifest.unit} may have up to {manifest.rows_per_unit} records, and all of them are covered. {text}"
        )
    return text


def cost(manifest: Manifest) -> str:
    """Return the certified loss in words."""
    one = manifest.certificate
    parts = []
    if one.loss is not None:
        parts.append(f"epsilon {shown(one.loss)}")
    if one.rho is not None:
        parts.append(f"rho {shown(one.rho)}" + ("" if one.orders == "all" else " at integer orders"))
    return f"at most {' and '.join(parts) or '0'} for {one.per_record} ({one.neighbours} neighbours)"


def noise_lines(manifest: Manifest) -> list[str]:
    """Return the noise of each measured query in words."""
    law = manifest.law
    out = []
    for query in law.queries:
        if not query.precision:
            continue
        noise = FAMILIES[law.noise](query.precision)
        deviation = float(noise.variance) ** 0.5
        kind = {"double_geometric": "Double Geometric", "discrete_gaussian": "discrete Gaussian"}[law.noise]
        out.append(
            f"{query.text}: {kind} noise of precision {shown(query.precision, 6)}, standard deviation {deviation:.3g}"
            " before the invariants are imposed"
        )
    return out


def readme(manifest: Manifest) -> str:
    """Return README.txt: one page for an analyst."""
    law = manifest.law
    tables = "one table" if len(law.tables) == 1 else f"{len(law.tables):,} tables, one for each {law.area_name}"
    values = [f": {one.values[None]}" if law.area_name is None else "" for one in manifest.exactly]
    exact = [
        f"  - {one.text}{value}" + (f" ({one.mandate})" if one.mandate else "")
        for one, value in zip(manifest.exactly, values, strict=True)
    ]
    listed = (
        ["report.html     the same with tables and pictures, to read in a browser"]
        if "report.html" in manifest.files
        else []
    )
    if "table.parquet" in manifest.files:
        listed.insert(0, "table.parquet   the same as Parquet")
    lines = [
        manifest.title,
        "=" * min(len(manifest.title), 79),
        "",
        *([SIMULATED, ""] if not manifest.is_for_release else []),
        f"Release {manifest.release} of dataset {manifest.dataset}, {manifest.made_at}.",
        f"{tables[0].upper()}{tables[1:]} of {law.schema.n_cells:,} cells by {', '.join(law.schema.names)}.",
        "",
        "What it is",
        "  The counts carry random noise that protects individuals (differential privacy), drawn given the",
        "  numbers below, which are exact. Counts are whole, consistent, and follow one known probability law.",
        "",
        "Exact numbers",
        *(exact or ["  none"]),
        *(f"  - {text}" + (f" ({mandate})" if mandate else "") for text, mandate in manifest.conditions),
        "",
        "Privacy",
        f"  Certified loss: {cost(manifest)}.",
        *_wrapped(strength(manifest)),
        "",
        "Files",
        "  table.csv       the released counts, a row a cell",
        *(f"  {line}" for line in listed),
        "  manifest.json   schema, invariants, noise, certificate: it alone determines the law",
        "",
        "How to use it",
        '  Read the counts in R:        x <- read.csv("table.csv", colClasses = "character")',
        "                               x$count <- as.numeric(x$count)" if _count(manifest) == "count" else "",
        "  Do not treat the counts as exact: small cells are biased upward because counts are not negative.",
        "  Check that nothing was changed:   congenial verify THIS_FOLDER",
        '  Honest intervals from Python:     import congenial; congenial.load_bundle("THIS_FOLDER")',
        "",
        f"Made by {', '.join(f'{name} {version}' for name, version in manifest.software.items())}.",
        "",
    ]
    return "\n".join(lines)


def _count(manifest: Manifest) -> str:
    from congenial.bundle.table_text import header_of

    return header_of(manifest.law)[-1]


def _wrapped(text: str) -> list[str]:
    from textwrap import wrap

    return [f"  {line}" for line in wrap(text, 96)]
