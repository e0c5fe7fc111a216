"""Whether statements about labels can be relied on, and which classes can be judged at all.

Shapes: C classes, N examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from labelproof.judging.numbers import Bools, Floats, Ints, auroc

Level = Literal["good", "caution", "none"]

FEWEST_IN_CLASS = 8  # given labels of a class below which it is left alone
RARE = 20  # the same for classes far smaller than the others
RARE_SHARE = 0.15  # of an equal share of all examples: what far smaller means
LEARNABLE = (0.57, 0.65)  # held-out AUROC below which a class is left alone, of many and few labels
BEYOND_CHANCE = 2.0  # standard errors above one half: what lies between the two
FEWEST = 60  # examples below which nothing is judged
MANY = 1000  # examples from which numbers are more than rough
LIFT = 0.15  # over naming the largest class, below which a model is as good as none
RECOGNISED = 0.75  # mean AUROC of the classes that speaks for the model all the same
WRONG, OFTEN_WRONG = 0.45, 0.3  # expected error of the model for trust "none", and "caution"
MISLEADING = (0.25, 0.40)  # shares of wrong labels from which on a model may be, and is, misled
SETTLED = 0.7  # reliability of votes from which labels are judged without a model
MISLED = 0.5  # from which on no single number is stated
FEW_VOTES = 2.5  # an example, on the mean, below which annotators' shared errors stay unseen
FEW_LABELS = 10  # an annotator, on the mean, below which nobody is known
TWO_VOTES = (
    "Examples have fewer than 2.5 votes on average, so errors that annotators share look like "
    "right labels. More votes on some examples would help."
)
UNKNOWN_PEOPLE = (
    "Annotators gave fewer than ten labels on average, so how good each of them is remains "
    "uncertain."
)
NO_WITNESS = (
    "The model learnt next to nothing, so the results rest on the votes alone. Errors that "
    "annotators share cannot be detected."
)


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Whether the statements can be relied on: good, caution or none, with reasons."""

    level: Level
    reasons: tuple[str, ...]
    agreement: float  # of held-out predictions with given labels
    majority: float  # share of the largest class
    lift: float  # (agreement - majority) / (1 - majority)
    model_error: float  # expected error of held-out predictions, by the noise model
    ambiguous: bool = False  # contradicted labels may be wrong, or hard examples
    hidden: bool = False  # most wrong labels are such as the model suggests: some go unseen
    misled: float = 0.0  # how far the model is surer than it should be, 0 to 1
    seen: bool = False  # the model was trained on the labels, and may have learnt wrong ones
    weak: bool = False  # the model knows hardly more than the shares of the classes

    def describe(self) -> dict[str, Any]:
        """Plain values, for summary.json."""
        return {**asdict(self), "reasons": list(self.reasons)}


NOT_JUDGED = Trust(
    level="none",
    reasons=("The labels were not judged (--calibrate off): these are the method's own numbers.",),
    agreement=0.0,
    majority=1.0,
    lift=0.0,
    model_error=1.0,
)


def unjudged_classes(scores: Floats, labels: Ints) -> dict[int, str]:
    """Classes to leave alone, with the reason: too few labels, or not recognised."""
    out = {}
    for k in range(scores.shape[1]):
        count = int((labels == k).sum())
        rare = count < RARE and count < RARE_SHARE * len(labels) / scores.shape[1]
        if count < FEWEST_IN_CLASS or rare:
            only = f"only {count} label{'s' * (count > 1)}"
            out[k] = only if count else "no labels"
        elif not _recognised(labels == k, scores[:, k]):
            out[k] = "held-out models do not recognise it"
    return out


def _recognised(mine: Bools, score: Floats) -> bool:
    """Whether scores tell a class from the others, beyond chance (Mann and Whitney, 1947).

    Wrong labels bring the AUROC near one half even of a model that knows the class well, so with
    many labels little is asked for.
    """
    inside, outside = int(mine.sum()), int((~mine).sum())
    chance = np.sqrt((inside + outside + 1) / (12 * inside * max(outside, 1)))
    return bool(auroc(mine, score) >= np.clip(0.5 + BEYOND_CHANCE * chance, *LEARNABLE))


def contradicted(scores: Floats, labels: Ints) -> Bools:
    """Labels that held-out scores speak against: another class is above 1/2 and three times."""
    probs, at = np.exp(scores), np.arange(len(labels))
    own = probs[at, labels]
    probs[at, labels] = 0
    out: Bools = (probs.max(1) > 0.5) & (probs.max(1) > 3 * own)
    return out


def named_instead(scores: Floats, views: Floats, labels: Ints) -> Ints:
    """The class (N,) that models find likelier than the label; -1 where none finds one.

    That is the class of all together (N, C), or else of the single view (V, N, C) that is surest.
    """
    at = np.arange(len(labels))
    best = np.stack([view.argmax(1) for view in views])
    ahead = np.stack([view.max(1) - view[at, labels] for view in views])
    surest = ahead.argmax(0)
    alone = np.where(ahead[surest, at] > 0, best[surest, at], -1)
    together = scores.argmax(1)
    return np.where(together != labels, together, alone)


