"""Encoding: batches, the cache, going on after a kill, and records of what was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from photos import encoder_file

from labelproof.data.encoders import encode as encoding
from labelproof.data.encoders.apply import glance
from labelproof.data.encoders.encode import encode, encoding_key
from labelproof.data.encoders.encoder_protocol import Batch, InputRule, Vectors
from labelproof.data.encoders.picture_encoding import encode_pictures, picture_encoder
from labelproof.data.examples import Examples, Repeated, Resident
from labelproof.errors import BadInput

RULE = InputRule(size=4, mean=(0.0,) * 3, std=(1.0,) * 3)


@dataclass(frozen=True, kw_only=True)
class Means:
    """An encoder without weights: the mean of each colour."""

    name: str = "means"
    licence: str = "none needed"
    rule: InputRule = RULE
    digest: str = "1"
    log: list[int]

    def open(self) -> Means:
        return self

    def __call__(self, batch: Batch) -> Vectors:
        self.log.append(len(batch))
        return batch.mean((1, 2), dtype=np.float32)

    def graph(self, shape: Sequence[int]) -> Any:
        raise NotImplementedError


def pictures(count: int) -> Resident:
    rng = torch.Generator().manual_seed(count)
    return Resident(torch.randint(0, 256, (count, 5, 6, 3), generator=rng, dtype=torch.uint8))


def key(x: Resident, encoder: Means) -> str:
    return encoding_key(x, encoder.digest, str(encoder.rule))


def test_vectors_come_in_order_and_in_half_precision() -> None:
    x, steps = pictures(150), []
    found = encode(x, Means(log=[]), progress=lambda done, _: steps.append(done))
    assert found.data.dtype == torch.float16
    want = x.data.float().mean((1, 2)).half()
    assert torch.equal(found.data, want)
    assert steps == sorted(steps)
    assert steps[-1] == 150


def test_a_full_cache_opens_nothing(tmp_path: Path) -> None:
    x, first = pictures(40), Means(log=[])
    one = encode(x, first, cache=tmp_path)
    again = Means(log=[])
    two = encode(x, again, cache=tmp_path)
    assert torch.equal(one.data, two.data)
    assert sum(first.log) == 40
    assert again.log == []


def test_other_pictures_weights_or_rules_are_other_entries(tmp_path: Path) -> None:
    x, one = pictures(10), Means(log=[])
    keys = {
        key(x, one),
        key(pictures(11), one),
        key(x, replace(one, digest="2")),
        key(x, replace(one, rule=replace(RULE, size=5))),
    }
    assert len(keys) == 4


def test_encoding_goes_on_where_it_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "CHUNK", 32)
    x, whole = pictures(100), encode(pictures(100), Means(log=[]))

    def killed(done: int, _total: int) -> None:
        if done > 70:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode(x, Means(log=[]), cache=tmp_path, progress=killed)
    rest = Means(log=[])
    found = encode(x, rest, cache=tmp_path)
    assert torch.equal(found.data, whole.data)
    assert sum(rest.log) == 100 - 64


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", b"nonsense" * 10])
def test_a_damaged_cache_file_is_made_again(damage: bytes, tmp_path: Path) -> None:
    x = pictures(20)
    whole = encode(x, Means(log=[]), cache=tmp_path)
    (file,) = tmp_path.rglob("*.npy")
    file.write_bytes(damage)
    assert torch.equal(encode(x, Means(log=[]), cache=tmp_path).data, whole.data)


def test_numbers_that_are_not_finite_are_refused() -> None:
    class Broken(Means):
        def __call__(self, batch: Batch) -> Vectors:
            return np.full((len(batch), 2), np.nan, np.float32)

    with pytest.raises(BadInput, match="finite vectors from the encoder means"):
        encode(pictures(3), Broken(log=[]))


def test_the_pictures_stay_with_the_vectors() -> None:
    examples = Examples(x=pictures(6), labels=np.array([0, 1] * 3), test=None)
    examples = replace(examples, test=Examples(x=pictures(4), labels=np.array([0, 1] * 2)))
    found = encode_pictures(examples, Means(log=[]))
    assert found.kind == "vectors"
    assert found.raw is examples.x
    assert found.test is not None
    assert found.test.x.shape == (3,)
    assert found.x.digest() == key(examples.x, Means(log=[]))
    with pytest.raises(BadInput, match="expected pictures for the encoder means"):
        encode_pictures(found, Means(log=[]))


def test_a_misspelt_encoder_is_named() -> None:
    with pytest.raises(BadInput, match="did you mean efficientnet-lite0"):
        picture_encoder("efficientnet_lite0")


def test_a_glance_at_many_looks_at_different_pictures(tmp_path: Path) -> None:
    few = pictures(64)  # as a plan reads them of a large folder
    examples = Examples(x=Repeated(few, 50_000), labels=np.zeros(50_000, np.int64), classes=("a",))
    seen = glance(examples, str(encoder_file(tmp_path / "means.onnx")))
    vectors = seen.examples.x.take(torch.linspace(0, 49_999, 500).long())
    assert len(seen.examples) == 50_000
    assert len(vectors.unique(dim=0)) == 32
