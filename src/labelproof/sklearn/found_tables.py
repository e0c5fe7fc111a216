"""What a classifier found, as a pandas frame, or where pandas is missing as an array of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from labelproof.judging.agreement import AnnotatorQuality
from labelproof.judging.crowd_em import Crowd

Array = npt.NDArray[Any]


def annotator_table(names: Sequence[str], people: AnnotatorQuality, crowd: Crowd) -> Any:
    """How good every annotator is, with a confusion matrix: a pandas frame, or records."""
    numbers = {name: values.numpy() for name, values in vars(people).items()}
    matrices = np.empty(len(names), dtype=object)
    for place, matrix in enumerate(crowd.confusion.numpy()):
        matrices[place] = matrix
    own = {"annotator": np.array(names, dtype=object)}
    return as_table({**own, **numbers, "confusion": matrices})


def as_table(columns: dict[str, Array]) -> Any:
    """Columns as a pandas frame, or where pandas is missing as an array of records."""
    try:
        import pandas
    except ImportError:
        return np.rec.fromarrays(list(columns.values()), names=list(columns))  # type: ignore[call-overload]
    return pandas.DataFrame(columns)
