"""Mutated inputs for every reader: each call ends in success or in one sentence, soon and small."""

from __future__ import annotations

import itertools
import json
import pickle
import random
import resource
import struct
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from campaign.mutate import mutated
from labelproof import BadInput, RunFailed, load_model, report
from labelproof.data.readers import load
from labelproof.data.readers.published.cifar import CIFAR10, read_python
from labelproof.data.readers.published.idx import read_idx
from labelproof.data.readers.published.locate import plain_npy, plain_torch
from labelproof.judging.label_table import Names
from labelproof.noise.label_files import corrupt_file
from labelproof.pipeline import run as carry_out
from labelproof.report.end_of_run import read_beside
from labelproof.report.facts import gather
from labelproof.run_files import CALIBRATION, CROWD, LABELS_INDEX, MODEL, UNREADABLE
from labelproof.runs import labels_index
from labelproof.runs.next_checks import next_checks, read_scores
from labelproof.runs.reread import read_held
from labelproof.runs.reviewed import open_review
from labelproof.runs.spec import RunSpec, load_spec
from labelproof.training import checkpoint

SLOW = 5.0  # seconds of computing; a reader of these small files never needs one
MUCH = 1 << 20  # kilobytes; no reader of these small files needs a gigabyte more
SELDOM = 5  # every such reading of votes is followed by judging them again
Reader = Callable[[Path], object]


@dataclass
class Tally:
    """How many calls ended how, and where tracebacks came from."""

    calls: int = 0
    read: int = 0
    refused: int = 0
    peak: int = 0  # kilobytes: the most memory this process has had
    places: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> int:
        """Calls that ended in something other than success or one sentence."""
        return sum(self.places.values())

    def __add__(self, other: Tally) -> Tally:
        """Both together."""
        return Tally(
            calls=self.calls + other.calls,
            read=self.read + other.read,
            refused=self.refused + other.refused,
            places=self.places + other.places,
            examples=other.examples | self.examples,
        )


def attack(
    name: str, path: Path, read: Reader, calls: int, seed: int, keep: Path | None = None
) -> Tally:
    """Mutate one file `calls` times and read each version; the file is restored at the end.

    What fails is kept in the folder `keep`, if there is one, to be read again.
    """
    rng, whole, tally = random.Random(f"{seed}/{name}"), path.read_bytes(), Tally()
    try:
        for number in range(calls):
            damaged, failed = mutated(whole, rng), tally.failed
            path.write_bytes(damaged)
            _once(read, path, tally)
            if keep is not None and tally.failed > failed:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{seed}-{number}-{name.replace('/', '-')}").write_bytes(damaged)
    finally:
        path.write_bytes(whole)
    return tally


def _once(read: Reader, path: Path, tally: Tally) -> None:
    tally.calls += 1
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read(path)
        tally.read += 1
    except (BadInput, RunFailed) as error:
        sentence = str(error)
        if "\n" in sentence or not sentence:
            _note(tally, "more than one line", sentence)
        else:
            tally.refused += 1
    except Exception as error:
        frame = next(
            (f for f in reversed(traceback.extract_tb(error.__traceback__))
             if "labelproof" in f.filename), None
        )  # fmt: skip
        place = f"{Path(frame.filename).name}:{frame.lineno}" if frame else "elsewhere"
        _note(tally, f"{type(error).__name__} at {place}", str(error)[:200])
    if (took := time.process_time() - began) > SLOW:
        _note(tally, "slow", f"{took:.1f} seconds of computing")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if tally.peak and peak - tally.peak > MUCH:
        _note(tally, "more than a gigabyte", f"{peak - tally.peak} kB")
    tally.peak = peak


def _note(tally: Tally, place: str, text: str) -> None:
    tally.places[place] += 1
    tally.examples.setdefault(place, text)


def targets(root: Path) -> Iterator[tuple[str, Path, Reader]]:
    """Every reader with a good file to damage."""
    yield from _tables(root)
    yield from _published(root)
    yield from _runs(root)


