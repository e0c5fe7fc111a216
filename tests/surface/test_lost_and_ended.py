"""A process that is ended while it tells of the loss of another one still tells of it."""

from __future__ import annotations

import os
import signal
import time

import pytest

from labelproof import exit_codes
from labelproof.errors import LOST, BadInput, PeerLost
from labelproof.exit_codes import carry_out


@pytest.fixture(autouse=True)
def _signals_as_before():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def interrupted(last: BaseException) -> None:
    try:
        raise PeerLost("another process ended: --resume continues.")
    finally:
        raise last


@pytest.mark.parametrize("last", [KeyboardInterrupt(), SystemExit(130)])
def test_the_first_process_says_it(last, monkeypatch, capsys) -> None:
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(SystemExit) as ended:
        carry_out(lambda: interrupted(last))
    assert ended.value.code == 1
    assert "labelproof: another process ended: --resume continues." in capsys.readouterr().err


@pytest.mark.parametrize(("last", "code"), [(KeyboardInterrupt(), 130), (SystemExit(2), 2)])
def test_a_single_process_ends_as_it_was_told(last, code, monkeypatch, capsys) -> None:
    monkeypatch.delenv("RANK", raising=False)

    def work() -> None:
        raise last

    with pytest.raises(SystemExit) as ended:
        carry_out(work)
    assert ended.value.code == code
    assert capsys.readouterr().err == ""


class Folder:
    """What `torchrun` tells two processes on one machine of the place where they may write."""

    def __init__(self, path, monkeypatch):
        self.path, self.monkeypatch = path, monkeypatch

    def rank(self, number: int) -> None:
        place = self.path / str(number)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a new process
        self.monkeypatch.setenv("RANK", str(number))
        self.monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(place / "error.json"))


@pytest.fixture
def start(tmp_path, monkeypatch) -> Folder:
    monkeypatch.setattr(exit_codes, "POLITE", 0.01)
    monkeypatch.setattr(exit_codes, "ENDED", 0.01)
    return Folder(tmp_path, monkeypatch)


def killed() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)


def code_of(work) -> int:
    with pytest.raises(SystemExit) as ended:
        carry_out(work)
    return ended.value.code


def test_another_process_speaks_where_the_first_cannot(start, capsys) -> None:
    for rank in (2, 1):
        start.rank(rank)
        assert code_of(killed) == 1
    assert capsys.readouterr().err == f"labelproof: {LOST}\n"  # one of them


def test_a_loss_is_told_also_where_the_signal_comes_first(start, monkeypatch, capsys) -> None:
    monkeypatch.setattr(exit_codes, "POLITE", 5.0)
    monkeypatch.setattr(exit_codes.time, "sleep", lambda seconds: seconds > 1 and ended_now())
    start.rank(1)
    assert code_of(lambda: interrupted(PeerLost(LOST))) == 1
    assert capsys.readouterr().err == f"labelproof: {LOST}\n"


def ended_now() -> None:
    raise KeyboardInterrupt


def test_the_others_are_silent_where_the_first_has_spoken(start, capsys) -> None:
    def refused() -> None:
        raise BadInput("runs/mine exists; name another folder.")

    start.rank(0)
    assert code_of(refused) == 2
    start.rank(1)
    assert code_of(lambda: interrupted(PeerLost(LOST))) == 1
    start.rank(2)
    assert code_of(killed) == 1
    assert capsys.readouterr().err == "labelproof: runs/mine exists; name another folder.\n"


def test_the_others_are_silent_where_the_first_was_stopped_by_its_user(start, capsys) -> None:
    for rank in (0, 1):
        start.rank(rank)
        code_of(killed)
    assert capsys.readouterr().err == ""
