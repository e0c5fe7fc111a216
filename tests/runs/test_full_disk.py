"""Review decisions on a disk that fills up: a real one, of a few kilobytes."""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path

import pytest

from labelproof.errors import BadInput
from labelproof.runs.decisions import Known, open_decisions, read_decisions
from labelproof.runs.journal import Journal, locked
from small_disk import fill, small_disk

SIZE = 400
KNOWN = Known(
    ids=[f"row {i}" for i in range(SIZE)], given=["cat"] * SIZE, classes=frozenset(("cat", "dog"))
)


def wish(index: int) -> dict[str, object]:
    return {"index": index, "decision": "change", "label": "dog"}


def test_what_was_acknowledged_stays_and_nothing_else_comes(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64) as disk:
        decisions = open_decisions(disk, KNOWN)
        acknowledged, refused = [], []
        for index in range(SIZE):
            if index % 40 == 20:
                filler = fill(disk)
            if index % 40 == 35:
                filler.unlink()
            try:
                decisions.decide([wish(index)])
                acknowledged.append(index)
            except OSError:
                refused.append(index)
            assert sorted(read_decisions(disk, KNOWN).labels()) == acknowledged
        decisions.close()
        assert refused
        again = open_decisions(disk, KNOWN)
        assert sorted(again.labels()) == acknowledged
        again.close()
        assert not (disk / "decisions.jsonl.torn").exists()


def test_a_decision_larger_than_the_space_left_leaves_no_trace(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64) as disk:
        decisions = open_decisions(disk, KNOWN)
        decisions.decide([wish(0)])
        filler = fill(disk, leave=8192)
        before = (disk / "decisions.jsonl").read_bytes()
        with pytest.raises(OSError, match="No space left"):
            decisions.decide([wish(index) for index in range(1, SIZE)])
        assert (disk / "decisions.jsonl").read_bytes() == before
        filler.unlink()
        decisions.decide([wish(7)])
        decisions.close()
        assert sorted(read_decisions(disk, KNOWN).labels()) == [0, 7]


def test_a_file_system_without_locks_is_no_reason_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unknown)
    journal = Journal(tmp_path / "lines", "busy")
    journal.append(b"one\n")
    journal.close()
    with locked(tmp_path):
        assert (tmp_path / "lines").read_bytes() == b"one\n"


def test_a_journal_that_somebody_else_changes_or_removes_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "lines", "busy")
    journal.append(b"one\n")
    with pytest.raises(BadInput, match="busy"):
        Journal(tmp_path / "lines", "busy")
    with (tmp_path / "lines").open("ab") as file:
        file.write(b"two\n")
    with pytest.raises(BadInput, match="changed by another program"):
        journal.append(b"three\n")
    (tmp_path / "lines").unlink()
    with pytest.raises(BadInput, match="moved or removed"):
        journal.append(b"three\n")
    journal.close()
