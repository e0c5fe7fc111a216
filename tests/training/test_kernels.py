"""Fused operations where torch.compile works, and the switch for the same bits on a GPU."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from labelproof import pipeline
from labelproof.errors import BadInput, Note
from labelproof.runs.spec import RunSpec
from labelproof.training.trunk import fused, reproducible

CPU = torch.device("cpu")


class Doubling(nn.Module):
    """A trunk."""

    features = 4

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * self.layer(x)


@pytest.fixture
def compiler(monkeypatch):
    """torch.compile that notes what it was given and changes nothing."""
    seen: list[object] = []

    def compile_(function, **_):
        seen.append(function)
        return function

    monkeypatch.setattr(torch, "compile", compile_)
    return seen


def test_new_trunks_are_compiled_and_keep_their_names(compiler):
    make = fused(Doubling, torch.ones(2, 3), CPU)
    trunk = make()
    assert len(compiler) == 2  # the one that was tried, and this one
    assert list(trunk.state_dict()) == ["layer.weight", "layer.bias"]
    assert torch.equal(trunk(torch.ones(2, 3)), 2 * trunk.layer(torch.ones(2, 3)))


def test_where_the_compiler_fails_trunks_stay_as_they_are(monkeypatch):
    def broken(function, **_):
        raise RuntimeError("no compiler\nat length")

    monkeypatch.setattr(torch, "compile", broken)
    with pytest.warns(Note, match=r"torch.compile fails here, .*without it: no compiler$"):
        assert fused(Doubling, torch.ones(2, 3), CPU) is Doubling


def test_second_derivatives_and_compile_are_refused_together():
    spec = RunSpec(data="digits", method="mwnet", compile=True)
    with pytest.raises(BadInput, match="second derivatives"):
        pipeline.assemble(spec)


def test_a_run_is_compiled_where_asked(compiler):
    spec = RunSpec(data="digits", method="ce", settings={"epochs": 1}, calibrate="off")
    plain = pipeline.run(spec).result.probabilities
    assert not compiler
    fused = pipeline.run(RunSpec(**{**vars(spec), "compile": True})).result.probabilities
    assert compiler
    assert torch.equal(plain, fused)  # this compiler changes nothing


@pytest.mark.parametrize("wanted", [True, False])
def test_the_switch_is_set_and_set_back(wanted, monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    cudnn = torch.backends.cudnn
    before = (torch.are_deterministic_algorithms_enabled(), cudnn.benchmark, cudnn.deterministic)
    with reproducible(wanted):
        assert torch.are_deterministic_algorithms_enabled() == wanted
        assert (cudnn.benchmark, cudnn.deterministic) == (not wanted, wanted)
    after = (torch.are_deterministic_algorithms_enabled(), cudnn.benchmark, cudnn.deterministic)
    assert before == after
