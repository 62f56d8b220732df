"""What `plan` says about protection: every area, and every exact zero, is looked at."""

from pathlib import Path

import pytest

import congenial as cg
from congenial.curator.preview import preview
from congenial.curator.preview_text import screen
from congenial.spec.load import load_spec

TOWNS = "town,sex,ill,n\n" + "".join(
    f"{town},{sex},{ill},{n}\n"
    for town, counts in (("Big", (20, 30, 25, 35)), ("Tiny", (4, 0, 5, 0)))
    for (sex, ill), n in zip((("f", "yes"), ("f", "no"), ("m", "yes"), ("m", "no")), counts, strict=True)
)


def protected(folder: Path, text: str) -> list[str]:
    (folder / "data.csv").write_text(TOWNS, encoding="utf-8")
    (folder / "spec.yaml").write_text(text, encoding="utf-8")
    planned = preview(load_spec(folder / "spec.yaml"), folder)
    return [line for section in screen(planned) if "protected" in section.heading.lower() for line in section.lines]


HEAD = "release: r\ndata: {path: data.csv, kind: counts, count: n}\nbudget: {epsilon: 1}\n"


@pytest.mark.parametrize("order", ["Big, Tiny", "Tiny, Big"])
def test_every_area_is_looked_at(order: str, tmp_path: Path) -> None:
    lines = protected(
        tmp_path,
        f"{HEAD}by: {{name: town, levels: [{order}]}}\ndimensions: {{sex: [f, m], ill: ['yes', 'no']}}\n"
        "invariants: [total, total of yes]\n",
    )
    assert "The invariants give away: town Tiny: sex=f, ill=no = 0; town Tiny: sex=m, ill=no = 0" in lines
    assert any("ill: not protected" in line for line in lines)
    assert "Exact too, because it follows: ill=no" in lines


def test_declared_zeros_are_not_news_and_disclosed_ones_are(tmp_path: Path) -> None:
    spec = (
        f"{HEAD}dimensions: {{town: [Big, Tiny], sex: [f, m], ill: ['yes', 'no']}}\n"
        "invariants: [total, {total: {town: Tiny, sex: f, ill: 'no'}}]\n"
    )
    lines = protected(tmp_path, spec)
    assert "The invariants give away: town=Tiny, sex=f, ill=no = 0" in lines
    declared = protected(
        tmp_path, spec.replace("invariants:", "conditions: [{zeros: {town: Tiny, ill: 'no'}}]\ninvariants:")
    )
    assert not any("give away" in line for line in declared)


def test_the_confidential_file_is_no_reference(tmp_path: Path) -> None:
    protected(tmp_path, f"{HEAD}dimensions: {{town: [Big, Tiny], sex: [f, m], ill: ['yes', 'no']}}\n")
    with pytest.raises(cg.CongenialError, match="confidential"):
        preview(load_spec(tmp_path / "spec.yaml"), tmp_path, tmp_path / "data.csv")
