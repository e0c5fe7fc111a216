"""A reader that goes away does not end a command: `labelproof fit ... | head -1` trains on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TALK = """
import sys
from pathlib import Path
from labelproof.exit_codes import carry_out

def work():
    print("first", flush=True)
    sys.stdin.readline()
    for _ in range(20_000):
        print("nobody listens")
        sys.stderr.write("to this\\n")
    Path(sys.argv[1]).write_text("done")

carry_out(work)
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_is_written_to_in_silence(tmp_path: Path, unbuffered: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", TALK, str(tmp_path / "made")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    assert process.stdin
    assert process.stdout
    assert process.stdout.readline() == b"first\n"
    process.stdout.close()
    process.stdin.close()
    assert process.wait(60) == 0
    assert (tmp_path / "made").read_text() == "done"
