"""A command that gets no memory says so in a sentence; other errors keep their traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

WORK = """
import torch
from labelproof.exit_codes import carry_out

def work():
    {what}

carry_out(work)
"""


def ended(what: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WORK.format(what=what)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "what", ["torch.empty(2**50)", "raise MemoryError", "raise torch.OutOfMemoryError('CUDA')"]
)
def test_memory_that_is_not_there_is_a_sentence(what: str) -> None:
    done = ended(what)
    assert done.returncode == 1
    assert done.stderr.startswith("labelproof: not enough memory")
    assert "Traceback" not in done.stderr


def test_another_error_is_not_called_so() -> None:
    done = ended("raise RuntimeError('a mistake')")
    assert done.returncode == 1
    assert "a mistake" in done.stderr
    assert "not enough memory" not in done.stderr
