"""What a practitioner would do instead, with scikit-learn and cleanlab alone.

- `logistic`: logistic regression. Scale of the inputs and penalty are chosen by the log-likelihood
  of given labels in five folds; the same folds judge the labels.
- `pruned`: the same regression and folds, then cleanlab removes labels and it is fitted again.
- `neighbours`: a label is suspect where few of the 30 nearest neighbours share it.

Each leaves a run.json and a summary.json with the keys of an ordinary run. True labels measure.

Shapes: C classes, D features, N training examples, M test examples.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
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
from labelproof.bench.cleanlab_rival import issues, label_numbers, write_record
from labelproof.data.examples import Inputs
from labelproof.errors import BadInput
from labelproof.files import write_json
from labelproof.judging.summary import recalls
from labelproof.run_files import SUMMARY
from labelproof.runs.prepare import Prepared
from labelproof.runs.spec import RunSpec

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

    settings: dict[str, Any]
    suspicion: Tensor  # (N,) high is bad
    flagged: Tensor | None = None  # (N,) bool, labels it would remove
    probs: Tensor | None = None  # (M, C) of test data


def run(spec: RunSpec, maker: str) -> None:
    """Carry out one rival and write what it found."""
    prepared = pipeline.assemble(spec).prepared
    if len(prepared.task.x.shape) != 1 or prepared.audit.test_x is None:
        raise BadInput(
            f"the row {maker} needs vectors with test data; leave it out with --methods."
        )
    started = time.monotonic()
    found = FINDERS[maker](prepared, spec.seed)
    seconds = time.monotonic() - started
    out = write_record(spec, maker, found.settings, "none")
    write_json(out / SUMMARY, summary(prepared, found, seconds))


def logistic(prepared: Prepared, seed: int) -> Findings:
    """The regression on all labels."""
    x, y, x_test = _arrays(prepared)
    choice = chosen(x, y, prepared.task.num_classes, seed)
    own = choice.probs[np.arange(len(y)), y]
    probs = _fitted(choice, x, y, prepared.task.num_classes, x, x_test)
    return Findings(settings=_told(choice), suspicion=-torch.from_numpy(own), probs=probs)


def pruned(prepared: Prepared, seed: int) -> Findings:
    """The regression on what cleanlab leaves."""
    x, y, x_test = _arrays(prepared)
    choice = chosen(x, y, prepared.task.num_classes, seed)
    flagged, quality = issues(prepared.task.y, torch.from_numpy(choice.probs))
    kept = ~flagged.numpy()
    probs = _fitted(choice, x[kept], y[kept], prepared.task.num_classes, x, x_test)
    return Findings(settings=_told(choice), suspicion=-quality, flagged=flagged, probs=probs)


def neighbours(prepared: Prepared, seed: int) -> Findings:
    """The share of the nearest examples with another label; no model that could predict.

    The scale is the one on which the neighbours' majority agrees with more of the given labels.
    """
    x, y, _ = _arrays(prepared)
    best, found = -1.0, Findings(settings={}, suspicion=torch.zeros(len(y)))
    for name, scale in scales(x).items():
        labels = y[_nearest(scale(x))]
        votes = (labels[:, :, None] == np.arange(prepared.task.num_classes)).mean(1)
        agreement = float((votes.argmax(1) == y).mean())
        if agreement > best:
            suspicion = torch.from_numpy(1 - votes[np.arange(len(y)), y])
            best, found = agreement, Findings(settings={"scale": name}, suspicion=suspicion)
    return found


FINDERS: dict[str, Callable[[Prepared, int], Findings]] = {
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
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes smaller than the folds, 300 iterations
        model = LogisticRegression(C=penalty, max_iter=ITERATIONS)
        probs = cross_val_predict(model, x, y, cv=folds, method="predict_proba")
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


def summary(prepared: Prepared, found: Findings, seconds: float) -> dict[str, Any]:
    """The numbers of summary.json; what a rival does not state is None."""
    return {
        **_on_test(found.probs, prepared.audit.test_y),
        **label_numbers(prepared, found.suspicion, found.flagged),
        "seconds": round(seconds, 1),
    }


def _on_test(probs: Tensor | None, labels: Tensor | None) -> dict[str, Any]:
    if probs is None or labels is None:
        return dict.fromkeys(("accuracy", "balanced_accuracy", "ece", "ece_calibrated"))
    known = [value for value in recalls(probs, labels) if value is not None]
    return {
        "accuracy": vars(metrics.best_last([metrics.accuracy(probs, labels)])),
        "balanced_accuracy": sum(known) / len(known),
        "ece": metrics.ece(probs, labels),
        "ece_calibrated": None,
    }
