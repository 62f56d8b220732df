"""Statements about budgets, protection and sums: in numbers, where they are read, and true of draws."""

from fractions import Fraction
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import congenial as cg
from agreement import own_rng
from congenial.cli.main import main
from congenial.curator.preview import TablesPreview
from congenial.curator.preview_text import screen
from congenial.curator.sections import NO_PROVEN_INTERVALS, NOT_PROTECTED
from congenial.ledger import Ledger, open_ledger
from congenial.privacy.bounds_and_enumerated_losses import epsilon_at
from congenial.privacy.disclosure import level_sentences
from congenial.spec.load import load_spec
from congenial.tree.disclosure import disclosures_of_levels
from previews import tables_preview as preview
from releases import release

HEAD = """\
release: small
dataset: town
data: {path: data.csv, kind: counts, count: n}
dimensions: {sex: [f, m], age: [young, grown, old]}
"""
COUNTS = "sex,age,n\nf,young,30\nf,grown,12\nf,old,9\nm,young,25\nm,grown,14\nm,old,8\n"
EPSILON = f"{HEAD}invariants: [margin of sex]\nbudget: {{epsilon: 1}}\n"
RHO = f"{HEAD}invariants: [margin of sex]\nbudget: {{rho: 1/2}}\nnoise: discrete_gaussian\n"
ALL = "all"


def written(folder: Path, text: str, counts: str = COUNTS) -> Path:
    (folder / "data.csv").write_text(counts, encoding="utf-8")
    (folder / "spec.yaml").write_text(text, encoding="utf-8")
    return folder / "spec.yaml"


def previewed(folder: Path, text: str, counts: str = COUNTS) -> TablesPreview:
    return preview(load_spec(written(folder, text, counts)), folder)


def lines_of(planned: TablesPreview, heading: str = ALL) -> list[str]:
    return [line for section in screen(planned) if heading in (section.heading, ALL) for line in section.lines]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def ledger_in(folder: Path, **cap: str) -> Ledger:
    ledger = open_ledger(folder / "budget.db", create=True)
    ledger.create_dataset("town", **(cap or {"rho": "4"}), neighbours="bounded", who="Ada")  # type: ignore[arg-type]
    return ledger


# A budget in rho is an epsilon at a delta as well.


def test_a_budget_in_rho_is_an_epsilon_everywhere_it_is_stated(tmp_path: Path) -> None:
    planned = previewed(tmp_path, RHO)
    amount = float(epsilon_at(Fraction(1, 2), Fraction(1, 10**10)))
    assert 6.858 < amount <= 6.859
    (cost,) = [section for section in screen(planned) if section.heading == "What it costs"]
    assert cost.lines[0].startswith("Rho 0.5 (epsilon 6.859 at delta 1e-10) for one record changed")
    ledger = ledger_in(tmp_path)
    assert "at delta 1e-10: epsilon 0 spent, 22.5582 at the cap" in str(ledger.status("town"))
    release(tmp_path / "spec.yaml", tmp_path / "out", ledger=ledger, who="Ada")
    for name in ("report.html", "README.txt"):
        page = " ".join((tmp_path / "out" / name).read_text(encoding="utf-8").split())
        assert "rho 0.5 (epsilon 6.859 at delta 1e-10)" in page
        assert "certificate.epsilon" not in page
    assert "at delta 1e-10: epsilon 6.85" in run("ledger", "status", "--ledger", tmp_path / "budget.db").stdout


@pytest.mark.parametrize(("epsilon", "is_weak"), [("10", False), ("11", True)])
def test_an_epsilon_above_10_is_warned_of(epsilon: str, is_weak: bool, tmp_path: Path) -> None:
    text = EPSILON.replace("epsilon: 1}", f"epsilon: {epsilon}}}")
    assert any("above 10" in line for line in lines_of(previewed(tmp_path, text), "What it costs")) == is_weak
    ledger = ledger_in(tmp_path, epsilon=epsilon)
    release(tmp_path / "spec.yaml", tmp_path / "out", ledger=ledger, who="Ada")
    for name in ("report.html", "README.txt"):
        assert ("above 10" in (tmp_path / "out" / name).read_text(encoding="utf-8")) == is_weak
    assert ("above 10" in str(ledger.status("town"))) == is_weak


