"""Kills at random moments: a run that was killed and resumed equals one that was not."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from campaign.children import ended, run, start
from campaign.readers import Tally

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
SAME = ("labels.csv", "model.safetensors", "calibration.json", "reading.json")
LEFT = ("calibration", "trials")  # folders that must be gone at the end


def data(root: Path) -> Path:
    """Three clouds of points, a fifth of them with a wrong label."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    x = rng.normal(size=(90, 6)).astype(np.float32) + 3 * np.eye(6, dtype=np.float32)[y]
    given = np.where(rng.random(90) < 0.2, rng.integers(0, 3, 90), y)
    np.savez(root / "points.npz", x=x, y=given)
    return root / "points.npz"


def commands(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Every method with calibration on folds, and the choice of an open setting by trials."""
    from labelproof.methods import METHODS

    for name in sorted(METHODS):
        words = ["fit", str(path), "--method", name, "--epochs", "4", "--device", "cpu"]
        yield name, words
    words = ["fit", str(path), "--method", "dpc", "--epochs", "6", "--set", "lambda_u=auto"]
    yield "dpc, trials", words


def attack(name: str, words: Sequence[str], root: Path, kills: int, seed: int) -> Tally:
    """Kill a command `kills` times over as many runs as that takes; compare each finished run."""
    rng, tally = random.Random(f"{seed}/{name}"), Tally()
    whole, log = root / "whole", root / "log"
    began = time.monotonic()
    if run([*words, "--out", str(whole)], log) != 0:
        tally.places[f"{name} does not run"] += 1
        tally.examples[name] = log.read_text(errors="replace")[-200:]
        return tally
    length = time.monotonic() - began
    while tally.calls < kills:
        out = root / "killed"
        shutil.rmtree(out, ignore_errors=True)
        for _ in range(rng.choice((1, 1, 2, 3))):
            tally.calls += 1
            child = start([*words, "--out", str(out), "--resume"], log)
            time.sleep(rng.uniform(0, length))
            number = rng.choice(SIGNALS)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)
            ended(child)
        code = run([*words, "--out", str(out), "--resume"], log)
        problem = f"exit {code}" if code else difference(whole, out)
        if problem:
            tally.places[problem] += 1
            tally.examples.setdefault(problem, log.read_text(errors="replace")[-300:])
        else:
            tally.read += 1
    return tally


def difference(whole: Path, other: Path) -> str:
    """What differs between two runs; nothing where they are equal."""
    for name in SAME:
        if (whole / name).read_bytes() != (other / name).read_bytes():
            return f"{name} differs"
    if curves(whole) != curves(other):
        return "metrics.jsonl differs"
    if not (other / "report.html").is_file():
        return "no report"
    left = [name for name in LEFT if (other / name).exists()]
    left += [path.name for path in other.iterdir() if "partial" in path.name]
    return f"left behind: {left[0]}" if left else ""


def curves(run_folder: Path) -> list[dict[str, object]]:
    """metrics.jsonl without the times."""
    lines = [json.loads(line) for line in (run_folder / "metrics.jsonl").read_bytes().splitlines()]
    return [{key: value for key, value in line.items() if key != "elapsed"} for line in lines]


def campaign(root: Path, kills: int, seed: int, only: str = "") -> dict[str, Tally]:
    """Kill every command; returns a tally for each. `read` counts runs that came out equal."""
    path, out = data(root), {}
    for name, words in commands(path):
        if only in name:
            place = root / name.replace(" ", "-")
            place.mkdir()
            out[name] = attack(name, words, place, kills, seed)
            shutil.rmtree(place)
    return out