def _tables(root: Path) -> Iterator[tuple[str, Path, Reader]]:
    import pandas as pd

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 4)).astype(np.float32), np.arange(40) % 3
    frame = pd.DataFrame({"a": x[:, 0], "city": rng.choice(["Oslo", "Rome"], 40),
                          "day": [f"2021-01-0{k + 1}" for k in y], "label": y})  # fmt: skip
    frame.to_csv(root / "t.csv", index=False)
    frame.to_parquet(root / "t.parquet")
    frame.to_json(root / "t.jsonl", orient="records", lines=True)
    frame.to_excel(root / "t.xlsx", index=False)
    np.savez(root / "t.npz", x=x, y=y, classes=["a", "b", "c"])
    np.savez_compressed(root / "c.npz", x=x, y=y)
    np.save(root / "labels.npy", y)
    for name in ("t.csv", "t.parquet", "t.jsonl", "t.xlsx", "t.npz", "c.npz"):
        yield name, root / name, load
    out = root / "noisy.npy"

    def corrupt(path: Path) -> None:
        for made in (out, out.with_name("noisy.npy.json")):
            made.unlink(missing_ok=True)
        corrupt_file(path, "symmetric", 0.2, out=out)

    yield "labels.npy", root / "labels.npy", corrupt
    yield from _hugging(root, x, y)


def _hugging(root: Path, x: object, y: object) -> Iterator[tuple[str, Path, Reader]]:
    try:
        import datasets
    except ImportError:
        return
    datasets.disable_progress_bars()
    rows = datasets.Dataset.from_dict(
        {"v": np.asarray(x).tolist(), "label": np.asarray(y).tolist()}
    )
    rows.save_to_disk(str(root / "hf"))
    for path in sorted((root / "hf").iterdir()):
        yield f"hf/{path.name}", path, lambda path: load(path.parent)


def _published(root: Path) -> Iterator[tuple[str, Path, Reader]]:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (3, 3072), dtype=np.uint8)
    batch = root / "data_batch_1"
    batch.write_bytes(pickle.dumps({b"data": pixels, b"labels": [1, 2, 3]}, protocol=2))
    yield "cifar batch", batch, lambda path: read_python(path, CIFAR10)
    idx = root / "idx"
    idx.write_bytes(struct.pack(">HBBI", 0, 8, 1, 5) + b"12345")
    yield "idx", idx, read_idx
    human = {"worse_label": np.arange(9), "clean_label": torch.arange(9)}
    torch.save(human, root / "human.pt")
    torch.save(human, root / "human-old.pt", _use_new_zipfile_serialization=False)
    yield "human.pt", root / "human.pt", plain_torch
    yield "human-old.pt", root / "human-old.pt", plain_torch
    np.save(root / "human.npy", {"a": np.arange(3)}, allow_pickle=True)  # type: ignore[arg-type]
    yield "human.npy", root / "human.npy", plain_npy


def _runs(root: Path) -> Iterator[tuple[str, Path, Reader]]:
    run, texts, votes, held = (root / name for name in ("run", "texts", "votes", "held"))
    quick = RunSpec(method="ce", settings={"epochs": 2}, calibrate="quick", device="cpu")
    carry_out(replace(quick, data=str(root / "t.csv"), test=str(root / "t.csv"), out=run))
    _decide(run)
    words = "".join(
        f"it was {'a good and useful' if i % 2 else 'a bad and broken'} thing, no. {i}|{i % 2}\n"
        for i in range(40)
    )
    (root / "texts.csv").write_text(f"text|label\n{words}")
    carry_out(replace(quick, data=str(root / "texts.csv"), out=texts))
    np.savez(root / "votes.npz", x=np.eye(40, 4), votes=np.arange(120).reshape(40, 3) % 2)
    carry_out(replace(quick, data=str(root / "votes.npz"), out=votes))
    _decide(votes)
    carry_out(replace(quick, data=str(root / "t.csv"), out=held, reviewed=run))

    def look(path: Path) -> None:
        report.write(path.parent)
        read_beside(path.parent, len(open_review(path.parent).classes), 40)

    number = itertools.count()

    def judge(path: Path) -> None:
        """Only some of the votes are judged again: reading them takes a tenth of the time."""
        again = path.name != CROWD and next(number) % SELDOM == 0
        next_checks(open_review(path.parent), 5, refit=again)
        read_scores(path.parent, 40, 2)

    (run / UNREADABLE).write_text("path,reason\na.png,an empty file\n'=b.png,no picture\n")
    for name in ("run.json", "summary.json", "metrics.jsonl", "report.json", "labels.csv",
                 "health.json", "review.json"):  # fmt: skip
        yield name, run / name, look
    yield UNREADABLE, run / UNREADABLE, lambda path: gather(path.parent)
    yield LABELS_INDEX, _index(texts), _open_long
    yield "votes/summary.json", votes / "summary.json", look
    for name in ("scores.npy", "votes.csv", "annotators.json"):
        yield f"votes/{name}", votes / name, judge
    yield "run.json as spec", run / "run.json", load_spec
    yield "decisions.jsonl", run / "decisions.jsonl", lambda path: open_review(path.parent)
    yield "reviewed.csv", held / "reviewed.csv", lambda path: _held(path.parent)
    yield "checkpoint.pt", run / "checkpoint.pt", checkpoint.load
    yield from _models(root, run, texts)


