"""What encoding would take, and stand-ins for the vectors it would give: for `plan`."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch

from labelproof.data.encoders.choose import worth_encoding
from labelproof.data.encoders.encode import BATCH
from labelproof.data.encoders.picture_encoding import with_vectors
from labelproof.data.encoders.registry import AUTO, DEFAULT, NONE, picture_encoder
from labelproof.data.examples import Examples, Repeated, Resident

FEW = 2 * BATCH  # pictures that are encoded
SAMPLE = 120  # pictures that decide whether to encode


@dataclass(frozen=True, kw_only=True)
class Glance:
    """Examples whose vectors repeat those of a few, and the seconds that all would take."""

    examples: Examples
    encoder: str | None = None
    seconds: float = 0.0
    why: str = ""


def glance(examples: Examples, name: str) -> Glance:
    """Look at what an encoder would do, without doing it."""
    if name == NONE or examples.kind != "images":
        return Glance(examples=examples)
    encoder = picture_encoder(DEFAULT if name == AUTO else name)
    if name == AUTO:
        decision = worth_encoding(examples, encoder, SAMPLE)
        if not decision.encode:
            return Glance(examples=examples, why=decision.why)
    work = encoder.open()
    rows = torch.linspace(0, len(examples) - 1, min(FEW, len(examples))).long()
    few = examples.x.take(rows).numpy()  # from first to last: neighbours may stand for one picture
    parts = [work(few[:BATCH])]  # the first pass pays for set-up
    start = time.perf_counter()
    parts.append(work(few[-BATCH:]))
    seconds = (time.perf_counter() - start) * len(examples) / len(few[-BATCH:])
    vectors = torch.cat([torch.from_numpy(part) for part in parts]).half()
    repeated = Repeated(Resident(vectors), len(examples))
    stand_in = with_vectors(replace(examples, test=None), encoder, repeated)
    return Glance(examples=stand_in, encoder=encoder.name, seconds=seconds)
