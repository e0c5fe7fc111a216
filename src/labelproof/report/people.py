"""The report's section on several annotators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from labelproof.judging import wording
from labelproof.report import svg
from labelproof.report.facts import Facts

MOST = 15  # annotators and confusions shown
ROW = 22  # height of an annotator in the figure


@dataclass(frozen=True, kw_only=True)
class People:
    """What the section shows."""

    lead: str
    worst: Sequence[Mapping[str, Any]]
    confused: Sequence[Mapping[str, Any]]
    figure: Markup | None  # None where no interval can be stated


def people(facts: Facts) -> People | None:
    """The annotators of a run; None where everybody labelled alone."""
    found: Mapping[str, Any] | None = facts.summary.get("annotators")
    if not found:
        return None
    worst = list(found["worst"])[:MOST]
    return People(
        lead=" ".join(_sentences(found)),
        worst=worst,
        confused=list(found["confused"])[:MOST],
        figure=_intervals(worst) if _known(worst) else None,
    )


def _known(worst: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the quality of annotators could be stated."""
    return bool(worst) and worst[0]["low"] is not None


def _sentences(found: Mapping[str, Any]) -> list[str]:
    told = [] if _known(found["worst"]) else [wording.NO_QUALITY]
    told += [
        f"{found['count']:,} annotators gave {found['votes']:,} labels, "
        f"{found['votes_per_example']:.1f} for each example."
    ]
    if found["alpha"] is not None and found["alpha_interval"] is not None:
        low, high = found["alpha_interval"]
        told.append(
            f"Their agreement (Krippendorff's alpha) is {found['alpha']:.2f}, 95% interval "
            f"{low:.2f} to {high:.2f}; 1 is full agreement and 0 is chance. {_reading(found)}"
        )
    told.append(wording.consensus(found))
    if found.get("soft_targets"):
        told.append(
            "Training used the votes as soft targets, because these predicted held-out votes "
            "better."
        )
    if found["worth_of_a_vote"] < 0.95:
        told.append(
            "Annotators make errors on the same examples, so another vote on an example counts "
            f"as {found['worth_of_a_vote']:.2f} of an independent one."
        )
    if found["accuracy_consensus"] is not None and found["accuracy_majority"] is not None:
        told.append(
            f"Measured with the true labels, the consensus is right for "
            f"{found['accuracy_consensus']:.1%} of the examples, the majority for "
            f"{found['accuracy_majority']:.1%}."
        )
    return told


def _reading(found: Mapping[str, Any]) -> str:
    """What an agreement of this size means; the limits are Krippendorff's."""
    if found["alpha"] >= 0.8:
        return "That is good."
    if found["alpha"] >= 0.667:
        return "That is enough for tentative conclusions."
    return "That is low: check whether the instructions clearly distinguish the classes."


def _intervals(worst: Sequence[Mapping[str, Any]]) -> Markup:
    height = ROW * len(worst) + 44
    frame = svg.Frame(x=(0, 1), y=(0, 1), width=420, height=height, left=110, top=4)
    body = [
        part
        for place, one in enumerate(worst)
        for part in _row(frame, one, frame.top + ROW * (place + 0.5))
    ]
    floor = frame.height - frame.bottom
    for value in (0, 0.25, 0.5, 0.75, 1):
        x = frame.at_x(value)
        body.insert(0, svg.rule(x, frame.top, x, floor))
        body.append(svg.words(x, floor + 16, f"{value:.0%}"))
    text = "; ".join(f"{o['annotator']} {o['quality']:.0%}" for o in worst)
    return svg.picture("people", "How often annotators are right", text, (420, height), body)


def _row(frame: svg.Frame, one: Mapping[str, Any], y: float) -> list[str]:
    name = str(one["annotator"])
    short = name if len(name) <= 15 else name[:14] + "…"
    return [
        svg.words(frame.left - 8, y + 4, short, anchor="end"),
        svg.line([(frame.at_x(one["low"]), y), (frame.at_x(one["high"]), y)], "line-a"),
        svg.dot(frame.at_x(one["quality"]), y, "fill-a", 4),
    ]
