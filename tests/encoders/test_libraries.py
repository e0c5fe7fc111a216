"""`timm:` and `hf:`: tiny networks where the libraries work, sentences where they do not."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from labelproof.data.encoders.picture_encoding import picture_encoder
from labelproof.errors import BadInput

PICTURES = np.random.default_rng(0).integers(0, 256, (2, 20, 30, 3), dtype=np.uint8)


def fake_timm(weights: bool = True) -> ModuleType:
    """As much of timm as an encoder uses, around a tiny network."""

    def create_model(name: str, pretrained: bool, num_classes: int) -> nn.Module:
        if not weights:
            raise RuntimeError("the hub cannot be reached")
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        net.pretrained_cfg = {"license": "mit"}
        return net

    config = {"input_size": (3, 16, 16), "mean": (0.5,) * 3, "std": (0.25,) * 3}
    timm = ModuleType("timm")
    timm.is_model = lambda name: name == "tiny"
    timm.list_models = lambda pattern: ["tiny"]
    timm.create_model = create_model
    timm.data = SimpleNamespace(resolve_model_data_config=lambda network: config)
    return timm


def test_a_network_of_timm_brings_its_rule_and_licence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", fake_timm())
    encoder = picture_encoder("timm:tiny")
    assert (encoder.rule.size, encoder.rule.mean[0], encoder.licence) == (16, 127.5, "mit")
    assert encoder.open()(PICTURES).shape == (2, 5)
    assert encoder.digest == picture_encoder("timm:tiny").digest


def test_timm_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", fake_timm(weights=False))
    with pytest.raises(BadInput, match="timm has no network 'huge'"):
        picture_encoder("timm:huge")
    with pytest.raises(BadInput, match="weights of timm:tiny in the hub's cache"):
        picture_encoder("timm:tiny")
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(BadInput, match=r'pip install "labelproof\[timm\]"'):
        picture_encoder("timm:tiny")


def test_a_vision_model_of_transformers_is_read_from_its_folder(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        image_size=16, patch_size=8,
    )  # fmt: skip
    transformers.ViTModel(config).save_pretrained(tmp_path)
    encoder = picture_encoder(f"hf:{tmp_path}")
    assert encoder.rule.size == 16
    assert encoder.open()(PICTURES).shape == (2, 8)


def test_a_text_model_is_no_encoder_of_pictures(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        vocab_size=30,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(tmp_path)
    with pytest.raises(BadInput, match="expected a model of pictures"):
        picture_encoder(f"hf:{tmp_path}")
    with pytest.raises(BadInput, match="hub's cache, but it could not be loaded"):
        picture_encoder("hf:nobody/nothing")
    for name in (tmp_path / "other", "./models/x", "my/models/x"):
        with pytest.raises(BadInput, match=r"the folder of a model at .*; check the path"):
            picture_encoder(f"hf:{name}")
