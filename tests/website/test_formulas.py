"""Formulas in plain text become TeX, sign by sign, and code stays code."""

import re
from pathlib import Path

import pytest

from formulas import is_formula, to_tex
from typesetting import PROSE, Formulas, lines_of, typeset

CLAIMS = sorted((Path(__file__).parents[2] / "docs" / "claims").glob("*.md"))


def written(page: Path) -> list[str]:
    """Return what a page sets in code, in sentences and in indented blocks."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    blocks = re.findall(r"^ {4,}\S.*$", text, flags=re.M)
    sentences = re.sub(r"^ {4,}.*$", "", text, flags=re.M)
    return [*map(str.strip, blocks), *(" ".join(one.split()) for one in re.findall(r"`([^`]+)`", sentences))]


@pytest.mark.parametrize(
    ("plain", "tex"),
    [
        ("c(s') / c(s) <= exp(2 m)", r"c ( s' ) / c ( s ) \le \operatorname{exp} ( 2 m )"),
        ("t in S*", r"t \in S^*"),
        ("Z * 2", r"Z \cdot 2"),
        ("M_(x+1)", r"M_{x + 1}"),
        ("T^-(s-1)", r"T^{-(s - 1)}"),
        ("b^((v - q)^2)", r"b^{( v - q )^{2}}"),
        ("a^|t-x|", r"a^{\lvert t - x \rvert}"),
        ("P(t | s)", r"P ( t \mid s )"),
        ("|z|_1 <= k", r"\lvert z \rvert_{1} \le k"),
        ("||H||_q", r"\lVert H \rVert_{q}"),
        ("P(. | s)", r"P ( \cdot \mid s )"),
        ("P_s'^(1 - a)", r"P_{s'}^{1 - a}"),
        ("B_j'", "B_{j}'"),
        ("e0 = 1e-13", "e_{0} = 10^{-13}"),
        ("1,000", "1{,}000"),
        ("sum over t in S* of w", r"\textstyle\sum \text{ over } t \in S^* \text{ of } w"),
        ("max(own precision of a kind)", r"\operatorname{max} ( \text{own precision of a kind} )"),
        ("log(1 + free_excess)", r"\operatorname{log} ( 1 + \texttt{free\_excess} )"),
        ("{v : A v = 0}", r"\{ v : A v = 0 \}"),
        ("P~(E)", r"\tilde{P} ( E )"),
        ("sqrt(2 rho)", r"\sqrt{2 \rho}"),
    ],
)
def test_a_formula_in_tex(plain: str, tex: str) -> None:
    assert to_tex(plain) == tex


@pytest.mark.parametrize("plain", ["S*", "2 D", "sqrt(rho)", "value(D, m) >= 0", "own_n", "Laplace(1/epsilon)"])
def test_mathematics_is_seen(plain: str) -> None:
    assert is_formula(plain)


@pytest.mark.parametrize(
    "code",
    [
        "tests/test_canary.py",
        "law",
        "None",
        "Law.sample",
        "free_excess",
        "worst_loss(k)",
        'orders="all"',
        "make audit-zeros",
    ],
)
def test_code_stays_code(code: str) -> None:
    assert not is_formula(code)


@pytest.mark.parametrize("page", CLAIMS, ids=lambda page: page.stem)
def test_no_sign_of_a_claim_is_lost(page: Path) -> None:
    """Letters, digits and brackets come out in their order; brackets that only hold a script together go."""
    for plain in filter(is_formula, written(page)):
        tex = to_tex(plain)
        relations = re.findall(r"\\(?:le|ge|ne)(?![a-z])|[=<>]", tex)
        assert len(relations) == len(re.findall(r"<=|>=|!=|[=<>]", plain.replace("->", ""))), plain
        assert tex.count("{") == tex.count("}"), plain
        assert re.findall(r"\d+", tex) == re.findall(r"\d+", re.sub(r"\b1e(?=-?\d)", "10e", plain)), plain


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("for every t, if D = 0 then c(s') is", ["t", "D = 0", "c(s')"]),
        ("a group of m cells with w >= 1, at all a > 1", ["m", "w >= 1", "a > 1"]),
        ("it's a table of 100 x 100, e.g. P12, in 3 s", []),
        ("K = m - 2 other cells", ["K = m - 2"]),
    ],
)
def test_variables_in_sentences(text: str, found: list[str]) -> None:
    assert [one[0] for one in PROSE.finditer(text)] == found


def test_a_block_has_a_formula_a_line_unless_one_goes_on() -> None:
    assert lines_of("R F >= h\n    = h R\n(2) x\n") == ["R F >= h = h R", "(2) x"]


def test_a_page_is_typeset_outside_code_and_headings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Formulas, "set_in", lambda self, marked: re.sub(r"\0(\d+)\0", r"<\1>", marked))
    page = (
        "<h2>A group of m cells</h2><p>Let x &lt; y. <code>2 D</code> and <code>free_excess</code></p>"
        '<div class="language-text highlight"><pre><span></span><code>F &gt;= 0\n</code></pre></div>'
        '<div class="language-python highlight"><pre><span></span><code><span class="n">x</span></code></pre></div>'
    )
    assert typeset(page) == (
        "<h2>A group of m cells</h2><p>Let <2>. <1> and <code>free_excess</code></p>"
        '<0><div class="language-python highlight"><pre><span></span><code><span class="n">x</span></code></pre></div>'
    )
