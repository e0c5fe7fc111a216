"""A short part of `make campaign`: every reader against a few mutated files, always the same.

Kills are tested in tests/training/test_killed.py, full disks in tests/runs/test_full_disk.py.
"""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
from campaign import readers

from labelproof.errors import BadInput
from labelproof.runs.journal import locked

HOLDER = """
import sys, time
from pathlib import Path
from labelproof.runs.journal import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_mutated_files_are_read_or_refused_in_a_sentence(tmp_path):
    found = dict(readers.campaign(tmp_path, calls=6, seed=2))
    assert len(found) >= 28
    failed = {name: dict(tally.examples) for name, tally in found.items() if tally.failed}
    assert not failed
    assert sum(tally.calls for tally in found.values()) == 6 * len(found)


def test_a_second_process_is_refused_and_a_killed_owner_frees_the_folder(tmp_path):
    words = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            assert owner.stdout.readline() == "held\n"
            with pytest.raises(BadInput), locked(tmp_path):
                pass
        finally:
            owner.kill()
            owner.wait()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            with locked(tmp_path):
                return
        except BadInput:  # the system frees it a moment after the kill
            time.sleep(0.05)
    pytest.fail("the lock of a killed process stays")


def test_mutations_follow_from_the_seed():
    import random

    from campaign.mutate import mutated

    whole = np.arange(200, dtype=np.uint8).tobytes()
    first, second = (mutated(whole, random.Random(3)) for _ in range(2))
    assert first == second != whole
