"""`--net timm:NAME`: a pretrained trunk trained end to end, with a tiny stand-in for timm."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_timm import tiny_timm

from labelproof import BadInput, load_model
from labelproof.data.examples import Examples, Resident
from labelproof.nets.heads import MultiHead, linear
from labelproof.nets.pretrained import LOWEST, pretrained
from labelproof.pipeline import Given, assemble, run
from labelproof.runs.spec import RunSpec
from labelproof.training.learner import SGD, Learner, weights_of

NET = "timm:tiny"


@pytest.fixture(autouse=True)
def timm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", tiny_timm())


def pictures(edge: int = 12, size: int = 30) -> Examples:
    y = np.arange(size) % 3
    noise = np.random.default_rng(0).integers(0, 60, (size, edge, edge, 3))
    x = (noise + 180 * np.eye(3, dtype=int)[y][:, None, None]).astype(np.uint8)
    return Examples(x=Resident(torch.from_numpy(x)), labels=y, classes=("a", "b", "c"))


@pytest.mark.parametrize("method", ["ce", "dpc", "coteaching_plus", "cores", "mwnet"])
def test_methods_train_a_pretrained_trunk(method: str) -> None:
    spec = RunSpec(net=NET, method=method, settings={"epochs": 4}, calibrate="off", device="cpu")
    ended = run(spec, Given(data=pictures()))
    assert torch.isfinite(ended.result.probabilities).all()


def test_the_trunk_brings_its_size_and_its_normalisation() -> None:
    parts = assemble(RunSpec(net=NET, method="ce", device="cpu"), Given(data=pictures(edge=12)))
    views = parts.prepared.task.views
    assert (list(views.mean), list(views.std)) == ([0.5] * 3, [0.25] * 3)
    trunk, again = parts.trunk(), parts.trunk()
    seen: list[torch.Size] = []
    trunk.network.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape))
    trunk(torch.zeros(2, 3, 12, 12))
    assert seen[0] == (2, 3, 16, 16)
    assert torch.equal(trunk.network[0].weight, again.network[0].weight)  # the pretrained weights


def test_early_layers_learn_more_slowly() -> None:
    net = MultiHead(pretrained(NET, (3, 12, 12)), {"label": linear(5, 3)})
    learner = Learner(net, SGD(lr=1.0).of(weights_of(net)))
    learner.set_lr(0.2)
    rates = {id(p): g["lr"] for g in learner.optimiser.param_groups for p in g["params"]}
    first, last = net.trunk.network[0].weight, net.trunk.network[3].weight
    assert rates[id(net.heads["label"].weight)] == 0.2
    assert rates[id(first)] == pytest.approx(0.2 * LOWEST)
    assert rates[id(first)] < rates[id(last)] < 0.2
    assert len(rates) == len(list(net.parameters()))


def test_a_saved_model_needs_no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = RunSpec(net=NET, method="ce", settings={"epochs": 2}, calibrate="quick", device="cpu")
    data = pictures()
    ended = run(RunSpec(**{**vars(spec), "out": tmp_path / "run"}), Given(data=data))
    monkeypatch.setitem(sys.modules, "timm", tiny_timm(weights=False))
    loaded = load_model(tmp_path / "run", device="cpu")
    found = loaded.model.predict(data.x).probabilities
    torch.testing.assert_close(found, ended.calibrated.probabilities.cpu())


def test_vectors_are_refused_in_a_sentence() -> None:
    vectors = Examples(
        x=Resident(torch.zeros(9, 4)), labels=np.arange(9) % 3, classes=("a", "b", "c")
    )
    with pytest.raises(BadInput, match="takes pictures, but the data holds vectors of 4"):
        assemble(RunSpec(net=NET, method="ce", device="cpu"), Given(data=vectors))
