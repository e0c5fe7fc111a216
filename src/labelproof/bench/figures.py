"""Figures of the experiments, as PNG and SVG: panels side by side, each drawn by a function.

Colours are those of Okabe and Ito, which most colour-blind people tell apart; every series also has
a mark or a line style of its own. Matplotlib draws without a display and without global state, and
is imported when the first figure is made, since it is slow to import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from labelproof.files import written_whole
from labelproof.metrics import Reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Numbers = npt.NDArray[np.float64]
Panel = Callable[["Axes"], None]
Series = Mapping[str, tuple[Sequence[float], Sequence[float], Sequence[float]]]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":")
HATCHES = ("", "///", "...", "xx")
GREY = "#666666"
SHARES = (0, 0.2, 0.4, 0.6, 0.8, 1)
PANEL = (4.8, 4.6)  # inches
FEW = 20  # examples in a bin, below which its accuracy says little
STYLE: dict[Any, Any] = {
    "font.size": 10.5,
    "axes.titlesize": 11.5,
    "figure.titlesize": 13,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "svg.fonttype": "none",  # words stay words: small files that can be searched
    "svg.hashsalt": "labelproof",  # the same figure gives the same file
}


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """One line of a reliability diagram."""

    diagram: Reliability
    ece: float


@dataclass(frozen=True, kw_only=True)
class Roc:
    """One line of a ROC diagram."""

    false_alarms: Numbers  # share of right labels that are called wrong
    found: Numbers  # share of wrong labels that are called wrong
    auroc: float


def draw(
    stem: Path, title: str, panels: Sequence[Panel], *, same_height: bool = False
) -> list[Path]:
    """Draw panels side by side, save them as `.png` and `.svg`, and return these files.

    With `same_height` all vertical axes end where the highest does, to compare by eye.
    """
    import matplotlib
    from matplotlib.figure import Figure

    stem.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        figure = Figure((PANEL[0] * len(panels), PANEL[1] + 0.4), layout="constrained")
        places = figure.subplots(1, len(panels), squeeze=False).ravel()
        for place, panel in zip(places, panels, strict=True):
            panel(place)
        if same_height:
            top = max(place.get_ylim()[1] for place in places)
            for place in places:
                place.set_ylim(top=top)
        figure.suptitle(title)
        paths = [stem.with_name(f"{stem.name}.{ending}") for ending in ("png", "svg")]
        for path in paths:
            with written_whole(path) as aside:
                kind = path.suffix[1:]
                stamp = {"Date": None} if kind == "svg" else None
                figure.savefig(aside, format=kind, dpi=160, metadata=stamp)
    return paths


def lines(path_stem: Path, title: str, xlabel: str, ylabel: str, series: Series) -> list[Path]:
    """Lines with their spreads, such as accuracy against a setting; none is drawn for 0 or NaN."""
    places = sorted({x for xs, _, _ in series.values() for x in xs})
    aside = 0.0 if len(places) < 2 else 0.01 * (places[-1] - places[0])  # bars side by side

    def panel(axes: Axes) -> None:
        for number, (name, (xs, means, spreads)) in enumerate(series.items()):
            bars = [0.0 if spread != spread else spread for spread in spreads]
            beside = [x + aside * (number - (len(series) - 1) / 2) for x in xs]
            axes.errorbar(beside, means, bars, label=name, capsize=3, lw=1.6, **_look(number))
        if len(places) <= 8:  # a grid of settings: name each of them, and nothing between
            axes.set_xticks(places, [f"{x:g}" for x in places])
            axes.minorticks_off()
        _name(axes, "", xlabel, ylabel)
        _legend(axes)

    return draw(path_stem, title, [panel])


def reliability(title: str, curves: Mapping[str, Calibrated]) -> Panel:
    """Accuracy against confidence of predictions; bins that hold few are hollow, off the line."""

    def panel(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], color=GREY, lw=1, ls="--")
        axes.text(0.02, 0.96, "under-confident", color=GREY, fontsize=9)
        axes.text(0.98, 0.03, "over-confident", color=GREY, fontsize=9, ha="right")
        for number, (name, curve) in enumerate(curves.items()):
            _reliability_line(axes, number, f"{name}: ECE {curve.ece:.3f}", curve.diagram)
        ends = (-0.02, 1.02)
        axes.set(xlim=ends, ylim=ends, aspect="equal", xticks=SHARES, yticks=SHARES)
        counts = next(iter(curves.values())).diagram.count
        xlabel = f"confidence ({len(counts)} bins; hollow: fewer than {FEW} in it)"
        _name(axes, f"{title} (n = {sum(counts):,})", xlabel, "accuracy")
        _legend(axes)

    return panel


def _reliability_line(axes: Axes, number: int, name: str, diagram: Reliability) -> None:
    count = np.array(diagram.count)
    sure, right = np.array(diagram.confidence), np.array(diagram.accuracy)
    full, few = count >= FEW, (count > 0) & (count < FEW)
    look = {**_look(number), "ms": 5.5}
    axes.plot(sure[full], right[full], label=name, lw=1.5, **look)
    hollow = {**look, "ls": "", "mfc": "white", "mec": look["color"], "zorder": 1.5}
    axes.plot(sure[few], right[few], **hollow)


def histogram(title: str, xlabel: str, parts: Mapping[str, Numbers], edges: Numbers) -> Panel:
    """Counts of several groups over the same bins, one on top of the other's outline."""

    def panel(axes: Axes) -> None:
        for number, (name, values) in enumerate(parts.items()):
            colour, dash = COLOURS[number], DASHES[number % len(DASHES)]
            counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
            axes.stairs(counts, edges, fill=True, color=colour, alpha=0.28)
            label = f"{name} (n = {len(values):,}, median {_median(values)})"
            axes.stairs(counts, edges, lw=1.6, label=label, color=colour, ls=dash)
        axes.set_xlim(edges[0], edges[-1])
        axes.set_ylim(bottom=0)
        _name(axes, title, xlabel, "training examples")
        _legend(axes)

    return panel


