"""Tables: numbers, gaps, categories, dates, texts and paths to images; and tables that are none."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from source_files import picture

from labelproof.data.encoders.columns import row_caption
from labelproof.data.readers import (
    SourceOptions,
    find_duplicates,
    load,
    load_encoder,
    load_like,
    save_encoder,
    save_like,
)
from labelproof.errors import BadInput


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def taken(examples):
    return examples.x.take(torch.arange(len(examples))).numpy()


def people(count=60, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, count).astype(float)
    age[::7] = np.nan
    return pd.DataFrame(
        {
            "row": np.arange(count),
            "age": age,
            "city": rng.choice(["Rome", "Oslo", "Bern"], count, p=[0.6, 0.3, 0.1]),
            "member": rng.choice([True, False], count),
            "joined": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(rng.integers(0, 900, count), "D"),
            "same": 7,
            "code": [f"u{k:05d}x" for k in range(count)],
            "label": rng.choice(["no", "yes"], count),
        }
    )


@pytest.fixture(params=["csv", "parquet"])
def people_path(request, tmp_path):
    path = tmp_path / f"people.{request.param}"
    frame = people()
    if request.param == "csv":
        frame.to_csv(path, index=False, date_format="%Y-%m-%d")
    else:
        frame.to_parquet(path)
    return path


def test_columns_become_numbers(people_path):
    examples = load(people_path)
    frame = people()
    x = taken(examples)
    names = ["age", "age missing", "city=Rome", "city=Oslo", "city=Bern", "city=(other)", "member",
             "joined"]  # fmt: skip
    assert [n for column in examples.encoder.columns for n in column.outputs] == names
    filled = frame.age.fillna(frame.age.median())
    assert np.allclose(x[:, 0], (filled - filled.mean()) / filled.std(ddof=0), atol=1e-5)
    assert np.array_equal(x[:, 1], frame.age.isna())
    assert np.array_equal(x[:, 2], frame.city == "Rome")
    assert not x[:, 5].any()
    assert np.allclose(x[:, [0, 6, 7]].mean(0), 0, atol=1e-5)
    assert np.allclose(x[:, [0, 6, 7]].std(0), 1, atol=1e-5)
    days = (frame.joined - frame.joined.min()).dt.days
    assert np.corrcoef(days, x[:, 7])[0, 1] > 0.99999
    assert set(examples.about["encoding"]["dropped"]) == {"row", "same", "code"}
    assert examples.classes == ("no", "yes")
    assert examples.captions[1].startswith("age=")
    assert "city=" in examples.captions[1]


def test_a_row_in_short_leaves_out_gaps_and_shows_where_it_cuts():
    row = row_caption({"a": np.array([1.5]), "b": np.array([np.nan]), "c": np.array(["x" * 30])})
    assert row(0) == f"a=1.5, c={'x' * 23}…"


def test_test_table_uses_the_encoding_of_training(people_path, tmp_path):
    train = load(people_path)
    new = people(4, seed=5).assign(city=["Rome", "Lima", None, "Oslo"], age=[1e3, None, 5, 6])
    new = new.drop(columns=["label", "same", "row"])[["joined", "city", "member", "age"]]
    new.to_csv(tmp_path / "new.csv", index=False)
    got = load(tmp_path / "new.csv", like=train)
    assert got.labels is None
    column = train.encoder.columns[0]
    assert taken(got)[0, 0] == pytest.approx((1000 - column.mean) / column.std, rel=1e-5)
    assert taken(got)[:, 2:6].tolist() == [[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0, 1, 0, 0]]
    again = load(people_path, like=train)
    assert np.array_equal(taken(again), taken(train))
    assert again.labels.tolist() == train.labels.tolist()
    new.drop(columns="age").to_csv(tmp_path / "less.csv", index=False)
    with pytest.raises(BadInput, match="age is not there"):
        load(tmp_path / "less.csv", like=train)
    new.assign(label="perhaps").to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(BadInput, match="'perhaps' occurs too"):
        load(tmp_path / "other.csv", like=train)


def test_rare_values_become_other_and_mixed_columns_numbers(tmp_path):
    count = 3000
    frame = pd.DataFrame({"c": ["a", "b"] * (count // 2), "n": [str(k % 7) for k in range(count)]})
    frame.loc[5, "c"], frame.loc[6, "n"] = "once", "unknown"
    frame["label"] = [k % 2 for k in range(count)]
    frame.to_csv(tmp_path / "m.csv", index=False)
    examples = load(tmp_path / "m.csv")
    category, number = examples.encoder.columns
    assert category.levels == ("a", "b")
    assert taken(examples)[5, 2] == 1
    assert (number.kind, number.indicator) == ("number", True)
    warned = "1 values of column 'n' are not numbers and count as missing"
    assert warned in examples.about["warnings"]


def test_csv_in_the_german_manner(tmp_path):
    text = 'wert;note;klasse\r\n1,5;"a;\nb";x\r\n2,5;c;y\r\n-3,25;c;x\r\n;c;y\r\n'
    path = write(tmp_path / "d.csv", text, "utf-8-sig")
    examples = load(path, SourceOptions(label_column="klasse"))
    values = np.array([1.5, 2.5, -3.25, 1.5])
    assert np.allclose(taken(examples)[:, 0], (values - values.mean()) / values.std())
    assert examples.labels.tolist() == [0, 1, 0, 1]


def test_label_words_are_taken_as_written(tmp_path):
    path = write(tmp_path / "d.csv", "a,label\n1,NA\n2,null\n3,NA\n4,null\n")
    assert load(path).classes == ("NA", "null")
    path = write(tmp_path / "e.csv", "a,label\n1,01\n2,1\n3,01\n4,1\n")
    assert load(path).classes == ("01", "1")


def test_a_column_that_tells_the_label_is_pointed_at(tmp_path):
    frame = people().assign(answer=lambda f: f.label.map({"yes": "J", "no": "N"}))
    frame.to_csv(tmp_path / "p.csv", index=False)
    told = load(tmp_path / "p.csv").about["warnings"]
    assert any("'answer' predicts the label" in w for w in told)
    kept = load(tmp_path / "p.csv", SourceOptions(drop_columns=("answer",)))
    assert "answer" not in str(kept.about["encoding"])
    assert kept.about["warnings"] == []


def test_ids_and_truth(tmp_path):
    frame = people().assign(really=lambda f: f.label, id=lambda f: f.code)
    frame.to_csv(tmp_path / "p.csv", index=False)
    examples = load(tmp_path / "p.csv", SourceOptions(truth_key="really", id_column="code"))
    assert examples.ids == frame.code.tolist()
    assert np.array_equal(examples.truth, examples.labels)
    assert all(not n.startswith("really") for c in examples.encoder.columns for n in c.outputs)
    assert load(tmp_path / "p.csv").ids == frame.code.tolist()  # a column called id, by itself


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("", {}, ["empty"]),
        ("a,label\n", {}, ["only a header"]),
        ("a,b\n1,2\n", {}, ["a, b", "--label-column"]),
        ("a,label\n1,x\n2,\n3,y\n4, \n", {}, ["2 are blank", "rows 3, 5, counting the header"]),
        ("a,label\n1,x\n2,y\n3,x,9\n", {}, ["cells", "3"]),
        ("a,label\n1,x,8\n2,y,9\n", {}, ["row 2 has 3"]),
        ("a,label\n1,x\ninf,y\n3,x\n", {}, ["'a'", "infinite", "row 3"]),
        ("a,label\n1,x\n1,y\n1,x\n", {}, ["one value only"]),
        ("a,label\n1,0.25\n2,0.5\n3,0.25\n", {}, ["fractions", "0.25"]),
        ("a,k,label\n1,p,x\n2,p,y\n", {"id_column": "k"}, ["every id once", "'p'"]),
        ("a,k,label\n1,p,x\n2,,y\n", {"id_column": "k"}, ["id in every row", "row 3"]),
        ("a,label\n1,x\n2,y\n", {"text_column": "t"}, ["'t'", "--text-column"]),
        ("a,label\n1,x\n2,y\n", {"truth_key": "t"}, ["'t'", "--truth-key"]),
        ("t,label\n,x\n,y\n", {"text_column": "t"}, ["all are blank"]),
        ("t,label\n!,x\n?,y\n", {"text_column": "t"}, ["no words"]),
        ("file,label\na.png,x\nb.png,y\n", {}, ["2 of 2 are not there"]),
    ],
)
def test_bad_tables(tmp_path, text, options, words):
    with pytest.raises(BadInput) as caught:
        load(write(tmp_path / "t.csv", text), SourceOptions(**options))
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_of_many_columns_the_last_are_shown_too(tmp_path):
    header = ",".join([*(f"c{k}" for k in range(40)), "kind"])
    with pytest.raises(
        BadInput, match=r"c0, c1, .*c9, \.\.\. \(26 more\), c36, .*c39, kind; name it"
    ):
        load(write(tmp_path / "w.csv", header + "\n" + ",".join(["1"] * 41)))


def test_a_parquet_column_of_two_names_is_refused(tmp_path):
    frame = pd.DataFrame({"a": np.arange(6.0), "label": [0, 1] * 3})
    written = pa.Table.from_pandas(frame)
    notes = written.schema.metadata[b"pandas"].replace(b'"name": "label"', b'"name": "labej"')
    pq.write_table(written.replace_schema_metadata({"pandas": notes}), tmp_path / "two.parquet")
    with pytest.raises(BadInput, match="two names for the column 'label'"):
        load(tmp_path / "two.parquet")


def test_nested_parquet_columns_are_named(tmp_path):
    columns = {"v": [["a"], ["b"]], "s": [{"a": 1}, {"a": 2}], "a": [1.0, 2.0], "label": ["x", "y"]}
    pq.write_table(pa.table(columns), tmp_path / "n.parquet")
    with pytest.raises(BadInput, match=r"in v, s; .*--drop-column"):
        load(tmp_path / "n.parquet")
    assert load(tmp_path / "n.parquet", SourceOptions(drop_columns=("v", "s"))).x.shape == (1,)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(BadInput, match=r"bad\.parquet"):
        load(tmp_path / "bad.parquet")


def test_missing_extra_is_told(tmp_path, monkeypatch):
    path = write(tmp_path / "t.csv", "a,label\n1,x\n2,y\n")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(BadInput, match=r'pip install "labelproof\[table\]"'):
        load(path)


def test_table_of_image_paths(tmp_path):
    (tmp_path / "p").mkdir()
    for k in range(4):
        picture(k).save(tmp_path / "p" / f"{k}.png")
    rows = "".join(f"p/{k}.png,{k},{'ab'[k % 2]}\n" for k in range(4))
    path = write(tmp_path / "t.csv", "image,other,label\n" + rows)
    for options in (SourceOptions(), SourceOptions(file_column="image")):
        examples = load(path, options)
        assert examples.kind == "images"
        assert np.array_equal(taken(examples)[2], np.asarray(picture(2)))
        assert examples.ids[3] == "p/3.png"
    assert load(path, like=examples).labels.tolist() == [0, 1, 0, 1]


def reviews(count=40):
    rng = np.random.default_rng(0)
    good, bad = (
        ["lovely", "great", "superb", "fine", "moving"],
        ["awful", "dull", "poor", "boring", "weak"],
    )
    texts = [
        f"The film was {' '.join(rng.choice((good, bad)[k % 2], 4))} and it lasted an hour, no. {k}"
        for k in range(count)
    ]
    return pd.DataFrame({"text": texts, "label": ["pos", "neg"] * (count // 2)})


@pytest.mark.parametrize("named", [False, True])
def test_texts(tmp_path, named):
    frame = reviews()
    frame.to_csv(tmp_path / "r.csv", index=False)
    examples = load(tmp_path / "r.csv", SourceOptions(text_column="text" if named else None))
    x = taken(examples)
    assert np.allclose(np.linalg.norm(x, axis=1), 1, atol=1e-5)
    assert examples.captions[3] == frame.text[3]
    same = (examples.labels[:, None] == examples.labels) & ~np.eye(40, dtype=bool)
    likeness = x @ x.T
    assert likeness[same].mean() > likeness[~same & ~np.eye(40, dtype=bool)].mean() + 0.1
    again = load(tmp_path / "r.csv", like=examples)
    assert np.allclose(taken(again), x, atol=1e-6)


def test_scripts_without_spaces_are_read_by_characters(tmp_path):
    texts = [
        "这部电影非常精彩我很喜欢它",
        "这部电影太无聊了浪费时间真",
        "非常精彩的演员和故事情节哦",
    ] * 4
    pd.DataFrame({"text": texts, "label": [0, 1, 0] * 4}).to_csv(tmp_path / "z.csv", index=False)
    examples = load(tmp_path / "z.csv", SourceOptions(text_column="text"))
    x = taken(examples)
    assert x[0] @ x[2] > x[1] @ x[2]


def test_inflected_words_are_alike(tmp_path):
    forms = ["войну", "войной", "войне", "война", "любовью", "любви", "любовь", "любовный"]
    pd.DataFrame({"text": forms, "label": [0] * 4 + [1] * 4}).to_csv(
        tmp_path / "i.csv", index=False
    )
    x = taken(load(tmp_path / "i.csv", SourceOptions(text_column="text")))
    likeness = x @ x.T
    assert likeness[:4, :4].min() > likeness[:4, 4:].max()
    assert likeness[4:, 4:].min() > likeness[:4, 4:].max()


def test_a_plan_compares_whole_texts(tmp_path):
    frame = pd.DataFrame(
        {"text": [f"long text {i} " * 900 for i in range(30)], "label": [0, 1] * 15}
    )
    frame.to_csv(tmp_path / "l.csv", index=False)
    planned = load(tmp_path / "l.csv", SourceOptions(text_column="text", sample=4000))
    whole = load(tmp_path / "l.csv", SourceOptions(text_column="text"))
    assert list(planned.captions) == list(whole.captions)
    assert planned.x.shape == whole.x.shape


def test_a_plan_learns_from_texts_that_are_not_blank(tmp_path):
    texts = ["" if i % 5 == 0 else f"word {i}" for i in range(4000)]
    pd.DataFrame({"text": texts, "label": [0, 1] * 2000}).to_csv(tmp_path / "b.csv", index=False)
    planned = load(tmp_path / "b.csv", SourceOptions(text_column="text", sample=4000))
    assert planned.about["warnings"] == ["800 of 4000 texts in column 'text' are blank"]


def test_duplicate_texts_are_compared_by_their_letters(tmp_path):
    frame = reviews(6)
    frame.loc[6] = [frame.text[1], "pos"]
    frame.loc[7] = ["zzz", "pos"]
    frame.loc[8] = ["yyy", "pos"]
    frame.to_csv(tmp_path / "r.csv", index=False)
    found = find_duplicates(load(tmp_path / "r.csv", SourceOptions(text_column="text")))
    assert found.groups == ((1, 6),)
    assert found.conflicting == ((1, 6),)


def test_encoders_survive_saving(tmp_path, people_path):
    frame = reviews()
    frame.to_csv(tmp_path / "r.csv", index=False)
    for place, examples in (("a", load(people_path)), ("b", load(tmp_path / "r.csv"))):
        path = people_path if place == "a" else tmp_path / "r.csv"
        save_encoder(examples.encoder, tmp_path / place)
        assert load_encoder(tmp_path / place).describe() == examples.encoder.describe()
        save_like(examples, tmp_path / place)
        like = load_like(tmp_path / place)
        assert len(like) == 0
        again = load(path, like=like)
        assert np.array_equal(taken(again), taken(examples))
        assert again.labels.tolist() == examples.labels.tolist()
        assert again.classes == examples.classes
    names = sorted(file.name for file in (tmp_path / "b").iterdir())
    assert names == ["encoder.json", "encoder.safetensors", "reading.json"]


def test_damaged_encoder_is_told(tmp_path):
    with pytest.raises(BadInput, match="saved encoder"):
        load_encoder(tmp_path)
    with pytest.raises(BadInput, match=r"reading\.json"):
        load_like(tmp_path)
    write(tmp_path / "encoder.json", '{"kind": "text", "column": "a"}')
    with pytest.raises(BadInput, match="saved encoder"):
        load_encoder(tmp_path)


def test_long_cells_are_read(tmp_path):
    rows = "".join(f'"{"word " * 40_000}{i}",{"ab"[i % 2]}\n' for i in range(4))
    (tmp_path / "t.csv").write_text(f"text,label\n{rows}")
    assert len(load(tmp_path / "t.csv", SourceOptions(text_column="text"))) == 4


def test_a_pipe_is_no_table(tmp_path):
    import os

    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(BadInput, match="pipe or a device"):
        load(tmp_path / "t.csv")


def test_a_parquet_table_with_broken_texts_is_refused(tmp_path):
    import pyarrow
    import pyarrow.parquet

    raw = pyarrow.array([b"2021-01-01", b"202\xff\xfe-03"] * 6)
    words = pyarrow.Array.from_buffers(pyarrow.string(), len(raw), raw.buffers())
    table = pyarrow.table({"day": words, "x": list(range(12)), "label": ["a", "b"] * 6})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(BadInput, match=r"expected a Parquet table, but t\.parquet could not be"):
        load(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("name", "start", "advice"),
    [
        ("t.csv.gz", b"\x1f\x8b\x08\x00", "none of these by its suffix; unpack it first"),
        ("t.csv", b"\x1f\x8b\x08\x00\xff", r"compressed \(gzip\); unpack it first"),
        ("t.csv", b"PK\x03\x04\xff\xff", r"an Excel workbook; name it \.xlsx"),
    ],
)
def test_packed_tables_are_refused_with_what_to_do(tmp_path, name, start, advice):
    (tmp_path / name).write_bytes(start * 20)
    with pytest.raises(BadInput, match=advice):
        load(tmp_path / name)


def test_a_column_of_identifiers_in_any_order_is_pointed_out(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{c},{v:.3f},{'ab'[i % 2]}" for i, (c, v) in enumerate(
        zip(rng.permutation(40) + 17, rng.normal(size=40), strict=True)
    )]  # fmt: skip
    (tmp_path / "t.csv").write_text("code,v,label\n" + "\n".join(lines) + "\n")
    told = load(tmp_path / "t.csv", SourceOptions()).about["warnings"]
    assert any("column 'code' has each number from 17 to 56 once" in note for note in told)
    assert not any("'v'" in note for note in told)
