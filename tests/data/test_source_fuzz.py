"""Tables of any content end in examples or in one sentence, never in another error."""

from __future__ import annotations

import csv
import io
import warnings

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from source_files import only_bad_input

from labelproof.data.readers import SourceOptions, load

FUZZ = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
WORDS = "1|-2.5|1e400|1e-310|nan|inf|NA|true|2020-01-02|2020-13-45|999999999999999999|a b|é|1,5"
CELLS = st.one_of(
    st.sampled_from([*WORDS.split("|"), "", " ", 'q"q', "x\ny", "\ufeff", "\0"]),
    st.text(max_size=6),
    st.floats().map(str),
)


@st.composite
def tables(draw):
    """CSV text with a label column, random columns and cells, any delimiter and perhaps a BOM."""
    width = draw(st.integers(1, 4))
    header = [*draw(st.lists(st.text(max_size=4), min_size=width, max_size=width)), "label"]
    rows = draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=8))
    labels = draw(st.lists(st.sampled_from(["a", "b", "1", ""]), min_size=8, max_size=8))
    file = io.StringIO()
    writer = csv.writer(file, delimiter=draw(st.sampled_from(",;\t|")))
    writer.writerow(header)
    writer.writerows([*row, label] for row, label in zip(rows, labels, strict=False))
    return draw(st.sampled_from(["", "\ufeff"])) + file.getvalue()


def read(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        examples = only_bad_input(lambda: load(path, SourceOptions(**options)))
    if examples is not None:
        vectors = examples.x.take(torch.arange(len(examples))).numpy()
        assert np.isfinite(vectors).all()
        assert examples.labels.max() < len(examples.classes)
        assert [str(caption) for caption in examples.captions]
    return examples


@FUZZ
@given(tables())
def test_fuzz_tables(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    read(path)


@FUZZ
@given(tables())
def test_fuzz_texts(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    header = text.lstrip("\ufeff").splitlines()[0].split(",")
    read(path, text_column=header[0])


@FUZZ
@given(st.binary(max_size=200))
def test_fuzz_bytes_as_csv_and_parquet(tmp_path, data):
    for name in ("t.csv", "t.parquet"):
        (tmp_path / name).write_bytes(b"a,label\n" + data if name == "t.csv" else b"PAR1" + data)
        read(tmp_path / name)


@FUZZ
@given(st.binary(max_size=200))
def test_fuzz_label_lists(tmp_path, data):
    (tmp_path / "l.csv").write_bytes(b"file,label\n" + data)
    folder = tmp_path / "f"
    folder.mkdir(exist_ok=True)
    only_bad_input(lambda: load(folder, SourceOptions(labels=tmp_path / "l.csv")))
