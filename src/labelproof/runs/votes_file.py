"""annotators.csv and votes.csv: how good every annotator and every single label is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labelproof.csv_files import converted, read_columns, safe, write_csv
from labelproof.errors import BadInput
from labelproof.files import read_json, write_json
from labelproof.judging.agreement import label_quality, most_confused
from labelproof.judging.verdict import Judged
from labelproof.run_files import ANNOTATORS, CROWD, VOTES
from labelproof.runs.schemas import Count, CrowdRecord, Share

PEOPLE = ("annotator", "labels", "quality", "low", "high", "agreement", "confuses", "with", "times")
EACH = ("index", "id", "annotator", "label", "p_right", "consensus", "p_consensus")


def write_votes(folder: Path, ended: Judged, ids: Sequence[str] | None) -> None:
    """Write what is known of annotators and their labels, where there are several."""
    if ended.calibration.crowd is None or ended.result.task.votes is None:
        return
    write_csv(folder / ANNOTATORS, PEOPLE, _people(ended))
    write_csv(folder / VOTES, EACH, _each(ended, ids))
    crowd, votes = ended.calibration.crowd, ended.result.task.votes
    write_json(
        folder / CROWD,
        {
            "annotators": list(votes.annotators),
            "confusion": [
                [[round(p, 5) for p in row] for row in one] for one in crowd.confusion.tolist()
            ],
            "scale": crowd.scale,
            **asdict(crowd.knobs),
        },
    )


def read_crowd(folder: Path, classes: int) -> dict[str, Any] | None:
    """Annotators and their confusion matrices; None where nobody voted."""
    path = folder / CROWD
    if not path.is_file():
        return None
    found = read_json(path, CrowdRecord, "restore the run folder")
    square = all(
        len(one) == classes and all(len(row) == classes for row in one)
        for one in found["confusion"]
    )
    if not square or len(found["annotators"]) != len(found["confusion"]):
        raise BadInput(f"{path} is of another run; restore the run folder.")
    return found


def read_votes(
    folder: Path, classes: Sequence[str], size: int
) -> dict[int, list[tuple[str, str, float]]]:
    """Who said what about each example, by index, with the probability that it is right."""
    path = folder / VOTES
    said: dict[int, list[tuple[str, str, float]]] = {}
    if not path.is_file():
        return said
    cells = read_columns(path, ("index", "annotator", "label", "p_right"))
    index = converted(path, "index", cells["index"], Count)
    right = converted(path, "p_right", cells["p_right"], Share)
    if max(index, default=0) >= size or not set(cells["label"]) <= set(classes):
        raise BadInput(f"{path} is of another run; restore the run folder.")
    for row, who, label, sure in zip(index, cells["annotator"], cells["label"], right, strict=True):
        said.setdefault(row, []).append((who, label, sure))
    return said


def read_consensus(folder: Path, classes: Sequence[str], size: int) -> dict[int, str]:
    """What annotators and model say together of each example, by index; nothing without votes."""
    path = folder / VOTES
    if not path.is_file():
        return {}
    cells = read_columns(path, ("index", "consensus"))
    index = converted(path, "index", cells["index"], Count)
    if max(index, default=0) >= size or not set(cells["consensus"]) <= set(classes):
        raise BadInput(f"{path} is of another run; restore the run folder.")
    return dict(zip(index, cells["consensus"], strict=True))


def _people(ended: Judged) -> Iterable[Sequence[Any]]:
    """Annotators, the worst first."""
    task, crowd, found = ended.result.task, ended.calibration.crowd, ended.people
    votes = task.votes
    assert votes is not None
    assert crowd is not None
    assert found is not None
    many = len(votes.annotators) * task.num_classes**2
    worst: dict[str, tuple[str, str, str]] = {}
    for one in most_confused(votes, crowd, many):
        said = (task.classes[one.true], task.classes[one.said], f"{one.times:.1f}")
        worst.setdefault(one.annotator, said)
    for who in found.quality.argsort().tolist():
        name = votes.annotators[who]
        confused = [safe(word) for word in worst.get(name, ("", "", "0"))]
        numbers = (found.quality, found.low, found.high, found.agreement)
        texts = ["" if column[who].isnan() else f"{column[who]:.6f}" for column in numbers]
        yield (safe(name), int(found.labels[who]), *texts, *confused)


def _each(ended: Judged, ids: Sequence[str] | None) -> Iterable[Sequence[Any]]:
    """Votes, the least likely first."""
    task, crowd = ended.result.task, ended.calibration.crowd
    assert task.votes is not None
    assert crowd is not None
    long, names = task.votes.long(), task.classes
    right = label_quality(task.votes, crowd)[long.rows, long.who]
    best = crowd.posterior.max(1)
    for place in right.argsort(stable=True).tolist():
        row, who = int(long.rows[place]), int(long.who[place])
        yield (
            row,
            safe(ids[row]) if ids is not None else row,
            safe(task.votes.annotators[who]),
            safe(names[int(long.label[place])]),
            f"{right[place].item():.6f}",
            safe(names[int(best.indices[row])]),
            f"{best.values[row].item():.6f}",
        )
