"""Examples without a label: refused with a word on the option, or left out and listed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from source_files import picture

from labelproof.data.readers import SourceOptions, load
from labelproof.errors import BadInput

SKIP = SourceOptions(skip_unlabelled=True)
NOTE = "2 of 8 examples have no label and are left out (rows 3, 7, counting the header as row 1)"
GIVEN = ["x", "", "y", "x", "y", " ", "x", "y"]


def table(path: Path, **columns: list[object]) -> Path:
    numbers = [float(row) for row in range(8)]
    pd.DataFrame({"a": numbers, "label": GIVEN, **columns}).to_csv(path, index=False)
    return path


def test_a_refusal_names_the_option_but_not_for_true_or_test_labels(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv")
    with pytest.raises(BadInput, match=r"2 are blank .* or leave them out with --skip-unlabelled"):
        load(path)
    full = tmp_path / "full.csv"
    pd.DataFrame({"a": range(8), "label": list("xy" * 4), "t": GIVEN}).to_csv(full, index=False)
    with pytest.raises(BadInput, match="blank") as caught:
        load(full, SourceOptions(truth_key="t"))
    assert "--skip" not in str(caught.value)
    with pytest.raises(BadInput, match="blank") as caught:
        load(path, SKIP, like=load(full, SourceOptions(drop_columns=("t",))))
    assert "--skip" not in str(caught.value)


def test_rows_of_a_table_keep_their_number_or_name(tmp_path: Path) -> None:
    found = load(table(tmp_path / "t.csv"), SKIP)
    assert found.ids == ["0", "2", "3", "4", "6", "7"]
    assert found.labels is not None
    assert [found.classes[code] for code in found.labels] == ["x", "y", "x", "y", "x", "y"]
    assert found.about["warnings"][0] == NOTE
    assert found.about["unlabelled"] == [1, 5]
    assert found.captions is not None
    assert [*found.captions] == [f"a={row}.0" for row in (0, 2, 3, 4, 6, 7)]
    names = [f"r{row}" for row in range(8)]
    named = table(tmp_path / "n.csv", id=names, t=list("xx" + "xy" * 3), g=names)
    found = load(named, SourceOptions(skip_unlabelled=True, truth_key="t", group="g"))
    assert found.ids == ["r0", "r2", "r3", "r4", "r6", "r7"]
    assert found.groups == found.ids
    assert found.truth is not None
    assert found.truth.tolist() == [0, 0, 1, 0, 0, 1]


def test_true_labels_may_be_blank_where_the_given_one_is(tmp_path: Path) -> None:
    found = load(
        table(tmp_path / "t.csv", t=GIVEN), SourceOptions(skip_unlabelled=True, truth_key="t")
    )
    assert found.truth is not None
    assert found.truth.tolist() == found.labels.tolist()  # type: ignore[union-attr]


def test_arrays_files_and_parquet_vectors(tmp_path: Path) -> None:
    x, y = np.arange(16.0).reshape(8, 2), np.array([0, np.nan, 1, 0, 1, 0, 1, 0])
    np.savez(tmp_path / "a.npz", x=x, y=y, texts=np.array([f"t{row}" for row in range(8)]))
    found = load(tmp_path / "a.npz", SKIP)
    rows = [0, 2, 3, 4, 5, 6, 7]
    assert found.x.take(torch.arange(7))[:, 0].tolist() == (2.0 * np.array(rows)).tolist()
    assert found.captions == [f"t{row}" for row in rows]
    assert found.labels is not None
    assert found.labels.tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert "(row 1, counting from 0)" in found.about["warnings"][0]
    pd.DataFrame({"v": list(x), "label": GIVEN}).to_parquet(tmp_path / "v.parquet")
    found = load(tmp_path / "v.parquet", SKIP)
    assert found.x.take(torch.arange(6))[:, 0].tolist() == [0, 4, 6, 8, 12, 14]
    folder = tmp_path / "pics"
    folder.mkdir()
    for row in range(8):
        picture(row).save(folder / f"{row}.png")
    names = [f"{row}.png" for row in range(8)]
    pd.DataFrame({"file": names, "label": GIVEN}).to_csv(tmp_path / "l.csv", index=False)
    found = load(folder, SourceOptions(labels=tmp_path / "l.csv", skip_unlabelled=True))
    assert found.ids == [names[row] for row in (0, 2, 3, 4, 6, 7)]
    assert found.about["warnings"] == [NOTE]


def test_votes_of_people_who_skipped_an_example_together(tmp_path: Path) -> None:
    ann = ["x", "", "y", "x", "y", "", "x", "y"]
    bob = ["x", "", "", "x", "y", "", "y", "y"]
    data = pd.DataFrame({"a": [float(row) for row in range(8)], "ann": ann, "bob": bob})
    data.to_csv(tmp_path / "t.csv", index=False)
    people = SourceOptions(annotators=("ann", "bob"))
    with pytest.raises(BadInput, match=r"2 have none \(rows 3, 7, counting the header as row 1\)"):
        load(tmp_path / "t.csv", people)
    found = load(tmp_path / "t.csv", SourceOptions(annotators=("ann", "bob"), skip_unlabelled=True))
    assert found.votes is not None
    assert found.votes.table.tolist() == [[0, 0], [1, -1], [0, 0], [1, 1], [0, 1], [1, 1]]
    assert NOTE in found.about["warnings"]
    assert any("1 of 6 examples has one vote only" in note for note in found.about["warnings"])
    assert any("1 of 6 examples has no clear majority" in n for n in found.about["warnings"])
    assert found.labels is not None
    assert found.labels.tolist() == [0, 1, 0, 1, 0, 1]


def test_pictures_nobody_voted_on_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "pics"
    folder.mkdir()
    for row in range(4):
        picture(row).save(folder / f"{row}.png")
    said = {"ann": ["x", "", "y", "x"], "bob": ["x", "", "y", "y"]}
    votes = pd.DataFrame({"file": [f"{row}.png" for row in range(4)], **said})
    votes.to_csv(tmp_path / "v.csv", index=False)
    options = SourceOptions(labels=tmp_path / "v.csv", annotators=("ann", "bob"))
    with pytest.raises(BadInput, match="--skip-unlabelled"):
        load(folder, options)
    found = load(
        folder,
        SourceOptions(labels=tmp_path / "v.csv", annotators=("ann", "bob"), skip_unlabelled=True),
    )
    assert found.ids == ["0.png", "2.png", "3.png"]
    assert found.labels is not None
    assert found.labels.tolist() == [0, 1, 0]
