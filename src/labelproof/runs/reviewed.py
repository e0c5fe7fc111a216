"""A run under review: its labels, its decisions, and a way to show its examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labelproof.judging.label_table import Codes, LabelRows, Names
from labelproof.run_files import VOTES
from labelproof.runs.decisions import Decisions, Known, open_decisions, read_decisions
from labelproof.runs.folder import read_task
from labelproof.runs.labels_file import Columns, label_columns, read_rows
from labelproof.runs.votes_file import read_consensus


@dataclass(frozen=True, kw_only=True)
class Reviewed:
    """A finished run with what was decided about its labels."""

    folder: Path
    record: Mapping[str, Any]  # run.json
    rows: LabelRows
    decisions: Decisions
    named: str | None = None  # the data, where the user named it for this review

    @property
    def classes(self) -> list[str]:
        """Names of the classes."""
        return list(self.record["task"]["classes"])

    def codes(self) -> dict[str, int]:
        """Class names to codes."""
        return {name: code for code, name in enumerate(self.classes)}

    def ids(self) -> Names:
        """Names of the examples, in their order."""
        return self.rows.names()

    def decided(self) -> dict[int, int]:
        """Codes of the labels a person stands for, by index."""
        codes = self.codes()
        return {index: codes[name] for index, name in self.decisions.labels().items()}

    @property
    def voted(self) -> bool:
        """Whether several people labelled; the data then has no column of the labels."""
        return (self.folder / VOTES).is_file()

    def corrected(self) -> Codes:
        """All labels of the run with the decisions put in, (N,).

        Where several people labelled, what nobody decided has the label of their consensus.
        """
        labels = self.rows.labels()
        codes = self.codes()
        consensus = read_consensus(self.folder, self.classes, len(labels))
        for index, name in consensus.items():
            labels[index] = codes[name]
        decided = self.decided()
        labels[np.array(list(decided), dtype=np.int64)] = np.array(
            list(decided.values()), dtype=np.int64
        )
        return labels

    def findings(self) -> Columns:
        """New columns for the user's own table, in the order of the examples."""
        kinds = {index: str(one.decision) for index, one in self.decisions.standing().items()}
        return label_columns(self.rows, self.classes, self.decisions.labels(), kinds)


def open_review(folder: Path, write: bool = False, data: str | None = None) -> Reviewed:
    """Read a finished run and its decisions; with `write`, more of them can be taken."""
    record, classes, size = read_task(folder, data)
    rows = read_rows(folder, classes, size)
    given = Names(classes, rows.labels())
    known = Known(ids=rows.names(), given=given, classes=frozenset(classes))
    decisions = open_decisions(folder, known) if write else read_decisions(folder, known)
    return Reviewed(folder=folder, record=record, rows=rows, decisions=decisions, named=data)
