"""The health of a run's data: measured at its end, written to health.json and health.csv."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from labelproof.csv_files import safe
from labelproof.data.encoders.picture_encoding import PictureEncoding
from labelproof.data.examples import Examples, Inputs
from labelproof.data.task import Audit
from labelproof.files import write_json, written_whole
from labelproof.judging import health, regions
from labelproof.judging.groups import by_group
from labelproof.judging.scores import entropy, vacuity
from labelproof.judging.verdict import Judged
from labelproof.run_files import HEALTH, HEALTH_LIST

MOST = 20_000  # examples compared with each other
KEPT = 200  # entries of a finding that health.json keeps
CHUNK = 512
EDGE = 12  # of the thumbnails that stand for pictures


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One kind of problem: how many, of how many, which ones, and what to do."""

    kind: str
    title: str
    advice: str
    of: str  # what the share is of: examples, test examples or classes
    share: health.Share
    entries: Sequence[dict[str, Any]]  # index or class, score, and what else is known

    def describe(self) -> dict[str, Any]:
        """Plain values, for health.json."""
        low, high = self.share.interval
        return {
            "kind": self.kind,
            "title": self.title,
            "advice": self.advice,
            "of": self.of,
            "count": self.share.count,
            "size": self.share.of,
            "share": self.share.value,
            "low": low,
            "high": high,
            "entries": list(self.entries[:KEPT]),
        }


def write_health(folder: Path, ended: Judged, audit: Audit, train: Examples) -> None:
    """Write health.json for the report and health.csv, a row an affected example."""
    found = list(measure(ended, audit, train))
    groups = _groups(ended, train)
    content = {
        "findings": [f.describe() for f in found],
        "groups": groups,
        "compared": len(compared(len(train))),
    }
    write_json(folder / HEALTH, content)
    names = train.ids
    with (
        written_whole(folder / HEALTH_LIST) as aside,
        aside.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("kind", "index", "id", "other", "score"))
        for finding in found:
            for entry in finding.entries:
                index = entry.get("index")
                name = "" if index is None else safe(names[index]) if names is not None else index
                place = safe(entry.get("class", "")) if index is None else index
                other = safe(str(entry.get("other", "")))
                row = (finding.kind, place, name, other, f"{entry['score']:.6g}")
                writer.writerow(row)


def measure(ended: Judged, audit: Audit, train: Examples) -> Iterable[Finding]:
    """Every kind of problem that was looked for, found or not."""
    task, classes = ended.result.task, ended.result.task.classes
    rows = compared(len(train))
    vectors = _vectors(train.x, rows)
    if len(vectors) > 2:
        near = health.neighbours(vectors)
        encoded = isinstance(train.encoder, PictureEncoding)
        limit = health.near_limit(near, health.NEAR_PHOTOS if encoded else health.NEAR)
        place, same = rows.tolist(), health.near_duplicates(near, limit)
        pairs = [(place[a], place[b], apart) for a, b, apart in same]
        yield from _near(pairs, task.y, classes, len(rows))
        if audit.test_x is not None and len(audit.test_x):
            test = compared(len(audit.test_x))
            close = health.neighbours(_vectors(audit.test_x, test), vectors, 1)
            found = health.leaks(close, limit)
            yield _leaks([(int(test[a]), place[b], apart) for a, b, apart in found], len(test))
        far = health.outliers(near)
        yield _outliers([(place[row], score) for row, score in far], len(rows))
        yield _in_order([(place[row], share) for row, share in regions.in_order(near)], len(rows))
        if ended.calibration.scores is not None:
            yield _failing(ended, near, rows)
        yield _split(health.split_classes(vectors, task.y[rows], len(classes)), classes)
    scores = ended.calibration.scores
    if scores is not None:
        yield _strange(scores, ended)
    yield _merged(health.merged_classes(ended.calibration.transition), classes)
    yield _rare(health.rare_classes(task.y, len(classes)), classes)
    yield from _pictures(train)


def compared(size: int) -> Tensor:
    """The examples that are compared with each other: all, or a random part of many."""
    if size <= MOST:
        return torch.arange(size)
    chosen = torch.randperm(size, generator=torch.Generator().manual_seed(0))[:MOST]
    return chosen.sort().values


def _near(
    pairs: Sequence[tuple[int, int, float]], labels: Tensor, classes: Sequence[str], size: int
) -> Iterable[Finding]:
    for kind, differ in (
        ("near-duplicates with different labels", True),
        ("near-duplicates", False),
    ):
        mine = [pair for pair in pairs if (labels[pair[0]] != labels[pair[1]]).item() == differ]
        rows = {row for first, second, _ in mine for row in (first, second)}
        yield Finding(
            kind=kind,
            title=f"{kind.capitalize()}" if differ else "Near-duplicates with the same label",
            advice="At least one label of each pair is wrong: look at both."
            if differ
            else "Keep one of each pair, or keep all copies on the same side of a split.",
            of="examples",
            share=health.Share(count=len(rows), of=size),
            entries=[
                {"index": a, "other": b, "score": d, "label": classes[int(labels[a])]}
                for a, b, d in mine
            ],
        )


def _leaks(pairs: Sequence[tuple[int, int, float]], size: int) -> Finding:
    return Finding(
        kind="test examples in training",
        title="Test examples that are in the training data",
        advice="Take these out of the test data: they flatter the measured accuracy.",
        of="test examples",
        share=health.Share(count=len({row for row, _, _ in pairs}), of=size),
        entries=[{"index": b, "other": f"test {a}", "score": d} for a, b, d in pairs],
    )


