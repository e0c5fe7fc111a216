"""Label issues in the form cleanlab's users know: a mask, ranked indices, quality scores.

`find_label_issues(X, labels)` trains; `find_label_issues(labels=..., pred_probs=...)` judges
probabilities that another model gave, best out of sample.

Shapes: C classes, N examples.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.data.labels import refuse_missing
from labelproof.errors import BadInput
from labelproof.judging.judgement import Evidence, judge_labels
from labelproof.judging.link import TINY
from labelproof.judging.numbers import log_softmax
from labelproof.runs.labels_file import Columns, label_columns
from labelproof.runs.reviewed import open_review
from labelproof.sklearn.estimator import NoisyLabelClassifier
from labelproof.sklearn.row_matching import Rows, Trained, hashes_of, of_run, places

RANKINGS = ("self_confidence", "normalized_margin")


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What is known of every given label."""

    quality: npt.NDArray[np.float64]  # (N,) probability that the label is right
    margin: npt.NDArray[np.float64]  # (N,) log-probability of the label less the best other one
    suspect: npt.NDArray[np.bool_]  # (N,)


def find_label_issues(
    X: Any = None,
    labels: Any = None,
    *,
    pred_probs: Any = None,
    classifier: NoisyLabelClassifier | None = None,
    return_indices_ranked_by: str | None = None,
) -> npt.NDArray[Any]:
    """Which labels look wrong.

    Args:
        X: inputs, as `NoisyLabelClassifier` takes them; a classifier is trained on them. The order
            (labels, pred_probs) of cleanlab works too.
        labels: the given labels, (N,).
        pred_probs: instead of X, probabilities (N, C) of another model, best out of sample; column
            k belongs to the k-th of the sorted labels.
        classifier: what to train on X; `NoisyLabelClassifier()` where None. It is fitted in place.
        return_indices_ranked_by: `self_confidence` (the probability that the label is right) or
            `normalized_margin`, for the indices of the issues, the worst first, instead of a mask.

    Returns:
        A mask (N,), true where a label looks wrong, or the ranked indices of those labels.
    """
    if return_indices_ranked_by not in (None, *RANKINGS):
        raise BadInput(
            f"issues can be ranked by {' or '.join(RANKINGS)}, not {return_indices_ranked_by!r}."
        )
    judged = _judge(X, labels, pred_probs, classifier)
    if return_indices_ranked_by is None:
        return judged.suspect
    by_margin = return_indices_ranked_by == "normalized_margin"
    order = np.argsort(judged.margin if by_margin else judged.quality, kind="stable")
    ranked: npt.NDArray[Any] = order[judged.suspect[order]]
    return ranked


def label_quality(
    X: Any = None,
    labels: Any = None,
    *,
    pred_probs: Any = None,
    classifier: NoisyLabelClassifier | None = None,
) -> npt.NDArray[np.float64]:
    """Probability that each given label is right, (N,): 0 is worst, as cleanlab's scores are.

    The arguments are those of `find_label_issues`.
    """
    return _judge(X, labels, pred_probs, classifier).quality


def _judge(X: Any, labels: Any, pred_probs: Any, classifier: NoisyLabelClassifier | None) -> Judged:
    if labels is None or (X is None) == (pred_probs is None):
        raise BadInput(
            "give labels together with either inputs X or probabilities pred_probs: "
            "find_label_issues(X, labels) or find_label_issues(labels=..., pred_probs=...)."
        )
    X, labels, pred_probs = _sorted_out(X, labels, pred_probs, classifier)
    if pred_probs is not None:
        return _judge_probabilities(_column(labels), np.asarray(pred_probs, dtype=np.float64))
    fitted = (classifier or NoisyLabelClassifier()).fit(X, labels)
    table = fitted.label_table_
    return Judged(
        quality=table.p_clean.double().numpy(),
        margin=table.margin.double().numpy(),
        suspect=table.suspect.numpy(),
    )


def _sorted_out(
    X: Any, labels: Any, pred_probs: Any, classifier: NoisyLabelClassifier | None
) -> tuple[Any, Any, Any]:
    """Arguments in their places: cleanlab's users write (labels, pred_probs), without names.

    One column of numbers is no input, so these are labels. One column of names may be texts; before
    rows that each sum to one they are labels.
    """
    if pred_probs is not None or classifier is not None:
        return X, labels, pred_probs
    try:
        first, second = np.asarray(X), np.asarray(labels)
    except ValueError:  # `fit` knows pictures of several sizes and lists of labels
        return X, labels, None
    if first.ndim == second.ndim == 1 and first.dtype.kind in "iufb":
        raise BadInput(
            "expected inputs (N, D), texts or probabilities (N, C) beside the labels, but both "
            f"have one number or word per example (shapes {first.shape} and {second.shape})."
        )
    if first.ndim != 1 or second.ndim < 2 or second.dtype.kind != "f":
        return X, labels, None
    if first.dtype.kind in "iufb":
        return None, X, labels
    rows = len(first) == len(second) and second.shape[1] > 1
    if rows and (second >= 0).all() and np.allclose(second.sum(1), 1, atol=1e-3):
        return None, X, labels
    return X, labels, None


