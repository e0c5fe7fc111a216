"""A command that gets no memory says so in a sentence; other errors keep their traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import torch

from labelproof.exit_codes import carry_out

FAILING = """
import torch
from labelproof.exit_codes import carry_out
carry_out(lambda: torch.empty(2**50))
"""


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def failing(error: Exception) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


def test_memory_that_is_not_there_is_a_sentence_at_the_end_of_a_process() -> None:
    command = [sys.executable, "-c", FAILING]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("labelproof: not enough memory")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA")])
def test_any_error_that_says_so_is_that_sentence(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        carry_out(failing(error))
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert told.startswith("labelproof: not enough memory")
    assert "Traceback" not in told


def test_another_error_is_not_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="a mistake"):
        carry_out(failing(RuntimeError("a mistake")))
    assert "not enough memory" not in capsys.readouterr().err
