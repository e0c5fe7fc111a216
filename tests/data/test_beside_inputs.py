"""Labels, votes, groups and ids beside pictures and vectors are the same from every source."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from source_files import picture

from labelproof.data.examples import Examples
from labelproof.data.readers import SourceOptions, load
from labelproof.errors import BadInput
from labelproof.report.example_view import files_of

datasets = pytest.importorskip("datasets", reason="the extra hf is not installed")

VOTES = {"rater_a": list("ppqqpq"), "rater_b": list("ppqqqq"), "rater_c": list("pqqqpp")}
SAID = {
    "label": list("pqpqpq"),
    "site": list("nsnsnn"),
    "key": [f"k{i}" for i in range(6)],
    **VOTES,
}
X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
Read = Callable[..., Examples]


@pytest.fixture(autouse=True)
def quiet():
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def _saved(tmp_path: Path, said: dict[str, list[str]], kind: str) -> Read:
    features = {name: datasets.Value("string") for name in said}
    if kind == "images":
        inputs, features["x"] = [picture(k) for k in range(6)], datasets.Image()
    elif kind == "vectors":
        inputs, features["x"] = X.tolist(), datasets.Sequence(datasets.Value("float32"))
    else:
        inputs, features["x"] = X[:, 0].tolist(), datasets.Value("float32")
    rows = datasets.Dataset.from_dict({**said, "x": inputs}, features=datasets.Features(features))
    rows.save_to_disk(tmp_path / "saved")
    return lambda **options: load(tmp_path / "saved", SourceOptions(**options))


def _files(tmp_path: Path, said: dict[str, list[str]], kind: str) -> Read:
    frame = pd.DataFrame(said)
    if kind == "parquet":
        frame.assign(x=X.tolist()).to_parquet(tmp_path / "t.parquet")
        return lambda **options: load(tmp_path / "t.parquet", SourceOptions(**options))
    table, data = tmp_path / "said.csv", tmp_path / "x.npy"
    np.save(data, X)
    if kind == "folder":
        data = tmp_path / "pictures"
        data.mkdir()
        frame.insert(0, "file", [f"{place}.png" for place in range(6)])
        for place in range(6):
            picture(place).save(data / f"{place}.png")
    frame.to_csv(table, index=False)
    return lambda **options: load(data, SourceOptions(labels=table, **options))


MAKERS = {
    **{f"saved {kind}": (_saved, kind) for kind in ("images", "vectors", "columns")},
    **{kind: (_files, kind) for kind in ("parquet", "npy", "folder")},
}


@pytest.fixture(params=MAKERS)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Read]:
    make, kind = MAKERS[request.param]
    return lambda without=(): make(
        tmp_path, {name: cells for name, cells in SAID.items() if name not in without}, kind
    )


def test_groups_and_ids(source: Callable[..., Read]) -> None:
    read = source()
    found = read(group="site", id_column="key", truth_key="rater_a")
    assert found.labels is not None
    assert found.truth is not None
    assert found.labels.tolist() == [0, 1] * 3
    assert found.truth.tolist() == [0, 0, 1, 1, 0, 1]
    assert (found.groups, found.ids) == (SAID["site"], SAID["key"])
    for option, name in (("group", "--group"), ("id_column", "--id-column")):
        with pytest.raises(BadInput, match=f"a column 'sitte' in .*; correct {name}"):
            read(**{option: "sitte"})
    with pytest.raises(BadInput, match="expected every id once"):
        read(id_column="site")


@pytest.mark.parametrize("without", [(), ("label",)])
def test_votes(source: Callable[..., Read], without: tuple[str, ...]) -> None:
    found = source(without)(annotators=("rater_*",), group="site")
    assert found.votes is not None
    assert found.labels is not None
    assert found.votes.annotators == tuple(VOTES)
    assert found.votes.table.T.tolist() == [
        ["pq".index(v) for v in said] for said in VOTES.values()
    ]
    assert found.labels.tolist() == [0, 0, 1, 1, 0, 1]
    assert found.groups == SAID["site"]


def test_two_ways_to_say_labels_are_refused_only_where_both_were_given(
    source: Callable[..., Read],
) -> None:
    with pytest.raises(BadInput, match="both --annotators and --label-column were given"):
        source()(annotators=("rater_*",), label_column="label")


def test_class_names_of_a_saved_data_set_hold_for_votes_too(tmp_path: Path) -> None:
    kind = datasets.ClassLabel(names=["zebra", "ant"])
    columns = {"a": [0, 1, 1, 0], "b": [0, 1, 0, None], "x": X[:4].tolist()}
    features = {"a": kind, "b": kind, "x": datasets.Sequence(datasets.Value("float32"))}
    rows = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
    rows.save_to_disk(tmp_path / "d")
    found = load(tmp_path / "d", SourceOptions(annotators=("a", "b")))
    assert found.classes == ("zebra", "ant")
    assert found.votes is not None
    assert found.votes.table.tolist() == [[0, 0], [1, 1], [1, 0], [0, -1]]


@pytest.mark.parametrize("kind", ["images", "vectors", "parquet", "npy"])
def test_rows_that_are_votes_do_not_fit_inputs_of_a_row_each(tmp_path: Path, kind: str) -> None:
    make = _saved if kind in ("images", "vectors") else _files
    with pytest.raises(BadInput, match=r"one row per example with the .*; give one column per"):
        make(tmp_path, SAID, kind)(annotator_column="site", id_column="key")


@pytest.mark.parametrize("option", ["group", "id_column", "annotator_column"])
def test_a_folder_of_class_folders_has_no_columns(
    class_folder: Callable[..., Path], option: str
) -> None:
    with pytest.raises(BadInput, match="but images is a folder of pictures"):
        load(class_folder(), SourceOptions(**{option: "site"}))


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """A folder, and beside it a CSV of a row a vote with a number for each vote."""
    (tmp_path / "p").mkdir()
    lines = ["id,file,who,label,site"]
    for place in range(3):
        picture(place).save(tmp_path / "p" / f"{place}.png")
        lines += [f"{2 * place + k},{place}.png,{'ab'[k]},{'xyx'[place]},s{place}" for k in (0, 1)]
    (tmp_path / "v.csv").write_text("\n".join(lines))
    return tmp_path / "p"


def test_rows_that_are_votes_on_pictures_are_put_together_by_file(long: Path) -> None:
    table = long.parent / "v.csv"
    found = load(long, SourceOptions(labels=table, annotator_column="who", group="site"))
    assert found.ids == ["0.png", "1.png", "2.png"]
    assert found.groups == ["s0", "s1", "s2"]
    assert found.votes is not None
    assert found.votes.table.tolist() == [[0, 0], [1, 1], [0, 0]]
    table.write_text(table.read_text().replace("1,0.png,b,x,s0", "1,0.png,b,x,s9"))
    with pytest.raises(BadInput, match=r"'0\.png' has different ones in column 'site'"):
        load(long, SourceOptions(labels=table, annotator_column="who", group="site"))


def test_a_column_that_differs_within_an_example_can_be_dropped(tmp_path: Path) -> None:
    rows = ["id,who,label,size,hour"]
    rows += [f"{k},{who},{'xy'[k % 2]},{k},{who}{k}" for k in range(4) for who in "ab"]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    with pytest.raises(BadInput, match=r"in column 'hour'; .* --drop-column"):
        load(tmp_path / "t.csv", SourceOptions(annotator_column="who"))
    found = load(tmp_path / "t.csv", SourceOptions(annotator_column="who", drop_columns=("hour",)))
    assert len(found) == 4


def test_a_part_of_the_pictures_keeps_what_is_said_of_them(tmp_path: Path) -> None:
    read = _files(tmp_path, SAID, "folder")
    found = read(annotators=("rater_*",), group="site", shard=(2, 2))
    assert found.ids == ["1.png", "3.png", "5.png"]
    assert found.groups == ["s", "s", "n"]
    assert found.votes is not None
    assert found.votes.table.tolist() == [[0, 0, 1], [1, 1, 1], [1, 1, 0]]


@pytest.mark.parametrize("kind", ["folder", "npy"])
def test_a_csv_beside_pictures_and_vectors_needs_no_pandas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    read = _files(tmp_path, SAID, kind)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert read(group="site", id_column="key").groups == SAID["site"]
    assert read(annotators=("rater_*",)).votes is not None


def test_pictures_with_names_of_their_own_are_not_looked_for_by_them(tmp_path: Path) -> None:
    read = _files(tmp_path, SAID, "folder")
    for option, named in (({}, True), ({"id_column": "key"}, False)):
        found = read(**option)
        rows: Any = SimpleNamespace(names=lambda ids=found.ids: ids)
        assert (files_of({"data": found.about}, rows) is not None) == named
