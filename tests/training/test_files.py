"""Files appear whole or not at all."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from labelproof.files import (
    finite,
    folder_written_whole,
    write_json,
    write_text,
    written_whole,
)
from labelproof.messages import closest, cut_short, did_you_mean


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_the_block_ends_well(tmp_path):
    path = tmp_path / "labels.csv"
    with written_whole(path) as aside:
        aside.write_text("index,given\n")
        assert not path.exists()
        assert aside.parent == tmp_path  # a rename within one folder cannot fail half way
    assert path.read_text() == "index,given\n"
    assert names(tmp_path) == ["labels.csv"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_what_was_there_and_nothing_else(tmp_path, error):
    path = tmp_path / "labels.csv"
    path.write_text("old")
    with pytest.raises(error):  # noqa: PT012, SIM117
        with written_whole(path) as aside:
            aside.write_text("half")
            raise error
    assert path.read_text() == "old"
    assert names(tmp_path) == ["labels.csv"]


def test_a_block_that_writes_nothing_is_an_error_and_leaves_nothing(tmp_path):
    with pytest.raises(FileNotFoundError), written_whole(tmp_path / "labels.csv"):
        pass
    assert names(tmp_path) == []


def test_an_old_file_is_replaced(tmp_path):
    path = tmp_path / "notes.txt"
    write_text(path, "a long first version\n")
    write_text(path, "zwölf\n")
    assert path.read_text(encoding="utf-8") == "zwölf\n"


def test_json_can_be_read_by_anyone(tmp_path):
    path = tmp_path / "summary.json"
    content = {"nan": math.nan, "all": [math.inf, (1.5, -math.inf)], "path": Path("a"), "ü": True}
    write_json(path, content)

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    read = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    assert read == {"nan": None, "all": [None, [1.5, None]], "path": "a", "ü": True}


def test_json_that_cannot_be_written_leaves_nothing(tmp_path):
    def no_default(value: object) -> object:
        raise TypeError("no JSON for this")

    with pytest.raises(TypeError, match="no JSON"):
        write_json(tmp_path / "summary.json", {"value": object()}, default=no_default)
    assert names(tmp_path) == []


def test_numbers_that_are_no_numbers_become_none():
    assert finite(math.nan) is None
    assert finite({"a": [1, 2.5, math.inf, "text", None, True]}) == {
        "a": [1, 2.5, None, "text", None, True]
    }


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with folder_written_whole(tmp_path / "made") as aside:
        (aside / "one").write_text("1")
        assert not (tmp_path / "made").exists()
    assert (tmp_path / "made" / "one").read_text() == "1"
    with pytest.raises(ValueError, match="stopped"), folder_written_whole(tmp_path / "torn"):
        raise ValueError("stopped")
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_messages_hint_at_names_and_cut_lists_short() -> None:
    assert closest("dividemx", ["ce", "dividemix"]) == "dividemix"
    assert closest("dividemx", ["ce"]) is None
    assert did_you_mean("dividemx", {"dividemix": 1}) == "did you mean 'dividemix'? "
    assert did_you_mean("x", ["dividemix"]) == ""
    assert cut_short(["a", "b"], 2) == "a, b"
    assert cut_short(["a", "b"], 5) == "a, b and 3 more"
