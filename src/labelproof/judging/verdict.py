"""The verdict on a finished training: calibrated probabilities, the label table, the summary."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labelproof.data.task import Audit
from labelproof.judging.calibration import Calibration, How, calibrate, calibrated
from labelproof.judging.crowd_summary import votes_summary
from labelproof.judging.label_table import LabelTable, summarise
from labelproof.judging.suspects import found, suspect_table
from labelproof.training.log import Reporter
from labelproof.training.loop import Result
from labelproof.training.run import Trunk


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A finished training with all that is said of it."""

    result: Result  # as it was trained
    calibration: Calibration
    calibrated: Result  # with calibrated probabilities
    table: LabelTable
    summary: Mapping[str, Any]  # what summary.json says
    trunk: Trunk  # makes a network like the one that was trained


def judge(
    result: Result,
    trunk: Trunk,
    audit: Audit,
    how: How,
    *,
    seed: int,
    folder: Path | None = None,
    reporter: Reporter | None = None,
) -> Judged:
    """Calibrate a result and judge every given label.

    Args:
        result: what training gave.
        trunk: makes a new network like the one that was trained.
        audit: true labels and test data, for the numbers of the summary alone.
        how: how to calibrate, see `calibrate`.
        seed: decides the parts of the data that are trained again, and everything random there.
        folder: where that training is saved, to go on from after an interruption.
        reporter: follows it.
    """
    start = time.perf_counter()
    calibration = calibrate(result, trunk, how, seed=seed, folder=folder, reporter=reporter)
    took = time.perf_counter() - start
    sure = calibrated(result, calibration, audit)
    crowd = calibration.crowd
    table = suspect_table(sure, posterior=crowd.posterior) if crowd else suspect_table(sure)
    summary = {
        **summarise(sure, result.probabilities.argmax(1), table, audit),
        **found(result, sure, table, calibration, audit),
        "seconds_calibration": round(took, 1),
        "chosen": dict(result.chosen),
        **votes_summary(result.task, crowd, audit),
    }
    return Judged(
        result=result,
        calibration=calibration,
        calibrated=sure,
        table=table,
        summary=summary,
        trunk=trunk,
    )
