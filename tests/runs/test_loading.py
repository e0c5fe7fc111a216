"""A model read back from its folder, and folders that are not what they should be."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from saved_runs import SMALL, copied, images, vectors

from cases import CASES
from fitting import fit
from labelproof import BadInput, load_model
from labelproof.data.encoders.picture_encoding import LITE0, encode_pictures
from labelproof.data.examples import Resident
from labelproof.data.readers.arrays import from_arrays
from labelproof.judging.link import Link
from labelproof.methods.ce import CrossEntropy
from labelproof.nets import MLP
from labelproof.runs.manifest import write_manifest
from labelproof.runs.model import Model, model_of
from labelproof.training.protocol import Method
from labelproof.views import ImageViews, RandAugment, VectorViews
from tiny import CPU, Problem, blobs


@pytest.fixture(params=sorted(CASES))
def method(request: pytest.FixtureRequest) -> Method:
    return CASES[request.param]


def test_every_method_gives_the_same_probabilities_without_its_data(method: Method) -> None:
    problem: Problem = blobs(60)
    result = problem.train(method)
    model = model_of(result, problem.trunk, Link())
    assert model.task.size == 0
    assert problem.audit.test_x is not None
    there = model.predict(problem.audit.test_x).probabilities
    assert torch.allclose(there, result.predict(problem.audit.test_x), atol=1e-6)


def test_a_loaded_model_says_what_the_run_said(run: Path) -> None:
    X, y = vectors()
    data = from_arrays(X, np.array(["ant", "bee", "cow"])[y])
    result = fit(data, SMALL, device="cpu")
    loaded = load_model(run, device="cpu")
    assert loaded.model.classes == ("ant", "bee", "cow")
    link = json.loads((run / "calibration.json").read_text())["link"]
    assert loaded.model.link == Link(**link)
    assert link["of"] == "logits"
    first, second = result.state.learners
    x = loaded.model.task.views.plain(torch.from_numpy(X))
    with torch.no_grad():
        logits = (first.net(x) + second.net(x)) / 2
    said = loaded.model.predict(Resident(torch.from_numpy(X)))
    assert torch.allclose(said.probabilities, (link["scale"] * logits).softmax(1), atol=1e-6)
    assert torch.equal(said.label, said.probabilities.argmax(1))
    assert torch.equal(said.label, result.probabilities.argmax(1))  # the accuracy is unchanged


def test_images_load_too(image_run: Path) -> None:
    loaded = load_model(image_run, device="cpu")
    said = loaded.model.predict(Resident(torch.from_numpy(images()[0])))
    assert said.probabilities.shape == (40, 2)
    assert isinstance(loaded.model.task.views, ImageViews)


def test_the_example_of_the_page_on_runs_predicts(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path(__file__).parents[2] / "docs" / "runs.md"
    example = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)[-1]
    copied(run, tmp_path / "runs" / "mine")
    monkeypatch.chdir(tmp_path)
    X, y = vectors(30, seed=1)
    names: dict[str, Any] = {"X": X.astype(np.float64)}
    exec(example, names)
    said = load_model(run).model.predict(Resident(torch.from_numpy(X))).probabilities
    np.testing.assert_allclose(names["probabilities"], said, atol=1e-6)
    np.testing.assert_allclose(names["probabilities"].sum(1), 1, atol=1e-12)
    best = names["probabilities"].argmax(1)
    assert names["labels"].tolist() == np.array(["ant", "bee", "cow"])[best].tolist()
    assert (best == y).mean() > 0.8


def test_a_loaded_model_takes_the_forms_of_its_training_data(image_run: Path, run: Path) -> None:
    X = images()[0]
    loaded = load_model(image_run, device="cpu")
    np.testing.assert_array_equal(loaded.predict_proba(X), loaded.predict_proba(X / 255))
    with pytest.raises(BadInput, match=r"shape \(5,\)"):
        load_model(run).predict(vectors()[0][:, :5])


def test_a_loaded_model_encodes_pictures_and_words(tmp_path: Path) -> None:
    X, y = images()
    data = encode_pictures(from_arrays(X, y), LITE0)
    frame = pd.DataFrame({"size": y + 0.5, "colour": np.where(y == 1, "red", "blue")})
    for name, given, examples in (("pictures", X, data), ("words", frame, from_arrays(frame, y))):
        small = CrossEntropy(epochs=8, batch=8)
        fit(examples, small, name="ce", out=tmp_path / name, device="cpu", how="quick")
        assert (load_model(tmp_path / name).predict(given) == y.astype(str)).mean() > 0.9


def test_views_survive_the_record() -> None:
    from labelproof.runs.folder import views_record
    from labelproof.runs.load import views_of

    for views in (
        ImageViews(mean=(0.1, 0.2, 0.3), std=(0.5,) * 3, size=7, policy=RandAugment(n=2, m=10)),
        ImageViews(mean=(0.1, 0.2, 0.3), std=(0.5,) * 3, crop="resized", flip=False),
    ):
        assert views_of(json.loads(json.dumps(views_record(views)))) == views
    vector = VectorViews(mean=torch.rand(3), std=torch.rand(3), spread=torch.rand(3), waves=4)
    for changes in ({"waves": -1}, {"waves": 10**40}, {"wavelength": 0}, {"wavelength": 1e999}):
        with pytest.raises(ValueError, match="waves of length"):  # before any is drawn
            views_of({**views_record(vector), **changes})
    again = views_of(json.loads(json.dumps(views_record(vector))))
    assert isinstance(again, VectorViews)
    x = torch.randn(2, 3)
    assert torch.equal(again.plain(x), vector.plain(x))
    assert torch.equal(torch.as_tensor(again.std), torch.as_tensor(vector.std))


def test_a_network_of_the_users_own_must_be_given_again(tmp_path: Path) -> None:
    X, y = vectors()
    fit(from_arrays(X, y), SMALL, name="dpc", net=lambda: MLP(6, hidden=7), out=tmp_path / "run")
    with pytest.raises(BadInput, match=r"load_model\(folder, net=...\)"):
        load_model(tmp_path / "run")
    model: Model = load_model(tmp_path / "run", net=lambda: MLP(6, hidden=7)).model
    assert model.predict(Resident(torch.from_numpy(X))).probabilities.shape == (90, 3)
    with pytest.raises(BadInput, match="do not fit together"):
        load_model(tmp_path / "run", net=lambda: MLP(6, hidden=8))


def test_a_method_of_the_users_own_must_be_given_again(run: Path, tmp_path: Path) -> None:
    folder = copied(run, tmp_path / "run")
    _edit(folder, method="mine")
    with pytest.raises(BadInput, match=r"load_model\(folder, method=...\)"):
        load_model(folder)
    assert load_model(folder, method=SMALL).model.method == SMALL


def test_other_shapes_are_refused(run: Path) -> None:
    model = load_model(run).model
    with pytest.raises(BadInput, match=r"shape \(6,\).*shape \(5,\)"):
        model.predict(Resident(torch.zeros(2, 5)))


# ---- damage ----


def _edit(folder: Path, **changes: object) -> None:
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, **changes}))
    write_manifest(folder)


def _cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 0xFF
    path.write_bytes(bytes(data))


DAMAGE = {
    "empty": (lambda f: [p.unlink() for p in f.iterdir()], "no run.json"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "has not ended"),
    "no reading": (lambda f: (f / "reading.json").unlink(), "lacks reading.json"),
    "no link": (lambda f: (f / "calibration.json").unlink(), "lacks calibration.json"),
    "cut weights": (lambda f: _cut(f / "model.safetensors"), "cut short, or changed"),
    "cut record": (lambda f: _cut(f / "run.json"), "damaged"),
    "cut manifest": (lambda f: _cut(f / "files.json"), "damaged"),
    "flipped weights": (lambda f: _flip(f / "model.safetensors"), "cut short, or changed"),
    "edited record": (
        lambda f: (f / "run.json").write_text((f / "run.json").read_text().replace("ant", "owl")),
        "cut short, or changed",
    ),
    "strange manifest": (
        lambda f: (f / "files.json").write_text('{"sha256": {"../../x": "0"}}'),
        "no part of a model",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_folder_is_refused_in_one_sentence(name: str, run: Path, tmp_path: Path) -> None:
    folder = copied(run, tmp_path / "run")
    damage, sentence = DAMAGE[name]
    damage(folder)
    with pytest.raises(BadInput, match=sentence) as error:
        load_model(folder)
    assert "\n" not in str(error.value)


UNTOLD = {
    "cut weights": lambda f: _cut(f / "model.safetensors"),
    "cut link": lambda f: _cut(f / "calibration.json"),
    "endless link": lambda f: (f / "calibration.json").write_text('{"link": {"scale": -1}}'),
    "cut reading": lambda f: _cut(f / "reading.json"),
    "other classes": lambda f: _edit(
        f, task={**json.loads((f / "run.json").read_text())["task"], "classes": ["x", "y"]}
    ),
    "other method": lambda f: _edit(f, method="ce"),
    "other settings": lambda f: _edit(f, settings={"lr": -1}),
    "other net": lambda f: _edit(f, net="cnn"),
    "no views": lambda f: _edit(f, views=None),
}


@pytest.mark.parametrize("name", UNTOLD)
def test_damage_that_no_hash_tells_is_refused_too(name: str, run: Path, tmp_path: Path) -> None:
    folder = copied(run, tmp_path / "run")
    UNTOLD[name](folder)
    (folder / "files.json").unlink()
    with pytest.raises(BadInput) as error:
        load_model(folder)
    assert "\n" not in str(error.value)


def test_nan_weights_are_refused(run: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = copied(run, tmp_path / "run")
    weights = load_file(folder / "model.safetensors")
    name = next(iter(weights))
    weights[name].fill_(float("nan"))
    save_file(weights, folder / "model.safetensors")
    write_manifest(folder)
    with pytest.raises(BadInput, match="not finite"):
        load_model(folder)


def test_nothing_in_a_folder_is_executed(run: Path, tmp_path: Path) -> None:
    folder = copied(run, tmp_path / "run")
    marker = tmp_path / "ran"
    payload = f"cposix\nsystem\n(S'touch {marker}'\ntR.".encode()
    for name in ("checkpoint.pt", "model.pkl"):
        (folder / name).write_bytes(payload)
    load_model(folder, device=str(CPU))
    shutil.copyfile(folder / "model.pkl", folder / "model.safetensors")
    with pytest.raises(BadInput):
        load_model(folder)
    assert not marker.exists()
