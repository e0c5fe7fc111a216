"""labels.csv and its index: what is written comes back, whichever of the two is read."""

from __future__ import annotations

import numpy as np
import pytest

from labelproof.errors import BadInput
from labelproof.judging.label_table import LabelRows, Names
from labelproof.runs import labels_file, labels_index

CLASSES = ["ant", "b, c", "=d"]
SIZE = 1000
NUMBERS = ("p_clean", "p_suggested", "margin")
FILE, INDEX = "labels.csv", "labels.index.npz"


def some_rows(ids: list[str] | None) -> LabelRows:
    rng = np.random.default_rng(0)
    order = rng.permutation(SIZE)
    return LabelRows(
        index=order,
        ids=Names(ids, order),
        given=rng.integers(3, size=SIZE),
        suggested=rng.integers(3, size=SIZE),
        p_clean=rng.random(SIZE, dtype=np.float32).astype(np.float64),
        p_suggested=rng.random(SIZE),
        margin=9 * rng.normal(size=SIZE),
        suspect=rng.random(SIZE) < 0.2,
    )


def agree(found: LabelRows, rows: LabelRows) -> None:
    for name in ("index", "given", "suggested", "suspect"):
        assert np.array_equal(vars(found)[name], vars(rows)[name]), name
    for name in NUMBERS:
        expected = [float(f"{value:.6f}") for value in vars(rows)[name]]
        assert vars(found)[name].tolist() == expected, name
    assert list(found.ids) == list(rows.ids)
    assert list(found.names()) == list(rows.names())


@pytest.fixture(params=[None, [f"=x,{row}\né" for row in range(SIZE)]], ids=["numbers", "names"])
def rows(request):
    return some_rows(request.param)


def test_rows_come_back_in_blocks_and_by_the_index(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(labels_file, "BLOCK", 64)
    labels_file.write_rows(tmp_path, rows, CLASSES)
    assert not (tmp_path / INDEX).exists()
    agree(labels_file.read_rows(tmp_path, CLASSES, SIZE), rows)
    monkeypatch.setattr(labels_index, "FEWEST", 1)
    labels_file.write_rows(tmp_path, rows, CLASSES)
    monkeypatch.setattr(labels_file, "_blocks", None)  # labels.csv itself is not parsed
    agree(labels_file.read_rows(tmp_path, CLASSES, SIZE), rows)


@pytest.mark.parametrize("harm", ["cut", "edited", "other csv", "empty"])
def test_without_a_sound_index_labels_csv_is_read(rows, harm, tmp_path, monkeypatch):
    monkeypatch.setattr(labels_index, "FEWEST", 1)
    labels_file.write_rows(tmp_path, rows, CLASSES)
    index, file = tmp_path / INDEX, tmp_path / FILE
    if harm == "cut":
        index.write_bytes(index.read_bytes()[:-300])
    elif harm == "edited":
        arrays = dict(np.load(index))
        np.savez(index, **{**arrays, "given": arrays["given"] + 3})
    elif harm == "empty":
        index.write_bytes(b"")
    else:
        place = int(np.flatnonzero(rows.suspect)[0])
        file.write_bytes(file.read_bytes().replace(b",1\n", b",0\n"))
        found = labels_file.read_rows(tmp_path, CLASSES, SIZE)
        assert not found.suspect[place]
        return
    agree(labels_file.read_rows(tmp_path, CLASSES, SIZE), rows)


def test_too_many_rows_and_missing_ones_are_refused(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(labels_file, "BLOCK", 64)
    labels_file.write_rows(tmp_path, rows, CLASSES)
    for size in (SIZE - 1, SIZE - 100, SIZE + 1):
        with pytest.raises(BadInput, match=f"each of the {size} training examples"):
            labels_file.read_rows(tmp_path, CLASSES, size)
    lines = (tmp_path / FILE).read_text(encoding="utf-8").replace(",0\n", "\n", 1)
    (tmp_path / FILE).write_text(lines, encoding="utf-8")
    with pytest.raises(BadInput, match="7 cells in row"):
        labels_file.read_rows(tmp_path, CLASSES, SIZE)


def test_a_short_table_takes_an_old_index_away(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(labels_index, "FEWEST", 1)
    labels_file.write_rows(tmp_path, rows, CLASSES)
    monkeypatch.setattr(labels_index, "FEWEST", SIZE + 1)
    labels_file.write_rows(tmp_path, rows, CLASSES)
    assert not (tmp_path / INDEX).exists()


def test_a_file_of_holes_is_not_read(tmp_path):
    with (tmp_path / "labels.csv").open("wb") as file:
        file.truncate(50 << 30)
    with pytest.raises(BadInput, match="more bytes than its 3 rows can take"):
        labels_file.read_rows(tmp_path, ["a", "b"], 3)
