"""A spec is written to run.json, read back, and run again with the same result."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labelproof import pipeline
from labelproof.data.readers import SourceOptions
from labelproof.errors import BadInput
from labelproof.runs.folder import finished
from labelproof.runs.spec import RunSpec, load_spec, read_spec, spec_of

FULL = RunSpec(
    data="photos",
    test="more",
    reading=SourceOptions(labels=Path("labels.csv"), drop_columns=("a", "b"), image_size=32),
    flip=False,
    noise="symmetric:0.4",
    reviewed=Path("old"),
    method="ce",
    settings={"decay_at": (0.5, 0.75), "lr": 0.1},
    net="cnn",
    calibrate="quick",
    seed=3,
    device="cpu",
    out=Path("new"),
    tensorboard=True,
)


def test_a_spec_comes_back_from_json_as_it_was() -> None:
    for spec in (FULL, RunSpec()):
        assert read_spec(json.loads(json.dumps(spec.describe())), Path("run.json")) == spec


@pytest.mark.parametrize(
    ("name", "value"),
    [("seed", "three"), ("settings", 4), ("reading", {"max_bad": []}), ("calibrate", "twice")],
)
def test_a_spec_that_makes_no_sense_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(BadInput, match=f"run.json.*{name}"):
        read_spec({**FULL.describe(), name: value}, Path("run.json"))


def test_a_path_written_in_another_way_is_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    far = SourceOptions(labels=tmp_path / "labels.csv", drop_columns=("a", "b"), image_size=32)
    paths = {"data": str(tmp_path / "photos"), "test": "./more", "reviewed": tmp_path / "old"}
    assert FULL.same_run(replace(FULL, **paths, reading=far))
    assert not FULL.same_run(replace(FULL, data=str(tmp_path / "old" / "photos")))


def test_a_file_that_is_no_run_is_refused(tmp_path: Path) -> None:
    for content in ("[1]", "{}", "no json"):
        (tmp_path / "run.json").write_text(content)
        with pytest.raises(BadInput, match=r"run\.json"):
            load_spec(tmp_path)
    with pytest.raises(BadInput, match="cannot be read"):
        load_spec(tmp_path / "absent.json")


def test_a_record_of_the_first_edition_still_says_how_to_run_again() -> None:
    record = {
        "reading": {"data": "d.csv", "test": None, "options": {"text_column": "t", "gone": 1}},
        "noise": {"kind": "symmetric", "rate": 0.4},
        "method": "ce",
        "settings": {"epochs": 3},
        "net": "mlp",
        "seed": 5,
    }
    spec = spec_of(record, Path("run.json"))
    assert (spec.data, spec.reading.text_column, spec.noise) == ("d.csv", "t", "symmetric:0.4")
    assert (spec.method, dict(spec.settings), spec.net, spec.seed) == (
        "ce",
        {"epochs": 3},
        "mlp",
        5,
    )


def test_a_run_repeated_from_its_record_gives_the_same_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    x = (2 * np.eye(3, 5)[y] + rng.normal(size=(90, 5))).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x, y=y)
    first = RunSpec(
        data=str(tmp_path / "d.npz"),
        noise="symmetric:0.2",
        method="ce",
        settings={"epochs": 2},
        device="cpu",
        out=tmp_path / "first",
    )
    assert not finished(first)
    pipeline.run(first)
    assert finished(first)
    again = load_spec(tmp_path / "first" / "run.json")
    pipeline.run(RunSpec(**{**vars(again), "out": tmp_path / "second"}))
    for name in ("labels.csv", "model.safetensors", "calibration.json"):
        one, two = (tmp_path / run / name for run in ("first", "second"))
        assert one.read_bytes() == two.read_bytes()
    assert not finished(RunSpec(**{**vars(again), "seed": 1}))
