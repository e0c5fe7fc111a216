"""Work in processes beside this one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from labelproof.errors import BadInput, RunFailed
from labelproof.training import side_by_side
from labelproof.training.log import Reporter
from labelproof.training.side_by_side import Work, at_once, beside, can_fork, one_thread

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def values(works: list[Work], room: int) -> list[Any]:
    with beside(works, room) as begun:
        assert begun is not None
        return begun.values()


def test_values_come_in_order_from_processes_with_one_thread() -> None:
    def work(number: int, reporter: Reporter) -> tuple[int, int, int, torch.Tensor]:
        time.sleep(0.1 * (2 - number))  # the last ends first
        grown = torch.ones(2, requires_grad=True)
        (grown * number).sum().backward()
        return number, os.getpid(), torch.get_num_threads(), grown.grad

    with beside([partial(work, n) for n in range(3)], 2) as begun:
        values = begun.values()
    assert [value[0] for value in values] == [0, 1, 2]
    assert len({value[1] for value in values} | {os.getpid()}) == 4
    assert {value[2] for value in values} == {1}
    assert [value[3].tolist() for value in values] == [[0.0] * 2, [1.0] * 2, [2.0] * 2]


def test_no_more_at_once_than_there_is_room(tmp_path: Path) -> None:
    def work(number: int, reporter: Reporter) -> int:
        (tmp_path / str(number)).touch()
        time.sleep(0.05)
        here = len(list(tmp_path.iterdir()))
        (tmp_path / str(number)).unlink()
        return here

    with beside([partial(work, n) for n in range(4)], 0) as begun:
        time.sleep(0.2)
        assert not list(tmp_path.iterdir())  # all wait
        begun.more_room()
        assert begun.values() == [1, 1, 1, 1]


def test_the_reporter_hears_of_each_piece_as_one() -> None:
    class Heard(Reporter):
        calls: list[Any]

        def __init__(self) -> None:
            self.calls = []

        def start(self, name: str, epochs: int, done: int, unit: str = "epochs") -> None:
            self.calls.append(("start", epochs, done))

        def epoch(self, line: Any) -> None:
            self.calls.append(("epoch", line["epoch"]))

        def step(self) -> None:
            self.calls.append("step")

        def close(self) -> None:
            self.calls.append("close")

    def work(reporter: Reporter) -> None:
        reporter.start("training", 2, 1)
        reporter.epoch({"epoch": 2})

    heard = Heard()
    with beside([work], 1) as begun:
        begun.values(heard)
    whole = [call for call in heard.calls if call != "step"]
    assert whole == [("start", 2, 1), ("epoch", 2), "close"]


@pytest.mark.parametrize(
    "error", [BadInput("no such thing."), RunFailed("it diverged."), OSError(28, "full")]
)
def test_an_error_is_raised_here_and_ends_the_others(error: Exception, tmp_path: Path) -> None:
    def fail(reporter: Reporter) -> None:
        raise error

    def wait(reporter: Reporter) -> None:
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(60)

    with (
        pytest.raises(type(error), match=str(error).split("]")[-1].strip()),
        beside([wait, fail], 2) as begun,
    ):
        begun.values()
    if (tmp_path / "pid").exists():
        assert not _alive(int((tmp_path / "pid").read_text()))


def test_a_killed_process_is_a_sentence() -> None:
    def die(reporter: Reporter) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(RunFailed, match=r"exit code -9.*--resume"), beside([die], 1) as begun:
        begun.values()


def test_a_killed_parent_leaves_no_process(tmp_path: Path) -> None:
    code = f"""
import os, pathlib, time
from labelproof.training.side_by_side import beside
def work(reporter):
    pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch()
    time.sleep(60)
with beside([work, work], 2) as begun:
    begun.values()
"""
    parent = subprocess.Popen([sys.executable, "-c", code])
    while len(list(tmp_path.iterdir())) < 2:
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    pids = [int(path.name) for path in tmp_path.iterdir()]
    end = time.monotonic() + 5
    while any(map(_alive, pids)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(map(_alive, pids))


def test_how_many_at_once_follows_from_the_threads() -> None:
    assert [at_once(CPU, count) for count in (1, 2, 5)] == [1, 2, 2]
    assert at_once(torch.device("meta"), 5) == 1
    with one_thread():
        assert at_once(CPU, 5) == 1
    torch.set_num_threads(16)
    assert [at_once(CPU, count) for count in (2, 10)] == [1, 10]


def test_where_no_process_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert can_fork()
    with ThreadPoolExecutor(1) as pool:
        assert not pool.submit(can_fork).result()
    with monkeypatch.context() as here:
        here.setenv("OMP_NUM_THREADS", "1")
        assert not can_fork()
    with monkeypatch.context() as here:
        here.setattr(side_by_side.torch.cuda, "is_available", lambda: True)
        assert not can_fork()
    monkeypatch.setattr(side_by_side.sys, "platform", "darwin")
    assert not can_fork()


def test_a_fork_that_fails_ends_those_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    forks = [os.fork, os.fork]
    monkeypatch.setattr(os, "fork", lambda: forks.pop()() if forks else _refused())
    with beside([lambda reporter: time.sleep(60)] * 3, 3) as begun:
        assert begun is None
        assert not forks
        assert not multiprocessing.active_children()


def _refused() -> int:
    raise BlockingIOError(11, "no more processes")


def test_ctrl_c_comes_after_all_are_begun() -> None:
    """A child that inherits the signal must not unwind as its parent would."""

    def interrupting(reporter: Reporter) -> None:
        time.sleep(60)

    fork, before = os.fork, signal.getsignal(signal.SIGINT)

    def forked() -> int:
        if (child := fork()) != 0:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(child, signal.SIGINT)
        return child

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.MonkeyPatch.context() as here:
            here.setattr(os, "fork", forked)
            with pytest.raises(KeyboardInterrupt):
                values([interrupting] * 3, 3)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not multiprocessing.active_children()


def test_an_error_that_cannot_be_sent_is_told_in_words() -> None:
    class Odd(Exception):
        def __init__(self, first: int, second: int) -> None:
            super().__init__(f"{first} and {second}")

    def fail(error: Exception, reporter: Reporter) -> None:
        raise error

    with pytest.raises(RunFailed, match="Odd: 1 and 2"):
        values([partial(fail, Odd(1, 2))], 1)
    with pytest.raises(TypeError, match="of a network") as raised:
        values([partial(fail, TypeError("of a network"))], 1)
    assert "in fail" in raised.value.__notes__[0]


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"
