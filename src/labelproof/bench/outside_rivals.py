"""What a practitioner would do instead, with scikit-learn and cleanlab.

- `cleanlab`: cleanlab finds label issues, and cross-entropy is trained on the rest. Out-of-fold
  probabilities come from the network and the settings of our `ce`, so that only the treatment of
  wrong labels differs.
- `logistic`: logistic regression. Scale of the inputs and penalty are chosen by the log-likelihood
  of given labels in five folds; the same folds judge the labels.
- `pruned`: the same regression and folds, then cleanlab removes labels and it is fitted again.
- `neighbours`: a label is suspect where few of the 30 nearest neighbours share it.

Each leaves a run.json and a summary.json with the keys of an ordinary run, has no checkpoint and
starts anew after an interruption. True labels measure.

Shapes: C classes, D features, N training examples, M test examples.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from labelproof import metrics, pipeline
from labelproof.bench.cell import OUTSIDE
from labelproof.data.examples import Inputs, Subset
from labelproof.errors import BadInput
from labelproof.files import write_json
from labelproof.judging.crossfit import part_of
from labelproof.judging.summary import recalls
from labelproof.run_files import RUN, SUMMARY
from labelproof.runs.prepare import Assembled, Prepared
from labelproof.runs.spec import RunSpec
from labelproof.training.loop import train

Numbers = npt.NDArray[Any]
Scale = Callable[[Numbers], Numbers]
FOLDS = 5
NEIGHBOURS = 30
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # C of scikit-learn
ITERATIONS = 300
LEAST = 1e-12  # probabilities below are this, for the logarithm


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Scale and penalty of a regression, and what its folds say."""

    scale: str  # "columns" or "common"
    penalty: float
    probs: Numbers  # (N, C) out of fold


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a rival found; None is what it does not do."""

    settings: Mapping[str, Any]
    suspicion: Tensor  # (N,) high is bad
    flagged: Tensor | None = None  # (N,) bool, labels it would remove
    probs: Tensor | None = None  # (M, C) of test data
    curve: tuple[float, ...] = ()  # test accuracy by epoch, where there are epochs


def run(spec: RunSpec, maker: str) -> None:
    """Carry out one rival and write what it found."""
    parts = pipeline.assemble(spec)
    prepared, net = parts.prepared, parts.net
    if maker in OUTSIDE:
        _check_vectors(prepared, maker)
        net = "none"
    started = time.monotonic()
    found = FINDERS[maker](parts)
    seconds = time.monotonic() - started
    assert spec.out is not None
    spec.out.mkdir(parents=True, exist_ok=True)
    record = {"format": 1, "method": maker, "settings": found.settings, "net": net}
    write_json(spec.out / RUN, {**record, "seed": spec.seed, "spec": spec.describe()})
    write_json(spec.out / SUMMARY, summary(prepared, found, seconds))


def _check_vectors(prepared: Prepared, maker: str) -> None:
    if len(prepared.task.x.shape) != 1 or prepared.audit.test_x is None:
        raise BadInput(
            f"the row {maker} needs vectors with test data; leave it out with --methods."
        )


def folds(seed: int) -> StratifiedKFold:
    """Five, that every rival judges labels by."""
    return StratifiedKFold(FOLDS, shuffle=True, random_state=seed)


# ---- cleanlab around our cross-entropy ----


def cleanlab(parts: Assembled) -> Findings:
    """Folds, issues, and a last network on what is left."""
    task, method = parts.prepared.task, parts.method
    flagged, quality = issues(task.y, by_networks(parts))
    last = train(
        part_of(task, (~flagged).nonzero().squeeze(1)),
        method,
        parts.trunk,
        # true labels are of all examples, not of these
        audit=replace(parts.prepared.audit, truth=None),
        seed=parts.spec.seed,
        device=parts.device,
    )
    curve = tuple(line["test_accuracy"] for line in last.history if "test_accuracy" in line)
    return Findings(
        settings=vars(method),
        suspicion=-quality,
        flagged=flagged,
        probs=last.test_probabilities,
        curve=curve,
    )


def by_networks(parts: Assembled) -> Tensor:
    """Probabilities (N, C) of every training example by a network that has not seen it."""
    task, seed = parts.prepared.task, parts.spec.seed
    probs, labels = torch.empty(task.size, task.num_classes), task.y.numpy()
    for seen, unseen in folds(seed).split(labels, labels):
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


# ---- scikit-learn alone ----


def logistic(parts: Assembled) -> Findings:
    """The regression on all labels."""
    x, y, x_test = _arrays(parts.prepared)
    classes = parts.prepared.task.num_classes
    choice = chosen(x, y, classes, parts.spec.seed)
    own = choice.probs[np.arange(len(y)), y]
    probs = _fitted(choice, x, y, classes, x, x_test)
    return Findings(settings=_told(choice), suspicion=-torch.from_numpy(own), probs=probs)


def pruned(parts: Assembled) -> Findings:
    """The regression on what cleanlab leaves."""
    x, y, x_test = _arrays(parts.prepared)
    classes = parts.prepared.task.num_classes
    choice = chosen(x, y, classes, parts.spec.seed)
    flagged, quality = issues(parts.prepared.task.y, torch.from_numpy(choice.probs))
    kept = ~flagged.numpy()
    probs = _fitted(choice, x[kept], y[kept], classes, x, x_test)
    return Findings(settings=_told(choice), suspicion=-quality, flagged=flagged, probs=probs)


def neighbours(parts: Assembled) -> Findings:
    """The share of the nearest examples with another label; no model that could predict.

    The scale is the one on which the neighbours' majority agrees with more of the given labels.
    """
    x, y, _ = _arrays(parts.prepared)
    best, found = -1.0, Findings(settings={}, suspicion=torch.zeros(len(y)))
    for name, scale in scales(x).items():
        labels = y[_nearest(scale(x))]
        votes = (labels[:, :, None] == np.arange(parts.prepared.task.num_classes)).mean(1)
        agreement = float((votes.argmax(1) == y).mean())
        if agreement > best:
            suspicion = torch.from_numpy(1 - votes[np.arange(len(y)), y])
            best, found = agreement, Findings(settings={"scale": name}, suspicion=suspicion)
    return found


FINDERS: dict[str, Callable[[Assembled], Findings]] = {
    "cleanlab": cleanlab,
    "logistic": logistic,
    "pruned": pruned,
    "neighbours": neighbours,
}


def scales(x: Numbers) -> dict[str, Scale]:
    """Both ways to scale inputs: a scale for each column, or one for all."""
    columns, mean, spread = StandardScaler().fit(x), x.mean(0), max(float(x.std()), LEAST)
    return {"columns": columns.transform, "common": lambda values: (values - mean) / spread}


def chosen(x: Numbers, y: Numbers, classes: int, seed: int) -> Choice:
    """The scale and penalty with the highest log-likelihood of given labels across folds."""
    best, found = -math.inf, None
    for name, scale in scales(x).items():
        for penalty in PENALTIES:
            probs = out_of_fold(scale(x), y, penalty, classes, seed)
            likelihood = float(np.log(probs[np.arange(len(y)), y].clip(LEAST)).mean())
            if likelihood > best:
                best, found = likelihood, Choice(scale=name, penalty=penalty, probs=probs)
    assert found is not None
    return found


def out_of_fold(x: Numbers, y: Numbers, penalty: float, classes: int, seed: int) -> Numbers:
    """Probabilities (N, C) of every example by a regression that has not seen it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes smaller than the folds, 300 iterations
        model = LogisticRegression(C=penalty, max_iter=ITERATIONS)
        probs = cross_val_predict(model, x, y, cv=folds(seed), method="predict_proba")
    whole = np.zeros((len(y), classes))
    whole[:, np.unique(y)] = probs
    return whole


