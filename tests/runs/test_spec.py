"""A spec is written to run.json, read back, and run again with the same result."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labelproof import load_model, pipeline
from labelproof.data.examples import Examples
from labelproof.data.readers import SourceOptions
from labelproof.errors import BadInput
from labelproof.pipeline import Given
from labelproof.runs import folder
from labelproof.runs.folder import finished
from labelproof.runs.ownership import is_own
from labelproof.runs.prepare import prepare
from labelproof.runs.spec import RunSpec, load_spec, read_spec

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


def test_a_run_continued_to_be_judged_otherwise_says_so(tmp_path: Path) -> None:
    y = np.arange(80) % 2
    x = np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x + 2 * y[:, None], y=y)
    first = RunSpec(
        data=str(tmp_path / "d.npz"),
        settings={"epochs": 2, "steps": 2},
        calibrate="off",
        device="cpu",
        out=tmp_path / "run",
    )
    pipeline.run(first)
    began = json.loads((tmp_path / "run" / "run.json").read_text())
    then = replace(first, calibrate="quick", method="dpc", review_budget=3)
    assert not finished(then)
    pipeline.run(then, Given(command=("fit", "again")), resume=True)
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert finished(then)
    assert not finished(first)
    assert load_spec(tmp_path / "run").describe() == then.describe()
    assert is_own(record)
    assert record["command"] == ["fit", "again"]
    assert record["started"] == began["started"]
    assert load_model(tmp_path / "run").model.classes == ("0", "1")  # files.json fits run.json


def test_a_kill_while_a_run_is_told_anew_leaves_it_to_be_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "d.npz", x=np.eye(8, 3, dtype=np.float32), y=np.arange(8) % 2)
    first = RunSpec(
        data=str(tmp_path / "d.npz"),
        method="ce",
        settings={"epochs": 1},
        calibrate="off",
        device="cpu",
        out=tmp_path / "run",
    )
    pipeline.run(first)
    then = replace(first, calibrate="quick")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(folder, "write_rows", killed)
        with pytest.raises(KeyboardInterrupt):
            pipeline.run(then, resume=True)
    assert not finished(first)
    assert not finished(then)
    pipeline.run(then, resume=True)
    assert finished(then)


@pytest.mark.parametrize("noise", ["symmetric:0.4", "instance:0.4"])
def test_labels_before_added_noise_choose_no_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noise: str
) -> None:
    y = np.arange(200) % 4
    np.savez(tmp_path / "d.npz", x=np.eye(200, 5, dtype=np.float32), y=y)
    seen = []

    def noted(examples: Examples, *_: object, **__: object) -> Examples:
        seen.append(examples.labels)
        return examples

    monkeypatch.setattr(pipeline, "encoded", noted)
    spec = RunSpec(data=str(tmp_path / "d.npz"), noise=noise)
    data = pipeline.read(spec).data
    assert data is not None
    assert np.array_equal(data.labels, y)
    given = prepare(data, noise=noise).task.y.numpy()
    assert 50 < (seen[0] != y).sum() < 110
    assert np.array_equal(seen[0], given) == (noise == "symmetric:0.4")
