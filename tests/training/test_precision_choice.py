"""Which precision a device gets where nobody asked."""

from __future__ import annotations

import torch

from labelproof.runs.spec import RunSpec
from labelproof.training.run import precision_for


def test_emulated_bfloat16_is_not_taken(monkeypatch):
    asked = []

    def supported(including_emulation: bool = True) -> bool:
        asked.append(including_emulation)
        return including_emulation  # an old GPU: by emulation alone

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    assert precision_for(torch.device("cuda")) is None
    assert asked == [False]
    assert precision_for(torch.device("cuda"), "bf16") is torch.bfloat16
    assert precision_for(torch.device("cuda"), "fp32") is None
    assert precision_for(torch.device("cpu")) is None


def test_published_settings_are_trained_in_float32_unless_told_otherwise():
    assert RunSpec(recipe="paper").number_type == "fp32"
    assert RunSpec(recipe="paper", precision="bf16").number_type == "bf16"
    assert RunSpec().number_type == "auto"
