"""Pictures show their numbers: what is drawn is read back from the figure."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from congenial.pages.matplotlib_figures import (
    COLOURS,
    BiasLine,
    Shown,
    acceptance_curve,
    as_png,
    as_svg,
    bias_by_size,
    cell_law,
    densities,
    distance_boxes,
    interval_picture,
    new_figure,
    styled,
    traces,
)
from congenial.pages.svg_charts import noise_laws
from images import is_blank


def xs(line: Line2D) -> list[float]:
    return list(np.asarray(line.get_xdata()).tolist())


def ys(line: Line2D) -> list[float]:
    return list(np.asarray(line.get_ydata()).tolist())


def test_an_empty_figure_is_blank(tmp_path: Path) -> None:
    """The mutant of every test of a picture: axes without data are seen as blank."""
    with styled():
        figure, (axis,) = new_figure(5, 3)
        axis.set_axis_off()
    (tmp_path / "empty.png").write_bytes(as_png(figure))
    assert is_blank(tmp_path / "empty.png")


def test_box_plots_show_every_point(tmp_path: Path) -> None:
    values = {"first": [1.0, 2.0, 3.0], "second": [4.0, 5.0, 9.0]}
    figure = distance_boxes({"L1": values, "L2": values})
    drawn = [sorted(xs(line)) for axis in figure.axes for line in axis.lines if line.get_marker() == "o"]
    assert drawn == [[1, 2, 3], [4, 5, 9]] * 2
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["first", "second"]
    (tmp_path / "boxes.png").write_bytes(as_png(figure))
    assert not is_blank(tmp_path / "boxes.png")


def test_intervals_of_one_kind_share_an_axis_and_infinite_ends_are_arrows() -> None:
    none = float("nan")
    figure = interval_picture(
        [
            Shown("women", "count", 10, 20, 40, 21),
            Shown("men less women", "count", -5, 0, 5, 1),
            Shown("share of women", "share", 0.2, 0.5, 0.9, 0.4),
            Shown("men for each woman", "ratio", 0.5, 1, np.inf, 1.2),
            Shown("of nobody", "ratio", none, none, none, none),
            Shown("median age", "", 0, 1, 1, 1, ("0-17", "18+")),
        ],
        level=0.9,
    )
    people, shares, ratios, medians = figure.axes
    assert [axis.get_xlabel() for axis in figure.axes] == ["count", "share", "ratio", ""]
    assert [[text.get_text() for text in axis.get_yticklabels()] for axis in (people, shares)] == [
        ["women", "men less women"],
        ["share of women"],
    ]
    assert [xs(line) for line in people.lines if line.get_marker() == "o"] == [[20], [0]]
    assert [xs(line) for line in people.lines if line.get_marker() == "x"] == [[21], [1]]
    arrows = {
        axis: [line.get_marker() for line in axis.lines if line.get_marker() in ("<", ">")] for axis in figure.axes
    }
    assert arrows == {people: [], shares: [], ratios: [">"], medians: []}
    assert shares.get_xlim()[1] < 1.1
    assert [text.get_text() for text in medians.get_xticklabels()] == ["0-17", "18+"]
    assert not interval_picture([], level=0.9).axes[0].lines


def test_the_acceptance_curve_is_in_percent() -> None:
    figure = acceptance_curve([0.5, 0.6], [0.01, 0.02], [0.011, 0.019], (0.6, 0.0168))
    lines = figure.axes[0].lines
    assert ys(lines[0]) == pytest.approx([1, 2])
    assert ys(lines[1]) == pytest.approx([1.1, 1.9])
    assert xs(lines[2]) == [0.6]
    assert ys(lines[2]) == pytest.approx([1.68])


def test_traces_have_a_panel_for_each_cell_and_sampler() -> None:
    figure = traces(
        {"cell 2": [("chain", [1, 1, 4]), ("exact", [2, 3, 1])], "cell 1": [("chain", [0, 0, 0]), ("exact", [5, 6, 7])]}
    )
    assert [axis.get_title(loc="left") for axis in figure.axes] == [
        "cell 2: chain",
        "cell 1: chain",
        "cell 2: exact",
        "cell 1: exact",
    ]
    assert [ys(axis.lines[0]) for axis in figure.axes] == [[1, 1, 4], [0, 0, 0], [2, 3, 1], [5, 6, 7]]
    assert figure.axes[0].get_ylim() == figure.axes[2].get_ylim()


def test_densities_are_drawn_on_both_scales() -> None:
    figure = densities({"a": ([0, 1], [0.5, 0.25]), "b": ([0, 1], [0.4, 0.3])}, xlabel="u")
    assert [axis.get_yscale() for axis in figure.axes] == ["linear", "log"]
    assert [ys(line) for line in figure.axes[1].lines] == [[0.5, 0.25], [0.4, 0.3]]


def test_the_law_of_a_cell_leaves_out_what_is_impossible() -> None:
    figure = cell_law([-1, 0, 1, 2], [0, 0.5, 0.3, 0.2], [0.2, 0.3, 0.3, 0.2], truth=1, name="x")
    assert xs(figure.axes[0].lines[0]) == [0, 1, 2]
    assert [patch.get_height() for patch in figure.axes[0].patches[:4] if isinstance(patch, Rectangle)] == [
        0.2,
        0.3,
        0.3,
        0.2,
    ]


def test_bias_panels_share_one_scale() -> None:
    figure = bias_by_size(
        ["0", "1-2"], {"raw": BiasLine([-1, -1], [0, 0], [1, 1]), "other": BiasLine([-3, 0], [0, 0], [0, 2])}
    )
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    assert [ys(axis.lines[1]) for axis in figure.axes] == [[0, 0], [0, 0]]


def test_the_same_numbers_give_the_same_bytes_and_no_date() -> None:
    one, two = (as_svg(distance_boxes({"L1": {"a": [1.0, 2.0]}})) for _ in range(2))
    assert one == two
    assert one.startswith("<svg")
    assert "date" not in one.lower()


def test_the_style_stays_inside() -> None:
    from matplotlib import rcParams

    before = dict(rcParams)
    distance_boxes({"L1": {"a": [1.0, 2.0]}})
    assert dict(rcParams) == before


def test_colours_differ_for_colour_blind_readers() -> None:
    """Brettel-like check in the crudest form: no two neighbours of the palette share their lightness and blue part."""

    def parts(colour: str) -> tuple[float, float]:
        red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
        return 0.3 * red + 0.59 * green + 0.11 * blue, blue

    for first, second in pairwise(COLOURS):
        (light, blue), (other_light, other_blue) = parts(first), parts(second)
        assert abs(light - other_light) + abs(blue - other_blue) > 0.1, (first, second)


def test_bars_of_noise_stand_where_its_probabilities_are() -> None:
    made = noise_laws({"cells": ([-1, 0, 1], [0.2, 0.5, 0.3])})
    ground = float(found.group(1)) if (found := re.search(r"V([0-9.]+)z", made)) else 0.0
    tops = [float(top) for top in re.findall(r"V([0-9.]+)H", made.split("<path", 2)[1])]
    heights = [ground - top for top in tops]
    assert [height / sum(heights) for height in heights] == pytest.approx([0.2, 0.5, 0.3], abs=0.002)


def test_lines_of_noise_have_names_that_cannot_run() -> None:
    law = ([-1, 0, 1], [0.25, 0.5, 0.25])
    made = noise_laws({"<script>\u202e": law, "b" * 200: law})
    assert made.count("<polyline") == 2
    assert "&lt;script&gt;\\u202e" in made
    assert "b" * 80 not in made
    wide = noise_laws({"cells": (np.arange(-300, 301), np.full(601, 0.1))})
    assert wide.count("<polygon") == 1