def _outliers(found: Sequence[tuple[int, float]], size: int) -> Finding:
    return Finding(
        kind="outliers",
        title="Outliers",
        advice="These are unlike all other examples: check that they belong in the data.",
        of="examples",
        share=health.Share(count=len(found), of=size),
        entries=[{"index": row, "score": score} for row, score in found],
    )


def _in_order(found: Sequence[tuple[int, float]], size: int) -> Finding:
    return Finding(
        kind="order of rows",
        title="Rows in an order",
        advice="Like examples stand beside each other in the data, as if sorted or recorded one "
        "after the other: split by blocks rather than by single rows.",
        of="examples",
        share=health.Share(count=len(found), of=size),
        entries=[{"index": row, "score": share} for row, share in found],
    )


def _failing(ended: Judged, near: health.Neighbours, rows: Tensor) -> Finding:
    scores, task = ended.calibration.scores, ended.result.task
    assert scores is not None
    probs = ended.calibration.link(scores[rows].double())
    found = regions.failing(near, probs.gather(1, task.y[rows, None]).squeeze(1))
    return Finding(
        kind="failing regions",
        title="Regions where the model fails",
        advice="The model hardly ever expects the labels of these examples and their neighbours: "
        "check the labels together, or collect more examples like them.",
        of="examples",
        share=health.Share(count=len(found), of=len(rows)),
        entries=[{"index": int(rows[row]), "score": local} for row, local in found],
    )


def _strange(scores: Tensor, ended: Judged) -> Finding:
    link = ended.calibration.link
    best = link(scores.double()).max(1).values
    missing = vacuity(scores) if link.of == "logits" else entropy(link(scores.double()))
    found = health.without_class(missing, best)
    return Finding(
        kind="no right class",
        title="Examples that no class fits",
        advice="The model has next to no evidence for any class: add a class, or leave them out.",
        of="examples",
        share=health.Share(count=len(found), of=len(scores)),
        entries=[{"index": row, "score": score} for row, score in found],
    )


def _split(found: Sequence[tuple[int, float]], classes: Sequence[str]) -> Finding:
    return Finding(
        kind="split class",
        title="Classes that may be two",
        advice="Their examples fall into two groups far apart: look whether these are two classes.",
        of="classes",
        share=health.Share(count=len(found), of=len(classes)),
        entries=[{"class": classes[code], "score": apart} for code, apart in found],
    )


def _merged(found: Sequence[tuple[int, int, float]], classes: Sequence[str]) -> Finding:
    return Finding(
        kind="overlapping classes",
        title="Classes that may be one",
        advice="Their labels are mixed up both ways: define the difference, or merge them.",
        of="classes",
        share=health.Share(
            count=len({code for a, b, _ in found for code in (a, b)}), of=len(classes)
        ),
        entries=[{"class": classes[a], "other": classes[b], "score": x} for a, b, x in found],
    )


def _rare(found: Sequence[tuple[int, int]], classes: Sequence[str]) -> Finding:
    return Finding(
        kind="rare class",
        title="Rare classes",
        advice="Fewer than a tenth of an equal share: collect more examples of these classes.",
        of="classes",
        share=health.Share(count=len(found), of=len(classes)),
        entries=[{"class": classes[code], "score": float(count)} for code, count in found],
    )


def _pictures(train: Examples) -> Iterable[Finding]:
    """Dark, bright, blank and blurred pictures, where the examples are pictures."""
    pictures = train.raw if train.raw is not None else train.x
    if len(pictures.shape) != 3 or min(pictures.shape[:2]) < 3:
        return
    size = min(len(pictures), MOST)
    parts = [
        health.picture_numbers(pictures.take(part))
        for part in torch.split(torch.arange(size), CHUNK)
    ]
    joined = {name: torch.cat([vars(part)[name] for part in parts]) for name in vars(parts[0])}
    faults = health.picture_faults(health.PictureNumbers(**joined))
    for kind, found in vars(faults).items():
        yield Finding(
            kind=f"{kind} pictures",
            title=f"{kind.capitalize()} pictures",
            advice="Look whether they show anything; leave out those that do not.",
            of="examples",
            share=health.Share(count=len(found), of=size),
            entries=[{"index": row, "score": score} for row, score in found],
        )


def _groups(ended: Judged, train: Examples) -> list[dict[str, Any]]:
    if train.groups is None:
        return []
    table, task, judged = ended.table, ended.result.task, ended.calibration.judgement
    right = None
    if judged is not None:
        named = torch.from_numpy(judged.scores.argmax(1))
        right = torch.from_numpy(judged.posterior).gather(1, named[:, None]).squeeze(1)
    found = by_group(train.groups, table.p_clean, table.suspect, task.y, task.num_classes, right)
    return [asdict(one) for one in found]


def _vectors(x: Inputs, rows: Tensor) -> Tensor:
    """The vectors themselves; of pictures that were not encoded, thumbnails."""
    taken = [x.take(part) for part in torch.split(rows, CHUNK)]
    if len(x.shape) == 3:
        small = [adaptive_avg_pool2d(t.float().permute(0, 3, 1, 2), EDGE) for t in taken]
        taken = [part.flatten(1) for part in small]
    return torch.cat(taken).float()
