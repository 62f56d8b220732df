"""Answers leave as frames, pictures and CSV, with the same numbers everywhere."""

import csv
from pathlib import Path

import pytest

import congenial as cg
from congenial.bundle.loading import Bundle
from congenial.inference.answers import answer, answers_frame, plot_answers, write_draws
from congenial.release.demonstration import demonstrate
from images import is_blank


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return demonstrate(tmp_path_factory.mktemp("answers") / "demo").bundle


def test_frames_of_every_library_agree(bundle: Bundle) -> None:
    rng = cg.replay_rng("frames")
    found = answer(
        bundle,
        ["all", "sex=female & age=85+"],
        None,
        level=0.9,
        prior="flat",
        n_draws=200,
        is_simultaneous=False,
        rng=rng,
    )
    pandas, polars, arrow = (answers_frame(found, backend) for backend in ("pandas", "polars", "pyarrow"))
    assert pandas["mean"].tolist() == polars["mean"].to_list() == arrow["mean"].to_pylist()
    assert pandas["is_exact"].tolist() == [True, False]
    draws = bundle.posterior(n_draws=200, rng=cg.replay_rng(1)).frame("polars")
    assert draws.shape == (200, 47)
    with pytest.raises(cg.CongenialError, match="did you mean 'pandas'"):
        answers_frame(found, "panda")


def test_draws_and_pictures_are_written_once(bundle: Bundle, tmp_path: Path) -> None:
    rng = cg.replay_rng("written")
    found = answer(bundle, ["all by age"], None, level=0.8, prior="flat", n_draws=200, is_simultaneous=True, rng=rng)
    plot_answers(tmp_path / "plot.png", found)
    assert not is_blank(tmp_path / "plot.png")
    plot_answers(tmp_path / "plot.svg", found)
    assert (tmp_path / "plot.svg").read_text(encoding="utf-8").startswith("<svg")
    with pytest.raises(cg.CongenialError, match="written as"):
        plot_answers(tmp_path / "plot.gif", found)
    write_draws(tmp_path / "draws.csv", bundle, [None], prior="flat", n_draws=40, rng=rng)
    with (tmp_path / "draws.csv").open(encoding="utf-8") as lines:
        header, *rows = csv.reader(lines)
    assert len(rows) == 40
    assert header[:2] == ["draw", "sex=female, age=under 5"]
    assert all(sum(map(int, row[1:])) == 256 for row in rows)
    with pytest.raises(cg.CongenialError, match="cannot be written"):
        write_draws(tmp_path / "draws.csv", bundle, [None], prior="flat", n_draws=40, rng=rng)


def test_unknown_areas_are_refused(bundle: Bundle) -> None:
    with pytest.raises(cg.CongenialError, match="no area 'x'"):
        bundle.posterior("x")
