"""What is known of each label, as columns to put beside a user's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from labelproof.judging.label_table import LabelRows

PREFIX = "labelproof_"
Columns = dict[str, list[Any]]


def label_columns(
    rows: LabelRows,
    classes: Sequence[str],
    decided: dict[int, str] | None = None,
    decisions: dict[int, str] | None = None,
) -> Columns:
    """Columns in the order of the examples: what was given, what is suggested, and how sure.

    `decided` are the labels that a person stands for, `decisions` the kind of every decision.
    """
    order = np.argsort(rows.index)
    given = [classes[code] for code in rows.given[order].tolist()]
    stands = {**dict(enumerate(given)), **(decided or {})}
    kinds = decisions or {}
    columns = {
        "given": given,
        "label": [stands[index] for index in range(len(rows))],
        "suggested": [classes[code] for code in rows.suggested[order].tolist()],
        "p_clean": rows.p_clean[order].round(6).tolist(),
        "p_suggested": rows.p_suggested[order].round(6).tolist(),
        "suspect": rows.suspect[order].tolist(),
        "decision": [kinds.get(index, "") for index in range(len(rows))],
    }
    return {PREFIX + name: values for name, values in columns.items()}


def spread(columns: Columns, places: Sequence[int], size: int) -> Columns:
    """Columns of a table of `size` rows of which only those at `places` are examples."""
    if len(places) == size:
        return columns
    wide: Columns = {}
    for name, values in columns.items():
        cells: list[Any] = [None] * size
        for place, value in zip(places, values, strict=True):
            cells[place] = value
        wide[name] = cells
    return wide
