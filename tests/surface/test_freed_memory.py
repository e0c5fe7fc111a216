"""The command line keeps freed memory, so that a step does not fetch it from the system again."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from labelproof import process_memory

FAULTS = """
import resource, sys, torch
from labelproof.__main__ import main
if {ours}:
    sys.argv = ["labelproof", "--version"]
    try:
        main()
    except SystemExit:
        pass
for step in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(1 << 24)  # 64 MB, more than the C library keeps by itself
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def pages_fetched(ours: bool) -> int:
    """Pages that the system hands out for memory that was freed just before."""
    command = [sys.executable, "-c", FAULTS.format(ours=ours)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the C library of Linux")
def test_freed_memory_stays_with_the_process():
    assert 3 * pages_fetched(ours=True) < pages_fetched(ours=False)


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
