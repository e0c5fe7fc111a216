"""The loop: walks a method's plan and, between epochs, evaluates, logs and saves."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelproof import metrics
from labelproof.data.examples import Inputs
from labelproof.data.task import Audit, Task
from labelproof.errors import BadInput
from labelproof.files import finite, write_text
from labelproof.functional import of_label
from labelproof.run_files import CHECKPOINT, METRICS
from labelproof.training import checkpoint, ranks
from labelproof.training.log import Reporter
from labelproof.training.protocol import Method, Phase
from labelproof.training.run import Precision, Run, Trunk, collected, forward_all
from labelproof.training.trained import parted

Line = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a run gives: probabilities, clean probabilities, curves, the trained state."""

    method: Method
    state: Any
    task: Task
    device: torch.device
    probabilities: Tensor  # (N, C) of the training examples
    clean: Tensor  # (N,) probability that the given label is right
    test_probabilities: Tensor | None  # (M, C)
    history: list[Line]
    seconds: float
    precision: Precision = "auto"
    chosen: Mapping[str, Any] = field(default_factory=dict)  # settings that had been left open

    def predict(self, x: Inputs) -> Tensor:
        """Probabilities (M, C) of other inputs of the same kind and shape."""
        return predict(self.method, self.state, x, self.task, self.device)


def train(
    task: Task,
    method: Method,
    trunk: Trunk,
    *,
    audit: Audit | None = None,
    seed: int = 0,
    device: torch.device,
    precision: Precision = "auto",
    folder: Path | None = None,
    resume: bool = False,
    reporter: Reporter | None = None,
    name: str = "training",
) -> Result:
    """Train `method` on `task`; with a folder, save after every epoch and continue from there.

    Args:
        task: what the method sees.
        method: a record of hyper-parameters with a plan.
        trunk: makes a new network that maps inputs to features.
        audit: true labels and test data, for the curve alone.
        seed: decides everything random.
        device: where to compute.
        precision: of the trunk; auto is bfloat16 on a GPU that has it, else float32.
        folder: where checkpoint and metrics go; None keeps nothing.
        resume: continue from the folder's checkpoint if there is one.
        reporter: follows the progress.
        name: what the reporter calls this run.
    """
    audit = audit or Audit()
    reporter = reporter or Reporter()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        run = Run(task, trunk, device=device, seed=seed, precision=precision)
        state = method.setup(run)
        state, history = _restored(folder, state, resume)
        before = history[-1]["elapsed"] if history else 0.0
        started = time.monotonic() - before
        if folder:
            _make_room(folder, history)
        run.on_step = reporter.step
        reporter.start(name, sum(p.epochs for p in method.plan()), len(history))
        try:
            for line in _lines(method, state, run, audit, len(history), reporter):
                line["elapsed"] = round(time.monotonic() - started, 3)
                ranks.check_same(_fingerprint(state), f"after epoch {line['epoch']}")
                history.append(line)
                _keep(folder, state, history)
                reporter.epoch(line)
        finally:
            reporter.close()
        return _result(method, state, run, audit, history, started)


def _result(
    method: Method, state: Any, run: Run, audit: Audit, history: list[Line], started: float
) -> Result:
    """What the trained networks say at the end."""
    task, device = run.task, run.device
    _eval_mode(state)
    result = Result(
        method=method,
        state=state,
        task=task,
        device=device,
        precision=run.precision,
        probabilities=predict(method, state, task.x, task, device, run.ranks).cpu(),
        clean=run.trusted(state.clean).cpu().float(),
        test_probabilities=_test_probabilities(method, state, task, audit, device),
        history=history,
        seconds=time.monotonic() - started,
    )
    parted(state)
    return result


def predict(
    method: Method,
    state: Any,
    x: Inputs,
    task: Task,
    device: torch.device,
    together: ranks.Ranks = ranks.ALONE,
) -> Tensor:
    """Probabilities (M, C) of `x`, plain view, eval mode; with others, each reads its share."""
    _eval_mode(state)
    parts = forward_all(x, task, lambda v: method.predict(state, v), device, together=together)
    return collected(parts, len(x))


def given_label(method: Method, state: Any, run: Run) -> None:
    """`score` of a method whose clean probability is what it gives the given label, (N,)."""
    probs = predict(method, state, run.task.x, run.task, run.device, run.ranks)
    state.clean = of_label(probs, run.y)


