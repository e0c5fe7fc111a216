"""The verdict on a finished training: calibrated probabilities, the label table, the summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from labelproof.choices import How
from labelproof.data.task import Audit
from labelproof.judging.agreement import AnnotatorQuality, annotator_quality
from labelproof.judging.calibration import Calibration, calibrate, calibrated
from labelproof.judging.crossfit import Retraining
from labelproof.judging.label_table import LabelTable, label_table
from labelproof.judging.summary import summarise, votes_summary
from labelproof.judging.suspects import Rule
from labelproof.training.log import Reporter
from labelproof.training.loop import Result
from labelproof.training.run import Trunk
from labelproof.training.side_by_side import Beside


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A finished training with all that is said of it."""

    result: Result  # as it was trained
    calibration: Calibration
    calibrated: Result  # with calibrated probabilities
    table: LabelTable
    summary: Mapping[str, Any]  # what summary.json says
    people: AnnotatorQuality | None  # of several annotators
    trunk: Trunk  # makes a network like the one that was trained


def judge(
    result: Result,
    again: Retraining,
    audit: Audit,
    how: How,
    *,
    rule: Rule | None = None,
    joins: bool = False,
    reporter: Reporter | None = None,
    begun: Beside | None = None,
) -> Judged:
    """Calibrate a result as `calibrate` does, and judge every given label.

    The audit, true labels and test data, is for the numbers of the summary alone.
    """
    calibration = calibrate(
        result, again, how, rule=rule, joins=joins, reporter=reporter, begun=begun
    )
    sure = calibrated(result, calibration, audit)
    table = table_of(sure, calibration)
    summary = summarise(result, sure, table, calibration, audit)
    task, soft, crowd = result.task, result.method.about.soft, calibration.crowd
    people = None
    if task.votes is not None and crowd is not None:
        people = annotator_quality(task.votes, crowd, trusted=calibration.trust.level != "none")
    return Judged(
        result=result,
        calibration=calibration,
        calibrated=sure,
        table=table,
        summary={
            **summary,
            "suspects_filled": count_filled(table, rule),
            **votes_summary(task, crowd, people, audit, soft),
        },
        people=people,
        trunk=again.trunk,
    )


def count_filled(table: LabelTable, rule: Rule | None) -> int:
    """Suspects that are likelier right than wrong: they only fill the list that was asked for."""
    if rule is None or (rule.precision is None and rule.budget is None):
        return 0
    return int((table.suspect & (table.p_clean >= 0.5)).sum())


def table_of(sure: Result, calibration: Calibration) -> LabelTable:
    """The label table by the judge, or by the method's own numbers where nothing was judged."""
    judge, crowd = calibration.judgement, calibration.crowd
    if judge is None:
        return label_table(sure, posterior=crowd.posterior if crowd else None)
    suspects, posterior = map(torch.from_numpy, (judge.suspects, judge.posterior))
    return label_table(sure, suspects, posterior)
