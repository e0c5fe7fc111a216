"""Figures: both files, whole or not at all, with the numbers a reader needs in the picture."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.metrics import auc, roc_auc_score

from labelproof import metrics
from labelproof.bench import figures

PNG = b"\x89PNG\r\n\x1a\n"


def words(path: Path) -> str:
    """All text of an SVG."""
    return "\n".join(ET.parse(path).getroot().itertext())


def on_axes(panel: figures.Panel) -> Axes:
    axes = Figure().subplots()
    panel(axes)
    return axes


def legend(axes: Axes) -> list[str]:
    box = axes.get_legend()
    assert box is not None
    return [text.get_text() for text in box.get_texts()]


def calibrated(size: int = 200) -> figures.Calibrated:
    rng = torch.Generator().manual_seed(0)
    probs = torch.rand(size, 4, generator=rng).softmax(1)
    labels = torch.randint(4, (size,), generator=rng)
    return figures.Calibrated(
        diagram=metrics.reliability(probs, labels, 10), ece=metrics.ece(probs, labels, 10)
    )


def test_lines_come_as_png_and_svg_with_names_and_every_series(tmp_path: Path) -> None:
    series = {
        "last": ([0, 5, 10], [94.0, 95.0, 95.5], [0.1, math.nan, 0.0]),
        "best": ([0, 5, 10], [95.0, 95.2, 95.6], [0.1, 0.2, 0.3]),
    }
    paths = figures.lines(tmp_path / "new" / "gamma", "Effect of γ", "γ C", "accuracy (%)", series)
    assert [path.name for path in paths] == ["gamma.png", "gamma.svg"]
    assert paths[0].read_bytes().startswith(PNG)
    said = words(paths[1])
    for text in ("Effect of γ", "γ C", "accuracy (%)", "last", "best"):
        assert text in said
    assert sorted(p.name for p in paths[0].parent.iterdir()) == ["gamma.png", "gamma.svg"]


def test_the_axis_names_the_places(tmp_path: Path) -> None:
    series = {"loss": ([0.01, 0.1, 1.0], [3.0, 2.0, 1.0], [0.0, 0.0, 0.0])}
    said = words(figures.lines(tmp_path / "lr", "t", "x", "y", series)[1]).split()
    assert {"0.01", "0.1", "1"} <= set(said)


def test_the_same_figure_gives_the_same_svg(tmp_path: Path) -> None:
    panel = figures.reliability("DPC", {"one network": calibrated()})
    first, second = (figures.draw(tmp_path / name, "t", [panel])[1] for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_a_figure_that_fails_leaves_the_old_one_alone(tmp_path: Path) -> None:
    def broken(axes: Axes) -> None:
        raise ValueError("no data")

    (tmp_path / "a.png").write_bytes(b"old")
    with pytest.raises(ValueError, match="no data"):
        figures.draw(tmp_path / "a", "t", [broken])
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a.png", b"old")]


def test_reliability_shows_ece_and_size_and_marks_thin_bins() -> None:
    curve = figures.Calibrated(
        diagram=metrics.Reliability(
            confidence=(math.nan, 0.3, 0.9), accuracy=(math.nan, 0.5, 0.8), count=(0, 19, 41)
        ),
        ece=0.1234,
    )
    axes = on_axes(figures.reliability("DPC", {"one network": curve}))
    assert legend(axes) == ["one network: ECE 0.123"]
    assert "n = 60" in axes.get_title()
    full, hollow = axes.lines[1], axes.lines[2]
    assert full.get_xydata().tolist() == [[0.9, 0.8]]
    assert hollow.get_xydata().tolist() == [[0.3, 0.5]]


@pytest.mark.filterwarnings("error")
def test_a_diagram_of_thin_bins_alone_can_still_be_laid_out(tmp_path: Path) -> None:
    panel = figures.reliability("DPC", {"one network": calibrated(9)})
    assert figures.draw(tmp_path / "thin", "t", [panel, panel])


def test_a_histogram_counts_every_value_also_those_beyond_its_ends() -> None:
    values = np.array([-9.0, 0.1, 0.2, 0.9, 9.0])
    axes = on_axes(figures.histogram("DPC", "p", {"right": values}, np.linspace(0, 1, 3)))
    assert axes.patches[-1].get_data().values.tolist() == [3, 2]
    assert legend(axes) == ["right (n = 5, median 0.20)"]


def test_roc_points_agree_with_the_rank_statistic_also_under_ties() -> None:
    rng = np.random.default_rng(0)
    wrong = rng.random(300) < 0.3
    suspicion = np.round(rng.normal(size=300) + wrong, 1)
    accused, found = figures.roc_points(wrong, suspicion)
    assert (accused[0], found[0], accused[-1], found[-1]) == (0, 0, 1, 1)
    assert auc(accused, found) == pytest.approx(roc_auc_score(wrong, suspicion), abs=1e-12)


@pytest.mark.parametrize(("auroc", "enlarged"), [(0.7, 0), (0.98, 1)])
def test_a_roc_near_the_corner_is_shown_enlarged(auroc: float, enlarged: int) -> None:
    line = np.array([0.0, 1.0])
    curve = figures.Roc(false_alarms=line, found=line, auroc=auroc)
    axes = on_axes(figures.roc("DPC", {"small loss": curve}, 1234))
    assert legend(axes) == [f"small loss: AUROC {auroc:.4f}"]
    assert "n = 1,234" in axes.get_title()
    assert len(axes.child_axes) == enlarged


def test_bars_carry_their_numbers(tmp_path: Path) -> None:
    panel = figures.bars("t", "probability", ["cat", "dog"], {"x": [0.583, 0.139]})
    said = words(figures.draw(tmp_path / "bars", "t", [panel] * 3)[1])
    assert said.count("0.583") == 3
    assert said.count("probability") == 3


def test_histograms_to_compare_end_at_the_same_height(tmp_path: Path) -> None:
    edges = np.linspace(0, 1, 3)
    tops: list[float] = []

    def counted(size: int) -> figures.Panel:
        panel = figures.histogram("a", "b", {"all": np.full(size, 0.2)}, edges)

        def kept(axes: Axes) -> None:
            panel(axes)
            axes.figure.canvas.mpl_connect("draw_event", lambda _: tops.append(axes.get_ylim()[1]))

        return kept

    figures.draw(tmp_path / "f", "title", [counted(10), counted(500)], same_height=True)
    assert len(set(tops)) == 1
    assert tops[0] >= 500