def _column(labels: Any) -> npt.NDArray[Any]:
    """Labels as an array, none missing; as text, a gap among names would look like a name."""
    mixed = isinstance(labels, (list, tuple))
    refuse_missing(np.array(labels, dtype=object) if mixed else np.asarray(labels), "labels")
    return np.asarray(labels)


def _judge_probabilities(labels: npt.NDArray[Any], probs: npt.NDArray[np.float64]) -> Judged:
    given, values = _checked(labels, probs)
    found = judge_labels(Evidence(views=log_softmax(values.numpy())[None], given=given.numpy()))
    return Judged(
        quality=found.p_clean,
        margin=fn.label_margin(values, given).numpy(),
        suspect=found.suspects,
    )


def _checked(labels: npt.NDArray[Any], probs: npt.NDArray[np.float64]) -> tuple[Tensor, Tensor]:
    """Codes of the labels, and the logarithms of the probabilities."""
    if probs.ndim != 2 or labels.shape != probs.shape[:1] or len(labels) == 0:
        raise BadInput(
            f"expected probabilities (N, C) and labels (N,) of at least one example, but they have "
            f"shapes {probs.shape} and {labels.shape}."
        )
    if not (np.isfinite(probs).all() and (probs >= 0).all() and (probs.sum(1) > 0).all()):
        raise BadInput("expected probabilities of 0 and above in pred_probs, but some are not.")
    whole = np.issubdtype(labels.dtype, np.integer)
    if whole and labels.min() >= 0 and labels.max() < probs.shape[1]:
        codes = labels.astype(np.int64)
    else:
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) != probs.shape[1]:
            raise BadInput(
                f"expected a column of pred_probs for each of the {len(classes)} classes that "
                f"occur in the labels, but there are {probs.shape[1]}; number the classes from 0."
            )
    return torch.from_numpy(codes.astype(np.int64)), torch.from_numpy(probs).clamp_min(TINY).log()


def add_findings(data: Any, found: str | Path | NoisyLabelClassifier) -> Any:
    """A copy of the data with what is known of each label in new columns at the end.

    The columns are `labelproof_index` (the number of the training example), `labelproof_given`,
    `labelproof_label` (a decision of the review, else the given label), `labelproof_suggested`,
    `labelproof_p_clean`, `labelproof_p_suggested`, `labelproof_suspect` and
    `labelproof_decision`. The original columns stay in place; columns of an earlier call are
    replaced.

    Rows are matched by the column of ids that the run used, where the data has
    it. A classifier that was fitted on a frame matches rows by the index of that frame. Otherwise
    rows must be in the order of the training data; one that contradicts the frame's index or the
    labels of the run is refused.

    Args:
        data: a `pandas.DataFrame` or a `datasets.Dataset` with rows of the training data.
        found: the folder of a finished run, or a fitted classifier.

    Raises:
        BadInput: if the data is of another kind, or its rows cannot be matched.
    """
    trained = _trained(found)
    pandas, datasets = sys.modules.get("pandas"), sys.modules.get("datasets")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        cells = {str(name): data[name].tolist for name in data.columns if isinstance(name, str)}
        names = vars(found).get("feature_names_in_") if trained.hashes is not None else None
        hashes = None if names is None else hashes_of(data, list(names))
        rows = Rows(size=len(data), columns=cells, index=data.index, hashes=hashes)
        columns = _ordered(rows, trained)
        return data.drop(columns=list(columns), errors="ignore").assign(**columns)
    if datasets is not None and isinstance(data, datasets.Dataset):
        cells = {name: partial(_values, data, name) for name in data.column_names}
        columns = _ordered(Rows(size=len(data), columns=cells), trained)
        kept = data.remove_columns([name for name in columns if name in data.column_names])
        for name, values in columns.items():
            kept = kept.add_column(name, values)
        return kept
    raise BadInput(
        "expected a pandas DataFrame or a Dataset of Hugging Face's datasets, but got "
        f"{type(data).__name__}; convert it first, or choose one part of a DatasetDict."
    )


def _trained(found: str | Path | NoisyLabelClassifier) -> Trained:
    if not isinstance(found, NoisyLabelClassifier):
        return of_run(open_review(Path(found)))
    table = found.label_table_
    columns = label_columns(table.rows(), [str(name) for name in found.classes_])
    return Trained(columns=columns, index=found.row_index_, hashes=found.row_hashes_)


def _ordered(rows: Rows, trained: Trained) -> Columns:
    """The findings in the order of the rows."""
    order = places(rows, trained)
    return {name: [values[place] for place in order] for name, values in trained.columns.items()}


def _values(data: Any, name: str) -> list[Any]:
    """The cells of a column of a data set."""
    return list(data[name])
