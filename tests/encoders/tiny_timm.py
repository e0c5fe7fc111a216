"""As much of timm as labelproof uses, around a tiny network."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import torch
from torch import nn

CONFIG = {"input_size": (3, 16, 16), "mean": (0.5,) * 3, "std": (0.25,) * 3}


def tiny_timm(weights: bool = True) -> ModuleType:
    """A stand-in for the library; without `weights`, its hub cannot be reached."""

    def create_model(name: str, pretrained: bool, num_classes: int) -> nn.Module:
        if pretrained and not weights:
            raise RuntimeError("the hub cannot be reached")
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Conv2d(3, 6, 3, stride=2),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.Conv2d(6, 5, 3),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        net.pretrained_cfg = {"license": "mit"}  # type: ignore[assignment]
        return net

    timm = ModuleType("timm")
    timm.is_model = lambda name: name == "tiny"  # type: ignore[attr-defined]
    timm.list_models = lambda pattern: ["tiny"]  # type: ignore[attr-defined]
    timm.create_model = create_model  # type: ignore[attr-defined]
    timm.data = SimpleNamespace(  # type: ignore[attr-defined]
        resolve_model_data_config=lambda network: CONFIG
    )
    return timm
