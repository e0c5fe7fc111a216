"""Two real processes compute what one does, resume to the same bits, and end together."""

from __future__ import annotations

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pair
import pytest
import torch
from typer.testing import CliRunner

import tiny
from forks import forks
from labelproof.__main__ import application
from labelproof.errors import LOST, BadInput
from labelproof.nets.exchange import Cut
from labelproof.run_files import FOLDS
from labelproof.training import ranks
from labelproof.training.run import pick_device

RUNNER = CliRunner()
SIZE = 51  # no multiple of a batch, and odd
# Adam divides a gradient by its size: where weights before a batch normalisation have none, what is
# left of it is rounding
ROUNDING = 1e-5
ON_PICTURES = ["ce", "dpc", "mwnet", "pes", "ssr"]  # with batch statistics


def apart(first: pair.Outcome, second: pair.Outcome) -> float:
    """The largest difference of any probability."""
    return max(float(np.abs(a - b).max()) for a, b in zip(first, second, strict=True))


def alone(maker: str, name: str) -> pair.Outcome:
    return pair.outcome(getattr(tiny, maker)(size=SIZE).train(pair.METHODS[name]))


@pytest.mark.parametrize(("maker", "names"), [("blobs", None), ("patterns", ON_PICTURES)])
def test_two_processes_compute_what_one_does(maker, names, tmp_path):
    names = names or [*pair.CASES, "dpc across folds", "mlnt with L_edl"]
    first, second = pair.together(pair.train_all, tmp_path, maker, SIZE, names)
    for name in names:
        assert apart(first[name], second[name]) == 0, name  # the split is the same everywhere
        assert apart(first[name], alone(maker, name)) < ROUNDING, name


def test_a_resumed_pair_ends_in_the_same_bits(tmp_path):
    for pieces, whole in pair.together(pair.train_in_pieces, tmp_path, "dpc", SIZE, tmp_path):
        assert apart(pieces, whole) == 0


def test_a_trained_model_needs_the_other_processes_no_more(tmp_path):
    (together, alone_again), nothing = pair.together(pair.ask_alone, tmp_path, SIZE)
    assert nothing is None
    assert float(np.abs(together - alone_again).max()) < ROUNDING


def test_each_process_reads_half_of_what_must_be_fetched(tmp_path):
    single, expected = pair.read_rows("ce", SIZE)
    (first, result), (second, _) = pair.together(pair.read_rows, tmp_path, "ce", SIZE)
    assert first + second == single
    assert abs(first - second) < single // 10
    assert apart(result, expected) < ROUNDING


def test_rows_are_cut_into_runs_that_cover_all():
    for total in range(2, 40):
        for world in range(1, total + 1):
            parts = [Cut(rank, world, total).rows for rank in range(world)]
            assert [i for part in parts for i in range(total)[part]] == list(range(total))
            sizes = Cut(0, world, total).sizes
            assert max(sizes) - min(sizes) <= 1
            assert sorted(sizes, reverse=True) == sizes


def test_two_processes_choose_a_weight_as_one_does(tmp_path):
    first, second = pair.together(pair.choose_weight, tmp_path, 2001)
    value, trials = pair.choose_weight(2001)
    assert first == second
    assert len(trials) > 1
    assert first[0] == value
    assert [weight for weight, _ in first[1]] == [weight for weight, _ in trials]
    assert [a for _, a in first[1]] == pytest.approx([a for _, a in trials], abs=0.01)


def test_a_single_process_has_nobody_to_ask():
    assert ranks.now() == ranks.ALONE
    assert ranks.from_first(lambda: 3) == ranks.in_turn(lambda: 3) == 3
    ranks.check_same(1.0, "now")
    with ranks.joined({"WORLD_SIZE": "1"}) as here:
        assert here == ranks.ALONE


