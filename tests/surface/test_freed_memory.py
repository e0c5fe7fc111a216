"""The command line keeps freed memory, so that a step does not fetch it from the system again."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from labelproof import process_memory

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


@pytest.mark.parametrize(
    ("most", "last"),
    [
        (1 << 30, [(process_memory.LARGE, 128 << 20), (process_memory.TRIM, 512 << 20)]),
        (32 << 20, [(process_memory.LARGE, 32 << 20), (process_memory.TRIM, 512 << 20)]),
        (0, [(process_memory.LARGE, 128 << 20), (process_memory.LARGE, 32 << 20)]),
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
