"""The health of a run's data: measured at its end, written to health.json and health.csv."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from itertools import compress, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelproof.csv_files import safe, write_csv
from labelproof.data.encoders.picture_encoding import PictureEncoding
from labelproof.data.examples import Examples
from labelproof.data.readers import find_duplicates
from labelproof.data.task import Audit
from labelproof.files import write_json
from labelproof.judging import health, regions
from labelproof.judging.groups import Whole, by_group
from labelproof.judging.verdict import Judged
from labelproof.report.end_of_run import plain_vectors
from labelproof.report.findings import Finding, finding_of, listed, picture_findings
from labelproof.report.leaked import leaks_finding
from labelproof.run_files import HEALTH, HEALTH_LIST

MOST = 20_000  # examples compared with each other
LISTED = 20_000  # contradicted labels that are listed, of perhaps millions
FEW = 2  # examples of a rare class that are shown
Pair = tuple[int, int, float]  # two examples and their distance
BLANK = 0.5  # share of the cells of a row from which on it is listed


def write_health(
    folder: Path, ended: Judged, audit: Audit, train: Examples, test: Examples | None = None
) -> None:
    """Write health.json for the report and health.csv, a row an affected example."""
    found = list(measure(ended, audit, train, test))
    groups = _groups(ended, train)
    content = {
        "findings": [f.describe() for f in found],
        "groups": groups,
        "compared": len(compared(len(train))),
    }
    write_json(folder / HEALTH, content)
    rows = (_row(f.kind, entry, train.ids) for f in found for entry in f.entries)
    write_csv(folder / HEALTH_LIST, ("kind", "index", "id", "other", "score"), rows)


def _row(kind: str, entry: dict[str, Any], names: Sequence[str] | None) -> tuple[Any, ...]:
    """A row of health.csv; a class has no index, and its own name as the id."""
    index, beside = entry.get("index"), safe(str(entry.get("other", "")))
    score = f"{entry['score']:.6g}"
    if index is None:
        return (kind, "", safe(entry.get("class", "")), beside, score)
    return (kind, index, safe(names[index]) if names is not None else index, beside, score)


def measure(
    ended: Judged, audit: Audit, train: Examples, tested: Examples | None = None
) -> Iterable[Finding]:
    """Every kind of problem that was looked for, found or not."""
    task, classes = ended.result.task, ended.result.task.classes
    rows = compared(len(train))
    vectors = plain_vectors(train.x, rows)
    if len(vectors) > 2:
        near = health.neighbours(vectors)
        encoded = isinstance(train.encoder, PictureEncoding)
        limit = health.near_limit(near, health.NEAR_PHOTOS if encoded else health.NEAR)
        place, same = rows.tolist(), health.near_duplicates(near, limit)
        pairs = [(place[a], place[b], apart) for a, b, apart in same]
        yield from _near(pairs, task.y, train, rows)
        if audit.test_x is not None and len(audit.test_x):
            test = compared(len(audit.test_x))
            close = health.neighbours(plain_vectors(audit.test_x, test), vectors, 1)
            found = health.leaks(close, limit)
            pairs = [(int(test[a]), place[b], apart) for a, b, apart in found]
            yield leaks_finding(pairs, len(test), audit, classes, tested)
        far = health.outliers(near)
        yield finding_of("outliers", listed([(place[row], score) for row, score in far]), len(rows))
        yield _ordered(ended, train, vectors, near, rows)
        if not _read_by_class(train):
            beside = regions.sorted_by_class(task.y[rows])
            yield finding_of("rows sorted by class", (), len(rows), beside)
        if ended.calibration.scores is not None:
            yield _failing(ended, near, rows)
        if ended.calibration.doubt is not None:
            yield _strange(ended.calibration.doubt[rows], ended, near, rows)
        yield _harmful(ended, near, rows)
        trusted = ~ended.table.suspect[rows]
        split = health.split_classes(vectors, task.y[rows], len(classes), trusted)
        yield _classes("split class", split, classes, partial(_halves, vectors, ended, rows))
    if ended.calibration.instead is not None and ended.calibration.trust.level != "none":
        yield _contradicted(ended.calibration.instead, ended)
    yield _merged(_one(ended), ended)
    rare = health.rare_classes(task.y, len(classes))
    yield _classes("rare class", rare, classes, lambda code: _labelled(task.y, code)[:FEW])
    if train.gaps is not None:
        yield _missing(train.gaps)
    yield from picture_findings(train, task.y, classes)


def compared(size: int) -> Tensor:
    """The examples that are compared with each other: all, or a random part of many."""
    if size <= MOST:
        return torch.arange(size)
    chosen = torch.randperm(size, generator=torch.Generator().manual_seed(0))[:MOST]
    return chosen.sort().values


def _read_by_class(train: Examples) -> bool:
    """Whether the examples come from class folders, which are read one after another."""
    about = train.about
    return about.get("source") == "folder" and not (about.get("labels") or about.get("votes"))


def _near(
    pairs: Sequence[Pair], labels: Tensor, train: Examples, rows: Tensor
) -> Iterable[Finding]:
    """Pairs with different labels, identical ones apart, and pairs with the same label."""
    groups = _identical(train, rows)
    group = {row: number for number, one in enumerate(groups) for row in one}
    pairs = [*_not_near(groups, pairs, labels), *pairs]
    differ = [pair for pair in pairs if labels[pair[0]] != labels[pair[1]]]
    equal = [group.get(a, -1) == group.get(b, -2) for a, b, _ in differ]
    parts = {
        "identical inputs with different labels": list(compress(differ, equal)),
        "near-duplicates with different labels": [
            p for p, same in zip(differ, equal, strict=True) if not same
        ],
        "near-duplicates": [pair for pair in pairs if labels[pair[0]] == labels[pair[1]]],
    }
    for kind, mine in parts.items():
        entries = [{"index": a, "other": b, "score": d} for a, b, d in mine]
        count = len({row for first, second, _ in mine for row in (first, second)})
        yield finding_of(kind, entries, len(rows), count)


def _identical(train: Examples, rows: Tensor) -> list[list[int]]:
    """Groups of compared examples whose inputs are the same to the last bit."""
    some = set(rows.tolist())
    groups = ([row for row in group if row in some] for group in find_duplicates(train).groups)
    return [group for group in groups if len(group) > 1]


def _not_near(groups: Sequence[Sequence[int]], pairs: Sequence[Pair], labels: Tensor) -> list[Pair]:
    """Pairs of identical inputs that are no neighbours by angle: zeros, such as black pictures.

    Each example is paired with the next of its group and label, and with one of another label.
    """
    found: dict[tuple[int, int], None] = {}
    for group in groups:
        label = {row: int(labels[row]) for row in group}
        first = group[0]
        other = next((row for row in group if label[row] != label[first]), None)
        mixed = [(row, first if label[row] != label[first] else other) for row in group]
        alike = pairwise(sorted(group, key=label.__getitem__))
        same = [(a, b) for a, b in alike if label[a] == label[b]]
        both = [(a, b) for a, b in (*same, *mixed) if b is not None]
        found |= dict.fromkeys((min(pair), max(pair)) for pair in both)
    known = {(a, b) for a, b, _ in pairs}
    return [(a, b, 0.0) for a, b in found if (a, b) not in known]


def _ordered(
    ended: Judged, train: Examples, vectors: Tensor, near: health.Neighbours, rows: Tensor
) -> Finding:
    """Rows in an order within their class; columns of a table that count rows are left out."""
    table, classes = ended.table, ended.result.task.num_classes
    groups = table.given[rows] * classes + table.suggested[rows]
    groups = torch.from_numpy(np.unique(groups.numpy(), return_inverse=True)[1])
    if train.kind == "vectors" and train.raw is None:
        counts = regions.counting(vectors, groups)
        if counts.all():
            return finding_of("order of rows", (), len(rows))
        near = health.neighbours(vectors[:, ~counts]) if counts.any() else near
    found = [(int(rows[row]), share) for row, share in regions.in_order(near, groups)]
    return finding_of("order of rows", listed(found), len(rows))


def _missing(gaps: Tensor) -> Finding:
    """Rows that are mostly blank, the emptiest first."""
    order = gaps.argsort(descending=True, stable=True)
    rows = [(row, gaps[row].item()) for row in order[gaps[order] >= BLANK].tolist()]
    return finding_of("missing values", listed(rows), len(gaps))


def _failing(ended: Judged, near: health.Neighbours, rows: Tensor) -> Finding:
    scores, task = ended.calibration.scores, ended.result.task
    assert scores is not None
    probs = ended.calibration.link(scores[rows].double())
    found = regions.failing(near, probs.gather(1, task.y[rows, None]).squeeze(1))
    entries = listed([(int(rows[row]), local) for row, local in found])
    return finding_of("failing regions", entries, len(rows))


def _harmful(ended: Judged, near: health.Neighbours, rows: Tensor) -> Finding:
    """Labels that neighbours do better without."""
    labels, _ = _labels(ended)
    harm = regions.harmful(near, labels[rows])
    found, value = rows[[row for row, _ in harm]], dict(harm)
    place = {int(row): number for number, row in enumerate(rows.tolist())}
    kept = _worth_a_look(found, ended, torch.ones(len(labels), dtype=torch.bool))
    entries = listed([(row, value[place[row]]) for row in kept.tolist()])
    return finding_of("harmful examples", entries, len(rows))


def _labels(ended: Judged) -> tuple[Tensor, Tensor]:
    """The labels that count (N,), and how likely each is wrong (N,): the consensus of votes."""
    crowd = ended.calibration.crowd
    if crowd is None:
        return ended.result.task.y, 1 - ended.table.p_clean.double()
    best = crowd.posterior.max(1)
    return best.indices, 1 - best.values.double()


def _worth_a_look(found: Tensor, ended: Judged, among: Tensor) -> Tensor:
    """Found labels, by index, if more of them are wrong than of those (N,) they are among.

    Where several people labelled, those that are less likely wrong than the average are left out:
    what a model says against the consensus has been heard with the votes.
    """
    if ended.calibration.trust.level == "none":
        return found
    _, wrong = _labels(ended)
    if ended.calibration.crowd is not None:
        found = found[wrong[found] > wrong.mean()]
    return health.telling(found, wrong, wrong[among].mean().item())


def _contradicted(instead: Tensor, ended: Judged) -> Finding:
    """Labels that a held-out model would not give, without suspects and reviewed labels.

    All are counted; the likeliest to be wrong are listed.
    """
    table, task = ended.table, ended.result.task
    among = ~table.suspect if task.fixed is None else ~table.suspect & ~task.fixed
    against = (instead >= 0) & (instead != task.y) & among
    order = table.p_clean.argsort(stable=True)
    found = _worth_a_look(order[against[order]], ended, among)
    first = found[:LISTED]
    named, right = instead[first].tolist(), table.p_clean[first].tolist()
    entries = [
        {"index": row, "other": task.classes[code], "score": sure}
        for row, code, sure in zip(first.tolist(), named, right, strict=True)
    ]
    return finding_of("contradicted labels", entries, len(instead), len(found), len(found))


def _strange(doubt: Tensor, ended: Judged, near: health.Neighbours, rows: Tensor) -> Finding:
    """Examples for which neither predictions nor the labels of neighbours name a class.

    Classes without a label do not count, or an even spread would be out of reach.
    """
    used, labels = np.unique(_labels(ended)[0].numpy(), return_inverse=True)
    around = health.spread_around(near, torch.from_numpy(labels)[rows], len(used))
    sure = doubt.double() / math.log(max(len(used), 2))
    found = health.without_class((sure + around) / 2, len(used))
    entries = listed([(int(rows[row]), spread) for row, spread in found])
    return finding_of("no right class", entries, len(rows))


def _classes(
    kind: str,
    found: Sequence[tuple[int, float]],
    classes: Sequence[str],
    shown: Callable[[int], list[int]],
) -> Finding:
    """Classes, each with some of its examples."""
    entries = [
        {"class": classes[code], "score": float(score), "examples": shown(code)}
        for code, score in found
    ]
    return finding_of(kind, entries, len(classes))


def _labelled(labels: Tensor, code: int) -> list[int]:
    rows: list[int] = (labels == code).nonzero().squeeze(1).tolist()
    return rows


def _halves(vectors: Tensor, ended: Judged, rows: Tensor, code: int) -> list[int]:
    """A typical example of each of the two groups of a class."""
    mine = (ended.result.task.y[rows] == code) & ~ended.table.suspect[rows]
    own = rows[mine]
    return [int(own[place]) for place in health.typical(vectors[mine].float())]


def _one(ended: Judged) -> list[Pair]:
    """Pairs of classes whose labels are exchanged, or which held-out models cannot tell apart."""
    found = {(a, b): x for a, b, x in health.merged_classes(ended.calibration.transition)}
    scores = ended.calibration.scores
    if scores is not None and ended.calibration.trust.level != "none":
        for a, b, exchange in health.indistinct_classes(scores, ended.result.task.y):
            found.setdefault((a, b), exchange)
    return [(a, b, x) for (a, b), x in found.items()]


def _merged(found: Sequence[tuple[int, int, float]], ended: Judged) -> Finding:
    """Pairs of classes, with the example of each that most looks like the other."""
    task, scores = ended.result.task, ended.calibration.scores
    entries = []
    for a, b, exchange in found:
        shown = []
        for given, other in ((a, b), (b, a)):
            own = _labelled(task.y, given)
            best = 0 if scores is None or not own else int(scores[own, other].argmax())
            shown += own[best : best + 1]
        names = {"class": task.classes[a], "other": task.classes[b]}
        entries.append({**names, "score": exchange, "examples": shown})
    count = len({code for a, b, _ in found for code in (a, b)})
    return finding_of("overlapping classes", entries, task.num_classes, count)


def _groups(ended: Judged, train: Examples) -> list[dict[str, Any]]:
    if train.groups is None:
        return []
    table, task, judged = ended.table, ended.result.task, ended.calibration.judgement
    right, whole = None, Whole()
    if judged is not None and judged.trust.level != "none":
        low, high = judged.noise_interval
        whole = Whole(rate=judged.noise_rate, low=low, high=high, ambiguous=judged.trust.ambiguous)
        named = torch.from_numpy(judged.scores.argmax(1))
        right = torch.from_numpy(judged.posterior).gather(1, named[:, None]).squeeze(1)
    found = by_group(
        train.groups, table.p_clean, table.suspect, task.y, task.num_classes, right, whole
    )
    return [asdict(one) for one in found]