def test_each_process_has_a_device_of_its_own(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert str(ranks.local_device(environment={"LOCAL_RANK": "1"})) == "cuda:1"
    with pytest.raises(BadInput, match="this machine has 2; use --nproc-per-node 2"):
        ranks.local_device(environment={"LOCAL_RANK": "2"})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(ranks, "now", lambda: ranks.Ranks(1, 2))
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert str(pick_device("auto")) == str(pick_device("cuda")) == "cuda:1"
    with pytest.raises(BadInput, match="cuda:0 is a single one; use --device cuda"):
        pick_device("cuda:0")
    with pytest.raises(BadInput, match="there is no device 'cuda:2' here"):
        pick_device("cuda:2")
    monkeypatch.setenv("LOCAL_RANK", "0")  # one process on each machine
    assert str(pick_device("cuda:1")) == "cuda:1"


@pytest.fixture
def one_gpu(monkeypatch) -> list[str]:
    """A machine with a single GPU; by which means processes join there."""
    asked: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(ranks.dist, "init_process_group", lambda name, **_: asked.append(name))
    monkeypatch.setattr(ranks.dist, "destroy_process_group", lambda: None)
    return asked


SECOND = {"WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}


def test_processes_that_compute_on_the_cpu_need_no_gpus(one_gpu):
    with ranks.joined(SECOND, "cpu"):
        assert one_gpu == ["gloo"]
    with ranks.joined({**SECOND, "LOCAL_RANK": "0"}, "cuda"):
        assert one_gpu == ["gloo", "cpu:gloo,cuda:nccl"]


@pytest.mark.parametrize(
    ("device", "sentence"), [("auto", "compute with --device cpu"), ("cuda:0", "a single one")]
)
def test_two_processes_and_one_gpu_are_refused(device, sentence, one_gpu):
    with pytest.raises(BadInput, match=sentence), ranks.joined(SECOND, device):
        pass
    assert one_gpu == []


# ---- the command line ----


@pytest.fixture
def data(tmp_path: Path) -> Path:
    task = tiny.blobs(size=60).task
    np.savez(tmp_path / "data.npz", x=task.x.data.numpy(), y=task.y.numpy())
    return tmp_path / "data.npz"


def words(data: Path, out: Path, epochs: int, how: str) -> list[str]:
    options = ["--method", "ce", "--epochs", str(epochs), "--calibrate", how]
    return ["fit", str(data), *options, "--out", str(out), "--resume"]


def free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


def run_pair(*commands: list[str], logs: Sequence[Path | None] = (None, None)) -> list[int | None]:
    """Exit codes of a pair of `labelproof` processes."""
    context, port = forks(), free_port()
    given = zip(range(2), (port, port), commands, logs, strict=True)
    both = [context.Process(target=pair.command, args=each) for each in given]
    for process in both:
        process.start()
    for process in both:
        process.join(pair.PATIENCE)
    return [process.exitcode for process in both]


def clean(folder: Path) -> dict[str, float]:
    """The probability that each label is right."""
    with (folder / "labels.csv").open(newline="") as file:
        return {row["index"]: float(row["p_clean"]) for row in csv.DictReader(file)}


@pytest.mark.whole
def test_one_process_of_a_pair_writes_the_run(data, tmp_path):
    assert run_pair(*[words(data, tmp_path / "two", 5, "folds")] * 2) == [0, 0]
    assert RUNNER.invoke(application(), words(data, tmp_path / "one", 5, "folds")).exit_code == 0
    two, one = clean(tmp_path / "two"), clean(tmp_path / "one")
    assert two == pytest.approx(one, abs=1e-4)
    names = [{path.name for path in (tmp_path / run).iterdir()} for run in ("two", "one")]
    assert names[0] == names[1]
    assert json.loads((tmp_path / "two" / "run.json").read_text())["processes"] == 2


def child_of(parent: int, rank: int) -> int:
    """The process that `torchrun` started as this rank."""
    for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        if f"RANK={rank}".encode() in environment:
            return int(pid)
    raise AssertionError(f"no rank {rank}")


def torchrun(*options: str) -> subprocess.Popen[str]:
    """A command that PyTorch starts as several processes."""
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *options],
        stderr=subprocess.STDOUT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def wait_for_epochs(out: Path, count: int, *running: subprocess.Popen[str]) -> None:
    metrics, patience = out / "metrics.jsonl", time.monotonic() + pair.PATIENCE
    while not (metrics.exists() and metrics.read_text().count("\n") >= count):
        assert time.monotonic() < patience
        assert all(process.poll() is None for process in running)
        time.sleep(0.01)


def kill_one(data: Path, out: Path, rank: int) -> str:
    """Start a run with `torchrun`, kill a process of it amid training; what it said."""
    start = ["--nproc-per-node", "2", "--master-port", str(free_port())]
    process = torchrun(*start, "-m", "labelproof", *words(data, out, 80, "quick"))
    wait_for_epochs(out, 3, process)
    os.kill(child_of(process.pid, rank), signal.SIGKILL)
    said, _ = process.communicate(timeout=pair.PATIENCE)
    assert process.returncode != 0
    return said


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_a_killed_process_ends_all_and_the_run_goes_on(data, tmp_path):
    said = kill_one(data, tmp_path / "run", 1)
    assert "--resume" in said
    assert "Everything up to the last complete epoch is saved" in said or (
        "another process of this run ended" in said
    )
    assert "KeyboardInterrupt" not in said
    ended = RUNNER.invoke(application(), words(data, tmp_path / "run", 80, "quick"))
    assert ended.exit_code == 0
    assert "the run started with 2 processes and continues with 1" in ended.stderr
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == list(range(1, 81))


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_another_process_says_that_the_first_was_killed(data, tmp_path):
    said = kill_one(data, tmp_path / "run", 0)
    assert said.count(f"labelproof: {LOST}") == 1
    assert "KeyboardInterrupt" not in said


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_a_process_killed_in_a_fold_ends_all_and_the_run_goes_on(data, tmp_path):
    out, command = tmp_path / "run", words(data, tmp_path / "run", 20, "folds")
    start = ["--nproc-per-node", "2", "--master-port", str(free_port())]
    process = torchrun(*start, "-m", "labelproof", *command)
    patience = time.monotonic() + pair.PATIENCE
    while not any((out / FOLDS).glob("*/metrics.jsonl")):
        assert time.monotonic() < patience
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(child_of(process.pid, 1), signal.SIGKILL)
    said, _ = process.communicate(timeout=pair.PATIENCE)
    assert process.returncode != 0
    assert "--resume" in said
    ended = RUNNER.invoke(application(), command)
    assert ended.exit_code == 0, ended.output
    assert (out / "summary.json").exists()


# ---- several machines ----

BY_GLOO = """
from labelproof.nets import sockets
sockets.MOST = 0  # as between machines, which see no sockets of each other
from labelproof.__main__ import main
main()
"""


def machines(script: Path, *commands: list[str]) -> list[subprocess.Popen[str]]:
    """Each command by a `torchrun` of its own, as on a machine of its own."""
    meeting = ["--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    script.write_text(BY_GLOO)
    return [
        torchrun(
            *("--nnodes", str(len(commands)), "--node-rank", str(rank), "--nproc-per-node", "1"),
            *(*meeting, str(script), *command),
        )
        for rank, command in enumerate(commands)
    ]


def two_machines(folder: Path, *commands: list[str]) -> tuple[list[int | None], list[str]]:
    """Exit codes and what was said, by processes that need not import PyTorch anew."""
    logs = [folder / f"machine-{rank}.log" for rank in range(2)]
    codes = run_pair(*commands, logs=logs)
    return codes, [log.read_text() for log in logs]


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_two_machines_train_one_model_and_go_on_after_one_was_lost(data, tmp_path):
    script, commands = tmp_path / "start.py", [words(data, tmp_path / "run", 80, "quick")] * 2
    # the folder is the first machine's alone: the second never looks into its own
    commands[1] = words(data, tmp_path / "other", 80, "quick")
    running = machines(script, *commands)
    wait_for_epochs(tmp_path / "run", 3, *running)
    os.kill(child_of(running[1].pid, 1), signal.SIGKILL)
    first, _ = [process.communicate(timeout=pair.PATIENCE)[0] for process in running]
    assert all(process.returncode != 0 for process in running)
    assert "another process of this run ended" in first
    assert "--resume" in first
    assert two_machines(tmp_path, *commands)[0] == [0, 0]
    assert not (tmp_path / "other").exists()
    whole = [words(data, tmp_path / "whole", 80, "quick")] * 2
    assert two_machines(tmp_path, *whole)[0] == [0, 0]
    assert clean(tmp_path / "run") == clean(tmp_path / "whole")


def test_machines_that_train_different_things_are_told_so(data, tmp_path):
    more = tmp_path / "more.npz"
    with np.load(data) as held:
        np.savez(more, x=held["x"] + 1, y=held["y"])
    ours = words(data, tmp_path / "run", 2, "off")
    theirs = {
        "expected the same data for every process": words(more, tmp_path / "run", 2, "off"),
        "expected the same command for every process": [*ours, "--seed", "1"],
    }
    for sentence, command in theirs.items():
        codes, said = two_machines(tmp_path, ours, command)
        assert 0 not in codes
        assert all(sentence in each for each in said)
    assert not (tmp_path / "run").exists()
