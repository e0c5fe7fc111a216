"""SIGTERM and SIGHUP stop a run as Ctrl-C does, whatever it is at: what was saved goes on."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from forks import forks

SAME = ("labels.csv", "model.safetensors", "calibration.json")
LIMIT = 300  # seconds that a step may take, on a busy machine too
FOLDS = ("--method", "elr", "--epochs", "4")
TRIALS = ("--method", "dpc", "--epochs", "4", "--set", "lambda_u=auto", "--set", "steps=8",
          "--calibrate", "off")  # fmt: skip


def points(path: Path, size: int) -> Path:
    rng, y = np.random.default_rng(0), np.arange(size) % 2
    x = rng.normal(size=(size, 3)) + 3 * np.eye(3)[y]
    np.savez(path, x=x.astype(np.float32), y=np.where(rng.random(size) < 0.2, 1 - y, y))
    return path


def fit(words: Sequence[str], log: Path, threads: int) -> None:
    """A process that leads a group of its own; with two threads it begins others."""
    from labelproof.__main__ import main

    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup make test` would have it ignored
    os.environ["OMP_NUM_THREADS"] = str(threads)
    torch.set_num_threads(threads)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = ["labelproof", "fit", *words]
    main()


def begun(data: Path, out: Path, options: Sequence[str]) -> Any:
    words = [str(data), *options, "--device", "cpu", "--out", str(out), "--resume"]
    threads = 2 if options is FOLDS else 1
    process = forks().Process(target=fit, args=(words, out.with_suffix(".log"), threads))
    process.start()
    return process


def until(process: Any, pattern: str, folder: Path) -> None:
    """Wait for a file of the run."""
    end = time.monotonic() + LIMIT
    while not list(folder.glob(pattern)):
        if time.monotonic() > end:
            os.killpg(process.pid, signal.SIGKILL)
            pytest.fail(f"no {pattern} after {LIMIT} seconds")
        assert process.is_alive(), folder.with_suffix(".log").read_text()
        time.sleep(0.005)


def wait(process: Any) -> None:
    """Wait for its end; what hangs is killed, or pytest would wait for it at its own end."""
    process.join(LIMIT)
    if process.is_alive():
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail(f"still running after {LIMIT} seconds")


@pytest.mark.parametrize(
    ("size", "options", "moment", "number"),
    [
        (90, FOLDS, "calibration/*/checkpoint.pt", signal.SIGHUP),
        (2000, TRIALS, "trials/*/checkpoint.pt", signal.SIGTERM),
    ],
    ids=["folds side by side", "trials"],
)
def test_a_run_stops_with_130_leaves_no_process_and_goes_on(
    tmp_path: Path, size: int, options: Sequence[str], moment: str, number: signal.Signals
) -> None:
    data, out, whole = points(tmp_path / "d.npz", size), tmp_path / "run", tmp_path / "whole"
    process = begun(data, out, options)
    until(process, moment, out)
    os.kill(process.pid, number)
    wait(process)
    assert process.exitcode == 130
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert "Traceback" not in out.with_suffix(".log").read_text()
    assert list(out.glob(moment))  # what the folds and trials had done stays
    assert not (out / "summary.json").exists()
    for folder in (out, whole):
        again = begun(data, folder, options)
        wait(again)
        assert again.exitcode == 0, folder.with_suffix(".log").read_text()
    assert all((out / name).read_bytes() == (whole / name).read_bytes() for name in SAME)
    assert not (out / moment.split("/")[0]).exists()
