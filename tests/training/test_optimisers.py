"""Light optimisers do what PyTorch's own do, without the import of its compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from labelproof.training.optimisers import LightAdam, LightLBFGS, LightSGD

SHAPES = (33, 17), (17,), (5, 7)
SETTINGS = [
    {"momentum": 0.9, "weight_decay": 0.01},
    {"momentum": 0.9, "weight_decay": 5e-4, "nesterov": True},
    {"momentum": 0.0, "weight_decay": 0.1},
]


def weights() -> list[nn.Parameter]:
    rng = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=rng)) for shape in SHAPES]


def trained(optimiser, values, steps: int = 8, seed: int = 1) -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        optimiser.zero_grad()
        sum(
            (v * torch.randn(v.shape, generator=rng)).sum() + (v**2).sum() for v in values
        ).backward()
        optimiser.step()
    return [value.detach().clone() for value in values]


@pytest.mark.parametrize("settings", SETTINGS)
def test_descent_is_that_of_torch(settings):
    own, other = weights(), weights()
    found = trained(LightSGD(own, lr=0.05, **settings), own)
    said = trained(torch.optim.SGD(other, lr=0.05, **settings), other)
    assert all(torch.equal(a, b) for a, b in zip(found, said, strict=True))


def test_adam_is_that_of_torch():
    own, other = weights(), weights()
    found = trained(LightAdam(own, lr=0.01, weight_decay=0.1), own)
    said = trained(torch.optim.Adam(other, lr=0.01, weight_decay=0.1), other)
    assert all(torch.equal(a, b) for a, b in zip(found, said, strict=True))


@pytest.mark.parametrize("make", [lambda w: LightSGD(w, lr=0.1, momentum=0.9),
                                  lambda w: LightAdam(w, lr=0.1)])  # fmt: skip
def test_a_saved_state_goes_on_to_the_bit(make):
    through, stopped, again = weights(), weights(), weights()
    first = make(through)
    trained(first, through)
    expected = trained(first, through, seed=2)
    half = make(stopped)
    values = trained(half, stopped)
    for weight, value in zip(again, values, strict=True):
        weight.data.copy_(value)
    later = make(again)
    later.load_state_dict(half.state_dict())
    found = trained(later, again, seed=2)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_the_state_is_that_of_torch():
    own, other = weights(), weights()
    theirs = torch.optim.SGD(other, lr=0.1, momentum=0.9)
    ours = LightSGD(own, lr=0.3, momentum=0.5)
    trained(theirs, other)
    ours.load_state_dict(theirs.state_dict())
    assert ours.param_groups[0]["lr"] == 0.1
    assert ours.state_dict()["param_groups"] == theirs.state_dict()["param_groups"]


def test_gradients_are_forgotten_or_zero():
    (weight, *_) = values = weights()
    optimiser = LightSGD(values, lr=0.1)
    weight.sum().backward()
    optimiser.zero_grad(set_to_none=False)
    assert weight.grad is not None
    assert not weight.grad.any()
    assert values[1].grad is None
    optimiser.zero_grad()
    assert weight.grad is None


def test_a_step_does_not_import_the_compiler():
    code = (
        "import sys, torch\n"
        "from labelproof.judging.numbers import minimise\n"
        "from labelproof.training.learner import SGD, Adam\n"
        "for kind in (SGD, Adam):\n"
        "    weight = torch.zeros(2, requires_grad=True)\n"
        "    optimiser = kind(lr=0.1).of([weight])\n"
        "    optimiser.zero_grad()\n"
        "    weight.sum().backward()\n"
        "    optimiser.step()\n"
        "    optimiser.load_state_dict(optimiser.state_dict())\n"
        "free = torch.ones(2)\n"
        "minimise(lambda: (free**2).sum(), [free])\n"
        "assert 'torch._dynamo' not in sys.modules, 'imported'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_l_bfgs_is_that_of_torch():
    found = []
    for kind in (LightLBFGS, torch.optim.LBFGS):
        (value, *_) = weights()
        optimiser = kind([value], max_iter=20, line_search_fn="strong_wolfe")

        def closure(value=value, optimiser=optimiser):
            optimiser.zero_grad()
            loss = ((value - 1) ** 4).sum()
            loss.backward()
            return loss

        optimiser.step(closure)
        found.append(value.detach())
    assert torch.equal(*found)
