"""What a classifier found, as a pandas frame, or where pandas is missing as an array of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from labelproof.judging.agreement import AnnotatorQuality

Array = npt.NDArray[Any]


def annotator_table(names: Sequence[str], people: AnnotatorQuality) -> Any:
    """How good every annotator is: a pandas frame, or an array of records."""
    numbers = {name: values.numpy() for name, values in vars(people).items()}
    return as_table({"annotator": np.array(names, dtype=object), **numbers})


def as_table(columns: dict[str, Array]) -> Any:
    """Columns as a pandas frame, or where pandas is missing as an array of records."""
    try:
        import pandas
    except ImportError:
        return np.rec.fromarrays(list(columns.values()), names=list(columns))  # type: ignore[call-overload]
    return pandas.DataFrame(columns)
