"""The figures: each mark stands where the numbers say, whatever the numbers are."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import Markup

from labelproof.judging.wording import of_labels
from labelproof.report import plots as figures
from labelproof.report import svg
from labelproof.report.page import chance, percent


def tree(drawing: Markup) -> ElementTree.Element:
    return ElementTree.fromstring(str(drawing))


def parts(drawing: Markup, tag: str, kind: str) -> list[dict[str, float]]:
    return [
        {name: float(value) for name, value in one.attrib.items() if name != "class"}
        for one in tree(drawing).iter(tag)
        if kind in (one.get("class") or "").split()
    ]


def test_bars_of_the_reliability_diagram_are_as_high_as_the_accuracy() -> None:
    diagram = {
        "confidence": (0.25, None, 0.9),
        "accuracy": (0.1, None, 0.8),
        "count": (10.0, 0.0, 30.0),
    }
    bars = parts(figures.reliability(diagram), "rect", "fill-a")
    dots = parts(figures.reliability(diagram), "circle", "fill-a")
    assert len(bars) == len(dots) == 2
    assert bars[1]["height"] / bars[0]["height"] == pytest.approx(8, rel=0.02)
    foot = {bar["y"] + bar["height"] for bar in bars}
    assert max(foot) - min(foot) < 0.2
    full = bars[0]["height"] / 0.1
    assert dots[1]["cy"] == pytest.approx(max(foot) - 0.8 * full, abs=0.3)


def test_the_histogram_counts_suspects_and_others_apart() -> None:
    values = np.concatenate([np.full(30, -2.0), np.full(60, 3.0)])
    drawing = figures.margins(values, values < 0)
    wrong = [bar for bar in parts(drawing, "rect", "fill-b") if bar["height"] > 0.2]
    right = [bar for bar in parts(drawing, "rect", "fill-a") if bar["height"] > 0.2]
    assert len(wrong) == len(right) == 1
    assert right[0]["height"] / wrong[0]["height"] == pytest.approx(2, rel=0.02)
    assert wrong[0]["x"] < right[0]["x"]


def test_the_two_gaussians_peak_at_the_means() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(-3, 0.5, 4000), rng.normal(2, 1.0, 6000)])
    drawing = tree(figures.margins(values, values < 0))
    low, high = values.min(), values.max()
    for kind, mean in (("line-b", -3), ("line-a", 2)):
        line = next(one for one in drawing.iter("polyline") if one.get("class") == kind)
        points = [tuple(map(float, p.split(","))) for p in (line.get("points") or "").split()]
        peak = min(points, key=lambda point: point[1])[0]
        frame = svg.Frame(x=(low, high), y=(0, 1))
        assert peak == pytest.approx(frame.at_x(mean), abs=6)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_margins_that_are_all_the_same_make_a_figure(count: int) -> None:
    drawing = figures.margins(np.full(count, 0.7), np.zeros(count, dtype=bool))
    assert not list(tree(drawing).iter("polyline"))
    assert "0.7" in str(drawing)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=30),
)
def test_any_margins_make_a_well_formed_figure(values: list[float]) -> None:
    drawing = figures.margins(np.array(values), np.array(values) < 0)
    assert "nan" not in str(drawing).lower().replace("margin", "")
    tree(drawing)


def test_the_map_shows_each_count_in_its_cell() -> None:
    flow = np.array([[0, 5, 0], [2, 0, 0], [0, 7, 0]])
    drawing, whole = figures.confusion(flow, ["a", "b", "c"])
    numbers = [one.text for one in tree(drawing).iter("text") if (one.text or "").isdigit()]
    assert sorted(numbers) == ["2", "5", "7"]
    assert whole


def test_of_many_classes_the_map_shows_the_busiest() -> None:
    flow = np.zeros((100, 100), dtype=np.int64)
    flow[97, 3] = 12
    drawing, whole = figures.confusion(flow, [f"kind <{i}>" for i in range(100)])
    texts = [one.text for one in tree(drawing).iter("text")]
    assert "12" in texts
    assert "kind <97>" in texts
    assert "kind <3>" in texts
    assert not whole


def test_curves_end_at_the_last_value_and_mark_phases() -> None:
    history = [
        {"epoch": e, "phase": "warm-up" if e < 4 else "main", "test_accuracy": e / 10}
        for e in range(1, 9)
    ]
    drawing = figures.curve(history, "test_accuracy", "test accuracy", True)
    assert drawing is not None
    assert "80%" in str(drawing)
    assert "main" in str(drawing)
    frame = svg.Frame(x=(1, 8), y=(0, 1))
    end = parts(drawing, "circle", "fill-a")[0]
    assert (end["cx"], end["cy"]) == pytest.approx((frame.at_x(8), frame.at_y(0.8)), abs=0.2)
    assert figures.curve(history, "loss", "loss", False) is None


@pytest.mark.parametrize("loss", [0.0, -3.0, 1e-9, 1e12])
def test_a_curve_of_one_epoch_is_drawn(loss: float) -> None:
    drawing = figures.curve([{"epoch": 1, "phase": "p", "loss": loss}], "loss", "loss", False)
    assert drawing is not None
    assert "nan" not in str(drawing)
    assert "inf" not in str(drawing)


@settings(max_examples=200, deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.booleans())
def test_ticks_are_round_inside_and_few(low: float, width: float, whole: bool) -> None:
    values = svg.ticks(low, low + width, whole=whole)
    slack = 1e-6 * max(abs(low), width, 1)
    assert all(low - slack <= value <= low + width + slack for value in values)
    assert len(values) <= 8
    if whole:
        assert all(math.isclose(value, round(value), abs_tol=1e-6) for value in values)


def test_shares_are_never_rounded_to_none_or_all() -> None:
    assert [percent(v) for v in (0, 0.001, 0.5, 0.999, 1, None)] == [
        "0%", "<1%", "50%", ">99%", "100%", "–",
    ]  # fmt: skip
    assert [percent(v, 1) for v in (0.0004, 0.1234, 0.9996)] == ["<0.1%", "12.3%", ">99.9%"]
    assert [chance(v) for v in (0.0, 0.004, 0.006, 0.994, 1.0)] == [
        "<1%", "<1%", "1%", "99%", ">99%",
    ]  # fmt: skip


def test_one_label_is_not_said_to_be_many() -> None:
    point = {"precision": 0.9, "low": 0.8, "high": 1.0}
    text = str(figures.precision([{"suspects": 1, **point}, {"suspects": 20, **point}]))
    assert "1 label: 90%" in text
    assert "20 labels: 90%" in text
    flow = np.array([[0, 1], [0, 0]])
    assert "1 suspect by given" in str(figures.confusion(flow, ("a", "b"))[0])
    summary = {"suspects": 1, "noise_rate_estimate": 0.1}
    assert of_labels(summary, 60)[0].startswith("1 of 60 labels looks wrong")
