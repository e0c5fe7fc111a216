"""`--precision`: what it sets, and that a run in bfloat16 learns, repeats and resumes."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from cases import CASES
from labelproof import pipeline
from labelproof.errors import BadInput
from labelproof.runs.forecast import forecast
from labelproof.runs.spec import RunSpec, load_spec, read_spec
from labelproof.training import run as run_module
from labelproof.training.run import Run, native_bf16, precision_for
from labelproof.training.trained import revive, trained, without_examples
from tiny import CPU, blobs, patterns, same_bits

BF16 = {"auto": torch.bfloat16, "bf16": torch.bfloat16, "fp32": None}


def test_auto_is_full_precision_on_a_cpu():
    assert precision_for(CPU) is None
    assert precision_for(CPU, "fp32") is None
    assert precision_for(CPU, "bf16") == torch.bfloat16
    assert precision_for(torch.device("cuda"), "fp32") is None


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_features_are_rounded_and_heads_are_not(precision):
    problem = patterns(size=20)
    run = Run(problem.task, problem.trunk, device=CPU, seed=0, precision=precision)
    net = CASES["ce"].setup(run).learner.net.eval()
    (batch,) = run.batches(20, views=("plain",))
    with torch.no_grad():
        features, logits = net.trunk_features(batch.views[0]), net(batch.views[0])
    assert logits.dtype == features.dtype == torch.float32
    rounded = torch.equal(features, features.bfloat16().float())
    assert rounded == (precision == "bf16")
    assert torch.equal(logits, net.head("label", features))
    assert not torch.equal(logits, logits.bfloat16().float())


@pytest.mark.parametrize("name", ["ce", "dpc"])
def test_a_run_in_bfloat16_learns_and_repeats(name):
    problem = blobs()
    first, second = (problem.train(CASES[name], precision="bf16") for _ in range(2))
    assert same_bits(first, second)
    assert first.precision == "bf16"
    assert first.history[-1]["test_accuracy"] > 0.9
    assert not same_bits(first, problem.train(CASES[name]))


class Noting(nn.Module):
    """A trunk that notes whether it is asked to compute in bfloat16."""

    features = 4
    rounded: ClassVar[set[bool]] = set()

    def forward(self, x: Tensor) -> Tensor:
        Noting.rounded.add(torch.is_autocast_enabled("cpu"))
        return x.flatten(1)[:, :4] * nn.Parameter(torch.ones(4))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_forecast_measures_what_the_run_will_compute(precision, monkeypatch):
    monkeypatch.setattr(Noting, "rounded", set())
    spec = RunSpec(data="digits", method="ce", precision=precision, settings={"epochs": 1})
    parts = pipeline.assemble(spec, replace(pipeline.read(spec), net=Noting))
    assert forecast(parts).measured is not None
    assert Noting.rounded == {precision == "bf16"}


def test_a_finished_model_computes_in_float32(monkeypatch):
    problem, method = blobs(size=40), CASES["ce"]
    result = problem.train(method, precision="bf16")
    # as on a GPU, where `auto` is bfloat16
    monkeypatch.setattr(run_module, "precision_for", lambda _, asked: BF16[asked])
    saved = trained(result.state)
    state = revive(method, without_examples(problem.task), problem.trunk, saved, CPU)
    assert state.learner.net.precision is None


def test_a_spec_keeps_it(tmp_path):
    spec = RunSpec(
        data="digits", method="ce", precision="bf16", calibrate="off", settings={"epochs": 1}
    )
    pipeline.run(replace(spec, out=tmp_path / "run"))
    assert load_spec(tmp_path / "run").precision == "bf16"
    with pytest.raises(BadInput, match="precision"):
        read_spec({**spec.describe(), "precision": "half"}, tmp_path)


def test_a_processor_says_whether_it_has_bfloat16(tmp_path):
    flags = tmp_path / "cpuinfo"
    assert not native_bf16(flags)  # another system than Linux
    flags.write_text("flags : fpu avx512f avx512bw avx512_vnni\n")
    assert not native_bf16(flags)
    flags.write_text("flags : fpu avx512f avx512_bf16\n")
    assert native_bf16(flags)
    flags.write_text("flags : fpu amx_bf16 amx_tile\n")
    assert native_bf16(flags)
