"""What people get wrong with their first data set: it is read as meant, told, or refused."""

from __future__ import annotations

import numpy as np
import pytest
from source_files import picture

from labelproof import pipeline
from labelproof.data.readers import SourceOptions, load
from labelproof.data.readers.duplicates import trained_on
from labelproof.errors import BadInput
from labelproof.runs.spec import RunSpec

ROWS = [f"{k / 7:.2f},{k % 5},{'yes' if k % 3 else 'no'}" for k in range(30)]
TABLE = "\n".join(["width,height,label", *ROWS]) + "\n"


@pytest.fixture
def table(tmp_path):
    def make(text=TABLE, encoding="utf-8", name="t.csv"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return make


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_a_table_with_or_without_a_mark(table, encoding):
    examples = load(table(encoding=encoding))
    assert (len(examples), examples.classes) == (30, ("no", "yes"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (TABLE + "1,2\n", "expected 3 cells in every row of t.csv, but row 32 has 2"),
        ("label,a,b\n" + "x,1,2\ny,2,1\n" * 5 + "x,3\n", "row 12 has 2"),
        (TABLE + TABLE.replace(",", ";").split("\n", 1)[1], "row 32 has 1"),
        (TABLE + "1,2,no,4\n", "row 32 has 4"),
        (TABLE.split("\n", 1)[1], "write the names of the columns into the first row"),
        ("My table,,\n" + TABLE, "write the names of the columns into the first row"),
        ("# made by me\n" + TABLE, "expected 1 cell in every row.*name every column"),
    ],
)
def test_rows_that_do_not_fit_the_header(table, text, says):
    with pytest.raises(BadInput, match=says):
        load(table(text))


def test_empty_cells_at_the_end_of_rows_are_missing_values(table):
    text = "label,a,b\n" + "x,1,2\ny,2,\n" * 20
    assert load(table(text)).about["missing"] == {"b": 20}


def test_names_that_are_nearly_right(table, tmp_path):
    path = table()
    with pytest.raises(BadInput, match=r"did you mean 'label'\?"):
        load(path, SourceOptions(label_column="Label"))
    with pytest.raises(BadInput, match=r"did you mean '.*t\.csv'\?"):
        load(tmp_path / "tt.csv")
    with pytest.raises(BadInput, match=r"did you mean 'cifar10'\?"):
        load("cifar01")


def test_a_first_row_of_data_with_a_value_twice(table):
    with pytest.raises(BadInput, match="'N' comes twice; rename one, or add a header row"):
        load(table("N,175000,N,Y\n" * 2), SourceOptions(label_column="vote"))
    with pytest.raises(BadInput, match=r"'a' comes twice; rename one$"):
        load(table("a,b,a\n1,2,x\n"), SourceOptions(label_column="b"))


def test_classes_that_are_minus_one_and_one(table):
    signs = "width,label\n" + "1.5,-1\n2.5,1\n" * 10
    with pytest.raises(BadInput, match="write words instead of numbers if a negative number is"):
        load(table(signs))


@pytest.mark.parametrize("before", [1, 20_000])
def test_a_letter_of_another_encoding_is_named_by_its_line(tmp_path, before):
    path = tmp_path / "t.csv"
    rows = "größe,label\n" + "ä,no\nb,yes\n" * before
    path.write_bytes(rows.encode() + "é,no\n".encode("latin-1"))
    with pytest.raises(BadInput, match=rf"not in line {2 * before + 2}; save it as UTF-8 CSV"):
        load(path)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("a.json", "call it .jsonl"),
        ("a.xls", "save it as .xlsx"),
        ("a.pkl", "save the arrays as .npz"),
        ("a.png", "name the folder"),
        ("a.zip", "unpack it first"),
        ("a.odd", "rename or convert"),
    ],
)
def test_files_of_other_kinds(tmp_path, name, says):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(BadInput, match=says):
        load(tmp_path / name)


