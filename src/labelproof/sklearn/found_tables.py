"""What a classifier found, as a pandas frame, or where pandas is missing as an array of records."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from labelproof.data.votes import Votes
from labelproof.judging.agreement import annotator_quality
from labelproof.judging.crowd_em import Crowd

Array = npt.NDArray[Any]


def annotator_table(votes: Votes, crowd: Crowd, *, trusted: bool) -> Any:
    """How good every annotator is: a pandas frame, or an array of records."""
    quality = annotator_quality(votes, crowd, trusted=trusted)
    numbers = {name: values.numpy() for name, values in vars(quality).items()}
    return as_table({"annotator": np.array(votes.annotators, dtype=object), **numbers})


def as_table(columns: dict[str, Array]) -> Any:
    """Columns as a pandas frame, or where pandas is missing as an array of records."""
    try:
        import pandas
    except ImportError:
        return np.rec.fromarrays(list(columns.values()), names=list(columns))  # type: ignore[call-overload]
    return pandas.DataFrame(columns)
