"""Choosing a number that was left open, such as lambda_u, without a clean label.

The method is trained for a few epochs on a part of the data, once per weight from small to large,
and each time asked for the labels of examples it has not seen. Their given labels are noisy too,
but as long as the right label is the most frequent one of every class, agreement with them ranks
classifiers as agreement with the truth would (Chen et al., AAAI 2021). It is only less precise, so
the usual weight is taken unless it is clearly behind the best one.

Shapes: M examples held out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from labelproof.data.examples import Kind, Subset
from labelproof.data.task import Task
from labelproof.errors import RunFailed
from labelproof.judging.crossfit import Retraining, copies, follower, part_of
from labelproof.recipes.sizing import shortened, warm_up, with_batch
from labelproof.training.estimate import estimate
from labelproof.training.log import Reporter
from labelproof.training.protocol import Method
from labelproof.training.run import Precision, Trunk, derive_seed
from labelproof.training.settings import AUTO, Open, marked, settings_of

# examples below which a part of them decides nothing; networks on images learn slowly
FEWEST: Mapping[Kind, int] = {"vectors": 2000, "images": 20_000}
PER_CLASS = 100  # examples of each class below which trials decide nothing,
TRIED_PER_CLASS = 25  # and that a trial has to train on
ERRORS = 2.0  # standard errors that a weight may be behind the best
PART = 0.75  # of the examples that a trial is trained on,
LEAST, MOST = 500, 5000  # but on so many at the least and at the most
LENGTH = 0.5  # part of the epochs that a trial has at the least, where it has few of the examples
STEPS = 32  # batches that a trial makes of its part, at the least, down to batches of SMALLEST
SMALLEST = 16
HELD = 20_000  # examples held out, at the most; they cost a forward pass


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One weight, and how it did on given labels that it was not trained on."""

    value: float
    agreement: float | None  # share of the held-out labels it predicted; None where it diverged
    behind: float = 0.0  # how much lower than the best one's, and the
    error: float = 0.0  # standard error of that difference


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The weight taken, and why."""

    value: float
    why: str  # one sentence for a person
    trials: tuple[Trial, ...] = ()
    seconds: float = field(default=0.0, compare=False)  # that the trials took

    def describe(self) -> dict[str, Any]:
        """What run.json and summary.json say of it."""
        trials = [asdict(trial) for trial in self.trials]
        seconds = round(self.seconds, 1)
        return {"value": self.value, "why": self.why, "trials": trials, "seconds": seconds}


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What a trial trains, on which examples, and which ones judge it."""

    method: Method  # a number is still open
    part: Tensor  # indices
    held: Tensor  # indices, (M,)


def undecided(method: Method) -> bool:
    """Whether the record leaves a number to be chosen."""
    return any(settings_of(method)[name] == AUTO for name in marked(method, Open))


def open_setting(method: Method) -> tuple[str, Open]:
    """The setting that can be left open, and what its method declares of it."""
    return next(iter(marked(method, Open).items()))


def decided(method: Method, value: float) -> Method:
    """The record with a number where one was open."""
    record: Any = method
    changed: Method = replace(record, **{open_setting(method)[0]: value})
    return changed


def settled_for_now(method: Method, kind: Kind) -> Method:
    """The record with its usual number where one is open, to measure what a run would take."""
    if not undecided(method):
        return method
    _, mark = open_setting(method)
    return decided(method, mark.candidates[0] if _idle(method, mark) else usual(mark, kind))


def usual(mark: Open, kind: Kind) -> float:
    """The number taken where trials do not speak against it."""
    return mark.vectors if kind == "vectors" else mark.images


def choose_lambda_u(again: Retraining, reporter: Reporter | None = None) -> Choice:
    """Choose the number that a method leaves open, by short trials on a part of the data."""
    task, method = again.task, again.method
    known = without_trials(task, method)
    if known:
        return known
    started = time.monotonic()
    name, mark = open_setting(method)
    plan = probe(task, method, again.seed)

    def right(value: float) -> Tensor | None:
        try:
            result = again.train(
                plan.part,
                decided(plan.method, value),
                follower(reporter),
                seed_of=name,
                place=f"{value:g}",
                name=f"trial of {name} = {value:g}",
            )
        except RunFailed:
            return None
        return result.predict(Subset(task.x, plan.held)).argmax(1).cpu() == task.y[plan.held]

    trials = search(right, mark.candidates)
    value = usual_or_near_best(trials, usual(mark, task.kind))
    why, seconds = _sentence(name, value, trials, plan), time.monotonic() - started
    return Choice(value=value, why=why, trials=trials, seconds=seconds)


