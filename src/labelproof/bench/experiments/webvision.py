"""WebVision: top-1 and top-5 on its own validation set and on that of ILSVRC12."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch

from labelproof import metrics
from labelproof.bench import published_numbers as published
from labelproof.bench.asked import chosen
from labelproof.bench.cell import Cell, Experiment, Scale, Sources, seeded
from labelproof.bench.results import Metric, Record, Results, number
from labelproof.bench.scales import EPOCHS, NETS, STAR, lasting, published_spec, title_of
from labelproof.bench.tables import Table, closing, entry
from labelproof.data.readers import load
from labelproof.data.readers.published.locate import locate
from labelproof.data.readers.published.webvision_files import WEBVISION
from labelproof.errors import BadInput
from labelproof.files import write_json
from labelproof.recipes.recipe import published_names
from labelproof.runs.load import load_model
from labelproof.runs.spec import RunSpec, load_spec

NEW = ("coteaching", "d2l", "mentornet", "incv", "ssr")  # settings of all but SSR are ours
ALL = ("dividemix", "elr_plus", "unicon", *NEW, "dpc", STAR)
ROWS: dict[Scale, tuple[str, ...]] = {
    "paper": ALL,
    "small": ("dividemix", "elr_plus", "unicon", "dpc", STAR),
    "tiny": ("dividemix", "dpc"),
}
NET = "inception_resnet_v2"
SMALL_EDGE = 64  # pixels of the small scale
OWN_EDGE = {"elr_plus": 256}  # whose authors take the published pictures as they are
TINY_NOISE = "asymmetric-cifar10:0.4"


def cells(scale: Scale, sources: Sources, seeds: int) -> list[Cell]:
    """A cell for every method and seed."""
    data = _data(scale, sources)
    column = "digits" if scale == "tiny" else "WebVision"
    return [
        cell
        for method in chosen("method", sources.methods, ALL, ROWS[scale])
        for cell in seeded(title_of(method), column, _spec(data, method, scale, sources), seeds)
    ]


def _data(scale: Scale, sources: Sources) -> RunSpec:
    if scale == "tiny":
        return RunSpec(data="digits", noise=TINY_NOISE, net=NETS[scale])
    if sources.stand_ins:
        return RunSpec(data="webvision", net=NET)
    if sources.data is None or not sources.data.is_dir():
        raise BadInput(
            "webvision needs --data DIR, the folder that holds webvision and imagenet; "
            f"{sources.data or 'nothing'} was named, and docs/data.md says what goes where."
        )
    locate(sources.data, (WEBVISION,))
    spec = published_spec("webvision", sources.data)
    if scale == "paper":
        return replace(spec, net=NET)
    reading = replace(spec.reading, image_size=SMALL_EDGE)
    return replace(spec, reading=reading, net="preact18_narrow")


def _spec(data: RunSpec, method: str, scale: Scale, sources: Sources) -> RunSpec:
    star = method == STAR
    name = "dpc" if star else method
    assert "webvision" in published_names(name)
    if scale == "paper" and name in OWN_EDGE:
        data = replace(data, reading=replace(data.reading, image_size=OWN_EDGE[name]))
    return replace(
        data,
        method=name,
        recipe="webvision-star" if star else "webvision",
        settings=lasting(sources.epochs or EPOCHS.get(scale)),
        calibrate="quick",
    )


def finish(results: Results, folder: Path) -> list[Path]:
    """One table: top-1 and top-5 of every validation set that is there."""
    for record in results.records:
        if record.state == "done":
            measure(record)
    sets = ("digits",) if results.scale == "tiny" else ("WebVision", "ILSVRC12")
    columns = [f"{name} {top}" for name in sets for top in ("top-1", "top-5")]
    known = published.numbers(published.WEB_ROWS, published.WEB_COLUMNS)
    beside = [c for c in columns if c in published.WEB_COLUMNS]
    rows = [
        (
            row,
            *(entry(_metric(column), _measured(results, row)) for column in columns),
            *(known.get((row, column), "") for column in beside),
        )
        for row in results.rows
    ]
    table = Table(
        title=f"{sets[0]}: accuracy after the last epoch (%)",
        header=("", *columns, *(f"published: {column}" for column in beside)),
        rows=tuple(rows),
        notes=((published.WEB_NOTE,) if beside else ()) + tuple(closing(results)),
    )
    return table.write(folder)


def measure(record: Record) -> None:
    """Apply a run's networks to the validation sets, once; beside its folder is what they got."""
    path = _beside(record)
    if path.is_file():
        return
    loaded = load_model(record.folder)
    spec = load_spec(record.folder)
    found = {}
    sets = {"digits": "digits"} if spec.data == "digits" else {}
    sets = sets or {"WebVision": "webvision", "ILSVRC12": "ilsvrc12"}
    for title, name in sets.items():
        try:
            test = load(name, spec.reading, loaded.like)
        except BadInput:
            if name != "ilsvrc12":
                raise
            continue  # the images of ILSVRC12 are not there; its columns stay empty
        probs = loaded.model.predict(test.x).probabilities
        labels = torch.as_tensor(test.labels).long()
        for k in (1, 5):
            found[f"{title} top-{k}"] = 100 * metrics.top_k_accuracy(probs, labels, k)
    write_json(path, found)


def _beside(record: Record) -> Path:
    return record.folder.with_name(f"{record.folder.name}.top.json")


def _measured(results: Results, row: str) -> list[Record]:
    """The records of a row with what was measured as their summaries."""
    return [
        Record(cell=r.cell, folder=r.folder, state=r.state, summary=_read(r), error=r.error)
        for column in results.columns
        for r in results.at(row, column)
    ]


def _read(record: Record) -> dict[str, float]:
    if record.state != "done":
        return {}
    found = json.loads(_beside(record).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def _metric(column: str) -> Metric:
    return Metric(title=column, read=number(column), digits=2)


EXPERIMENT = Experiment(
    name="webvision",
    title="top-1 and top-5 on WebVision and ILSVRC12 after training on WebVision (table 3)",
    seeds={"paper": 1, "small": 1, "tiny": 1},
    cells=cells,
    finish=finish,
    takes=("methods",),
)
