"""What a release is, in words and as a formula: for README.txt and the report, by the method that made it."""

from collections.abc import Sequence
from fractions import Fraction

from congenial.bundle.manifest import Manifest
from congenial.law import MeasuredQuery, PublicLaw
from congenial.plan import Plan
from congenial.rules.registry import TableRule, rule_named
from congenial.tree_margins import margins_text, measures_cells

NEGATIVE = (
    "A measurement can be negative where few people are counted: noise was subtracted from a small number. It says that"
    " the true count is small, and it belongs in every sum."
)
"""Wherever measurements are shown."""


def what_it_is(manifest: Manifest) -> list[str]:
    """Return what is published, in paragraphs.

    Only noise that was conditioned on the exact numbers is said to be.
    """
    law = manifest.law
    if not law.is_measured:
        return [
            "The counts carry random noise that protects individuals (differential privacy), drawn given the numbers"
            " below, which are exact. Counts are whole, consistent, and follow one known probability law."
        ]
    lost, untied = manifest.plan.dropped_sums, manifest.plan.untied_sums
    if not lost:
        noise = (
            "The measurements are the true table plus noise whose law is the usual one conditioned on the exact numbers"
            " below, as Gong and Meng propose for mandated numbers. They have these numbers exactly, are unbiased, may"
            " be negative, and their law is published and is the same for every table with these numbers."
        )
    else:
        noise = (
            "The measurements are the true table plus noise that is independent of these exact numbers:"
            f" {_listed(lost)}. The measurements do not have them, nor exact numbers that follow only with their help;"
            " all others below they have. They are unbiased, may be negative, and their law is published and is the"
            " same for every table."
        )
    if law.is_tree:
        noise += (
            " In a tree that is so unit by unit: the measurements of a unit have the numbers that are exact in every"
            " unit of its level. Those of different units and levels are independent: they do not add up to each other,"
            " nor to what is exact further up. The tables do."
        )
    if untied:
        noise += f" Measured with noise of their own, and not the sums of measured parts: {_listed(untied)}."
    public = (
        "That counts are not negative was known before any data were seen, and the exact numbers are published beside"
        " the measurements; so turning them into a nonnegative table uses nothing about the data beyond the"
        " measurements, and costs no privacy."
    )
    margins = [margins_text(law)] if law.is_tree and not measures_cells(law) else []
    return [*margins, f"{noise} {public}", table_text(manifest), NEGATIVE]


def table_text(manifest: Manifest) -> str:
    """Return what the table of a measured release is, in a few sentences."""
    decision = manifest.decision
    if decision is None:
        return ""
    name, version = decision.rule
    if decision.why_no_tables:
        return (
            f"There is no table: the rule {name} could not decide one ({decision.why_no_tables}). The measurements are"
            " complete without it; congenial decide makes a table of them, also later and by another rule."
        )
    when = (
        " The rule was chosen after publication, by somebody who could see the measurements."
        if decision.is_after_publication
        else " The rule was fixed before the data were measured."
    )
    rule = rule_named(name, version)
    if rule.learns:
        when += " What it learned is in manifest.json."
    if isinstance(rule, TableRule) and rule.learns:
        when += f" Errors to expect are given for a unit decided by itself, by the rule {rule.alone.name}."
    return (
        f"The table is an estimate computed from the measurements by the published rule {name}, version {version}:"
        f" {rule.words} It is not the truth plus noise.{when} Intervals, tests and models should"
        " start from the measurements, whose law is given. Privacy is promised between tables that share the exact"
        " numbers below; these numbers themselves are not protected."
    )


def _listed(names: Sequence[str]) -> str:
    """List every one: what is left out of a law is part of it."""
    return ", ".join(names)


def law_lines(plan: Plan) -> list[str]:
    """Return the law of a release as a formula in plain text."""
    law = plan.law
    power = "|{}|" if law.family.exponent == 1 else "{}^2"
    rows = [
        f"{_row_text(law, query)}: b = {_base(law, query)}{_zeros(query)}" for query in law.queries if query.precision
    ]
    if law.is_measured:
        lost = [*plan.dropped_sums, *(f"{name} as the sum of its parts" for name in plan.untied_sums)]
        other = f", except for {_listed(lost)}" if lost else ""
        x, file, numbers = "the confidential table", "measurements.parquet", "the exact numbers"
        if law.is_tree:
            numbers = "the exact numbers of the unit"
            x, file = "the confidential table of a unit", f"{file} and the files of lower levels"
        head = [
            f"n_r = q_r(x) + w_r for each measured row r; x is {x}, n_r is in {file}.",
            *(["The noise w of each unit of each level is independent of all others."] if law.is_tree else []),
            f"P(w) is proportional to the product over r of b_r^{power.format('w_r')}, on the whole-number vectors",
            f"that have every linear relation which holds of all changes of x that keep {numbers}{other}.",
        ]
    else:
        head = [
            f"P(t | x) is proportional to the product over measured rows r of b_r^{power.format('v_r')},",
            "with v_r = q_r(t) - q_r(x), on the tables t that have the exact numbers and obey every limit;",
            "x is the confidential table, t the released one.",
        ]
    if law.is_measured:
        below = [
            f"{query.text} of a {name}: b = {_base(law, query)}"
            for name, queries in law.measured_queries[1:]
            for query in queries
            if query.precision
        ]
    else:
        below = [
            f"every cell of a {name}, given its parent's table: b = {_shown(noise.base)}"
            for name, noise in zip(law.tree.levels[1:], law.noises_below, strict=True)
        ]
    return [*head, *(f"  {line}" for line in (*rows, *below))]


def _row_text(law: PublicLaw, query: MeasuredQuery) -> str:
    return query.text if not law.is_tree else f"{query.text} of a {law.tree.levels[0]}"


def _base(law: PublicLaw, query: MeasuredQuery) -> str:
    return _shown(law.family(query.precision).base)


def _shown(base: Fraction) -> str:
    return repr(float(base))  # a base is a double, so this is all of it


def _zeros(query: MeasuredQuery) -> str:
    if query.zero_weight == 1:
        return ""
    return f", times {_shown(query.zero_weight)} for each cell that is at its lower limit in t"
