"""Small plots as inline SVG: drawn in the page's own colours, so dark and light both work.

A plot is a list of strings, each an element; `Frame` turns values into places. Text is escaped
here, so that names of classes can hold any character.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The inner rectangle of a plot and the ranges of values it shows."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: float = 400
    height: float = 220
    left: float = 46
    right: float = 18
    top: float = 12
    bottom: float = 38

    def at_x(self, value: float) -> float:
        """Horizontal place of a value."""
        share = (value - self.x[0]) / ((self.x[1] - self.x[0]) or 1)
        return self.left + share * (self.width - self.left - self.right)

    def at_y(self, value: float) -> float:
        """Vertical place of a value; upwards is more."""
        share = (value - self.y[0]) / ((self.y[1] - self.y[0]) or 1)
        return self.height - self.bottom - share * (self.height - self.top - self.bottom)


def picture(
    name: str, title: str, text: str, size: tuple[float, float], body: Iterable[str]
) -> Markup:
    """A whole SVG with a title and a description for those who cannot see it."""
    return Markup(
        f'<svg viewBox="0 0 {size[0]:g} {size[1]:g}" role="img" '
        f'aria-labelledby="{name}-title {name}-text">'
        f'<title id="{name}-title">{escape(title)}</title>'
        f'<desc id="{name}-text">{escape(text)}</desc>{"".join(body)}</svg>'
    )


def line(points: Sequence[tuple[float, float]], kind: str) -> str:
    """A line through places."""
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="{kind}" points="{places}"/>'


def rule(x1: float, y1: float, x2: float, y2: float, kind: str = "rule") -> str:
    """A straight line between two places."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def box(x: float, y: float, width: float, height: float, kind: str, more: str = "") -> str:
    """A filled rectangle."""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    return f'<rect class="{kind}" {place}{more}/>'


def dot(x: float, y: float, kind: str, radius: float = 3) -> str:
    """A filled circle."""
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"/>'


def words(
    x: float, y: float, text: str, kind: str = "", anchor: str = "middle", turn: int = 0
) -> str:
    """A line of text."""
    turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
    style = f' class="{kind}"' if kind else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}{turned}>{escape(text)}</text>'
    )


def axes(
    frame: Frame,
    x_name: str,
    y_name: str,
    percent: str = "",
    whole: bool = False,
    log_x: bool = False,
) -> list[str]:
    """Ticks, grid lines and names of both axes.

    `percent` names the axes that are shares ("x", "y", "xy"). With `whole` the horizontal one
    counts; with `log_x` its values are logarithms to base ten of what is shown.
    """
    floor, wall = frame.height - frame.bottom, frame.left
    parts = [rule(wall, floor, frame.width - frame.right, floor, "axis")]
    for value in ticks(*frame.x, whole=whole or log_x):
        place = frame.at_x(value)
        parts.append(rule(place, floor, place, floor + 4, "axis"))
        parts.append(words(place, floor + 16, shown(10**value if log_x else value, "x" in percent)))
    for value in ticks(*frame.y, most=5):
        place = frame.at_y(value)
        parts.append(rule(wall, place, frame.width - frame.right, place))
        parts.append(words(wall - 5, place + 4, shown(value, "y" in percent), anchor="end"))
    middle = (frame.top + floor) / 2
    parts.append(words((wall + frame.width - frame.right) / 2, frame.height - 5, x_name, "name"))
    parts.append(words(11, middle, y_name, "name", turn=-90))
    return parts


def ticks(low: float, high: float, most: int = 6, whole: bool = False) -> list[float]:
    """Round values between two, at most about `most` of them; whole numbers where asked."""
    if not high > low:
        return [low]
    raw = (high - low) / most
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= raw * 0.999)
    step = max(step, 1.0) if whole else step
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [place * step for place in range(first, last + 1)]


def shown(value: float, percent: bool) -> str:
    """A tick's text."""
    if percent:
        return f"{value * 100:.3g}%"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value + 0.0:.3g}"