def test_options_that_would_be_ignored(table, tmp_path, class_folder):
    with pytest.raises(BadInput, match="name its column of labels with --label-column"):
        load(table(), SourceOptions(label_key="height"))
    np.savez(tmp_path / "a.npz", x=np.eye(4, dtype="f4"), y=[0, 1, 0, 1])
    with pytest.raises(BadInput, match="name the labels with --label-key"):
        load(tmp_path / "a.npz", SourceOptions(label_column="y"))
    with pytest.raises(BadInput, match="a folder of pictures"):
        load(class_folder(), SourceOptions(text_column="text"))


def test_words_for_no_label_and_numbers_as_texts_are_told(table):
    path = table(TABLE.replace(",no\n", ",NaN\n", 3))
    assert load(path).about["warnings"] == [
        "'NaN' is taken as a class, with 3 examples; if it means that a label is missing, remove "
        "these rows"
    ]
    texts = load(table(), SourceOptions(text_column="width")).about["warnings"]
    assert texts == ["30 of 30 texts in column 'width' are numbers"]


def test_folders_that_are_no_classes(class_folder, tmp_path):
    root = class_folder(name="photos")
    (root / "empty").mkdir()
    said = "folders without a picture were not used as classes ('empty')"
    assert load(root).about["warnings"] == [said]
    for year in ("2023", "2024"):
        class_folder(name=f"years/{year}")
    (told,) = load(tmp_path / "years").about["warnings"]
    assert "('2023', '2024')" in told
    assert "the same folders inside ('cat', 'dog')" in told


def test_a_class_without_any_picture_that_is_read(class_folder):
    root = class_folder()
    for path in (root / "cat").iterdir():
        path.rename(path.with_suffix(".heic"))
    with pytest.raises(BadInput, match=r"only 'dog' has some; .*\.heic.*convert"):
        load(root)


def test_training_and_testing_are_parts(class_folder, tmp_path):
    for part in ("Training", "Testing"):
        class_folder(name=f"both/{part}")
    both = load(tmp_path / "both")
    assert both.classes == ("cat", "dog")
    assert both.test is not None


def test_test_data_that_is_trained_on_is_told(table):
    path = table()
    given = pipeline.read(RunSpec(data=str(path), test=str(path)))
    assert "30 of 30 test examples are also in the training" in given.data.about["warnings"][-1]
    other = table(TABLE.replace(",0,", ",9,").replace(",1,", ",8,"), name="other.csv")
    given = pipeline.read(RunSpec(data=str(path), test=str(other)))
    assert "18 of 30 test examples" in given.data.about["warnings"][-1]


@pytest.mark.parametrize("cached", [False, True])
def test_pictures_in_memory_are_compared_with_those_on_disk(class_folder, tmp_path, cached):
    root = class_folder(name="a")
    options = SourceOptions(memory_gb=0, cache=tmp_path / "cache" if cached else None)
    train, test = load(root, options), load(root)
    assert test.x.resident
    assert not train.x.resident
    said = f"{len(test)} of {len(test)} test examples are also in the training data"
    for one, other in ((train, test), (test, train)):
        assert said in trained_on(one, other)[0]


def test_rows_that_repeat_by_nature_are_not_told(table):
    path = table("a,label\n" + "1,x\n2,y\n3,x\n" * 10)
    given = pipeline.read(RunSpec(data=str(path), test=str(path)))
    assert not any("also in the training data" in text for text in given.data.about["warnings"])


def test_a_test_folder_with_other_classes(class_folder, tmp_path):
    root, other = class_folder(name="a"), tmp_path / "b" / "owl"
    other.mkdir(parents=True)
    picture(3).save(other / "1.png")
    spec = RunSpec(data=str(root), test=str(other.parent), encoder="none")
    with pytest.raises(BadInput, match=r"call its folders like the classes \('cat', 'dog'\)"):
        pipeline.assemble(spec)
