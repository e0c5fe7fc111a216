"""Kills at random moments: a run that was killed and resumed equals one that was not."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from campaign.children import alone, ended, run, start
from campaign.readers import Tally

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
SAME = ("labels.csv", "model.safetensors", "calibration.json", "reading.json")
TIMES = (1, 2, 4, 8, 16)  # kills of one run before it may end
BUSY = 2  # exit code of a command that another process keeps from its folder
SHORT = ("--set", "steps=8")  # DPC takes 200 otherwise, however few examples there are
TRIALS = (2000, 2)  # examples and classes; with fewer, trials choose nothing
BENCHES = {"cifarn": "ce", "digits": "gce", "yardstick": "linear"}  # experiment, method
LEFT = ("calibration", "trials")  # folders that must be gone at the end


def data(root: Path, size: int = 90, classes: int = 3) -> Path:
    """Clouds of points, a fifth of them with a wrong label."""
    rng, path = np.random.default_rng(0), root / f"points-{size}.npz"
    y = np.arange(size) % classes
    x = rng.normal(size=(size, 6)).astype(np.float32) + 3 * np.eye(6, dtype=np.float32)[y]
    given = np.where(rng.random(size) < 0.2, rng.integers(0, classes, size), y)
    np.savez(path, x=x, y=given)
    return path


@dataclass(frozen=True, kw_only=True)
class Victim:
    """A command that is killed and started again until it ends."""

    words: Callable[[Path], list[str]]  # with the folder it works in
    differs: Callable[[Path, Path], str]  # a whole folder and one with kills
    begun: Path | None = None  # a folder that the work starts from


def victims(path: Path, root: Path) -> Iterator[tuple[str, Victim]]:
    """Every method with calibration on folds, the choice by trials, the report, and a bench."""
    from labelproof.methods import METHODS

    def fit(*options: str, of: Path = path) -> Victim:
        return Victim(
            words=lambda out: ["fit", str(of), *options, "--out", str(out), "--resume"],
            differs=difference,
        )

    for name in sorted(METHODS):
        short = SHORT if name == "dpc" else ()
        yield name, fit("--method", name, "--epochs", "4", "--device", "cpu", *short)
    yield "auto", fit("--method", "auto", "--epochs", "4", "--device", "cpu", *SHORT)
    open_ = ("--set", "lambda_u=auto", *SHORT, "--calibrate", "quick")
    many = data(root, *TRIALS)
    tried = fit("--method", "dpc", "--epochs", "6", *open_, of=many)
    yield "dpc, trials", replace(tried, differs=trials)
    begun = root / "begun"
    run(fit("--method", "ce", "--epochs", "2", "--calibrate", "quick").words(begun), root / "log")
    yield "report", Victim(words=lambda out: ["report", str(out)], differs=pages, begun=begun)
    for experiment, method in BENCHES.items():
        yield f"bench {experiment}", Victim(words=_bench(experiment, method), differs=cells)


def _bench(experiment: str, method: str) -> Callable[[Path], list[str]]:
    words = ["bench", experiment, "--scale", "tiny", "--methods", method, "--jobs", "1"]
    return lambda out: [*words, "--out", str(out)]


def attack(name: str, victim: Victim, root: Path, kills: int, seed: int) -> Tally:
    """Kill a command `kills` times over as many runs as that takes; compare each finished run."""
    rng, tally = random.Random(f"{seed}/{name}"), Tally()
    whole, log = _fresh(victim, root / "whole"), root / "log"
    began = time.monotonic()
    if run(victim.words(whole), log) != 0:
        tally.places[f"{name} does not run"] += 1
        tally.examples[name] = log.read_text(errors="replace")[-200:]
        return tally
    length = time.monotonic() - began
    while tally.calls < kills:
        out = _fresh(victim, root / "killed")
        orphans, times = False, rng.choice(TIMES)
        for _ in range(times):
            child, began = start(victim.words(out), log), time.monotonic()
            hit = _kill(child, rng.uniform(0, 2 * length / (times + 1)), rng.choice(SIGNALS))
            tally.calls += hit
            orphans |= not alone(child)
            if not hit:  # the machine is faster than it was
                length = min(length, time.monotonic() - began)
                break
        code = _again(victim.words(out), log)
        problem = f"exit {code}" if code else victim.differs(whole, out)
        problem = problem or ("processes left behind" if orphans else "")
        if problem:
            tally.places[problem] += 1
            tally.examples.setdefault(problem, log.read_text(errors="replace")[-300:])
        else:
            tally.read += 1
    return tally


def _kill(child: int, after: float, number: signal.Signals) -> bool:
    """Send a child a signal and wait for its end; False if it had ended before."""
    stop = time.monotonic() + after
    while (left := stop - time.monotonic()) > 0:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            ended(child)
            return False
        time.sleep(min(left, 0.01))
    os.kill(child, number)
    ended(child)
    return True


def _fresh(victim: Victim, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    if victim.begun is not None:
        shutil.copytree(victim.begun, folder)
    return folder


def _again(words: Sequence[str], log: Path) -> int:
    """Run a command to its end; a child of the killed one may hold the folder a moment longer."""
    for _ in range(20):
        code = run(words, log)
        if code != BUSY:
            break
        time.sleep(0.5)
    return code


def pages(whole: Path, other: Path) -> str:
    """What differs between two folders whose report was written again."""
    texts = [(folder / "report.html").read_text() for folder in (whole, other)]
    if texts[0].replace(str(whole), str(other)) != texts[1]:
        return "report.html differs"
    return _left(other)


def trials(whole: Path, other: Path) -> str:
    """What differs between two runs that chose a setting by trials."""
    chosen = [json.loads((folder / "run.json").read_text())["chosen"] for folder in (whole, other)]
    for choice in (choice for choices in chosen for choice in choices.values()):
        del choice["seconds"]
        if not choice["trials"]:
            return "no trials were made"
    return "another choice" if chosen[0] != chosen[1] else difference(whole, other)


def cells(whole: Path, other: Path) -> str:
    """What differs between the finished runs of two benches."""
    names = [path.name for path in sorted((whole / "cells").iterdir()) if path.is_dir()]
    if not names:
        return "no cells"
    return next(filter(None, (difference(whole / "cells" / name, other / "cells" / name)
                              for name in names)), "")  # fmt: skip


def difference(whole: Path, other: Path) -> str:
    """What differs between two runs; nothing where they are equal."""
    for name in SAME:
        if (whole / name).read_bytes() != (other / name).read_bytes():
            return f"{name} differs"
    if curves(whole) != curves(other):
        return "metrics.jsonl differs"
    if not (other / "report.html").is_file():
        return "no report"
    return _left(other)


def _left(folder: Path) -> str:
    left = [name for name in LEFT if (folder / name).exists()]
    left += [path.name for path in folder.iterdir() if "partial" in path.name]
    return f"left behind: {left[0]}" if left else ""


def curves(run_folder: Path) -> list[dict[str, object]]:
    """metrics.jsonl without the times."""
    lines = [json.loads(line) for line in (run_folder / "metrics.jsonl").read_bytes().splitlines()]
    return [{key: value for key, value in line.items() if key != "elapsed"} for line in lines]


def campaign(
    root: Path, kills: int, seed: int, only: Sequence[str] = ()
) -> Iterator[tuple[str, Tally]]:
    """Kill every command; a tally for each. `read` counts runs that came out equal."""
    for name, victim in victims(data(root), root):
        if not only or name in only:
            place = root / f"of {name}"
            place.mkdir()
            yield name, attack(name, victim, place, kills, seed)
            shutil.rmtree(place)
