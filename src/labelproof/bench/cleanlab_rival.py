"""The rival from outside: cleanlab finds label issues, and cross-entropy is trained on the rest.

Out-of-fold probabilities come from the network and the settings of our `ce`, so that only the
treatment of wrong labels differs. The cell leaves a run.json and a summary.json with the keys of
an ordinary run; it has no checkpoint and starts anew after an interruption.

Shapes: C classes, N training examples.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelproof import metrics, pipeline
from labelproof.data.examples import Subset
from labelproof.errors import BadInput
from labelproof.files import write_json
from labelproof.judging.crossfit import part_of
from labelproof.run_files import RUN, SUMMARY
from labelproof.runs.prepare import Assembled, Prepared
from labelproof.runs.spec import RunSpec
from labelproof.training.loop import Result, train

FOLDS = 5


def run(spec: RunSpec) -> None:
    """Folds, issues, and a last network on what is left."""
    parts = pipeline.assemble(spec)
    prepared, method, trunk = parts.prepared, parts.method, parts.trunk
    out = write_record(spec, "cleanlab", vars(method), parts.net)
    started = time.monotonic()
    probs = out_of_fold(parts)
    flagged, quality = issues(prepared.task.y, probs)
    kept = (~flagged).nonzero().squeeze(1)
    last = train(
        part_of(prepared.task, kept),
        method,
        trunk,
        audit=replace(prepared.audit, truth=None),  # true labels are of all examples, not of these
        seed=spec.seed,
        device=parts.device,
    )
    seconds = time.monotonic() - started
    write_json(out / SUMMARY, summary(prepared, last, flagged, quality, seconds))


def write_record(spec: RunSpec, maker: str, settings: Mapping[str, Any], net: str) -> Path:
    """Write run.json of a rival's cell; returns the cell's folder."""
    assert spec.out is not None
    spec.out.mkdir(parents=True, exist_ok=True)
    record = {"format": 1, "method": maker, "settings": settings, "net": net}
    write_json(spec.out / RUN, {**record, "seed": spec.seed, "spec": spec.describe()})
    return spec.out


def out_of_fold(parts: Assembled) -> Tensor:
    """Probabilities (N, C) of every training example by a network that has not seen it."""
    from sklearn.model_selection import StratifiedKFold

    task, seed = parts.prepared.task, parts.spec.seed
    probs = torch.empty(task.size, task.num_classes)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    for seen, unseen in folds.split(task.y.numpy(), task.y.numpy()):
        part = part_of(task, torch.from_numpy(seen))
        result = train(part, parts.method, parts.trunk, seed=seed, device=parts.device)
        probs[unseen] = result.predict(Subset(task.x, torch.from_numpy(unseen))).cpu()
    return probs


def issues(given: Tensor, probs: Tensor) -> tuple[Tensor, Tensor]:
    """Which labels cleanlab would prune, (N,) bool, and its label quality, (N,), low is bad."""
    try:
        from cleanlab.filter import find_label_issues  # type: ignore[import-untyped]
        from cleanlab.rank import get_label_quality_scores  # type: ignore[import-untyped]
    except ImportError as error:
        raise BadInput(
            f"the row cleanlab needs the package cleanlab ({error}); install it, or leave the row "
            "out with --methods."
        ) from None
    labels, values = given.numpy(), probs.double().numpy()
    values = values / values.sum(1, keepdims=True)
    flagged = find_label_issues(labels, values, filter_by="prune_by_noise_rate", n_jobs=1)
    return torch.from_numpy(flagged), torch.from_numpy(get_label_quality_scores(labels, values))


def summary(
    prepared: Prepared, last: Result, flagged: Tensor, quality: Tensor, seconds: float
) -> dict[str, Any]:
    """The numbers of summary.json; what cleanlab does not state is None."""
    test_y = prepared.audit.test_y
    judged = label_numbers(prepared, -quality, flagged)
    curve = [line["test_accuracy"] for line in last.history if "test_accuracy" in line]
    probs = last.test_probabilities
    known = probs is not None and test_y is not None
    return {
        "accuracy": vars(metrics.best_last(curve)) if curve else None,
        "ece": metrics.ece(probs, test_y) if known else None,  # type: ignore[arg-type]
        "ece_calibrated": None,
        "error_ap_own": judged["error_ap"],
        **judged,
        "seconds": round(seconds, 1),
    }


def label_numbers(prepared: Prepared, suspicion: Tensor, flagged: Tensor | None) -> dict[str, Any]:
    """How a rival's suspicion (N,) and the labels it would remove (N,) fit the true labels."""
    truth = prepared.audit.truth
    wrong = None if truth is None else truth != prepared.task.y
    auroc = None if wrong is None else metrics.error_auroc(wrong, suspicion)
    known = wrong is not None and flagged is not None
    return {
        "error_auroc_own": auroc,
        "error_auroc": auroc,
        "error_ap": None if wrong is None else metrics.error_ap(wrong, suspicion),
        "suspects": None if flagged is None else int(flagged.sum()),
        "suspect_detection": metrics.detection(wrong, flagged) if known else None,  # type: ignore[arg-type]
        "suspect_precision_estimate": None,
        "noise_rate_estimate": None if flagged is None else flagged.float().mean().item(),
        "noise_rate_true": None if wrong is None else wrong.float().mean().item(),
    }
