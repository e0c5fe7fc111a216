"""How long a run will take, measured on a few of its own examples within a few seconds."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from labelproof.errors import RunFailed
from labelproof.judging.crossfit import FEWEST, fold_count, folds, part_of, suited_to_fold
from labelproof.judging.tune import settled_for_now, trial_seconds, undecided
from labelproof.judging.unseen import rounds
from labelproof.runs.prepare import Assembled
from labelproof.training.estimate import Estimate, estimate
from labelproof.training.protocol import Method

PATIENCE = 4.0  # seconds that measuring may take
FEW = {"images": 32, "vectors": 256}  # examples that are measured first
MORE = 1024  # and then, if there is time
AGAIN = 0.5  # seconds until an end of the time that went unheard is repeated
HOUR = 3600.0


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Seconds that the parts of a run take; without `measured`, bounds from below."""

    training: float
    trials: float | None = None  # None where nothing was left open
    calibration: float = 0.0
    encoding: float = 0.0
    measured: Estimate | None = None

    @property
    def seconds(self) -> float:
        """All parts together."""
        return self.encoding + (self.trials or 0.0) + self.training + self.calibration

    def total(self) -> str:
        """The whole in words."""
        about = "about" if self.measured else "more than"
        return f"{about} {duration(self.seconds)}"


def forecast(
    parts: Assembled, encoding: float = 0.0, patience: float = PATIENCE, most: int = MORE
) -> Forecast:
    """Measure a few batches and extrapolate to the whole run.

    Args:
        parts: The run.
        encoding: Seconds that encoding will take before.
        patience: Seconds that the measurement may take.
        most: Examples that are measured at the most. With fewer than usual, trials are not
            measured, and calibration is taken to last as long as training.
    """
    method = settled_for_now(parts.method, parts.prepared.task.kind)
    found, trials, fold = _measure(parts, method, patience, most)
    if found is None:
        task = parts.prepared.task
        epochs = sum(phase.epochs for phase in method.plan())
        least = patience * task.size / min(FEW[task.kind], task.size) * epochs
        return Forecast(training=least, encoding=encoding)
    return Forecast(
        training=found.seconds,
        trials=trials if undecided(parts.method) else None,
        calibration=_again(parts, found, fold) * calibrated_by_folds(parts),
        encoding=encoding,
        measured=found,
    )


def calibrated_by_folds(parts: Assembled) -> bool:
    """Whether the method is trained again without each fold of the data, to judge it."""
    return parts.spec.how == "folds" and parts.prepared.task.size >= FEWEST


def _again(parts: Assembled, found: Estimate, fold: float | None) -> float:
    """Seconds of training without each fold, as many folds at once as can be."""
    task = parts.prepared.task
    one = found.seconds * (1 - 1 / fold_count(task)) if fold is None else fold
    return rounds(task, parts.device) * one


def _measure(
    parts: Assembled, method: Method, patience: float, most: int
) -> tuple[Estimate | None, float, float | None]:
    """Training, trials and training without a fold, as far as there was time for them."""
    task, how = parts.prepared.task, (parts.trunk, parts.device, parts.spec.number_type)
    found, trials, fold, end = None, 0.0, None, time.perf_counter() + patience
    try:
        with at_most(patience):
            found = estimate(task, method, *how, FEW[task.kind])
            if most > FEW[task.kind] and _quick(found, task.size, end):
                found = estimate(task, method, *how, most)
            if undecided(parts.method) and most >= MORE:
                trials = trial_seconds(task, parts.method, *how)
            if calibrated_by_folds(parts) and task.kind == "vectors" and most >= MORE:
                count = fold_count(task)
                part = part_of(task, (folds(task.y, count, seed=0) > 0).nonzero().squeeze(1))
                shorter = suited_to_fold(method, task.size, count)
                fold = estimate(part, shorter, *how).seconds
    except Exception as error:
        if not _expected(error):
            raise
    return found, trials, fold


def _expected(error: BaseException | None) -> bool:
    """Whether it is the end of the time, perhaps inside an error of a compiler, or a failed run."""
    if isinstance(error, (OutOfTime, RunFailed)):
        return True
    return error is not None and _expected(error.__cause__ or error.__context__)


def _quick(found: Estimate, size: int, end: float) -> bool:
    """Whether many more examples can be measured in half of the time that is left."""
    each = sum(seconds for _, seconds in found.phases.values()) / size
    return each * min(MORE, size) < (end - time.perf_counter()) / 2


def duration(seconds: float) -> str:
    """Seconds in words: `45 seconds`, `3.5 minutes`, `12 hours`, `9 days`."""
    if seconds >= 3 * 24 * HOUR:
        return f"{seconds / 24 / HOUR:,.0f} days"
    if seconds >= 2 * HOUR:
        return f"{seconds / HOUR:.0f} hours"
    if seconds >= 60:
        return f"{seconds / 60:.1f} minutes"
    whole = max(1, round(seconds))
    return f"{whole} second{'s' * (whole != 1)}"


class OutOfTime(Exception):
    """The work was not done in time."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in the block after some seconds, where the system has timers."""
    timers = "setitimer" in dir(signal) and threading.current_thread() is threading.main_thread()
    if not timers:  # Windows: the block takes what it takes
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    # again and again: libraries catch errors of their own imports, and this one with them
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
