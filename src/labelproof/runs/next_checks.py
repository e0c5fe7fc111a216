"""The labels of a run in the order in which checking them pays, given what was decided so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from labelproof.csv_files import converted, read_columns
from labelproof.data.plain_files import Refused, read_npy
from labelproof.data.votes import BLANK, Votes
from labelproof.errors import BadInput
from labelproof.files import read_regular
from labelproof.judging.annotators import fit_checked
from labelproof.judging.label_table import Codes, LabelRows, Numbers
from labelproof.judging.next_check import (
    check_order,
    copies_of,
    expected_gain,
    joined,
    posterior_after,
)
from labelproof.run_files import HEALTH_LIST, SCORES, SUMMARY
from labelproof.runs.folder import read_summary
from labelproof.runs.reviewed import Reviewed
from labelproof.runs.schemas import Count
from labelproof.runs.votes_file import read_votes
from labelproof.runs.whom_to_ask import Ask, advisers

LARGEST = 2**34  # bytes of scores
NEAR_DUPLICATES = "near-duplicates"  # the kind of pairs in health.csv that have the same label


@dataclass(frozen=True, kw_only=True)
class NextCheck:
    """One label to check."""

    index: int
    id: str
    given: str
    suggested: str
    gain: float
    ask: Ask | None  # whom to ask, where several annotators labelled


def next_checks(review: Reviewed, most: int, *, refit: bool = True) -> list[NextCheck]:
    """The open labels whose check gains most, after fitting the noise model to the decisions."""
    decided = review.decided()
    rows = judged_again(review, decided) if refit else review.rows
    order = gain_order(review, rows)
    people = advisers(review.folder, review.classes, len(review.rows))
    gain, classes = expected_gain(rows.p_clean, rows.p_suggested), review.classes
    chosen = [place for place in order.tolist() if int(rows.index[place]) not in decided][:most]
    return [
        NextCheck(
            index=int(rows.index[place]),
            id=rows.ids[place],
            given=classes[rows.given[place]],
            suggested=classes[rows.suggested[place]],
            gain=float(gain[place]),
            ask=people.take(rows, place) if people else None,
        )
        for place in chosen
    ]


def gain_order(review: Reviewed, rows: LabelRows) -> Codes:
    """Rows in the order to check them, the decided ones last."""
    number = len(review.classes)
    decided = np.isin(rows.index, np.array(list(review.decided()), dtype=np.int64))
    copies = _copies(review, rows)
    gain = expected_gain(rows.p_clean, rows.p_suggested)
    return check_order(gain, rows.given * number + rows.suggested, copies, ~decided)


def _copies(review: Reviewed, rows: LabelRows) -> Codes:
    """Numbers that are the same for rows with copies or near-duplicates of one label."""
    scores = read_scores(review.folder, len(rows), len(review.classes))
    copies = np.arange(len(rows)) if scores is None else copies_of(scores[rows.index], rows.given)
    pairs = near_pairs(review.folder, len(rows))
    if not len(pairs):
        return copies
    place = np.empty(len(rows), dtype=np.int64)
    place[rows.index] = np.arange(len(rows))
    return joined(copies, place[pairs])


def near_pairs(folder: Path, size: int) -> Codes:
    """Pairs (P, 2) of near-duplicates with the same label, as health.csv lists them."""
    path = folder / HEALTH_LIST
    if not path.is_file():
        return np.zeros((0, 2), dtype=np.int64)
    cells = read_columns(path, ("kind", "index", "other"))
    mine = [kind == NEAR_DUPLICATES for kind in cells["kind"]]
    ends = [
        converted(path, name, list(compress(cells[name], mine)), Count)
        for name in ("index", "other")
    ]
    pairs: Codes = np.array(ends, dtype=np.int64).reshape(2, -1).T
    if pairs.max(initial=0) >= size:
        raise BadInput(f"{path} is of another run; restore the run folder.")
    return pairs


def judged_again(review: Reviewed, decided: Mapping[int, int]) -> LabelRows:
    """The rows of labels.csv, in their order, judged anew with the classes decided, by index."""
    rows = review.rows
    scores = read_scores(review.folder, len(rows), len(review.classes))
    if scores is None or not decided:
        return rows
    posterior = _posterior(review, torch.from_numpy(scores), decided).numpy()[rows.index]
    place = np.arange(len(rows))
    clean: Numbers = posterior[place, rows.given]
    others = posterior.copy()
    others[place, rows.given] = -1
    suspect = _suspects(rows, clean, decided)
    suggested = np.where(suspect | (clean < 0.5), others.argmax(1), rows.given)
    return replace(
        rows,
        p_clean=clean,
        suggested=suggested,
        p_suggested=posterior[place, suggested],
        suspect=suspect,
    )


def as_before(rows: LabelRows, before: LabelRows, places: Codes) -> LabelRows:
    """Rows judged again, with those at some places as they were before anything was decided."""
    suggested, clean, sure = rows.suggested.copy(), rows.p_clean.copy(), rows.p_suggested.copy()
    suggested[places], clean[places] = before.suggested[places], before.p_clean[places]
    sure[places] = before.p_suggested[places]
    return replace(rows, suggested=suggested, p_clean=clean, p_suggested=sure)


def _suspects(rows: LabelRows, clean: Numbers, decided: Mapping[int, int]) -> npt.NDArray[np.bool_]:
    """Suspects after decisions: those decided, and of the rest at least as many as before.

    The list of a run is chosen with care for its precision; decisions change which labels are on
    it. It grows where more labels have become likely to be wrong, and never shrinks, so that a
    reviewer does not lose sight of labels.
    """
    done = np.isin(rows.index, np.array(list(decided), dtype=np.int64))
    before = rows.suspect & ~done
    count = max(int(before.sum()), int(((clean < 0.5) & ~done).sum()))
    order = np.argsort(np.where(done, 2.0, clean), kind="stable")
    suspect: npt.NDArray[np.bool_] = rows.suspect & done
    suspect[order[:count]] = True
    return suspect


def _posterior(review: Reviewed, scores: torch.Tensor, decided: Mapping[int, int]) -> torch.Tensor:
    index = torch.tensor(list(decided), dtype=torch.long)
    codes = torch.tensor(list(decided.values()), dtype=torch.long)
    votes = _votes(review)
    if votes is None:
        given = torch.from_numpy(review.rows.labels())
        return posterior_after(scores, given, index, codes, _right(review.folder))
    told = torch.full((len(scores),), -1)
    told[index] = codes
    return fit_checked(votes, len(review.classes), scores, told).posterior


def _right(folder: Path) -> float | None:
    """How often the run believed its held-out predictions to be right, if it says so."""
    path = folder / SUMMARY
    trust = read_summary(folder).get("trust") if path.is_file() else None
    error = (trust or {}).get("model_error")
    return None if error is None else 1 - error


def _votes(review: Reviewed) -> Votes | None:
    """The votes of a run."""
    said = read_votes(review.folder, review.classes, len(review.rows))
    if not said:
        return None
    names = tuple(sorted({name for votes in said.values() for name, _, _ in votes}))
    place, codes = {name: number for number, name in enumerate(names)}, review.codes()
    table = torch.full((len(review.rows), len(names)), BLANK, dtype=torch.long)
    for row, votes in said.items():
        for name, label, _ in votes:
            table[row, place[name]] = codes[label]
    return Votes(table=table, annotators=names)


def read_scores(folder: Path, size: int, classes: int) -> npt.NDArray[np.float32] | None:
    """scores.npy of a run; None where the run has none (--calibrate off)."""
    path = folder / SCORES
    if not path.is_file():
        return None
    try:
        scores = read_npy(read_regular(path, LARGEST))
    except Refused as error:
        raise BadInput(f"{path} is damaged ({error}); restore the run folder.") from None
    if (
        scores.shape != (size, classes)
        or scores.dtype != np.float32
        or not np.isfinite(scores).all()
    ):
        raise BadInput(f"{path} is damaged or of another run; restore the run folder.")
    return scores