def roc(title: str, curves: Mapping[str, Roc], size: int) -> Panel:
    """Wrong labels found against right labels wrongly accused, of `size` labels in all."""

    def panel(axes: Axes) -> None:
        _roc_lines(axes, curves)
        axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
        heading = f"{title} (n = {size:,})"
        _name(axes, heading, "share of right labels accused", "share of wrong labels found")
        _legend(axes)
        corner = _corner(min(curve.auroc for curve in curves.values()))
        if corner:
            inset = axes.inset_axes((0.34, 0.14, 0.6, 0.6))
            _roc_lines(inset, curves)
            inset.set(xlim=(0, corner / 2), ylim=(0.2, 1))  # where two good detectors part
            inset.set_title("the left edge, enlarged", fontsize=9)
            inset.tick_params(labelsize=8)
            axes.grid(False)
        else:
            axes.plot([0, 1], [0, 1], color=GREY, lw=1, ls=":")

    return panel


def _roc_lines(axes: Axes, curves: Mapping[str, Roc]) -> None:
    for number, (name, curve) in enumerate(curves.items()):
        axes.plot(
            curve.false_alarms,
            curve.found,
            color=COLOURS[number],
            ls=DASHES[number % len(DASHES)],
            lw=1.8,
            label=f"{name}: AUROC {curve.auroc:.4f}",
        )


def _corner(auroc: float) -> float | None:
    """Edge of the corner in which curves of this AUROC can be told apart; None for all of it."""
    return next((edge for edge in (0.02, 0.05, 0.1, 0.2) if 1 - auroc < edge / 3), None)


def bars(
    title: str,
    ylabel: str,
    groups: Sequence[str],
    parts: Mapping[str, Sequence[float]],
    *,
    digits: int = 3,
    top: float | None = None,
) -> Panel:
    """Bars side by side in groups, each with its number on top; `top` ends the vertical axis."""

    def panel(axes: Axes) -> None:
        width = 0.8 / len(parts)
        for number, (name, heights) in enumerate(parts.items()):
            places = np.arange(len(groups)) + (number - (len(parts) - 1) / 2) * width
            look: dict[str, Any] = {"color": COLOURS[number], "hatch": HATCHES[number % 4]}
            drawn = axes.bar(places, heights, width * 0.94, label=name, ec="white", **look)
            axes.bar_label(drawn, [f"{h:.{digits}f}" for h in heights], padding=2, fontsize=8.5)
        axes.set_xticks(range(len(groups)), groups)
        axes.grid(False, axis="x")
        axes.axhline(0, color=GREY, lw=0.8)
        axes.margins(y=0.15)
        if top is not None:
            axes.set_ylim(0, top)
        _name(axes, title, "", ylabel)
        _legend(axes)

    return panel


def roc_points(wrong: Numbers, suspicion: Numbers) -> tuple[Numbers, Numbers]:
    """Shares of right and of wrong labels at or above each distinct suspicion, from none to all."""
    order = np.argsort(-suspicion, kind="stable")
    bad = wrong[order].astype(np.float64)
    last = np.append(np.diff(suspicion[order]) != 0, True)  # of labels that are equally suspect
    found, accused = np.cumsum(bad)[last], np.cumsum(1 - bad)[last]
    return (
        np.concatenate([[0.0], accused / max(accused[-1], 1)]),
        np.concatenate([[0.0], found / max(found[-1], 1)]),
    )


def shared_edges(groups: Iterable[Numbers], number: int) -> Numbers:
    """Equal bins over all but the outermost thousandth of the values at either end."""
    values = np.concatenate(list(groups))
    low, high = np.quantile(values, (0.001, 0.999))
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, number + 1)


def _look(number: int) -> dict[str, Any]:
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKS[number % len(MARKS)],
        "ls": DASHES[number % len(DASHES)],
    }


def _name(axes: Axes, title: str, xlabel: str, ylabel: str) -> None:
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)


def _legend(axes: Axes) -> None:
    """Below the axes, where it hides nothing."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), handlelength=2.6)


def _median(values: Numbers) -> str:
    return f"{np.median(values):.2f}" if len(values) else "none"
