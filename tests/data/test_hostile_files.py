"""Files that were made to do harm: each is refused in a sentence, soon and without much memory."""

from __future__ import annotations

import json
import os

import datasets
import pytest
from source_files import only_bad_input

from labelproof.data.readers import SourceOptions, delimited, from_arrays, load
from labelproof.errors import BadInput


@pytest.fixture
def saved(tmp_path):
    """A saved data set whose state.json names another data file."""

    def make(name):
        folder = tmp_path / "saved"
        rows = {"a": [0.5, 1.5] * 20, "label": ["u", "v"] * 20}
        datasets.Dataset.from_dict(rows).save_to_disk(folder)
        state = json.loads((folder / "state.json").read_text())
        old = state["_data_files"][0]["filename"]
        state["_data_files"] = [{"filename": name or old}]
        (folder / "state.json").write_text(json.dumps(state))
        return folder, old

    return make


def test_a_saved_data_set_is_still_read(saved):
    folder, _ = saved(None)
    assert len(load(folder)) == 40


@pytest.mark.parametrize("name", ["../other.arrow", "/dev/zero", "pipe", "."])
def test_a_saved_data_set_that_names_something_else(saved, tmp_path, name):
    folder, old = saved(name)
    (tmp_path / "other.arrow").write_bytes((folder / old).read_bytes())
    os.mkfifo(folder / "pipe")
    with pytest.raises(BadInput, match="is no file in saved"):
        load(folder)


def test_a_saved_data_set_whose_data_is_a_pipe(saved):
    folder, old = saved(None)
    (folder / old).unlink()
    os.mkfifo(folder / old)
    with pytest.raises(BadInput, match="is no file in saved"):
        load(folder)


@pytest.mark.parametrize(
    "state", ['{"_data_files": 3}', "[]", "[" * 100_000, '{"_data_files": [7]}']
)
def test_a_saved_data_set_with_an_odd_state(saved, state):
    folder, _ = saved(None)
    (folder / "state.json").write_text(state)
    assert only_bad_input(lambda: load(folder)) is None


@pytest.mark.parametrize("place", ["label", "text"])
def test_half_of_a_pair_of_surrogates(tmp_path, place):
    path, row = tmp_path / "t.jsonl", {"text": "a text of some length", "label": "u"}
    lines = [json.dumps({**row, "label": "uv"[k % 2]}) for k in range(9)]
    path.write_text("\n".join([*lines, json.dumps({**row, place: "\ud800"})]))
    with pytest.raises(BadInput, match="line 10 is not one"):
        load(path, SourceOptions(text_column="text"))


def test_whole_pairs_of_surrogates_are_letters(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(json.dumps({"a": k, "label": "😀😁"[k % 2]}) for k in range(9)))
    assert b"\\ud83d" in path.read_bytes()
    assert load(path).classes == ("😀", "😁")


def test_a_line_without_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "LONGEST_CELL", 2**20)
    path = tmp_path / "t.csv"
    with path.open("wb") as file:
        file.truncate(2**33)
    with pytest.raises(BadInput, match="a line has more than 1,048,576 characters"):
        load(path)


def test_texts_from_python_with_half_a_pair_are_read():
    texts = [f"a text number {k} \ud800" for k in range(8)]
    examples = from_arrays(texts, ["u", "v"] * 4)
    assert examples.captions[3] == "a text number 3 ?"