def without_trials(task: Task, method: Method) -> Choice | None:
    """The choice where there is none: nothing to weight, or too little data to try on."""
    name, mark = open_setting(method)
    if mark.idle and _idle(method, mark):
        value, (other, word) = mark.candidates[0], mark.idle
        return Choice(
            value=value, why=f"{name} is {value:g}, because {other}={word!r} leaves no rows for it."
        )
    value, needed = usual(mark, task.kind), max(FEWEST[task.kind], PER_CLASS * task.num_classes)
    usually = f"{name} is {value:g}, the usual value for {task.kind}: "
    if task.num_classes * TRIED_PER_CLASS > MOST:
        why = f"trials of {MOST} examples have too few of each of {task.num_classes} classes."
        return Choice(value=value, why=usually + why)
    if task.size < needed:
        why = (
            f"trials to choose it need {needed} examples for {task.num_classes} classes, and there "
            f"are {task.size}."
        )
        return Choice(value=value, why=usually + why)
    return None


def probe(task: Task, method: Method, seed: int) -> Probe:
    """Some examples to train on and others to judge by, each class in the same shares of both."""
    size = min(max(int(PART * task.size), LEAST), MOST)
    rng = torch.Generator().manual_seed(derive_seed(seed, "probe"))
    order = torch.randperm(task.size, generator=rng)
    order = order[task.y[order].argsort(stable=True)]
    first = copies(task.x)
    single = order[first[order] == order]
    taken = torch.zeros(task.size, dtype=torch.bool)
    taken[_spread(single, max(1, round(size * len(single) / task.size)))] = True
    taken = taken[first]  # a network that has seen one copy has seen them all
    held = _spread(order[~taken[order]], HELD)
    short = _short(method, size, size / task.size)
    return Probe(method=short, part=taken.nonzero().squeeze(1), held=held.sort().values)


def _idle(method: Method, mark: Open) -> bool:
    """Whether the number has no effect with the method's other settings."""
    return mark.idle is not None and settings_of(method).get(mark.idle[0]) == mark.idle[1]


def _spread(rows: Tensor, most: int) -> Tensor:
    """So many of the rows at the most, evenly from first to last."""
    return rows[torch.linspace(0, len(rows) - 1, min(len(rows), most)).round().long()]


def search(
    right: Callable[[float], Tensor | None], candidates: Sequence[float]
) -> tuple[Trial, ...]:
    """Try weights from small to large until one does not do better than all before.

    Args:
        right: which of the held-out labels a network trained with this weight predicts, (M,) bool;
            None where its training diverged.
        candidates: weights in ascending order.
    """
    seen: dict[float, Tensor | None] = {}
    best: float | None = None
    for value in candidates:
        seen[value] = hits = right(value)
        before = None if best is None else seen[best]
        if before is None:
            best = value if hits is not None else None
        elif hits is None or hits.sum() <= before.sum():
            break
        else:
            best = value
    return tuple(_trial(value, hits, seen.get(best)) for value, hits in seen.items())  # type: ignore[arg-type]


def usual_or_near_best(trials: Sequence[Trial], usual: float) -> float:
    """The usual weight if it is within two standard errors of the best, else the smallest so."""
    near = [t.value for t in trials if t.agreement is not None and t.behind <= ERRORS * t.error]
    return usual if usual in near else min(near, default=usual)


def trial_seconds(
    task: Task, method: Method, trunk: Trunk, device: torch.device, precision: Precision = "auto"
) -> float:
    """How long the first two trials take, measured on a few batches; there can be more."""
    if without_trials(task, method):
        return 0.0
    plan = probe(task, method, seed=0)
    part = part_of(task, plan.part)
    _, mark = open_setting(method)
    both = (decided(plan.method, value) for value in mark.candidates[:2])
    return sum(estimate(part, trial, trunk, device, precision).seconds for trial in both)


def _short(method: Method, size: int, share: float) -> Method:
    """The record for a trial on `size` examples, a share of all: shorter where that is small."""
    length = min(max(2 * share, LENGTH), 1.0)
    epochs = min(method.epochs, max(round(length * method.epochs), warm_up(method) + 2))
    return with_batch(shortened(method, epochs), max(SMALLEST, size // STEPS))


def _trial(value: float, hits: Tensor | None, best: Tensor | None) -> Trial:
    if hits is None or best is None:
        return Trial(value=value, agreement=None)
    apart = best.double() - hits.double()
    return Trial(
        value=value,
        agreement=hits.double().mean().item(),
        behind=apart.mean().item(),
        error=apart.std(correction=0).item() / len(apart) ** 0.5,
    )


def _sentence(name: str, value: float, trials: Sequence[Trial], plan: Probe) -> str:
    """What was tried, what was chosen and why."""
    each = [
        f"none (diverged) at {t.value:g}"
        if t.agreement is None
        else f"{t.agreement:.1%} at {t.value:g}"
        for t in trials
    ]
    return (
        f"{name} = {value:g} was chosen without true labels. Trained on {len(plan.part)} examples "
        f"for {plan.method.epochs} epochs, networks predicted {', '.join(each)} of the given "
        f"labels of {len(plan.held)} others. The usual value stays unless it is two standard "
        "errors behind the best."
    )
