"""Folders as people have them: odd names, links, parts, labels in a CSV."""

from __future__ import annotations

import os

import numpy as np
import pytest
from source_files import picture

from labelproof.data.readers import SourceOptions, load
from labelproof.data.readers.file_names import printable
from labelproof.errors import BadInput


def flat(root, names):
    root.mkdir()
    for seed, name in enumerate(names):
        picture(seed).save(root / name)
    return root


def table(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_nothing_there(tmp_path, class_folder):
    with pytest.raises(BadInput, match="none in it"):
        load(tmp_path)
    with pytest.raises(BadInput, match=r"2 images are in one folder.*--labels"):
        load(flat(tmp_path / "flat", ["a.png", "b.png"]))
    with pytest.raises(BadInput, match=r"two classes.*'cat'"):
        load(class_folder(("cat",)))


def test_links_that_lead_in_circles_or_nowhere(class_folder):
    root = class_folder(per_class=60)
    (root / "cat" / "again").symlink_to(root)
    (root / "cat" / "self.png").symlink_to("self.png")
    (root / "linked").symlink_to(root / "dog")
    examples = load(root)
    assert examples.classes == ("cat", "dog", "linked")
    assert len(examples) == 180
    assert [bad["path"] for bad in examples.about["unreadable"]] == ["cat/self.png"]


def test_a_pipe_is_not_waited_for(class_folder):
    root = class_folder(per_class=60)
    os.mkfifo(root / "cat" / "pipe.png")
    examples = load(root)
    assert examples.about["unreadable"] == [
        {"path": "cat/pipe.png", "reason": "not a regular file"}
    ]


@pytest.mark.parametrize("streamed", [False, True])
def test_names_with_line_breaks_and_foreign_bytes(class_folder, streamed):
    root = class_folder()
    picture(8).save(root / "cat" / "new\nline.png")
    foreign = os.fsencode(root / "dog") + b"/caf\xe9.png"
    with open(foreign, "wb") as file:
        picture(9).save(file, "PNG")
    examples = load(root, SourceOptions(memory_gb=0 if streamed else 2))
    assert "cat/new\\nline.png" in examples.ids
    assert "dog/caf\\xe9.png" in examples.ids
    "".join(examples.ids).encode("utf-8")
    assert printable("grün") == "grün"


def test_order_of_the_file_system_does_not_matter(tmp_path):
    for name, order in (("one", [0, 1, 2, 3]), ("two", [3, 1, 0, 2])):
        for number in order:
            folder = tmp_path / name / "ab"[number % 2]
            folder.mkdir(parents=True, exist_ok=True)
            picture(number).save(folder / f"{number}.png")
    one, two = load(tmp_path / "one"), load(tmp_path / "two")
    assert one.ids == two.ids
    assert one.x.digest() == two.x.digest()


def test_train_and_test_parts(class_folder):
    root = class_folder(name="all/train")
    class_folder(name="all/test", per_class=2, size=(32, 32))
    examples = load(root.parent)
    assert len(examples) == 8
    assert len(examples.test) == 4
    assert examples.test.x.shape == examples.x.shape


def test_test_folder_and_pictures_to_predict_on(class_folder, tmp_path):
    train = load(class_folder())
    test = load(class_folder(("dog",), 3, (50, 40), "test"), like=train)
    assert test.labels.tolist() == [1, 1, 1]
    assert test.x.shape == (16, 16, 3)
    new = load(flat(tmp_path / "new", ["a.png", "b.png"]), like=train)
    assert new.labels is None
    assert new.ids == ["a.png", "b.png"]
    with pytest.raises(BadInput, match="'cow' occurs too"):
        load(class_folder(("cat", "cow"), name="other"), like=train)
    with pytest.raises(BadInput, match="vectors"):
        load(class_folder(name="third"), like=load_vectors())


def test_one_picture_to_predict_on(class_folder):
    root = class_folder()
    train = load(root)
    one = load(root / "dog" / "2.png", like=train)
    assert (one.labels, one.ids) == (None, ["2.png"])
    with pytest.raises(BadInput, match="suffix"):
        load(root / "dog" / "2.png")


def test_wrapped_folders_and_other_files(class_folder, tmp_path):
    root = class_folder(name="unpacked/birds")
    (root / "cat" / "a.heic").write_bytes(b"x")
    (root / "cat" / "b.HEIC").write_bytes(b"x")
    (root / "cat" / "read me").write_bytes(b"x")
    examples = load(root.parent)
    assert examples.classes == ("cat", "dog")
    note = "3 files have no image suffix and were skipped (.heic: 2, none: 1)"
    assert examples.about["warnings"][0].startswith(note)
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "a.heic").write_bytes(b"x")
    with pytest.raises(BadInput, match=r"none in it \(\.heic: 1\)"):
        load(tmp_path / "only")


def test_names_written_on_another_system(class_folder, tmp_path):
    root = class_folder()
    labels = table(tmp_path / "l.csv", "file,label\ncat\\0.png,a\ndog\\0.png,b\n")
    assert load(root, SourceOptions(labels=labels)).ids == ["cat/0.png", "dog/0.png"]


