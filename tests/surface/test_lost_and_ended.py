"""A process that is ended while it tells of the loss of another one still tells of it."""

from __future__ import annotations

import signal

import pytest

from labelproof.errors import PeerLost
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
