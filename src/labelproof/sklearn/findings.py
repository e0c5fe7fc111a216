"""Findings beside the user's own columns: a pandas frame or a Hugging Face data set."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from labelproof.errors import BadInput
from labelproof.runs.finding_columns import Columns, label_columns
from labelproof.runs.reviewed import open_review
from labelproof.sklearn.estimator import NoisyLabelClassifier


def add_findings(data: Any, found: str | Path | NoisyLabelClassifier) -> Any:
    """A copy of the data with what is known of each label in new columns at the end.

    The columns are `labelproof_given`, `labelproof_label` (a decision of the review, else the given
    label), `labelproof_suggested`, `labelproof_p_clean`, `labelproof_p_suggested`,
    `labelproof_suspect` and `labelproof_decision`. The original columns stay in place; columns of
    an earlier call are replaced.

    Args:
        data: a `pandas.DataFrame` or a `datasets.Dataset` with the rows of the training data, in
            the same order.
        found: the folder of a finished run, or a fitted classifier.

    Raises:
        BadInput: if the data is of another kind or has another number of rows.
    """
    columns = _columns(found)
    pandas, datasets = sys.modules.get("pandas"), sys.modules.get("datasets")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        _check(len(data), columns)
        return data.drop(columns=list(columns), errors="ignore").assign(**columns)
    if datasets is not None and isinstance(data, datasets.Dataset):
        _check(len(data), columns)
        kept = data.remove_columns([name for name in columns if name in data.column_names])
        for name, values in columns.items():
            kept = kept.add_column(name, values)
        return kept
    raise BadInput(
        "expected a pandas DataFrame or a Dataset of Hugging Face's datasets, but "
        f"{type(data).__name__} came; convert it first, or choose one part of a DatasetDict."
    )


def _columns(found: str | Path | NoisyLabelClassifier) -> Columns:
    if isinstance(found, NoisyLabelClassifier):
        table = found.label_table_
        return label_columns(table.rows(), [str(name) for name in found.classes_])
    review = open_review(Path(found))
    kinds = {index: str(one.decision) for index, one in review.decisions.latest.items()}
    return label_columns(review.rows, review.classes, review.decisions.labels(), kinds)


def _check(size: int, columns: Columns) -> None:
    known = len(next(iter(columns.values())))
    if size != known:
        raise BadInput(
            f"expected the {known} rows of the training data, but {size} came; give the rows that "
            "were trained on, in their order."
        )
