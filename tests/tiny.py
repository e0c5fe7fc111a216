"""Small sets with known answers, and networks small enough to train in a blink."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import torch
from torch import Tensor, nn

from labelproof.data.examples import Inputs, Resident
from labelproof.data.task import Audit, Task
from labelproof.nets.plain import MLP
from labelproof.training.log import Reporter
from labelproof.training.loop import Result, train
from labelproof.training.protocol import Method
from labelproof.training.run import Run
from labelproof.views import ImageViews, VectorViews

CPU = torch.device("cpu")
WIDTH = 6  # of a vector, at the least


class TinyCNN(nn.Module):
    """Two convolutions with batch statistics that settle within a few steps."""

    def __init__(self) -> None:
        super().__init__()
        self.features = 64
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8, momentum=0.5),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.BatchNorm2d(16, momentum=0.5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, 3, 8, 8) to (B, 64)."""
        out: Tensor = self.layers(x)
        return out


@dataclass(frozen=True)
class Problem:
    """A task, what only the audit knows of it, and a network for it."""

    task: Task
    audit: Audit
    trunk: Callable[[], nn.Module]

    def train(self, method: Method, **options: Any) -> Result:
        """Train on the CPU, with the audit unless another one is given."""
        options = {"audit": self.audit, "device": CPU, **options}
        return train(self.task, method, self.trunk, **options)

    def run(self, seed: int = 0) -> Run:
        """The toolbox alone, for tests that call a method's steps themselves."""
        return Run(self.task, self.trunk, device=CPU, seed=seed)

    def with_labels(self, y: Tensor) -> Problem:
        """The same inputs with other given labels."""
        return replace(self, task=replace(self.task, y=y))


def blobs(size: int = 240, classes: int = 3, noise: float = 0.4, seed: int = 0) -> Problem:
    """Gaussian blobs around the axes of R⁶, or more where there are more classes, 4 σ out."""
    rng = torch.Generator().manual_seed(seed)
    width = max(WIDTH, classes)
    truth, test_y = balanced(size, classes), balanced(150, classes)
    x, test_x = _around_axes(truth, width, rng), _around_axes(test_y, width, rng)
    views = VectorViews(mean=torch.zeros(width), std=torch.ones(width))
    task = Task(
        x=Resident(x),
        y=flipped(truth, noise, classes, rng),
        classes=tuple(ascii_lowercase[c % 26] + str(c // 26 or "") for c in range(classes)),
        views=views,
        kind="vectors",
    )
    audit = Audit(truth=truth, test_x=Resident(test_x), test_y=test_y)
    return Problem(task, audit, lambda: MLP(width, hidden=32))


def patterns(size: int = 240, noise: float = 0.4, seed: int = 0) -> Problem:
    """8x8 pictures: red lying stripes, green standing stripes, blue squares."""
    rng = torch.Generator().manual_seed(seed)
    truth, test_y = balanced(size, 3), balanced(60, 3)
    x, test_x = _pictures(truth, rng), _pictures(test_y, rng)
    views = ImageViews(mean=(0.5,) * 3, std=(0.3,) * 3, padding=1, cutout=4)
    task = Task(
        x=Resident(x),
        y=flipped(truth, noise, 3, rng),
        classes=("lying", "standing", "squares"),
        views=views,
        kind="images",
    )
    audit = Audit(truth=truth, test_x=Resident(test_x), test_y=test_y)
    return Problem(task, audit, TinyCNN)


def balanced(size: int, classes: int) -> Tensor:
    """(N,) labels, every class as often as the next."""
    return torch.arange(size) % classes


def flipped(truth: Tensor, share: float, classes: int, rng: torch.Generator) -> Tensor:
    """The labels with this share of them moved to another class."""
    wrong = torch.randperm(len(truth), generator=rng)[: round(share * len(truth))]
    y = truth.clone()
    y[wrong] = (y[wrong] + torch.randint(1, classes, wrong.shape, generator=rng)) % classes
    return y


def _around_axes(y: Tensor, width: int, rng: torch.Generator) -> Tensor:
    centres = 4 * torch.eye(width)[y]
    return centres + torch.randn(len(y), width, generator=rng)


def _pictures(y: Tensor, rng: torch.Generator) -> Tensor:
    stripe = torch.arange(8) // 2 % 2
    lying, standing = stripe[:, None].expand(8, 8), stripe.expand(8, 8)
    shapes = torch.stack([lying, standing, lying ^ standing])[y].float()
    colours = torch.eye(3)[y]  # (N, 3)
    picture = 30 + 200 * shapes[..., None] * colours[:, None, None]
    noise = 15 * torch.randn(picture.shape, generator=rng)
    return (picture + noise).clamp(0, 255).byte()


@dataclass(frozen=True)
class Slow:
    """Inputs that must be fetched, each batch a little later than the one before it was asked."""

    inner: Inputs
    delay: float = 0.001
    resident: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.inner.shape

    def __len__(self) -> int:
        return len(self.inner)

    def take(self, index: Tensor) -> Tensor:
        time.sleep(self.delay)
        return self.inner.take(index)

    def digest(self) -> str:
        return hashlib.sha256(self.inner.digest().encode()).hexdigest()


class Interrupting(Reporter):
    """Presses Ctrl-C after so many epochs, or so many steps after that."""

    def __init__(self, *, after_epochs: int, after_steps: int = 0) -> None:
        self._epochs, self._steps = after_epochs, after_steps

    def epoch(self, line: Mapping[str, Any]) -> None:
        self._epochs -= 1
        if self._epochs <= 0 and self._steps == 0:
            raise KeyboardInterrupt

    def step(self) -> None:
        if self._epochs <= 0:
            self._steps -= 1
            if self._steps == 0:
                raise KeyboardInterrupt


def outcome(result: Result) -> tuple[Tensor, Tensor]:
    """What must be the same bit for bit: predictions and clean probabilities."""
    return result.probabilities, result.clean


def same_bits(first: Result, second: Result) -> bool:
    """Whether two runs ended in the same place."""
    return all(torch.equal(a, b) for a, b in zip(outcome(first), outcome(second), strict=True))


def interrupted(problem: Problem, method: Method, folder: Path, reporter: Reporter) -> bool:
    """Train into `folder` from where it stands; whether Ctrl-C came before the end."""
    try:
        problem.train(method, folder=folder, resume=True, reporter=reporter)
    except KeyboardInterrupt:
        return True
    return False
