"""What a summary says of the labels, in sentences; the same for the screen and for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MOST_NAMED = 5  # classes named one by one
NEARLY = 0.995  # share from which on a percentage is printed as 100%
NO_QUALITY = (
    "How often annotators are right is not stated, because these labels were not judged or "
    "cannot be. More votes per example or a better model would help."
)


def of_labels(summary: Mapping[str, Any], size: int) -> list[str]:
    """What is known of the labels: whether to trust it first, then suspects and noise."""
    suspects, filled = int(summary["suspects"]), filled_up(summary)
    trusted = level(summary) != "none"
    lines = list(summary.get("doubts") or ())
    looks, are = ("looks", "is") if suspects == 1 else ("look", "are")
    word = f"{looks} wrong" if trusted else f"{are} the first to check"
    if filled:
        lines.append(
            f"{suspects:,} of {size:,} labels are listed for review, as you asked: "
            f"{suspects - filled:,} {'looks' if suspects - filled == 1 else 'look'} wrong, and "
            f"{filled:,} {'is' if filled == 1 else 'are'} the next most likely to be wrong."
        )
    elif not judged(summary):
        lines.append(f"The method itself doubts {suspects:,} of {size:,} labels.")
    elif trusted or suspects:
        lines.append(f"{suspects:,} of {size:,} labels {word} ({suspects / size:.1%}).")
    lines += [*precision(summary), *noise(summary), *left_alone(summary)]
    return lines + (care(summary) if trusted else [])


def level(summary: Mapping[str, Any]) -> str:
    """How far the statements can be relied on: good, caution or none."""
    return str((summary.get("trust") or {}).get("level", "good"))


def judged(summary: Mapping[str, Any]) -> bool:
    """Whether anything beside the method itself, or votes, has judged the labels."""
    alone = level(summary) == "none" and summary.get("noise_rate_interval") is None
    voted = bool(summary.get("annotators"))
    return not alone or voted or summary.get("noise_rate_estimate") is None


def together(summary: Mapping[str, Any]) -> bool:
    """Whether a regression, a forest or networks of the folds predict too."""
    joined = summary.get("joined") or {}
    return any(joined.get(name) for name in ("linear_share", "forest_share", "fold_networks"))


def accuracy(summary: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> str:
    """The accuracy on test data; best and mean epochs are those of a network that is alone.

    The mean of ten epochs is told where `history`, a record per epoch, has ten that were tested.
    """
    found = summary["accuracy"]
    if together(summary):
        return f"Test accuracy {found['last']:.1%}"
    tested = sum("test_accuracy" in line for line in history)
    mean = f"mean of the last ten {found['last10']:.1%}, " if tested >= 10 else ""
    return (
        f"Test accuracy {found['last']:.1%} after the last epoch ({mean}best {found['best']:.1%}, "
        "chosen on the test set)"
    )


def filled_up(summary: Mapping[str, Any]) -> int:
    """How many labels are listed only because so long a list was asked for."""
    return int(summary.get("suspects_filled") or 0) if level(summary) != "none" else 0


def precision(summary: Mapping[str, Any]) -> list[str]:
    """How many of the suspects are really wrong."""
    suspects, interval = int(summary["suspects"]), summary.get("suspect_precision_interval")
    stated = summary.get("suspect_precision_estimate")
    if not suspects or (interval is None and stated is None):
        return []
    if interval is None:
        return [f"About {stated:.0%} of the suspects are expected to be wrong."]
    if (summary.get("trust") or {}).get("ambiguous"):
        return [
            f"The labels alone do not show how many of these {suspects:,} are wrong: it may be "
            "nearly all of them, or hardly any."
        ]
    if interval[0] >= NEARLY and suspects == 1:
        return ["It is almost certainly wrong."]
    if interval[0] >= NEARLY:
        return [f"Nearly all of these {suspects:,} labels are wrong."]
    if suspects == 1:
        return [f"It is wrong with a probability between {interval[0]:.0%} and {interval[1]:.0%}."]
    line = f"Between {interval[0]:.0%} and {interval[1]:.0%} of these {suspects:,} labels are wrong"
    return [line + (f", about {stated:.0%} by our estimate." if stated is not None else ".")]


def states_rate(summary: Mapping[str, Any]) -> bool:
    """Whether the share of wrong labels is stated as a single number."""
    rate, interval = summary.get("noise_rate_estimate"), summary.get("noise_rate_interval")
    return rate is not None and (interval is None or interval[1] < 1)


def noise(summary: Mapping[str, Any]) -> list[str]:
    """The share of wrong labels: a number with its interval, the interval alone, or neither."""
    rate, interval = summary.get("noise_rate_estimate"), summary.get("noise_rate_interval")
    if rate is None and interval is None:
        return ["The share of wrong labels cannot be estimated."]
    if not judged(summary):
        return ["The labels were not judged (--calibrate off): how many are wrong is unknown."]
    if interval is None:
        return [f"The share of wrong labels is estimated at {rate:.1%}."]
    if interval[1] >= 1:
        least = f"At least {interval[0]:.0%} of the labels are wrong."
        return [least if interval[0] else "The share of wrong labels cannot be estimated."]
    between = f"between {interval[0]:.0%} and {interval[1]:.0%}"
    if interval[1] < (0.01 if rate is None else 1 - NEARLY):
        return ["The share of wrong labels is below 1%."]
    if rate is None:
        return [f"The share of wrong labels is {between}. A single number would not be reliable."]
    return [f"The share of wrong labels is estimated at {rate:.1%} ({between})."]


def consensus(found: Mapping[str, Any]) -> str:
    """How the consensus, the majority and the labels that look wrong relate, and which to use."""
    changed, trained = found["changed"], found["given_differs"]
    examples = "example" if changed == 1 else "examples"
    which = ", here the majority votes"
    if trained:
        which = f" ({trained:,} {'is' if trained == 1 else 'are'} not the majority vote)"
    return (
        "Use the consensus of votes and model: it is the column consensus of votes.csv, and "
        f"differs from the majority vote for {changed:,} {examples}. Review the labels that look "
        f"wrong. These are counted apart: they are labels that the run was trained on{which}, and "
        "each is more likely wrong than right."
    )


def no_suggestion(p_clean: float) -> str:
    """What is said of a suspect whose suggestion is less likely than the given label."""
    return "probably wrong, no clear suggestion" if p_clean < 0.5 else "no clear suggestion"


def left_alone(summary: Mapping[str, Any]) -> list[str]:
    """Classes that were not judged, by name."""
    classes: Sequence[Mapping[str, Any]] = summary.get("by_class") or ()
    alone = [(part["name"], part["reason"]) for part in classes if not part["judged"]]
    if not alone:
        return []
    named = ", ".join(f"{name} ({reason})" for name, reason in alone[:MOST_NAMED])
    more = f" and {len(alone) - MOST_NAMED} more" if len(alone) > MOST_NAMED else ""
    return [f"These classes were not judged: {named}{more}."]


def care(summary: Mapping[str, Any]) -> list[str]:
    """Reasons to be careful."""
    trust = summary.get("trust") or {}
    return list(trust.get("reasons") or ()) if trust.get("level") == "caution" else []
