"""Every test of this folder runs for every method, and none of them may hang."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from cases import CASES, WITH_EDL
from labelproof.training.protocol import Method

PATIENCE = 120  # seconds; a test takes one or two


@pytest.fixture(params=sorted(CASES | WITH_EDL))
def method(request: pytest.FixtureRequest) -> Method:
    return (CASES | WITH_EDL)[request.param]


@pytest.fixture(autouse=True)
def _no_hanging() -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise TimeoutError(f"not done after {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
