"""Imports without garbage collection."""

from __future__ import annotations

import gc

import pytest

from labelproof.process_memory import paused


def test_nothing_is_collected_in_the_block_and_what_is_there_is_left_alone() -> None:
    assert gc.isenabled()
    before = gc.get_freeze_count()
    try:
        with paused():
            assert not gc.isenabled()
            kept = [[] for _ in range(1000)]
        assert gc.isenabled()
        assert gc.get_freeze_count() >= before + len(kept)
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("enabled", [True, False])
def test_an_error_leaves_the_collector_as_it_was(enabled: bool) -> None:
    if not enabled:
        gc.disable()
    try:
        with pytest.raises(ImportError), paused():
            raise ImportError
        assert gc.isenabled() == enabled
    finally:
        gc.enable()
        gc.unfreeze()
