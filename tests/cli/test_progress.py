"""Progress: a bar that moves on a terminal, a line a step elsewhere, always on stderr."""

import sys

import numpy as np
import pytest

import congenial as cg
from congenial import plan as plans
from congenial.cli.command_and_output import progress_bar
from congenial.randomness import replay_rng


def test_a_line_a_step_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("releasing") as step:
        step("planning")
        for done in range(0, 3_000, 500):
            step("drawing", done, 3_000)
        step("writing\nfiles")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == ["releasing: planning", "releasing: drawing", r"releasing: writing\nfiles"]


def test_a_bar_that_moves_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with progress_bar("releasing") as step:
        step("planning")
        for done in (500, 3_000):
            step("drawing", done, 3_143)
    shown = capsys.readouterr().err
    assert "releasing: drawing" in shown
    assert "3,000 of 3,143" in shown


def test_a_draw_tells_how_many_areas_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = cg.Schema({"sex": ["f", "m"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells()], invariants=[cg.total()], epsilon="1")
    tables = {str(n): cg.Table(schema, [n, 20 - n]) for n in range(20)}
    plan = mechanism.plan(mechanism.disclose(tables))
    counts = np.stack([table.counts for table in tables.values()])
    told: list[tuple[str, int, int]] = []

    def tell(step: str, done: int = 0, of: int = 0) -> None:
        told.append((step, done, of))

    plan.draw_areas(counts, replay_rng("areas"), tell)
    assert told == []
    monkeypatch.setattr(plans, "AT_ONCE", 6)
    drawn = plan.draw_areas(counts, replay_rng("areas"), tell)
    assert told == [("drawing", done, 20) for done in (6, 12, 18, 20)]
    assert (drawn.sum(axis=1) == 20).all()
