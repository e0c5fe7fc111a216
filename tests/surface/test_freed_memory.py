"""The command line keeps freed memory, so that a step does not fetch it from the system again."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from labelproof import pipeline, process_memory
from labelproof.runs.spec import RunSpec

FAULTS = """
import resource, sys, torch
from torch import nn
from labelproof.__main__ import main
if {ours}:
    sys.argv = ["labelproof", "--version"]
    try:
        main()
    except SystemExit:
        pass
torch.set_num_threads(1)
layers = [nn.Sequential(nn.Conv2d(3 if i == 0 else 16, 16, 3), nn.ReLU()) for i in range(4)]
net, x, found = nn.Sequential(*layers), torch.randn(64, 3, 32, 32), []
for _ in range(6):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    net(x).sum().backward()
    found.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(sum(found[3:]))
"""


def pages_fetched(ours: bool) -> int:
    """Pages that the system hands out in three steps of training, after three others."""
    command = [sys.executable, "-c", FAULTS.format(ours=ours)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the C library of Linux")
def test_freed_memory_stays_with_the_process():
    # where the C library finds room varies from process to process, so there are three tries
    assert any(3 * pages_fetched(ours=True) < pages_fetched(ours=False) for _ in range(3))


MEMORY = """
import torch
from pathlib import Path
from labelproof.judging.health import neighbours
from labelproof.process_memory import give_back, keep_freed_memory
def kilobytes(what):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))
keep_freed_memory()
torch.set_num_threads(1)
vectors = torch.randn(20_000, 64)
neighbours(vectors[:100])
before = kilobytes("VmHWM")
neighbours(vectors)
print(kilobytes("VmHWM") - before)
blocks = [torch.ones(size) for _ in range(20) for size in (4_000_000, 1000)]
kept = blocks[1::2]  # small ones between the holes of the large ones
del blocks
before = kilobytes("VmRSS")
give_back()
print(before - kilobytes("VmRSS"))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_kept_memory_does_not_pile_up():
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    health, given_back = map(int, done.stdout.split())
    assert health < 200_000  # a block of 67 MB and results; 1.4 GB where each round takes another
    assert given_back > 100_000


def test_a_run_gives_freed_memory_back_after_each_stage(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(pipeline, "give_back", lambda: seen.append("back"))
    for name in ("assemble", "train", "judge"):
        monkeypatch.setattr(pipeline, name, noting(vars(pipeline)[name], name, seen))
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", x=rng.normal(size=(60, 4)), y=np.arange(60) % 3)
    one = {"epochs": 1}
    spec = RunSpec(data=str(tmp_path / "d.npz"), method="ce", settings=one, calibrate="off")
    pipeline.run(spec)
    assert seen == ["assemble", "back", "train", "back", "judge", "back"]


def noting(inner, name, seen):
    def outer(*args, **kwargs):
        found = inner(*args, **kwargs)
        seen.append(name)
        return found

    return outer


def test_the_benchmark_of_stages_runs_the_command_itself():
    code = """
import labelproof.__main__ as command
command.main = lambda: print("the command")
import stages
stages.main()
"""
    place = Path(__file__).parents[2] / "benchmarks"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=place)
    assert done.stdout.startswith("the command\n")


@pytest.mark.parametrize(
    ("most", "last"),
    [
        (1 << 30, [(process_memory.LARGE, 40 << 20), (process_memory.TRIM, 512 << 20)]),
        (32 << 20, [(process_memory.LARGE, 32 << 20), (process_memory.TRIM, 512 << 20)]),
        (0, [(process_memory.LARGE, 40 << 20), (process_memory.LARGE, 32 << 20)]),
    ],
)
def test_an_older_c_library_gets_what_it_takes(most, last, monkeypatch):
    asked = []

    class Library:
        def mallopt(self, option: int, value: int) -> int:
            asked.append((option, value))
            return int(option != process_memory.LARGE or value <= most)

    monkeypatch.setattr(process_memory.sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    process_memory.keep_freed_memory()
    assert asked[-2:] == last