def misled_by_labels(copied: float, wrong: float) -> float:
    """How far, 0 to 1, a model was misled by labels of which a share is wrong.

    Models learn wrong labels that they would choose themselves (a share `copied` of them) like
    right ones, and then nothing tells the two apart. A few such labels do no harm: another class
    stays the likeliest.
    """
    return copied**4 * _between(MISLEADING, wrong)


def _between(ends: tuple[float, float], value: float) -> float:
    """0 up to the one end, 1 from the other on."""
    return float(np.clip((value - ends[0]) / (ends[1] - ends[0]), 0, 1))


def expected_error(truth: Floats) -> float:
    """How often predictions are wrong, by the probability (N, C) of each true class."""
    return max(0.0, float(1 - truth.max(1).mean())) if len(truth) else 1.0


def trust_of(
    scores: Floats,
    labels: Ints,
    truth: Floats,
    *,
    judged: int,
    ambiguous: bool = False,
    hidden: bool = False,
    misled: float = 0.0,
    seen: bool = False,
    votes: float | None = None,
    thin: Sequence[str] = (),
) -> Trust:
    """Rules on held-out agreement, size, and the noise model's view of the model's errors.

    Args:
        scores: (N, C) held-out log-probabilities.
        labels: (N,) given labels.
        truth: (N, C) probability of each true class before the label is seen.
        judged: classes that can be judged.
        ambiguous: whether contradicted labels may as well be hard examples.
        hidden: whether most wrong labels are such as the model suggests.
        misled: see `misled_by_labels`.
        seen: whether the scores are of networks that were trained on the labels.
        votes: how far votes alone settle the class of an example, 0 to 1; None without votes.
        thin: see `thin_votes`.
    """
    size = len(labels)
    agreement = float((scores.argmax(1) == labels).mean()) if size else 0.0
    majority = float(np.bincount(labels).max() / size) if size else 1.0
    lift = (agreement - majority) / max(1 - majority, 1e-9)
    error = expected_error(truth)
    weak = lift < LIFT and _mean_auroc(scores, labels) < RECOGNISED
    settled = weak and (votes or 0.0) >= SETTLED
    who = "The model itself is" if votes is None else "Votes and model together are"
    none = _reasons_against(size, judged, weak and not settled, error, who)
    caution = _reasons_for_care(size, error, ambiguous, misled, seen, who) if size else []
    if settled:
        caution.append(NO_WITNESS)
    caution += thin
    return Trust(
        level="none" if none else "caution" if caution else "good",
        reasons=tuple(none or caution),
        agreement=agreement,
        majority=majority,
        lift=lift,
        model_error=error,
        ambiguous=ambiguous,
        hidden=hidden,
        misled=misled,
        seen=seen,
        weak=weak,
    )


def thin_votes(example: float, annotator: float) -> tuple[str, ...]:
    """Why single numbers cannot be stated with so few votes an example and an annotator (means)."""
    two = (TWO_VOTES,) if example < FEW_VOTES else ()
    return (*two, UNKNOWN_PEOPLE) if annotator < FEW_LABELS else two


def _reasons_against(size: int, judged: int, weak: bool, error: float, who: str) -> list[str]:
    reasons = []
    if judged < 2:
        reasons.append("Fewer than two classes can be judged.")
    if size < FEWEST:
        reasons.append(f"{size} examples are too few to judge labels.")
    if weak:
        reasons.append(
            "The model predicts held-out labels hardly better than always naming the largest "
            "class. It needs inputs that say more about the class (other columns, another "
            "encoder), or longer training (--epochs)."
        )
    elif error > WRONG:
        reasons.append(f"{who} expected to be wrong on {error:.0%} of the examples.")
    return reasons


def _reasons_for_care(
    size: int, error: float, ambiguous: bool, misled: float, seen: bool, who: str
) -> list[str]:
    reasons = []
    if size < MANY:
        reasons.append(f"With {size} examples these numbers are rough.")
    if error > OFTEN_WRONG:
        reasons.append(f"{who} expected to be wrong on {error:.0%} of the examples.")
    if ambiguous:
        reasons.append(
            "Where the model contradicts a label, the label may be wrong or the example hard. "
            "Review the first 30 and fit again to find out."
        )
    if misled > MISLED:
        reasons.append(
            "Model errors and wrong labels look alike here, so the number of wrong labels is "
            "uncertain. Review the first 30 and fit again."
        )
    if seen:
        reasons.append(
            "Labels were judged by networks that were trained on them (--calibrate quick) and may "
            "have learnt wrong ones by heart. With --calibrate folds, other networks judge them."
        )
    return reasons


def doubts(trust: Trust) -> list[str]:
    """What to say first where nothing can be relied on: one sentence and its reasons."""
    if trust.level != "none":
        return []
    return [f"These labels cannot be judged. {_joined(trust.reasons)}"]


def _joined(reasons: Sequence[str]) -> str:
    return " ".join(reasons)


def _mean_auroc(scores: Floats, labels: Ints) -> float:
    """Mean over classes of how well held-out scores recognise them."""
    found = [auroc(labels == k, scores[:, k]) for k in np.unique(labels)]
    return float(np.mean(found)) if found else 0.5
