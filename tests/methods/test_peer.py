"""The peer that only helps to guess labels learns nothing, not even batch statistics."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch

from cases import CASES
from labelproof.methods.unicon import Split
from tiny import patterns


def half_kept(name: str, size: int) -> Any:
    """A split that keeps every second label, as the method's `mixmatch` takes it."""
    kept = torch.arange(size) % 2 == 0
    if name != "unicon":
        return kept.float()
    return Split(kept=kept, weight=torch.full((size,), 0.7), share=0.5, given=kept.float())


@pytest.mark.parametrize("name", ["dividemix", "dpc", "unicon"])
def test_the_peer_guesses_in_eval_mode(name):
    problem = patterns(size=32)
    run, method = problem.run(), replace(CASES[name], batch=8)
    first, second = method.setup(run).learners
    first.net.train()
    second.net.train()  # as the epoch before left it
    before, own = deepcopy(second.net.state_dict()), deepcopy(first.net.state_dict())
    run.begin(method.warmup)
    method.mixmatch(first, second, half_kept(name, 32), run)
    changed = [
        key for key, value in second.net.state_dict().items() if (value != before[key]).any()
    ]
    assert changed == []
    statistics = [key for key in own if "running" in key]
    assert statistics
    assert all((first.net.state_dict()[key] != own[key]).any() for key in statistics)
