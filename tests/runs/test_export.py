"""Exported models, compared in onnxruntime and read back from a folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from saved_runs import images, vectors
from typer.testing import CliRunner

from cases import CASES
from labelproof import BadInput, load_model
from labelproof.cli.app import app
from labelproof.data.examples import Resident
from labelproof.errors import RunFailed
from labelproof.judging.link import Link
from labelproof.runs.export import PlainImages, PlainVectors, export_folder, export_onnx
from labelproof.runs.model import model_of
from labelproof.views import ImageViews, VectorViews
from tiny import blobs, patterns


def answers(path: Path, x: np.ndarray) -> torch.Tensor:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (probs,) = session.run(["probabilities"], {"x": x})
    return torch.from_numpy(probs)


def export(*words: object) -> None:
    found = CliRunner().invoke(app, ["export", *map(str, words)])
    if found.exception and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == 0, found.output


def test_vectors_at_any_batch_size(run: Path, tmp_path: Path) -> None:
    export(run, "--out", tmp_path / "model.onnx")
    X, _ = vectors(300, seed=5)
    expected = load_model(run).model.predict(Resident(torch.from_numpy(X))).probabilities
    for size in (1, 2, 7, 300):
        found = answers(tmp_path / "model.onnx", X[:size])
        assert torch.allclose(found, expected[:size], atol=1e-4)
    made = onnx.load(tmp_path / "model.onnx")
    about = {entry.key: entry.value for entry in made.metadata_props}
    assert json.loads(about["classes"]) == ["ant", "bee", "cow"]
    assert not list(tmp_path.glob("*.data"))  # one file, weights inside


def test_images_as_bytes(image_run: Path, tmp_path: Path) -> None:
    export(image_run, "--format", "onnx", "--out", tmp_path / "model.onnx")
    X, _ = images(30, seed=2)
    expected = load_model(image_run).model.predict(Resident(torch.from_numpy(X))).probabilities
    for size in (1, 30):
        found = answers(tmp_path / "model.onnx", X[:size])
        assert torch.allclose(found, expected[:size], atol=1e-4)


@pytest.mark.parametrize("name", ["coteaching", "elr_plus", "edl"])
def test_methods_of_other_shapes(name: str, tmp_path: Path) -> None:
    problem = blobs(60)
    model = model_of(problem.train(CASES[name]), problem.trunk, Link(scale=1.7))
    export_onnx(model, tmp_path / "model.onnx")
    assert problem.audit.test_x is not None
    x = problem.audit.test_x.take(torch.arange(50))
    expected = model.predict(Resident(x)).probabilities
    assert torch.allclose(answers(tmp_path / "model.onnx", x.numpy()), expected, atol=1e-4)


@pytest.mark.parametrize(
    "views",
    [
        ImageViews(mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4)),
        ImageViews(mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4), size=5),
        ImageViews(mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4), size=20),
    ],
)
def test_the_plain_view_of_images_is_the_same(views: ImageViews) -> None:
    x = torch.from_numpy(images(6)[0])
    module = PlainImages(views, tuple(x.shape[1:]))
    assert torch.allclose(module(x), views.plain(x), atol=1e-5)


def test_the_plain_view_of_vectors_is_the_same() -> None:
    views = VectorViews(mean=torch.tensor([1.0, 2.0]), std=torch.tensor([3.0, 0.0]))
    x = torch.randn(4, 2)
    assert torch.equal(PlainVectors(views)(x), views.plain(x))
    waved = replace(views, waves=5, wavelength=0.7)
    assert waved.plain(x).shape == (4, 7)
    assert torch.equal(PlainVectors(waved)(x), waved.plain(x))


def test_a_folder_loads_again_and_tells_nothing_of_the_training_set(
    run: Path, tmp_path: Path
) -> None:
    export(run, "--format", "folder", "--out", tmp_path / "model")
    X, _ = vectors(20, seed=6)
    there, here = load_model(tmp_path / "model").model, load_model(run).model
    x = Resident(torch.from_numpy(X))
    assert torch.equal(there.predict(x).probabilities, here.predict(x).probabilities)
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert names == {
        "calibration.json",
        "files.json",
        "model.safetensors",
        "reading.json",
        "run.json",
    }
    assert "command" not in json.loads((tmp_path / "model" / "run.json").read_text())
    with pytest.raises(BadInput, match="exists already"):
        export(run, "--format", "folder", "--out", tmp_path / "model")


def test_a_failed_export_leaves_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labelproof.runs.export.CLOSE", -1.0)
    with pytest.raises(RunFailed, match="differs from the original"):
        export(run, "--out", tmp_path / "model.onnx")
    monkeypatch.setattr("labelproof.runs.export.write_manifest", lambda folder: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export_folder(run, load_model(run), tmp_path / "model")
    with pytest.raises(BadInput, match="folder does not exist"):
        export(run, "--out", tmp_path / "no" / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_without_its_packages_the_export_says_what_to_install(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(BadInput, match=r"labelproof\[export\]"):
        export(run, "--out", tmp_path / "model.onnx")


def test_two_networks_of_images_with_batch_statistics(tmp_path: Path) -> None:
    problem = patterns(60)
    model = model_of(problem.train(CASES["dpc"]), problem.trunk, Link(of="logits", scale=0.8))
    export_onnx(model, tmp_path / "model.onnx")
    x = problem.task.x.take(torch.arange(9))
    expected = model.predict(Resident(x)).probabilities
    assert torch.allclose(answers(tmp_path / "model.onnx", x.numpy()), expected, atol=1e-4)