# What is not protected comes first.


def test_what_is_not_protected_comes_first_and_in_bold(tmp_path: Path) -> None:
    sections = screen(previewed(tmp_path, EPSILON))
    assert sections[0].heading == NOT_PROTECTED
    assert "sex: not protected, no change of one record alters it" in sections[0].lines[: sections[0].n_bold]
    release(tmp_path / "spec.yaml", tmp_path / "out", ledger=ledger_in(tmp_path, epsilon="4"), who="Ada")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    position = page.index("<strong>sex: not protected, no change of one record alters it</strong>")
    assert position < page.index('id="about"') < page.index('id="protected"')


def test_proven_intervals_that_readers_lose_are_named_where_the_budget_is(tmp_path: Path) -> None:
    assert NO_PROVEN_INTERVALS in lines_of(previewed(tmp_path, EPSILON), "What it costs")
    assert NO_PROVEN_INTERVALS not in lines_of(previewed(tmp_path, RHO))
    plain = f"{EPSILON}measure: [{{cells: all, zeros: unweighted}}]\n"
    assert NO_PROVEN_INTERVALS not in lines_of(previewed(tmp_path, plain))


# Sums over areas without a reference.

N_AREAS = 39
CAUSES = [f"c{n}" for n in range(12)]
AREAS = [f"a{n}" for n in range(N_AREAS)]
BY_AREA = f"""\
release: causes
dataset: town
data: {{path: data.csv, kind: counts, count: n}}
dimensions: {{cause: [{", ".join(CAUSES)}]}}
by: {{name: area, levels: [{", ".join(AREAS)}]}}
invariants: [total]
budget: {{epsilon: 1}}
"""


def causes(rare: int) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    counts = np.array([[50 + (7 * i + 5 * j) % 60 for j in range(12)] for i in range(N_AREAS)])
    counts[:, 7] = rare
    return counts


def by_area(folder: Path, rare: int) -> TablesPreview:
    rows = [
        f"{a},{c},{n}" for a, row in zip(AREAS, causes(rare), strict=True) for c, n in zip(CAUSES, row, strict=True)
    ]
    return previewed(folder, BY_AREA, "\n".join(["area,cause,n", *rows, ""]))


