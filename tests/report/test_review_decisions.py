"""decisions.jsonl: what was decided is there after a kill, an undo, an edit by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import made_run

from labelproof.errors import BadInput
from labelproof.runs.decisions import Decisions, Known, open_decisions, read_decisions

SIZE = 6
CLASSES = ("cat", "dog", "owl")
KNOWN = Known(
    ids=[f"row {i}" for i in range(SIZE)],
    given=[CLASSES[i % 3] for i in range(SIZE)],
    classes=frozenset(CLASSES),
)


def keep(index: int) -> dict[str, object]:
    return {"index": index, "decision": "keep", "label": KNOWN.given[index]}


def change(index: int, label: str) -> dict[str, object]:
    return {"index": index, "decision": "change", "label": label}


def test_what_is_decided_is_in_the_file_before_the_call_returns(tmp_path: Path) -> None:
    decisions = open_decisions(tmp_path, KNOWN)
    decisions.decide([change(2, "dog")])
    line = json.loads((tmp_path / "decisions.jsonl").read_text())
    assert (line["index"], line["id"], line["given"]) == (2, "row 2", "owl")
    assert (line["decision"], line["label"]) == ("change", "dog")
    assert read_decisions(tmp_path, KNOWN).labels() == {2: "dog"}


def test_the_line_is_synced_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(os.fstat(number).st_size))
    open_decisions(tmp_path, KNOWN).decide([keep(0)])
    assert synced[-1] == (tmp_path / "decisions.jsonl").stat().st_size


def test_undo_brings_back_what_stood_before(tmp_path: Path) -> None:
    decisions = open_decisions(tmp_path, KNOWN)
    decisions.decide([change(1, "owl")])
    decisions.decide([change(1, "cat")])
    decisions.decide([keep(0), keep(3), {"index": 4, "decision": "skip"}])
    assert decisions.undo() == [0, 3, 4]
    assert decisions.undo() == [1]
    assert decisions.labels() == {1: "owl"}
    assert decisions.undo() == [1]
    assert decisions.undo() == []
    assert decisions.labels() == {}
    assert len((tmp_path / "decisions.jsonl").read_text().splitlines()) == 5 + 3


def test_steps_of_an_earlier_sitting_can_be_undone(tmp_path: Path) -> None:
    first = open_decisions(tmp_path, KNOWN)
    first.decide([keep(0)])
    first.decide([keep(1)])
    first.undo()
    first.close()
    second = open_decisions(tmp_path, KNOWN)
    second.decide([keep(2)])
    assert second.undo() == [2]
    assert second.undo() == [0]


steps = st.lists(
    st.one_of(
        st.none(),
        st.lists(
            st.tuples(st.integers(0, SIZE - 1), st.sampled_from([*CLASSES, "skip"])),
            min_size=1,
            max_size=3,
        ),
    ),
    max_size=15,
)


@settings(max_examples=60, deadline=None)
@given(steps)
def test_reading_back_gives_the_same_as_a_list_of_steps(
    tmp_path_factory: pytest.TempPathFactory, plan: list[list[tuple[int, str]] | None]
) -> None:
    folder = tmp_path_factory.mktemp("model")
    decisions = open_decisions(folder, KNOWN)
    model: list[list[tuple[int, str]]] = []
    for step in plan:
        if step is None:
            decisions.undo()
            model[-1:] = []
            continue
        model.append(step)
        decisions.decide([_wish(index, name) for index, name in step])
    expected = {index: name for step in model for index, name in step}
    expected = {index: name for index, name in expected.items() if name != "skip"}
    assert decisions.labels() == expected
    assert read_decisions(folder, KNOWN).labels() == expected
    decisions.close()


def _wish(index: int, name: str) -> dict[str, object]:
    if name == "skip":
        return {"index": index, "decision": "skip"}
    return keep(index) if name == KNOWN.given[index] else change(index, name)


@pytest.mark.parametrize("cut", [1, 5, 40, 80])
def test_a_line_cut_by_a_kill_is_set_aside_and_the_rest_stands(tmp_path: Path, cut: int) -> None:
    first = open_decisions(tmp_path, KNOWN)
    first.decide([keep(0)])
    first.decide([keep(1)])
    first.close()
    path = tmp_path / "decisions.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut] if cut > 1 else whole + b'{"st')
    kept = {0: "cat", 1: "dog"} if cut == 1 else {0: "cat"}
    assert read_decisions(tmp_path, KNOWN).labels() == kept
    again = open_decisions(tmp_path, KNOWN)
    assert again.labels() == kept
    again.decide([keep(2)])
    again.close()
    assert read_decisions(tmp_path, KNOWN).labels() == {**kept, 2: "owl"}
    assert (tmp_path / "decisions.jsonl.torn").read_bytes().strip()


def test_a_whole_last_line_without_its_line_break_counts(tmp_path: Path) -> None:
    first = open_decisions(tmp_path, KNOWN)
    first.decide([keep(0)])
    first.close()
    path = tmp_path / "decisions.jsonl"
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    second = open_decisions(tmp_path, KNOWN)
    second.decide([keep(1)])
    second.close()
    assert read_decisions(tmp_path, KNOWN).labels() == {0: "cat", 1: "dog"}


GOOD = '{"step": 1, "index": 0, "id": "row 0", "given": "cat", "decision": "keep", "label": "cat"}'
EDITS = {
    "no JSON": "keep row 0",
    "a list": "[1, 2]",
    "no step": GOOD.replace('"step": 1, ', ""),
    "a step in words": GOOD.replace('"step": 1', '"step": "one"'),
    "an example that is not there": GOOD.replace('"index": 0', '"index": 99'),
    "true for an index": GOOD.replace('"index": 0', '"index": true'),
    "another example's name": GOOD.replace("row 0", "row 1"),
    "another given label": GOOD.replace('"given": "cat"', '"given": "dog"'),
    "no such decision": GOOD.replace("keep", "burn"),
    "no such class": GOOD.replace('"label": "cat"', '"label": "cow"'),
    "keeping another label": GOOD.replace('"label": "cat"', '"label": "dog"'),
    "undoing nothing": '{"step": 2, "undo": 7}',
    "undoing twice": '{"step": 2, "undo": 1}\n{"step": 3, "undo": 1}',
    "not UTF-8": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("edit", EDITS, ids=str)
def test_a_line_spoilt_by_hand_is_named_and_nothing_is_lost(tmp_path: Path, edit: str) -> None:
    line = EDITS[edit]
    path = tmp_path / "decisions.jsonl"
    raw = line if isinstance(line, bytes) else line.encode()
    path.write_bytes(GOOD.encode() + b"\n\n" + raw + b"\n" + GOOD.encode() + b"\n")
    before = path.read_bytes()
    number = 4 if edit == "undoing twice" else 3
    for reader in (read_decisions, open_decisions):
        with pytest.raises(BadInput, match=f"line {number} of .*decisions.jsonl") as refusal:
            reader(tmp_path, KNOWN)
        assert "\n" not in str(refusal.value)
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    "wish",
    [
        {"index": 9, "decision": "keep", "label": "cat"},
        {"index": "0", "decision": "keep", "label": "cat"},
        {"index": 0, "decision": "change", "label": "cow"},
        {"index": 0, "decision": "change"},
        {"index": 0},
        {},
    ],
)
def test_a_senseless_decision_leaves_no_trace(tmp_path: Path, wish: dict[str, object]) -> None:
    decisions = open_decisions(tmp_path, KNOWN)
    with pytest.raises(BadInput):
        decisions.decide([keep(1), wish])
    assert (tmp_path / "decisions.jsonl").read_bytes() == b""
    assert decisions.labels() == {}


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = open_decisions(tmp_path, KNOWN)
    decisions.decide([keep(0)])

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            decisions.decide([keep(1)])
    decisions.decide([keep(2)])
    assert read_decisions(tmp_path, KNOWN).labels() == {0: "cat", 2: "owl"} == decisions.labels()


def test_only_one_review_of_a_run_at_a_time(tmp_path: Path) -> None:
    first = open_decisions(tmp_path, KNOWN)
    with pytest.raises(BadInput, match="being reviewed already"):
        open_decisions(tmp_path, KNOWN)
    first.close()
    open_decisions(tmp_path, KNOWN).close()


def test_decisions_to_look_at_cannot_be_added_to() -> None:
    with pytest.raises(BadInput):
        Decisions(KNOWN, ()).decide([keep(0)])


def test_a_made_run_can_be_reviewed(tmp_path: Path) -> None:
    from labelproof.runs.reviewed import open_review

    review = open_review(made_run(tmp_path / "run"), write=True)
    index = int(review.rows.index[0])
    review.decisions.decide([{"index": index, "decision": "change", "label": "owl"}])
    labels = review.rows.labels()
    labels[index] = 2
    assert review.corrected().tolist() == labels.tolist()
