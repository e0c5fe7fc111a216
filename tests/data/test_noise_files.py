"""Corrupting a file of labels: a new file, every other byte as it was, a record beside it."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelproof.data.readers import load
from labelproof.errors import BadInput
from labelproof.noise import corrupt_file
from labelproof.noise.label_files import find_labels, replaced

TABLE = (
    "\ufefffile;label;note\r\n"
    + "".join(
        f'"img;{i}.png";{"cat" if i % 2 else "dog"};"said ""hi""\n and left"\r\n' for i in range(50)
    )
    + "last.png;cat;plain"
)


def rows(text: str, delimiter: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text.lstrip("\ufeff"), newline=""), delimiter=delimiter))


def test_csv_keeps_every_other_byte(tmp_path):
    source = tmp_path / "labels.csv"
    source.write_bytes(TABLE.encode())
    done = corrupt_file(source, "symmetric-exclusive", 0.4, seed=1, out=tmp_path / "noisy.csv")
    text = done.out.read_bytes().decode()
    before, after = rows(TABLE, ";"), rows(text, ";")
    assert [[r[0], r[2]] for r in before] == [[r[0], r[2]] for r in after]
    changed = sum(a[1] != b[1] for a, b in zip(before, after, strict=True))
    assert changed == int(0.4 * 51)
    assert done.noise.realised == changed / 51
    assert text.replace("cat", "").replace("dog", "") == TABLE.replace("cat", "").replace("dog", "")
    assert source.read_bytes() == TABLE.encode()


def test_record_beside_it(tmp_path):
    source = tmp_path / "labels.csv"
    source.write_text(TABLE, encoding="utf-8", newline="")
    done = corrupt_file(source, "pair", 0.3, seed=2)
    assert done.out == tmp_path / "labels.pair-0.3.csv"
    about = json.loads(done.record.read_text())
    assert done.record.name == "labels.pair-0.3.csv.json"
    assert about["classes"] == ["cat", "dog"]
    assert about["realised"] == done.noise.realised
    assert np.allclose(about["matrix"], done.noise.matrix, atol=1e-6)
    assert about["seed"] == 2
    assert len(list(tmp_path.iterdir())) == 3


def test_options_follow_the_kind(tmp_path):
    source = tmp_path / "labels.csv"
    source.write_text("label\n" + "cat\n" * 40 + "dog\n" * 20, encoding="utf-8")
    done = corrupt_file(source, "pair,select=per-class", 0.3)
    assert np.allclose(done.noise.matrix, [[0.7, 0.3], [0.3, 0.7]])
    with pytest.raises(BadInput, match="no option of pair noise called 'exact'"):
        corrupt_file(source, "pair,exact=true", 0.3, out=tmp_path / "other.csv")


def test_same_seed_same_bytes(tmp_path):
    source = tmp_path / "labels.csv"
    source.write_text(TABLE, encoding="utf-8")
    first, again, other = (
        corrupt_file(source, "symmetric", 0.5, seed, tmp_path / name).out.read_bytes()
        for seed, name in ((0, "1.csv"), (0, "2.csv"), (1, "3.csv"))
    )
    assert first == again != other


def test_integers_are_ordered_as_numbers(tmp_path):
    source = tmp_path / "labels.csv"
    source.write_text("label\n" + "\n".join(str(i % 12) for i in range(240)) + "\n")
    done = corrupt_file(source, "pair", 1.0)
    assert done.classes == tuple(str(i) for i in range(12))
    moved = [int(v) for v in done.out.read_text().split()[1:]]
    assert moved == [(i + 1) % 12 for i in range(240)]


def test_column_by_name_and_without_header(tmp_path):
    source = tmp_path / "t.csv"
    source.write_text("x\tkind\n1\ta\n2\tb\n")
    done = corrupt_file(source, "pair", 1.0, label_column="kind")
    assert done.out.read_text() == "x\tkind\n1\tb\n2\ta\n"
    bare = tmp_path / "bare.csv"
    bare.write_text("0\n1\n0\n")
    assert corrupt_file(bare, "pair", 1.0).out.read_text() == "1\n0\n1\n"
    words = tmp_path / "words.csv"
    words.write_text("cat\ndog\ncat\ndog\n")
    assert corrupt_file(words, "pair", 1.0).out.read_text() == "dog\ncat\ndog\ncat\n"


def test_bytes_that_are_not_utf8_travel_through(tmp_path):
    source = tmp_path / "t.csv"
    source.write_bytes(b"file,label\n\xff\xfe.png,a\nb.png,caf\xe9\n")
    done = corrupt_file(source, "pair", 1.0)
    assert done.out.read_bytes() == b"file,label\n\xff\xfe.png,caf\xe9\nb.png,a\n"


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, "<U5"])
def test_npy_keeps_its_type(tmp_path, dtype):
    source = tmp_path / "y.npy"
    labels = np.arange(100) % 4
    np.save(source, labels.astype(dtype))
    done = corrupt_file(source, "pair", 1.0, out=tmp_path / "z.npy")
    after = np.load(done.out)
    assert after.dtype == np.dtype(dtype)
    assert np.array_equal(after.astype(int), (labels + 1) % 4)


def refused(path, message, **options):
    options = {"kind": "pair", "rate": 0.5, **options}
    before = sorted(p.name for p in path.parent.iterdir())
    with pytest.raises(BadInput, match=message):
        corrupt_file(path, **options)
    assert sorted(p.name for p in path.parent.iterdir()) == before


def test_bad_files_are_refused_and_nothing_is_written(tmp_path):
    source = tmp_path / "labels.csv"
    source.write_text("file,label\na.png,x\nb.png,y\n")
    refused(source, "exists already", out=source)
    (tmp_path / "taken.csv").write_text("")
    refused(source, "exists already", out=tmp_path / "taken.csv")
    refused(source, "no column 'lable'; its columns are file, label", label_column="lable")
    refused(source, "cannot be written", out=tmp_path / "no" / "such.csv")
    refused(source, "depends on the examples", kind="instance")
    refused(source, "did you mean pair", kind="pairs")
    refused(source, "per cent", rate=50.0)
    refused(source, "needs a rate", rate=None)
    refused(tmp_path / "none.csv", "cannot be read")
    refused(tmp_path, "cannot be read")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"label\n", "no rows"),
        (b"a,b\n1,2\n", "--label-column"),
        (b"file,label\na,x\nb,\nc,y\n", "1 has none, first row 2"),
        (b"file,label\na,x\nb\nc\n", "2 have none, first row 2"),
        (b"label\nx\nx\n", "two classes"),
        (b"PAR1\0\0", "not a text file"),
    ],
)
def test_bad_tables_are_one_sentence(tmp_path, content, message):
    source = tmp_path / "labels.csv"
    source.write_bytes(content)
    refused(source, message)


def test_an_npz_is_sent_to_fit(tmp_path):
    source = tmp_path / "mine.npz"
    np.savez(source, x=np.eye(4), y=np.arange(4) % 2)
    refused(source, r"reads labels from a CSV or \.npy file, .*fit .*mine\.npz --noise KIND:RATE")
    refused(tmp_path / "none.npz", "cannot be read")


def test_bad_arrays_are_one_sentence(tmp_path):
    source = tmp_path / "y.npy"
    np.save(source, np.zeros((2, 2), int))
    refused(source, "one row")
    np.save(source, np.array([0.5, 1.5]))
    refused(source, "integer or text")
    np.save(source, np.array([{}, {}]), allow_pickle=True)
    refused(source, "not a plain .npy")
    source.write_bytes(b"junk")
    refused(source, "not a plain .npy")


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=6)
names = cells.map(str.strip).filter(bool)


@settings(max_examples=60, deadline=None)
@given(
    body=st.lists(st.tuples(cells, names, cells), min_size=1, max_size=6),
    delimiter=st.sampled_from(",;\t|"),
    newline=st.sampled_from(["\n", "\r\n"]),
)
def test_any_written_table_is_read_and_written_back(body, delimiter, newline):
    """What Python's csv writes, this reads the same; new labels read back, the rest unchanged."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator=newline)
    writer.writerows([("first", "label", "last"), *body])
    text = buffer.getvalue()
    column = find_labels(text, None, "it")
    assert list(column.labels) == [row[1] for row in body]
    assert replaced(column, column.labels) == text
    fresh = [f'new{delimiter}"{i}"' for i in range(len(body))]
    again = rows(replaced(column, fresh), delimiter)[1:]
    assert again == [[a, new, b] for (a, _, b), new in zip(body, fresh, strict=True)]


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=60))
def test_any_text_is_read_or_refused(text):
    try:
        column = find_labels(text, None, "it")
    except BadInput:
        return
    assert all(column.labels)
    assert replaced(column, column.labels) == text


def test_corrupt_and_fit_take_the_same_column(tmp_path: Path) -> None:
    """A table with the columns `y` and `class`: both read `class`."""
    path = tmp_path / "t.csv"
    path.write_text("y,size,class\n" + "".join(f"{i % 2},{i},{'ab'[i % 2]}\n" for i in range(40)))
    made = corrupt_file(path, "symmetric", 0.5, out=tmp_path / "new.csv")
    assert made.classes == ("a", "b")
    assert load(path).classes == ("a", "b")