def _decide(run: Path) -> None:
    review = open_review(run, write=True)
    for index in range(4):
        given = review.classes[int(review.rows.labels()[index])]
        review.decisions.decide([{"index": index, "decision": "keep", "label": given}])
    review.decisions.undo()
    review.decisions.close()


def _index(run: Path) -> Path:
    """The index that a run of many examples has, here of few."""
    review = open_review(run)
    names = Names([str(i) for i in range(len(review.rows))], review.rows.index)
    usual, labels_index.FEWEST = labels_index.FEWEST, 1
    try:
        labels_index.write_index(run, replace(review.rows, ids=names))
    finally:
        labels_index.FEWEST = usual
    return run / LABELS_INDEX


def _open_long(path: Path) -> None:
    review = open_review(path.parent)
    names = [review.rows.ids[place] for place in range(len(review.rows))]
    if len(names) != 40 or not np.isfinite(review.rows.margin).all():
        raise ValueError("other rows than labels.csv has")


def _held(run: Path) -> None:
    read_held(run, open_review(run).record)


def _models(root: Path, run: Path, texts: Path) -> Iterator[tuple[str, Path, Reader]]:
    rows = load(root / "t.csv", like=load_model(run, device="cpu").like)

    def revive(path: Path) -> None:
        (path.parent / "files.json").rename(path.parent / "aside")  # past the hashes
        try:
            loaded = load_model(path.parent, device="cpu")
            source = root / ("t.csv" if path.parent.name == "run" else "texts.csv")
            same = path.name in (MODEL, CALIBRATION)  # which say nothing of how data is read
            data = rows if same else load(source, like=loaded.like)
            loaded.model.predict(data.x)
        finally:
            (path.parent / "aside").rename(path.parent / "files.json")

    for folder, names in ((run, ("run.json", "model.safetensors", "calibration.json",
                                 "reading.json", "encoder.json")),
                          (texts, ("encoder.json", "encoder.safetensors"))):  # fmt: skip
        for name in names:
            yield f"{folder.name}/{name} as model", folder / name, revive
    yield "files.json", run / "files.json", lambda path: load_model(path.parent, device="cpu")


def campaign(
    root: Path, calls: int, seed: int, only: Sequence[str] = (), keep: Path | None = None
) -> Iterator[tuple[str, Tally]]:
    """Attack every reader; a tally for each."""
    for name, path, read in targets(root):
        if not only or name in only:
            yield name, attack(name, path, read, calls, seed, keep)


def as_json(tallies: Mapping[str, Tally]) -> str:
    """The counts, for docs/results/campaign.csv."""
    return json.dumps({
        name: {"calls": t.calls, "read": t.read, "refused": t.refused, "failed": t.failed,
               "places": dict(t.places), "examples": t.examples}
        for name, t in tallies.items()
    }, indent=1)  # fmt: skip
