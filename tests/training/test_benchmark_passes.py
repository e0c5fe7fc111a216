"""The benchmark of the loop compares an epoch with the passes that this epoch makes."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

from labelproof.nets import build_trunk
from labelproof.training.run import Run

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("method", ["ce", "dpc"])
def test_an_epoch_is_compared_with_its_own_passes(method, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    loop = importlib.import_module("loop")
    task, net = loop.vectors()
    run = Run(task, lambda: build_trunk(net, (256,), 1), device=torch.device("cpu"), seed=0)
    learners, epoch = {"ce": loop.ce_epoch, "dpc": loop.dpc_epoch}[method](run)
    found = loop.passes(learners, epoch)
    if method == "ce":
        assert found == {(128, True): 100}
        return
    steps = found[256, True]  # two views of 64 labelled and of 64 unlabelled examples
    assert 90 < steps < 110
    assert found == {(256, True): steps, (128, False): 2 * steps}  # both networks guess
