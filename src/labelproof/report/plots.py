"""The figures of the report: curves, margins, reliability, and the map of given to suggested."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from markupsafe import Markup

from labelproof import functional as fn
from labelproof.judging.label_table import Codes, Numbers
from labelproof.report import svg
from labelproof.report.sentences import many
from labelproof.report.svg import Frame

BARS = 40
MOST_CELLS = 16  # classes on a side of the map; more do not fit a phone
DEEPEST = 0.5  # colour of the fullest cell; with more, its number would be hard to read
History = Sequence[Mapping[str, Any]]


def curve(history: History, key: str, name: str, percent: bool) -> Markup | None:
    """One quantity over epochs, with the phases of the plan marked; None where it is not known."""
    points = [(line["epoch"], line[key]) for line in history if line.get(key) is not None]
    if not points:
        return None
    values = [value for _, value in points]
    top = 1.0 if percent else max(*values, 0) * 1.05 or 1.0
    frame = Frame(x=(min(1, len(history) - 1), max(len(history), 2)), y=(min(*values, 0), top))
    parts = svg.axes(frame, "epoch", name, "y" if percent else "", whole=True)
    parts += _phases(history, frame)
    places = [(frame.at_x(epoch), frame.at_y(value)) for epoch, value in points]
    parts.append(svg.line(places, "line-a"))
    parts.append(svg.dot(*places[-1], "fill-a"))
    first, last = (svg.shown(value, percent) for value in (values[0], values[-1]))
    over = many(len(points), "epoch")
    text = f"{name} over {over}, from {first} in the first to {last} in the last."
    return svg.picture(f"curve-{key}", name, text, (frame.width, frame.height), parts)


def _phases(history: History, frame: Frame) -> list[str]:
    """A mark where a new phase of training begins."""
    parts, floor = [], frame.height - frame.bottom
    for before, line in itertools.pairwise(history):
        if line.get("phase") != before.get("phase"):
            place = frame.at_x(before["epoch"] + 0.5)
            parts.append(svg.rule(place, frame.top, place, floor, "dashed"))
            right = place > frame.width * 0.6
            anchor = "end" if right else "start"
            shift = -4 if right else 4
            parts.append(svg.words(place + shift, floor - 5, str(line["phase"]), "name", anchor))
    return parts


def margins(values: Numbers, suspect: Any) -> Markup:
    """Histogram of margins, suspects apart, with the two Gaussians fitted to all of them."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts, edges = np.histogram(values, BARS, (low, high))
    wrong, _ = np.histogram(values[suspect], BARS, (low, high))
    mixture = fn.fit_two_gaussians(torch.from_numpy(values))
    scale = len(values) * (high - low) / BARS
    bells = [_bell(low, high, *part, scale) for part in _parts(mixture)]
    top = max([counts.max(), *(max(y for _, y in bell) for bell in bells)]) * 1.05
    frame = Frame(x=(low, high), y=(0, float(top)))
    parts = svg.axes(frame, "margin of the given label", "labels")
    floor = frame.at_y(0)
    for left, right, count, bad in zip(edges, edges[1:], counts, wrong, strict=False):
        x, width = frame.at_x(left), frame.at_x(right) - frame.at_x(left) - 0.8
        middle, end = frame.at_y(bad), frame.at_y(count)
        parts.append(svg.box(x, end, width, middle - end, "fill-a soft"))
        parts.append(svg.box(x, middle, width, floor - middle, "fill-b soft"))
    for bell, kind in zip(bells, ("line-b", "line-a")[-len(bells) or 2 :], strict=False):
        parts.append(svg.line([(frame.at_x(x), frame.at_y(y)) for x, y in bell], kind))
    return svg.picture(
        "margins", "Margins of the given labels", _margins_text(values, mixture), (400, 220), parts
    )


def _parts(mixture: fn.TwoGaussians) -> list[tuple[float, float, float]]:
    parts = zip(mixture.means, mixture.stds, mixture.weights, strict=True)
    return [part for part in parts if part[1] > 0]


def _bell(
    low: float, high: float, mean: float, std: float, weight: float, scale: float
) -> list[tuple[float, float]]:
    """A Gaussian as points, scaled to the bars of the histogram."""
    height = weight * scale / (std * math.sqrt(2 * math.pi))
    grid = [x for x in np.linspace(low, high, 201).tolist() if abs(x - mean) < 3.2 * std] or [mean]
    return [(x, height * math.exp(-0.5 * ((x - mean) / std) ** 2)) for x in grid]


def _margins_text(values: Numbers, mixture: fn.TwoGaussians) -> str:
    parts = _parts(mixture)
    if not parts:
        return f"All {len(values)} margins are {values[0]:.3g}."
    said = " and ".join(f"{w:.0%} around {m:.2g} (spread {s:.2g})" for m, s, w in parts)
    return f"Histogram of {many(len(values), 'margin')} with two fitted Gaussians: {said}."


def reliability(diagram: Mapping[str, Sequence[float | None]]) -> Markup:
    """Accuracy against confidence on test data, a bar a bin; on the diagonal they agree."""
    frame = Frame(x=(0, 1), y=(0, 1), height=240)
    parts = svg.axes(frame, "confidence of the prediction", "share that is right", "xy")
    bins = len(diagram["count"])
    said = []
    for place in range(bins):
        sure, right = diagram["confidence"][place], diagram["accuracy"][place]
        if sure is None or right is None:
            continue
        x, width = frame.at_x(place / bins), frame.at_x(1 / bins) - frame.at_x(0) - 1.5
        y = frame.at_y(right)
        parts.append(svg.box(x + 0.7, y, width, frame.at_y(0) - y, "fill-a soft"))
        parts.append(svg.dot(frame.at_x(sure), y, "fill-a", 3.5))
        said.append(f"{sure:.0%} sure, {right:.0%} right ({diagram['count'][place]:.0f})")
    ends = (frame.at_x(0), frame.at_y(0), frame.at_x(1), frame.at_y(1))
    parts.append(svg.rule(*ends, "dashed"))
    text = "Test predictions by confidence: " + "; ".join(said) + "."
    return svg.picture("reliability", "Confidence against accuracy", text, (400, 240), parts)