def test_table_of_images_for_a_folder_of_images(class_folder):
    root = class_folder()
    path = table(root / "t.csv", "image,label\ncat/0.png,dog\ndog/1.png,dog\n")
    test = load(path, like=load(root))
    assert test.labels.tolist() == [1, 1]


def load_vectors():
    from labelproof.data.readers import from_arrays

    return from_arrays(np.eye(4), ["cat", "dog"] * 2)


TABLES = {
    "plain": ("file,label\na.png,cat\nb.png,dog\nc.png,cat\n", "utf-8"),
    "other order and names": ("Class,x,Image\ncat,1,a.png\ndog,2,b.png\ncat,3,c.png\n", "utf-8"),
    "byte order mark": ("file,label\na.png,cat\nb.png,dog\nc.png,cat", "utf-8-sig"),
    "utf-16": ("file,label\na.png,cat\nb.png,dog\nc.png,cat", "utf-16"),
    "semicolons": ("file;label\r\na.png;cat\r\nb.png;dog\r\nc.png;cat\r\n", "utf-8"),
    "tabs and blank lines": ("file\tlabel\n\na.png\tcat\nb.png\tdog\n\nc.png\tcat\n\n", "utf-8"),
    "quotes": ('file,label,note\n"a.png","cat","x\ny"\nb.png,dog,"a,b"\nc.png,cat,\n', "utf-8"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_labels_from_a_csv(tmp_path, kind):
    root = flat(tmp_path / "flat", ["a.png", "b.png", "c.png", "unlisted.png"])
    labels = table(tmp_path / "labels.csv", *TABLES[kind])
    examples = load(root, SourceOptions(labels=labels))
    assert examples.ids == ["a.png", "b.png", "c.png"]
    assert [examples.classes[code] for code in examples.labels] == ["cat", "dog", "cat"]


def test_columns_by_option_and_truth(tmp_path):
    root = flat(tmp_path / "flat", ["a.png", "b.png"])
    labels = table(tmp_path / "l.csv", "where,who,really\na.png,x,y\nb.png,y,y\n")
    options = SourceOptions(
        labels=labels, file_column="where", label_column="who", truth_key="really"
    )
    examples = load(root, options)
    assert (examples.labels.tolist(), examples.truth.tolist()) == ([0, 1], [1, 1])
    with pytest.raises(BadInput, match=r"file names.*where, who, really.*--file-column"):
        load(root, SourceOptions(labels=labels))
    with pytest.raises(BadInput, match=r"'what'.*--label-column"):
        load(root, SourceOptions(labels=labels, file_column="where", label_column="what"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["empty"]),
        ("file,label\n", ["expected labels in l.csv", "only a header"]),
        ("file,label\na.png,cat\na.png,dog\n", ["every file once", "'a.png'"]),
        ("file,label\na.png,cat\nx.png,dog\ny.png,dog\nz.png,dog\nw.png,dog\n",
         ["4 of 5 are not there", "x.png, y.png, z.png"]),
        ("file,label\na.png,cat\nb.png,\n", ["1 is blank", "row 3, counting the header as row 1"]),
        ("file,label\na.png,cat\nb.png,dog,extra\n", ["2 cells", "row 3 has 3"]),
        ("file,file\na.png,cat\n", ["'file' comes twice"]),
        ("1,2\n3,4\n", ["column names", "header row"]),
    ],
)  # fmt: skip
def test_bad_label_tables(tmp_path, text, words):
    root = flat(tmp_path / "flat", ["a.png", "b.png"])
    with pytest.raises(BadInput) as caught:
        load(root, SourceOptions(labels=table(tmp_path / "l.csv", text)))
    for word in words:
        assert word in str(caught.value)


def test_label_table_that_is_no_text(tmp_path):
    root = flat(tmp_path / "flat", ["a.png"])
    (tmp_path / "l.csv").write_bytes(b"file,label\na.png,caf\xe9\n")
    with pytest.raises(BadInput, match="UTF-8"):
        load(root, SourceOptions(labels=tmp_path / "l.csv"))
    with pytest.raises(BadInput, match=r"none\.csv"):
        load(root, SourceOptions(labels=tmp_path / "none.csv"))


def test_options_that_mean_nothing_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 2)), y=[0, 1, 0, 1])
    (tmp_path / "labels.csv").write_text("file,label\n")
    for data in (tmp_path / "a.npz", "digits"):
        with pytest.raises(BadInput, match="--labels with a folder of images"):
            load(data, SourceOptions(labels=tmp_path / "labels.csv"))
    with pytest.raises(BadInput, match=r"share between 0 and 1 for --max-bad, but got 3"):
        load("digits", SourceOptions(max_bad=3))
    with pytest.raises(BadInput, match="0 and above for --memory-gb"):
        load("digits", SourceOptions(memory_gb=-1))
