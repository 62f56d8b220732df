"""What a release promises, in plain words: for the report and the README of a bundle."""

from textwrap import wrap

from congenial.bundle.exact_numbers import with_commas
from congenial.bundle.file_names import AREAS, EXACT_CELLS, EXPECTED_ERRORS, PARQUET, REPORT, TABLE
from congenial.bundle.kept_rows import left_unpublished, membership
from congenial.bundle.manifest import Manifest
from congenial.bundle.table_csv import formula_warnings, header_of
from congenial.bundle.tree_files import SPINE, level_file
from congenial.conditions.condition import Condition
from congenial.privacy.certificate import shown, shown_left
from congenial.privacy.semantics import meaning

SIMULATED = "NOT FOR RELEASE: a simulation. Its noise comes from a public seed and protects nobody."


def strength(manifest: Manifest) -> str:
    """Return whose records are counted, and what an observer can learn about one unit, in a few sentences."""
    text = str(meaning(manifest.certificate, manifest.plan.neighbourhood))
    if manifest.rows_per_unit > 1:
        most = f"up to {manifest.rows_per_unit} records, and all of them are covered"
        text = f"One {manifest.naming.unit} may have {most}. {text}"
    naming = manifest.naming
    counted = membership(naming.kept_rows, manifest.plan.neighbours, naming.unit)
    return " ".join([*counted, *left_unpublished(naming.unpublished, manifest.law.areas.name), text])


def weak(manifest: Manifest) -> str:
    """Return a warning where the loss is so large that hardly anybody is protected; nothing elsewhere."""
    return meaning(manifest.certificate, manifest.plan.neighbourhood).warning


def cost(manifest: Manifest) -> str:
    """Return the certified loss in words."""
    certificate = manifest.certificate
    return f"at most {certificate.amounts} for {certificate.per_record} ({certificate.neighbours} neighbours)"


def left(manifest: Manifest) -> str:
    """Return what the charge has left of the dataset's cap; nothing for a simulation."""
    receipt = manifest.receipt
    return "" if receipt is None else f"{shown_left(receipt.left, receipt.cap)} of {shown(receipt.cap)}"


def replaced(manifest: Manifest) -> list[str]:
    """Say which earlier release this one is the corrected edition of; nothing if it is a first one."""
    earlier = manifest.naming.replaces
    return [] if earlier is None else [f"A corrected edition: it replaces release {earlier}, which should not be used."]


def readme(manifest: Manifest) -> str:
    """Return README.txt: one page for an analyst."""
    law, has_csv = manifest.law, TABLE not in manifest.left_out
    tables = "one table" if len(law.areas) == 1 else f"{len(law.areas):,} tables, one for each {law.areas.name}"
    values = [f": {with_commas(exact.value())}" if law.areas.name is None else "" for exact in manifest.exactly]
    exact_lines = [
        f"  - {exact.text}{value}" + (f" ({exact.mandate})" if exact.mandate else "")
        for exact, value in zip(manifest.exactly, values, strict=True)
    ]
    listed = [
        *(
            [f"{PARQUET}   {'the same as Parquet' if has_csv else 'the released counts, a row a cell'}"]
            if PARQUET not in manifest.left_out
            else []
        ),
        *(
            [f"{REPORT}     the same with tables and pictures, to read in a browser"]
            if REPORT not in manifest.left_out
            else []
        ),
        *(
            [f"{AREAS}   the exact numbers of each area, as the manifest lists them"]
            if law.areas.name is not None
            else []
        ),
        *(
            [f"{EXACT_CELLS}   which cells of which areas follow from the exact numbers, so that nothing protects them"]
            if manifest.gives_cells_away and EXACT_CELLS not in manifest.left_out
            else []
        ),
        *(
            [f"{EXPECTED_ERRORS}   errors and biases to expect, by class of count and level"]
            if EXPECTED_ERRORS not in manifest.left_out
            else []
        ),
    ]
    chain = manifest.chain
    if chain is not None:
        sizes = [
            f"{len(codes):,} {name}" for name, codes in zip(chain.law.tree.levels, chain.law.tree.codes, strict=True)
        ]
        tables = f"a tree of {', '.join(sizes)} units, which add up: tables"
        files = [(level_file(number), name) for number, name in enumerate(chain.law.tree.levels[1:], 2)]
        listed = [
            *(f"{file} the released counts of each {name}, a row a unit" for file, name in files),
            f"{SPINE}   every {chain.law.tree.levels[-1]} with the units that it is part of",
            *listed,
        ]
    lines = [
        manifest.naming.title,
        "=" * min(len(manifest.naming.title), 79),
        "",
        *([SIMULATED, ""] if not manifest.is_for_release else []),
        f"Release {manifest.naming.release} of dataset {manifest.naming.dataset}, {manifest.made_at}.",
        *replaced(manifest),
        f"{tables[0].upper()}{tables[1:]} of {law.schema.n_cells:,} cells by {', '.join(law.schema.names)}.",
        "",
        "What it is",
        "  The counts carry random noise that protects individuals (differential privacy), drawn given the",
        "  numbers below, which are exact. Counts are whole, consistent, and follow one known probability law.",
        "",
        "Exact numbers",
        *(exact_lines or ["  none"]),
        *(f"  - {text}" for text in (*exact_below(manifest), *other_conditions(manifest))),
        "",
        "Privacy",
        f"  Certified loss: {cost(manifest)}.",
        *_wrapped(strength(manifest)),
        *_wrapped(weak(manifest)),
        "",
        "Files",
        *(["  table.csv       the released counts, a row a cell"] if has_csv else []),
        *(f"  {line}" for line in listed),
        "  manifest.json   schema, invariants, noise, certificate: it determines the law",
        "",
        "How to use it",
        *(
            [
                '  Read the counts in R:        x <- read.csv("table.csv", colClasses = "character")',
                "                               x$count <- as.numeric(x$count)" if _count(manifest) == "count" else "",
            ]
            if has_csv
            else [f'  Read the counts in R:        x <- arrow::read_parquet("{PARQUET}")']
        ),
        *(f"  {line}" for line in formula_warnings(law.schema, (law.areas.name, *law.areas))),
        "  Do not treat the counts as exact: small cells are biased upward because counts are not negative.",
        "  Check that nothing was changed:   congenial verify THIS_FOLDER",
        '  Honest intervals from Python:     import congenial; congenial.load_bundle("THIS_FOLDER")',
        "",
        f"Made by {', '.join(f'{name} {version}' for name, version in manifest.software.items())}.",
        "",
    ]
    return "\n".join(lines)


def other_conditions(manifest: Manifest) -> list[str]:
    """Return limits and structural zeros: what tables obey without a number that came out exactly."""
    law = manifest.law
    nothing = [0] * law.schema.n_cells
    others = [condition for condition in manifest.conditions if not condition.exact_values(law.schema, nothing)]
    return [_with_mandate(condition, condition.title) for condition in others]


def exact_below(manifest: Manifest) -> list[str]:
    """Return what is exact in every unit of levels below the top of a tree."""
    below = {} if manifest.chain is None else manifest.chain.invariants_below
    return [
        _with_mandate(condition, f"{condition.title}, of every {level}")
        for level, conditions in below.items()
        for condition in conditions
    ]


def _with_mandate(condition: Condition, text: str) -> str:
    return f"{text} ({condition.mandate})" if condition.mandate else text


def _count(manifest: Manifest) -> str:
    return header_of(manifest.law)[-1]


def _wrapped(text: str) -> list[str]:
    return [f"  {line}" for line in wrap(text, 96)]
