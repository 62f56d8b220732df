"""Charts of reports and of the workbench, written as SVG elements: matplotlib took a second of each release.

Figures of studies and of answers are `matplotlib_figures`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, isfinite, log10

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike

from congenial.arrays import Floats
from congenial.display import figure
from congenial.pages.matplotlib_figures import COLOURS, GREY
from congenial.safe_text import printable

_NOISE_WIDTH, _PANEL = 620, 200
_NOISE_LEFT, _NOISE_RIGHT, _TOP, _BELOW = 66, 26, 10, 44
_LEGEND = 20  # height of a line of it
_TICK = 5
_FEW = 150  # bars that can be told apart
_NOISE_LONGEST = 80  # letters of a name that fit beside its line
_DASHES = ("none", "9 3", "2.5 2.5", "9 3 2.5 3", "15 4", "none", "5 2")
_GRID_COLOUR = "#e3e3e3"


@dataclass(frozen=True)
class _NoisePanel:
    """Where numbers stand: noise from -reach to reach, probabilities from 0 to the tallest."""

    reach: float
    tallest: float
    top: int

    @property
    def ground(self) -> int:
        return self.top + _PANEL

    def x(self, u: ArrayLike) -> Floats:
        return _NOISE_LEFT + (np.asarray(u, np.float64) + self.reach) * (_NOISE_WIDTH - _NOISE_LEFT - _NOISE_RIGHT) / (
            2 * self.reach
        )

    def y(self, chance: ArrayLike) -> Floats:
        return self.ground - np.asarray(chance, np.float64) * _PANEL / self.tallest


def noise_laws(laws: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> str:
    """Return the probabilities of each noise as an SVG element: bars for one query, lines for several.

    Examples
    --------
    >>> chart = noise_laws({"cells": ([-1, 0, 1], [0.25, 0.5, 0.25])})
    >>> chart.startswith("<svg"), chart.endswith("</svg>")
    (True, True)
    """
    drawn = [(name, np.asarray(u), np.asarray(chances)) for name, (u, chances) in laws.items()]
    reach = max(float(np.abs(u).max()) for _, u, _ in drawn) + 0.5
    tallest = max(float(chances.max()) for *_, chances in drawn)
    panel = _NoisePanel(reach, 1.04 * tallest, _TOP + (_LEGEND * len(drawn) if len(drawn) > 1 else 0))
    parts = [_grid_lines(panel)]
    if len(drawn) == 1:
        parts.append(_bars(panel, *drawn[0][1:]))
    else:
        parts += [_line(panel, number, u, chances) for number, (_, u, chances) in enumerate(drawn)]
        parts += [_named(number, name) for number, (name, *_) in enumerate(drawn)]
    parts.append(_frame(panel))
    height = panel.ground + _BELOW
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_NOISE_WIDTH}" height="{height}"'
        f' viewBox="0 0 {_NOISE_WIDTH} {height}"'
        ' font-family="system-ui, &quot;Segoe UI&quot;, Roboto, &quot;DejaVu Sans&quot;, sans-serif" font-size="13"'
        ' fill="#222">'
    )
    return "\n".join([head, *parts, "</svg>"])


def _bars(panel: _NoisePanel, u: Floats, chances: Floats) -> str:
    """Return a bar for each value; one shape under the line where bars would run into each other."""
    if len(u) > _FEW:
        tops = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(panel.x(u), panel.y(chances), strict=True))
        ends = f"{panel.x(u[0]):.1f},{panel.ground}", f"{panel.x(u[-1]):.1f},{panel.ground}"
        return f'<polygon fill="{COLOURS[0]}" points="{ends[0]} {tops} {ends[1]}"/>'
    sides = zip(panel.x(u - 0.42), panel.x(u + 0.42), panel.y(chances), strict=True)
    shapes = "".join(f"M{left:.1f} {panel.ground}V{y:.1f}H{right:.1f}V{panel.ground}z" for left, right, y in sides)
    return f'<path fill="{COLOURS[0]}" d="{shapes}"/>'


def _line(panel: _NoisePanel, number: int, u: Floats, chances: Floats) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(panel.x(u), panel.y(chances), strict=True))
    return f'<polyline {_stroke(number)} points="{points}"/>'


def _named(number: int, name: str) -> str:
    """Return a line of the legend, above the panel: inside it would hide a peak."""
    y, text = _TOP + _LEGEND * number + 8, printable(name)
    return (
        f'<line {_stroke(number)} x1="{_NOISE_LEFT}" y1="{y}" x2="{_NOISE_LEFT + 34}" y2="{y}"/>'
        f'<text x="{_NOISE_LEFT + 42}" y="{y + 4}">{escape(_shortened(text, _NOISE_LONGEST))}</text>'
    )


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _stroke(number: int) -> str:
    colour, dashes = COLOURS[number % len(COLOURS)], _DASHES[number % len(_DASHES)]
    return f'fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round" stroke-dasharray="{dashes}"'


def _grid_lines(panel: _NoisePanel) -> str:
    """Return a pale line across for each probability that is written beside it."""
    lines = []
    for chance in _round_numbers(panel.tallest, 5)[1:]:
        y = f"{panel.y(chance):.1f}"
        lines.append(
            f'<line stroke="{_GRID_COLOUR}" x1="{_NOISE_LEFT}" y1="{y}" x2="{_NOISE_WIDTH - _NOISE_RIGHT}" y2="{y}"/>'
        )
    return "".join(lines)


def _frame(panel: _NoisePanel) -> str:
    """Return the axes with their numbers and words."""
    ground, middle = panel.ground, (_NOISE_LEFT + _NOISE_WIDTH - _NOISE_RIGHT) / 2
    parts = [
        f'<path fill="none" stroke="{GREY}" d="M{_NOISE_LEFT} {panel.top}V{ground}H{_NOISE_WIDTH - _NOISE_RIGHT}"/>'
    ]
    for chance in _round_numbers(panel.tallest, 5):
        y = float(panel.y(chance))
        parts.append(f'<path stroke="{GREY}" d="M{_NOISE_LEFT - _TICK} {y:.1f}H{_NOISE_LEFT}"/>')
        parts.append(f'<text x="{_NOISE_LEFT - _TICK - 4}" y="{y + 4.5:.1f}" text-anchor="end">{_text(chance)}</text>')
    right = [place for place in _round_numbers(panel.reach, 4) if place == int(place)]
    for u in [-place for place in right[:0:-1]] + right:
        x = f"{panel.x(u):.1f}"
        parts.append(f'<path stroke="{GREY}" d="M{x} {ground}v{_TICK}"/>')
        parts.append(f'<text x="{x}" y="{ground + 19}" text-anchor="middle">{_text(u)}</text>')
    label = "noise on one measured number, before the invariants are imposed"
    parts.append(f'<text x="{middle:.1f}" y="{ground + 38}" text-anchor="middle">{label}</text>')
    halfway = (panel.top + ground) / 2
    turned = f'transform="rotate(-90 14 {halfway:.1f})"'
    parts.append(f'<text x="14" y="{halfway:.1f}" text-anchor="middle" {turned}>probability</text>')
    return "\n".join(parts)


def _text(number: float) -> str:
    return f"{number:,.10g}".replace("-", "\N{MINUS SIGN}")


def _round_numbers(largest: float, n: int) -> list[float]:
    """Return 0 and what follows at even steps of 1, 2 or 5 times a power of ten, about `n` of them up to the largest.

    Examples
    --------
    >>> _round_numbers(0.46, 5), _round_numbers(37.5, 4)
    ([0.0, 0.1, 0.2, 0.3, 0.4], [0.0, 10.0, 20.0, 30.0])
    """
    exponent = floor(log10(largest / n))
    scale = largest / n / 10.0**exponent
    step = next(multiple for multiple in (1, 2, 5, 10) if multiple >= scale - 1e-9)
    places = range(int(largest / (step * 10.0**exponent)) + 1)
    return [float(f"{place * step}e{exponent}") for place in places]


# Charts of the workbench have classes and attributes only, no styles, so that light and dark pages both fit.

Bar = tuple[str, float, float, float]
_WIDTH, _LINE, _LEFT, _RIGHT = 460, 34, 176, 70
_ROW, _MARGIN, _LONGEST = 42, 11, 52  # of intervals: so many letters of a name fit, on narrow pages too


def error_bars(bars: Sequence[Bar], largest: float) -> Markup:
    """Return errors from least to largest for each kind of number, with a tick where the bias is.

    Parameters
    ----------
    bars : sequence of (text, least, largest, bias)
    largest : float
        What the whole width stands for, so that a picture that moves keeps its scale.
    """
    scale = (_WIDTH - _LEFT - _RIGHT) / max(largest, 1e-9)
    height = _LINE * len(bars) + 8
    parts = [
        Markup('<line class="axis" x1="{x}" y1="0" x2="{x}" y2="{y}"/>').format(x=_LEFT, y=height),
    ]
    for number, (text, low, high, bias) in enumerate(bars):
        y = number * _LINE + 8
        end = _LEFT + min(high, largest) * scale
        range_text = figure(high) if figure(low) == figure(high) else f"{figure(low)} to {figure(high)}"
        parts.append(
            Markup(
                '<text class="name" x="{left}" y="{middle}" text-anchor="end">{text}</text>'
                '<rect class="bar" x="{start}" y="{y}" width="{width:.1f}" height="16" rx="3"/>'
                '<text class="number" x="{after:.1f}" y="{middle}">{error}</text>'
            ).format(
                left=_LEFT - 8,
                middle=y + 13,
                text=text,
                start=_LEFT,
                y=y,
                width=max(end - _LEFT, 1),
                after=end + 6,
                error="exact" if high == 0 else range_text,
            )
        )
        if abs(bias) * scale > 4:  # what is smaller would hide in the axis
            parts.append(
                Markup('<line class="bias" x1="{x:.1f}" y1="{y}" x2="{x:.1f}" y2="{y2}"/>').format(
                    x=_LEFT + min(abs(bias), largest) * scale, y=y - 3, y2=y + 19
                )
            )
    label = "; ".join(f"{text}: {figure(low)} to {figure(high)}, bias {figure(bias)}" for text, low, high, bias in bars)
    return _svg(height, parts, f"Errors to expect. {label}")


def intervals(rows: Sequence[tuple[str, float, float, float, float]]) -> Markup:
    """Return intervals with their estimate and the released number: (text, low, centre, high, released).

    Each name stands above its interval, so that both have the whole width of a narrow page.
    """
    ends = [value for row in rows for value in row[1:] if isfinite(value)]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    span = (high - low) or 1.0
    scale = (_WIDTH - 2 * _MARGIN) / span
    height = _ROW * len(rows) + 18

    def at(value: float) -> float:
        return _MARGIN + (min(max(value, low), high) - low) * scale

    parts = []
    for number, (text, start, centre, end, released) in enumerate(rows):
        y = number * _ROW + 27
        parts.append(
            Markup(
                '<text class="name" x="{left}" y="{base}">{short}<title>{text}</title></text>'
                '<line class="reach" x1="{a:.1f}" y1="{y}" x2="{b:.1f}" y2="{y}"/>'
                '<circle class="centre" cx="{c:.1f}" cy="{y}" r="5"/>'
                '<path class="released" d="M{r:.1f} {top}v14"/>'
            ).format(
                left=_MARGIN - 3,
                base=y - 13,
                short=_shortened(text, _LONGEST),
                text=text,
                a=at(start),
                b=at(end),
                y=y,
                c=at(centre),
                r=at(released),
                top=y - 7,
            )
        )
    parts.append(
        Markup(
            '<text class="number" x="{a:.1f}" y="{y}">{low}</text>'
            '<text class="number" x="{b:.1f}" y="{y}" text-anchor="end">{high}</text>'
        ).format(a=_MARGIN - 3, b=_WIDTH - _MARGIN + 3, y=height - 2, low=figure(low), high=figure(high))
    )
    label = "; ".join(f"{text}: {figure(c)}, from {figure(a)} to {figure(b)}" for text, a, c, b, _ in rows)
    return _svg(height, parts, f"Intervals. {label}")


def _svg(height: int, parts: Sequence[Markup], label: str) -> Markup:
    return Markup('<svg class="picture" viewBox="0 0 {w} {h}" role="img" aria-label="{label}">{body}</svg>').format(
        w=_WIDTH, h=height, label=label, body=Markup("").join(parts)
    )