def test_without_a_reference_the_worst_case_is_stated_and_is_that_of_draws(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A cause that nobody has comes out by what is said; the figure of a made-up group would be a third of it."""
    planned = by_area(tmp_path, 0)
    text = " ".join(lines_of(planned))
    assert "No sum over areas is off" not in text
    ((name, worst),) = planned.sums.rare
    assert (name, worst.count) == ("cause", 0)
    assert f"about {round(worst.bias_of_all)} too large over 39 areas." in text
    centres, rng = causes(0), own_rng(request)
    sums = np.array([planned.plan.draw_areas(centres, rng)[:, 7].sum() for _ in range(400)])
    assert worst.bias_of_all == pytest.approx(sums.mean(), abs=6 * sums.std() / sqrt(len(sums)))
    assert worst.bias_of_all > 20


def test_with_a_reference_there_is_an_all_clear(tmp_path: Path) -> None:
    planned = by_area(tmp_path, 60)
    data = (tmp_path / "data.csv").read_text(encoding="utf-8")
    (tmp_path / "last.csv").write_text(data.replace("a0,c0,50", "a0,c0,51"), encoding="utf-8")
    with_reference = preview(planned.spec, tmp_path, tmp_path / "last.csv")
    assert "No sum over areas is off in one direction by much." in lines_of(with_reference, "What tables add up to")


# What cannot be drawn.

TWO_MARGINS = f"""\
release: wide
dataset: town
data: {{path: data.csv, kind: counts, count: n}}
dimensions: {{area: [{", ".join(AREAS)}], cause: [{", ".join(CAUSES)}]}}
invariants: [margin of area, margin of cause]
budget: {{epsilon: 1}}
"""


def test_a_wide_table_is_refused_with_progress_and_with_what_can_be_drawn(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    sizes = 20 * np.exp(rng.normal(0, 1.3, N_AREAS))[:, None] * np.exp(rng.normal(0, 1.5, 12))
    rows = [f"{a},{c},{int(sizes[i, j])}" for i, a in enumerate(AREAS) for j, c in enumerate(CAUSES)]
    spec = written(tmp_path, TWO_MARGINS, "\n".join(["area,cause,n", *rows, ""]))
    done = run("plan", spec)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "of 250 attempts at a made-up corner table" in done.stderr
    assert "trying draws of made-up tables" in done.stderr
    assert "This can be drawn: `noise: discrete_gaussian` with `budget: {rho: 1/2}`; or the same without" in done.stderr


def test_sums_that_cross_three_times_are_refused_with_what_can_be_drawn(tmp_path: Path) -> None:
    names = {name: [f"{name}{n}" for n in range(9)] for name in "abc"}
    dimensions = ", ".join(f"{name}: [{', '.join(labels)}]" for name, labels in names.items())
    text = (
        "release: r\ndataset: town\ndata: {path: data.csv, kind: counts, count: n}\nbudget: {rho: 1/2}\n"
        f"noise: discrete_gaussian\ndimensions: {{{dimensions}}}\ninvariants: [margin of a, margin of b, margin of c]\n"
    )
    rows = [f"{a},{b},{c},3" for a in names["a"] for b in names["b"] for c in names["c"]]
    done = run("plan", written(tmp_path, text, "\n".join(["a,b,c,n", *rows, ""])))
    assert done.exit_code == 1
    assert "sums are open at once" in done.stderr
    assert "This can be drawn: the same with margin of a alone exact; or" in done.stderr


# Numbers that were published before.


def test_numbers_that_were_exact_before_are_said_to_differ_by_their_error(tmp_path: Path) -> None:
    spec = written(tmp_path, EPSILON)
    release(spec, tmp_path / "out", ledger=ledger_in(tmp_path, epsilon="4"), who="Ada")
    second = previewed(tmp_path, EPSILON.replace("small", "second").replace("margin of sex", "margin of age"))
    done = " ".join(run("plan", spec, "--ledger", tmp_path / "budget.db").stdout.split())
    error = dict(second.middle.margins)["sex=f"]
    assert error > 1
    assert "published exactly what has noise here. This release will differ from it:" in done
    assert f"differ from it: sex=f by about {error:.2g}; sex=m by about {error:.2g} (root mean squared)" in done
    assert "published before" not in run("plan", spec).stdout


def test_two_releases_alike_differ_by_the_errors_of_both(tmp_path: Path) -> None:
    spec = written(tmp_path, EPSILON)
    release(spec, tmp_path / "out", ledger=ledger_in(tmp_path, epsilon="4"), who="Ada")
    planned = previewed(tmp_path, EPSILON.replace("small", "second"), COUNTS.replace("f,young,30", "f,young,31"))
    done = " ".join(run("plan", spec, "--ledger", tmp_path / "budget.db").stdout.split())
    cell = sqrt(float((planned.middle.cells**2).mean()))
    assert f"a single cell by about {sqrt(2) * cell:.2g}" in done
    assert "states other values of 1 numbers that are exact in both: sex=f" in done
    assert "published exactly what has noise here" not in done


# Trees.


def test_a_level_without_a_name_is_called_the_top() -> None:
    """A tree with one unit at the top has no name for it."""
    tree = cg.Tree.of_prefixes(["1a", "1b"], {"state": 1}, "block")
    exact = {"state": [cg.total(), cg.total({"sex": "f"})]}
    hierarchy = cg.Hierarchy(tree, cg.Schema({"sex": ["f", "m"]}), invariants=exact, rho="1")
    plan = hierarchy.plan(hierarchy.disclose(hierarchy.counts_of([[3, 4], [2, 1]])))
    sentences = level_sentences(disclosures_of_levels(plan.law.areas, plan.law.below, hierarchy.invariants))
    assert sentences
    assert all(line.startswith(("at the top: ", "block: ")) for line in sentences)
