"""A run killed outright, again and again, equals one that was left alone, bit for bit."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import BinaryIO

import killed_run
import pytest
import torch

from forks import forks
from labelproof.training import checkpoint, loop
from tiny import Interrupting, interrupted, patterns, same_bits

KILLS = 10


@pytest.fixture(scope="module")
def left_alone() -> loop.Result:
    return killed_run.train()


def run_and_kill(folder: Path, rng: random.Random) -> tuple[int, int | None]:
    """Run in a new process, kill it some steps on; epochs it found done, and how it ended."""
    context = forks()
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=killed_run.work, args=(folder, theirs))
    process.start()
    theirs.close()
    done = ours.recv()
    try:
        for _ in range(rng.randrange(1, 9)):
            ours.recv()
        time.sleep(rng.uniform(0, 0.01))  # so that saving, too, is hit
    except EOFError:
        pass  # it came to its end
    process.kill()
    process.join()
    return done, process.exitcode


def test_killed_many_times_and_resumed(left_alone, tmp_path):
    rng, found = random.Random(0), []
    for _ in range(KILLS):
        done, ended = run_and_kill(tmp_path, rng)
        found.append(done)
        if ended != -signal.SIGKILL:
            break
    assert found == sorted(found)  # no epoch that was kept is ever lost
    assert len(set(found)) > 2  # the kills came at different places
    resumed = killed_run.train(tmp_path)
    assert same_bits(left_alone, resumed)
    lines = [json.loads(text) for text in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == resumed.history
    assert [drop_time(line) for line in lines] == [drop_time(x) for x in left_alone.history]


def drop_time(line: loop.Line) -> loop.Line:
    return {key: value for key, value in line.items() if key != "elapsed"}


class Killed(BaseException):
    """Nothing catches this, as nothing catches SIGKILL."""


def before_saving(patch: pytest.MonkeyPatch) -> None:
    """The metrics have the new epoch, the checkpoint has not."""

    def save(path: Path, content: object) -> None:
        raise Killed

    patch.setattr(checkpoint, "save", save)


def amid_saving(patch: pytest.MonkeyPatch) -> None:
    def save(content: object, file: BinaryIO) -> None:
        file.write(b"PK half a checkpoint")
        raise Killed

    patch.setattr(torch, "save", save)


def before_renaming(patch: pytest.MonkeyPatch) -> None:
    """The new checkpoint is whole but still aside."""
    replace = os.replace

    def rename(old: Path, new: Path) -> None:
        if new.name == "checkpoint.pt":
            raise Killed
        replace(old, new)

    patch.setattr(os, "replace", rename)


@pytest.mark.parametrize("moment", [before_saving, amid_saving, before_renaming])
def test_killed_at_the_worst_moment(left_alone, tmp_path, moment):
    problem, metrics = patterns(size=40), tmp_path / "metrics.jsonl"
    assert interrupted(problem, killed_run.METHOD, tmp_path, Interrupting(after_epochs=5))
    with pytest.MonkeyPatch.context() as patch:
        moment(patch)
        with pytest.raises(Killed):
            killed_run.train(tmp_path)
    assert len(metrics.read_text().splitlines()) == 6
    assert len(checkpoint.load(tmp_path / "checkpoint.pt")["history"]) == 5
    assert same_bits(left_alone, killed_run.train(tmp_path))
    assert len(metrics.read_text().splitlines()) == 12
