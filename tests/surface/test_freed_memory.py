"""The command line keeps freed memory, so that a step does not fetch it from the system again."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
    assert 3 * pages_fetched(ours=True) < pages_fetched(ours=False)