def precision(points: Sequence[Mapping[str, float]]) -> Markup | None:
    """Expected precision against the number of suspects, with its 90% interval; None without."""
    if len(points) < 2:
        return None
    numbers = [math.log10(point["suspects"]) for point in points]
    frame = Frame(x=(0, max(numbers)), y=(0, 1))
    parts = svg.axes(frame, "labels reviewed, the most suspicious first", "wrong", "y", log_x=True)
    for key, kind in (("low", "dashed"), ("high", "dashed"), ("precision", "line-a")):
        places = [
            (frame.at_x(x), frame.at_y(point[key]))
            for x, point in zip(numbers, points, strict=True)
        ]
        parts.append(svg.line(places, kind))
    said = "; ".join(
        f"{many(int(point['suspects']), 'label')}: {point['precision']:.0%} ({point['low']:.0%} to "
        f"{point['high']:.0%})"
        for point in points[:: max(1, len(points) // 6)]
    )
    text = f"Expected share of wrong labels among the most suspicious ones: {said}."
    return svg.picture("precision", "Precision against number", text, (400, 220), parts)


def confusion(flow: Codes, classes: Sequence[str]) -> tuple[Markup, bool]:
    """Suspects from given (rows) to suggested class (columns), and whether all classes are there.

    Of many classes only those with the most suspects going or coming are drawn.
    """
    number = len(classes)
    busiest = np.argsort(-(flow.sum(0) + flow.sum(1)), kind="stable")[:MOST_CELLS]
    chosen = np.sort(busiest)
    part = flow[np.ix_(chosen, chosen)]
    names = [_short(classes[c]) for c in chosen]
    left = 24 + 6.8 * max(map(len, names))
    cell = (396 - left) / len(names)
    top = (22 + 6.8 * max(map(len, names))) if max(map(len, names)) > 2 else 32
    parts = [
        svg.words(left + cell * len(names) / 2, 10, "suggested", "name"),
        svg.words(9, top + cell * len(names) / 2, "given", "name", turn=-90),
    ]
    most = max(1, int(part.max()))
    for r, name in enumerate(names):
        middle = (r + 0.5) * cell
        parts.append(svg.words(left - 5, top + middle + 4, name, anchor="end"))
        parts.append(_heading(left + middle, top - 6, name))
        for c in range(len(names)):
            parts += _cell(left + c * cell, top + r * cell, cell, int(part[r, c]), most, r == c)
    count = many(int(flow.sum()), "suspect")
    text = f"{count} by given and suggested class; the table lists the pairs."
    size = (400.0, top + cell * len(names) + 4)
    drawing = svg.picture("map", "From given to suggested class", text, size, parts)
    return drawing, len(chosen) == number


def class_shares(
    groups: Sequence[Mapping[str, Any]], classes: Sequence[str]
) -> tuple[Markup, bool] | None:
    """Percent of each class (columns) by group (rows), and whether all of both are there.

    Of many classes those whose share differs most between groups are drawn.
    """
    if not groups:
        return None
    shown = groups[:MOST_CELLS]
    shares = np.array([group["classes"] for group in shown])
    chosen = np.sort(np.argsort(-np.ptp(shares, axis=0), kind="stable")[:MOST_CELLS])
    rows, columns = [_short(group["name"]) for group in shown], [_short(classes[c]) for c in chosen]
    left, top = 12 + 6.8 * max(map(len, rows)), 12 + 6.8 * max(2, *map(len, columns))
    cell = min(40.0, (396 - left) / len(columns))
    percent = np.rint(100 * shares[:, chosen]).astype(int)
    most = max(1, int(percent.max()))
    parts = [_heading(left + (c + 0.5) * cell, top - 6, name) for c, name in enumerate(columns)]
    for r, name in enumerate(rows):
        parts.append(svg.words(left - 5, top + (r + 0.5) * cell + 4, name, anchor="end"))
        for c, count in enumerate(percent[r].tolist()):
            parts += _cell(left + c * cell, top + r * cell, cell, count, most, False)
    text = "Percent of the labels of each group, by class."
    size = (400.0, top + cell * len(rows) + 4)
    drawing = svg.picture("groups", "Classes by group", text, size, parts)
    return drawing, len(shown) == len(groups) and len(chosen) == len(classes)


def _heading(x: float, y: float, name: str) -> str:
    if len(name) > 2:
        return svg.words(x + 4, y, name, anchor="start", turn=-90)
    return svg.words(x, y, name)


def _cell(x: float, y: float, size: float, count: int, most: int, same: bool) -> list[str]:
    if same:
        return [svg.box(x, y, size - 1, size - 1, "blank")]
    depth = f' fill-opacity="{DEEPEST * (0.1 + 0.9 * count / most) if count else 0.02:.3f}"'
    parts = [svg.box(x, y, size - 1, size - 1, "fill-b", depth)]
    if count:
        parts.append(svg.words(x + size / 2 - 0.5, y + size / 2 + 4, str(count)))
    return parts


def _short(name: str, most: int = 14) -> str:
    """A long name without its middle: ends often tell classes apart."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[1 - most + most // 2 :]}"
