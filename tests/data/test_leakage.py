"""A new user's mistakes with a table: forgotten options, true labels among the features."""

from __future__ import annotations

import zipfile

import numpy as np
import pandas as pd
import pytest

from labelproof.data.readers import SourceOptions, from_arrays, load
from labelproof.errors import BadInput

RNG = np.random.default_rng(0)
SIZE = 200
WORDS = ["the parcel came late", "good quality and fast", "would buy again any time", "never again"]


def table(tmp_path, classes=("neg", "neu", "pos"), noise=0.3, **columns):
    clean = RNG.choice(classes, SIZE)
    label = np.where(RNG.random(SIZE) < noise, RNG.choice(classes, SIZE), clean)
    text = [f"{RNG.choice(WORDS)} {RNG.choice(WORDS)} no. {i}" for i in range(SIZE)]
    frame = pd.DataFrame({"text": text, "clean": clean, **columns, "label": label})
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def test_a_forgotten_text_column_is_found_and_true_labels_are_no_feature(tmp_path):
    found = load(table(tmp_path))
    assert found.about["columns"]["text"] == "text"
    assert "'clean' equals the label in" in found.about["warnings"][0]
    assert "--truth-key clean" in found.about["warnings"][0]


def test_a_text_beside_features_is_pointed_out(tmp_path):
    found = load(table(tmp_path, age=RNG.integers(20, 60, SIZE)))
    assert [column.name for column in found.encoder.columns] == ["age"]
    assert any("looks like text" in note and "--text-column text" in note
               for note in found.about["warnings"])  # fmt: skip


def test_a_feature_that_shares_two_words_with_the_label_is_kept(tmp_path):
    smoker = RNG.choice(["yes", "no"], SIZE)
    path = table(tmp_path, classes=("yes", "no"), smoker=smoker, age=RNG.integers(20, 60, SIZE))
    names = [column.name for column in load(path).encoder.columns]
    assert "smoker" in names
    assert "clean" not in names


@pytest.mark.parametrize("merge", [False, True])
def test_labels_that_differ_in_capitals_alone(tmp_path, merge):
    labels = RNG.choice(["OK", "ok", "ok ", "bad"], SIZE)
    pd.DataFrame({"a": RNG.normal(size=SIZE), "label": labels}).to_csv(tmp_path / "t.csv")
    found = load(tmp_path / "t.csv", SourceOptions(merge_labels=merge))
    assert found.classes == (("bad", "ok") if merge else ("OK", "bad", "ok"))
    assert any("--merge-labels" in note for note in found.about["warnings"]) is not merge


def test_json_lines_and_excel_are_read_like_csv(tmp_path):
    frame = pd.DataFrame({"a": RNG.normal(size=30), "b": RNG.choice(["u", "v"], 30),
                          "label": RNG.choice(["x", "y"], 30)})  # fmt: skip
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True, double_precision=15)
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    first = load(tmp_path / "t.csv")
    for name in ("t.jsonl", "t.xlsx"):
        found = load(tmp_path / name)
        assert found.classes == first.classes
        assert np.array_equal(found.labels, first.labels)
        assert np.allclose(found.x.data, first.x.data, atol=1e-6)


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": [1], "label": 2}', '"x"', "", "\n\n"])
def test_other_json_lines_are_refused(tmp_path, text):
    (tmp_path / "t.jsonl").write_text(text)
    with pytest.raises(BadInput):
        load(tmp_path / "t.jsonl")
    (tmp_path / "t.xlsx").write_text(text)
    with pytest.raises(BadInput, match="Excel"):
        load(tmp_path / "t.xlsx")


@pytest.mark.parametrize(
    "row",
    [
        '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>',
        '<row r="1048576">' + "<c><v>1</v></c>" * 500 + "</row>",
    ],
)
def test_a_small_excel_file_that_unfolds_to_billions_of_cells_is_refused(tmp_path, row):
    pd.DataFrame({"a": [1.0, 2.0], "label": ["x", "y"]}).to_excel(tmp_path / "t.xlsx")
    with (
        zipfile.ZipFile(tmp_path / "t.xlsx") as old,
        zipfile.ZipFile(tmp_path / "far.xlsx", "w") as new,
    ):
        for name in old.namelist():
            text = old.read(name).decode()
            new.writestr(name, text.replace("</sheetData>", f"{row}</sheetData>"))
    with pytest.raises(BadInput, match="cells are spread over 1,048,576 rows"):
        load(tmp_path / "far.xlsx")


def test_lists_of_texts_from_python():
    texts = [f"{'good fine great' if i % 2 else 'bad poor awful'} thing {i}" for i in range(40)]
    labels = ["pos" if i % 2 else "neg" for i in range(40)]
    train = from_arrays(texts[:30], labels[:30], x_test=texts[30:], y_test=labels[30:])
    assert train.captions[0] == texts[0]
    assert len(train.test) == 10
    assert len(from_arrays(np.array(texts[:3]), None, like=train)) == 3


@pytest.mark.parametrize("gap", [None, float("nan"), pd.NA])
def test_a_gap_among_texts_is_an_empty_text(gap):
    texts = [f"{'good fine great' if i % 2 else 'bad poor awful'} thing {i}" for i in range(30)]
    found = from_arrays([*texts, gap], [i % 2 for i in range(31)])
    assert found.captions[-1] == ""


def test_advice_quotes_the_name_of_a_column_for_the_shell(tmp_path):
    path = table(tmp_path, age=RNG.integers(20, 60, SIZE))
    frame = pd.read_csv(path).rename(columns={"text": "my text", "clean": "the truth"})
    frame.to_csv(path, index=False)
    notes = " ".join(load(path).about["warnings"])
    assert "--text-column 'my text'" in notes
    assert "--truth-key 'the truth'" in notes
