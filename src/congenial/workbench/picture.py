"""Pictures as SVG without styles of their own: classes and attributes only, so that light and dark pages both fit."""

from collections.abc import Sequence
from math import isfinite

from markupsafe import Markup

from congenial.workbench.pages import figure

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
        said = (
            "exact"
            if high == 0
            else figure(high)
            if figure(low) == figure(high)
            else f"{figure(low)} to {figure(high)}"
        )
        parts.append(
            Markup(
                '<text class="name" x="{left}" y="{middle}" text-anchor="end">{text}</text>'
                '<rect class="bar" x="{start}" y="{y}" width="{width:.1f}" height="16" rx="3"/>'
                '<text class="number" x="{after:.1f}" y="{middle}">{said}</text>'
            ).format(
                left=_LEFT - 8,
                middle=y + 13,
                text=text,
                start=_LEFT,
                y=y,
                width=max(end - _LEFT, 1),
                after=end + 6,
                said=said,
            )
        )
        if abs(bias) * scale > 4:  # what is smaller would hide in the axis
            parts.append(
                Markup('<line class="bias" x1="{x:.1f}" y1="{y}" x2="{x:.1f}" y2="{y2}"/>').format(
                    x=_LEFT + min(abs(bias), largest) * scale, y=y - 3, y2=y + 19
                )
            )
    words = "; ".join(f"{text}: {figure(low)} to {figure(high)}, bias {figure(bias)}" for text, low, high, bias in bars)
    return _svg(height, parts, f"Errors to expect. {words}")


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
        short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
        parts.append(
            Markup(
                '<text class="name" x="{left}" y="{base}">{short}<title>{text}</title></text>'
                '<line class="reach" x1="{a:.1f}" y1="{y}" x2="{b:.1f}" y2="{y}"/>'
                '<circle class="centre" cx="{c:.1f}" cy="{y}" r="5"/>'
                '<path class="released" d="M{r:.1f} {top}v14"/>'
            ).format(
                left=_MARGIN - 3,
                base=y - 13,
                short=short,
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
    words = "; ".join(f"{text}: {figure(c)}, from {figure(a)} to {figure(b)}" for text, a, c, b, _ in rows)
    return _svg(height, parts, f"Intervals. {words}")


def _svg(height: int, parts: Sequence[Markup], words: str) -> Markup:
    return Markup('<svg class="picture" viewBox="0 0 {w} {h}" role="img" aria-label="{words}">{body}</svg>').format(
        w=_WIDTH, h=height, words=words, body=Markup("").join(parts)
    )