def _fitted(
    choice: Choice, x: Numbers, y: Numbers, classes: int, every: Numbers, x_test: Numbers
) -> Tensor:
    """Probabilities (M, C) of the test data; the scale is that of every training example."""
    scale = scales(every)[choice.scale]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=choice.penalty, max_iter=ITERATIONS).fit(scale(x), y)
    probs = torch.zeros(len(x_test), classes, dtype=torch.float64)
    probs[:, model.classes_] = torch.from_numpy(model.predict_proba(scale(x_test))).double()
    return probs


def _nearest(x: Numbers) -> Numbers:
    """The nearest other examples by cosine, (N, 30), or all where there are fewer."""
    number = min(NEIGHBOURS, len(x) - 1)
    model = NearestNeighbors(n_neighbors=number, metric="cosine").fit(x)
    found: Numbers = model.kneighbors(return_distance=False)
    return found


def _arrays(prepared: Prepared) -> tuple[Numbers, Numbers, Numbers]:
    """Training vectors (N, D), their given labels (N,), test vectors (M, D)."""
    task, test = prepared.task, prepared.audit.test_x
    assert test is not None
    return _rows(task.x), task.y.numpy(), _rows(test)


def _rows(x: Inputs) -> Numbers:
    rows: Numbers = x.take(torch.arange(len(x))).numpy()
    return rows


def _told(choice: Choice) -> dict[str, Any]:
    return {"scale": choice.scale, "penalty": choice.penalty}


# ---- what is measured ----


def summary(prepared: Prepared, found: Findings, seconds: float) -> dict[str, Any]:
    """The numbers of summary.json; what a rival does not state is None."""
    return {
        **_on_test(found, prepared.audit.test_y),
        **label_numbers(prepared, found.suspicion, found.flagged),
        "seconds": round(seconds, 1),
    }


def _on_test(found: Findings, labels: Tensor | None) -> dict[str, Any]:
    probs = found.probs
    if probs is None or labels is None:
        return dict.fromkeys(("accuracy", "balanced_accuracy", "ece", "ece_calibrated"))
    known = [value for value in recalls(probs, labels) if value is not None]
    return {
        "accuracy": vars(metrics.best_last(found.curve or [metrics.accuracy(probs, labels)])),
        "balanced_accuracy": sum(known) / len(known),
        "ece": metrics.ece(probs, labels),
        "ece_calibrated": None,
    }


def label_numbers(prepared: Prepared, suspicion: Tensor, flagged: Tensor | None) -> dict[str, Any]:
    """How a rival's suspicion (N,) and the labels it would remove (N,) fit the true labels."""
    truth = prepared.audit.truth
    wrong = None if truth is None else truth != prepared.task.y
    auroc = None if wrong is None else metrics.error_auroc(wrong, suspicion)
    known = wrong is not None and flagged is not None
    precision = None if wrong is None else metrics.error_ap(wrong, suspicion)
    return {
        "error_auroc_own": auroc,
        "error_auroc": auroc,
        "error_ap_own": precision,
        "error_ap": precision,
        "suspects": None if flagged is None else int(flagged.sum()),
        "suspect_detection": metrics.detection(wrong, flagged) if known else None,  # type: ignore[arg-type]
        "suspect_precision_estimate": None,
        "noise_rate_estimate": None if flagged is None else flagged.float().mean().item(),
        "noise_rate_true": None if wrong is None else wrong.float().mean().item(),
    }