def evaluate(
    method: Method, state: Any, task: Task, audit: Audit, device: torch.device
) -> dict[str, float]:
    """What the audit says after an epoch; nothing of it reaches the method."""
    out = {}
    probs = _test_probabilities(method, state, task, audit, device)
    if probs is not None and audit.test_y is not None:
        out["test_accuracy"] = metrics.accuracy(probs, audit.test_y)
        out["test_ece"] = metrics.ece(probs, audit.test_y)
    clean = state.clean.cpu()
    # one value for all labels ranks none: most methods score them at the end of a phase alone
    if audit.truth is not None and (clean != clean[0]).any():
        out["error_auroc"] = metrics.error_auroc(audit.truth != task.y, -clean)
        right = (audit.truth == task.y)[clean > 0.5]  # precision of the split, where it is one
        if len(right):
            out["kept_right"] = right.double().mean().item()
    return out


def _test_probabilities(
    method: Method, state: Any, task: Task, audit: Audit, device: torch.device
) -> Tensor | None:
    if audit.test_x is None:
        return None
    return predict(method, state, audit.test_x, task, device, ranks.now()).cpu()


def _lines(
    method: Method, state: Any, run: Run, audit: Audit, done: int, reporter: Reporter
) -> Iterator[Line]:
    """Train every epoch still to do; what each gives, before the next begins."""
    for epoch, phase, first, last in _epochs(method, done):
        reporter.begin(phase.name)
        logs = _one_epoch(epoch, phase, first, last, state, run)
        logs |= evaluate(method, state, run.task, audit, run.device)
        yield {"epoch": epoch + 1, "phase": phase.name, **logs}


def _epochs(method: Method, done: int) -> Iterator[tuple[int, Phase, bool, bool]]:
    """Every epoch still to do: its number, phase, and whether it is the phase's first or last."""
    start = 0
    for phase in method.plan():
        for i in range(max(0, done - start), phase.epochs):
            yield start + i, phase, i == 0, i == phase.epochs - 1
        start += phase.epochs


def _one_epoch(epoch: int, phase: Phase, first: bool, last: bool, state: Any, run: Run) -> Line:
    run.begin(epoch)
    if first and phase.enter:
        phase.enter(state, run)
    logs = phase.epoch(state, run)
    loss = run.mean_loss()  # before `leave`, which has no use for networks that diverged
    if last and phase.leave:
        phase.leave(state, run)
    return {"loss": loss, **logs}


def _eval_mode(state: Any) -> None:
    for net in checkpoint.networks(state).values():
        net.eval()


def _fingerprint(state: Any) -> float:
    """A number that differs where networks do; nothing is computed for a single process."""
    if ranks.now().world == 1:
        return 0.0
    nets = checkpoint.networks(state).values()
    sums = [w.detach().double().sum().cpu() for net in nets for w in net.state_dict().values()]
    return torch.stack(sums).sum().item() if sums else 0.0


def _restored(folder: Path | None, state: Any, resume: bool) -> tuple[Any, list[Line]]:
    """State and history as the folder's checkpoint has them, if there is one to go on from.

    The first of several processes reads it; the others have no folder.
    """
    if resume and folder is None:
        raise BadInput("to resume, name the run folder to continue from.")
    path = folder / CHECKPOINT if folder else Path(CHECKPOINT)
    saved = ranks.from_first(lambda: checkpoint.load(path) if resume and path.exists() else None)
    if saved is None:
        return state, []
    try:
        return checkpoint.unpack(state, saved["state"]), [dict(line) for line in saved["history"]]
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise BadInput(
            f"{path} does not fit this method and network ({type(error).__name__}); resume with "
            "the same method and network, or start a new run in another folder."
        ) from error


def _make_room(folder: Path, history: list[Line]) -> None:
    """Let the folder tell of this run alone; an older checkpoint must not be resumed by mistake."""
    if not history:
        (folder / CHECKPOINT).unlink(missing_ok=True)
    rewrite_metrics(folder, history)


def _keep(folder: Path | None, state: Any, history: list[Line]) -> None:
    if folder is None:
        return
    append_metrics(folder, history[-1])
    checkpoint.save(folder / CHECKPOINT, {"state": checkpoint.pack(state), "history": history})


def append_metrics(folder: Path, line: dict[str, Any]) -> None:
    """Add one epoch."""
    with (folder / METRICS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(finite(line)) + "\n")


def rewrite_metrics(folder: Path, history: list[dict[str, Any]]) -> None:
    """Make the file say what the checkpoint knows (a kill may have come between the two)."""
    write_text(folder / METRICS, "".join(json.dumps(finite(line)) + "\n" for line in history))
