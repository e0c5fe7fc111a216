"""Which precision a device gets where nobody asked."""

from __future__ import annotations

import torch

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
