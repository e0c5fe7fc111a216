"""Which weight is chosen, by what, and where there is nothing to choose by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from cases import CASES
from labelproof.data.examples import Resident
from labelproof.data.task import Task
from labelproof.errors import RunFailed
from labelproof.judging.crossfit import Retraining
from labelproof.judging.tune import (
    Trial,
    choose_lambda_u,
    decided,
    probe,
    search,
    undecided,
    usual_or_near_best,
    without_trials,
)
from labelproof.recipes.recipe import own_data, published
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run
from labelproof.training.settings import LambdaU, WarmUp
from labelproof.views import VectorViews
from tiny import CPU, Slow, blobs, flipped

CLASSES = 4


@dataclass
class State:
    clean: Tensor


@dataclass(frozen=True, kw_only=True)
class Known:
    """A method that is right as often as a table says, whatever it is trained on."""

    about: ClassVar[About] = About(title="known")

    quality: tuple[tuple[float, float], ...]  # weight and share of right answers
    lambda_u: LambdaU = "auto"
    epochs: int = 20
    warmup: WarmUp = 2
    diverges: float | None = None

    def plan(self) -> Sequence[Phase]:
        return (Phase("only", self.epochs, self.epoch),)

    def setup(self, run: Run) -> State:
        return State(torch.ones(run.task.size))

    def epoch(self, state: State, run: Run) -> Logs:
        if self.lambda_u == self.diverges:
            raise RunFailed("the loss became nan")
        return {}

    def predict(self, state: State, x: Tensor) -> Tensor:
        """Column 0 is the true class, column 1 how hard the example is."""
        truth = x[:, 0].round().long()
        wrong = x[:, 1] >= dict(self.quality)[self.lambda_u]
        return torch.eye(CLASSES)[(truth + wrong) % CLASSES]


def task_with(noise: float, size: int = 3000, seed: int = 0) -> Task:
    """The input holds the true class; a share of the given labels is wrong."""
    rng = torch.Generator().manual_seed(seed)
    truth = torch.arange(size) % CLASSES
    x = torch.stack([truth.float(), torch.rand(size, generator=rng)], 1)
    return Task(
        x=Resident(x),
        y=flipped(truth, noise, CLASSES, rng),
        classes=tuple("abcd"),
        views=VectorViews(mean=torch.zeros(2), std=torch.ones(2)),
        kind="vectors",
    )


def chosen(task: Task, quality: dict[float, float], **changes: Any) -> Any:
    method = Known(quality=tuple(quality.items()), **changes)
    trunk = torch.nn.Identity
    return choose_lambda_u(Retraining(task=task, method=method, trunk=trunk, device=CPU))


@pytest.mark.parametrize("noise", [0.0, 0.4])
@pytest.mark.parametrize(
    ("quality", "best"),
    [
        ({0: 0.9, 25: 0.8}, 0),
        ({0: 0.7, 25: 0.8, 50: 0.6}, 25),
        ({0: 0.5, 25: 0.6, 50: 0.7, 150: 0.9}, 150),
        ({0: 0.8, 25: 0.8}, 0),
    ],
)
def test_noisy_labels_find_the_best_weight(
    quality: dict[float, float], best: float, noise: float
) -> None:
    choice = chosen(task_with(noise), quality)
    assert choice.value == best
    assert [trial.value for trial in choice.trials] == list(quality)
    assert f"lambda_u = {best:g} was chosen without true labels" in choice.why


def test_agreement_is_with_given_labels_that_were_held_out() -> None:
    task = task_with(0.25)
    (first, _) = chosen(task, {0: 1.0, 25: 0.5}).trials
    held = probe(task, Known(quality=()), seed=0).held
    truth = task.x.take(held)[:, 0].long()
    assert first.agreement == (truth == task.y[held]).double().mean().item()


def test_a_weight_that_diverges_is_not_taken() -> None:
    task = task_with(0.2)
    choice = chosen(task, {0: 0.7, 25: 0.9}, diverges=25.0)
    assert choice.value == 0
    assert choice.trials[-1] == Trial(value=25.0, agreement=None)
    assert "none (diverged) at 25" in choice.why
    assert chosen(task, {25: 0.9, 50: 0.7}, diverges=0.0).value == 25


def test_the_usual_weight_stays_unless_it_is_two_standard_errors_behind() -> None:
    zero = Trial(value=0.0, agreement=0.70, behind=0.010, error=0.006)
    middle = Trial(value=25.0, agreement=0.705, behind=0.005, error=0.006)
    best = Trial(value=50.0, agreement=0.71)
    far = replace(middle, behind=0.013)
    assert usual_or_near_best([zero, middle, best], usual=25.0) == 25.0
    assert usual_or_near_best([zero, middle, best], usual=0.0) == 0.0
    assert usual_or_near_best([zero, far, best], usual=25.0) == 0.0
    assert usual_or_near_best([replace(zero, behind=0.013), far, best], usual=25.0) == 50.0
    assert usual_or_near_best([Trial(value=0.0, agreement=None)], usual=25.0) == 25.0


def test_it_is_what_a_users_own_data_starts_from() -> None:
    assert undecided(own_data("dpc", "vectors", 20_000))
    assert not undecided(own_data("dpc", "vectors", 19_999))
    assert undecided(own_data("dpc", "images"))
    assert not undecided(published("dpc", "cifar10-symmetric-0.5"))


def test_differences_are_paired() -> None:
    first = torch.tensor([1, 1, 1, 1, 0, 0, 0, 0]).bool()
    second = torch.tensor([1, 1, 1, 1, 1, 1, 0, 0]).bool()
    trial, best, last = search({0: first, 1: second, 2: second, 3: first}.get, (0, 1, 2, 3))
    assert (trial.agreement, trial.behind) == (0.5, 0.25)
    assert trial.error == pytest.approx((0.25 * 0.75 / 8) ** 0.5)  # two of eight differ
    assert (best.value, best.behind, best.error) == (1, 0, 0)
    assert last.value == 2  # no better, so nothing larger is tried


def test_parts_are_disjoint_even_and_follow_the_seed() -> None:
    task = blobs(2000, classes=3).task
    method = Known(quality=())
    plan, again, other = (probe(task, method, seed) for seed in (1, 1, 2))
    assert not set(plan.part.tolist()) & set(plan.held.tolist())
    assert (len(plan.part), len(plan.held)) == (1500, 500)
    counts = task.y[plan.part].bincount(minlength=3), task.y.bincount(minlength=3)
    assert (counts[0] - counts[1] * 0.75).abs().max() <= 1
    assert torch.equal(plan.part, again.part)
    assert torch.equal(plan.held, again.held)
    assert not torch.equal(plan.part, other.part)


def test_copies_of_an_input_do_not_judge_each_other() -> None:
    task = task_with(0.2, size=3000)
    doubled = torch.cat([task.x.take(torch.arange(1500))] * 2)
    twice = replace(task, x=Resident(doubled))
    plan = probe(twice, Known(quality=()), seed=0)
    assert not set((plan.part % 1500).tolist()) & set((plan.held % 1500).tolist())
    assert (len(plan.part), len(plan.held)) == (2250, 750)


def test_a_part_is_never_empty_even_where_all_inputs_are_the_same() -> None:
    task = task_with(0.2, size=25_000)
    same = replace(task, x=Resident(torch.zeros(25_000, 2)))
    assert len(probe(same, Known(quality=()), seed=0).part) > 0


@pytest.mark.parametrize(
    ("size", "part", "held", "epochs"),
    [
        (2_000, 1500, 500, 60),  # most of a small set, as long as the run itself
        (10_000, 5000, 5000, 60),
        (14_000, 5000, 9000, 43),
        (20_000, 5000, 15_000, 30),
        (60_000, 5000, 20_000, 30),
    ],
)
def test_trials_stay_small_on_large_data(size: int, part: int, held: int, epochs: int) -> None:
    plan = probe(task_with(0.2, size=size), Known(quality=(), epochs=60), seed=0)
    assert (len(plan.part), len(plan.held)) == pytest.approx((part, held), abs=3)  # a few copies
    assert plan.method.epochs == epochs


def test_trials_outlast_the_warm_up() -> None:
    task = task_with(0.2, size=20_000)
    assert probe(task, Known(quality=(), epochs=10, warmup=8), seed=0).method.epochs == 10
    assert probe(task, Known(quality=(), epochs=10, warmup=4), seed=0).method.epochs == 6


def test_a_small_part_is_trained_in_small_batches() -> None:
    method = CASES["dpc"]
    many, few = (
        probe(task_with(0.2, size=size), replace(method, batch=128, lambda_u="auto"), seed=0)  # type: ignore[type-var]
        for size in (20_000, 2000)
    )
    assert many.method.batch == 128  # type: ignore[attr-defined]
    assert few.method.batch == 46  # type: ignore[attr-defined]
    assert many.method.ramp == pytest.approx(2.0 * 4 / 6)  # type: ignore[attr-defined]
    assert few.method.ramp == 2.0  # type: ignore[attr-defined]


def test_where_nothing_can_be_tried_it_says_so() -> None:
    few = without_trials(task_with(0.2, size=999), Known(quality=()))
    assert few is not None
    assert few.value == 0
    assert "need 2000 examples for" in few.why
    assert "and there are 999" in few.why
    images = replace(task_with(0.2, size=999), kind="images")
    pictures = without_trials(images, Known(quality=()))
    assert pictures is not None
    assert pictures.value == 25
    assert without_trials(task_with(0.2, size=2000), Known(quality=())) is None


@pytest.mark.parametrize(
    ("size", "classes", "why"),
    [
        (3999, 40, "need 4000 examples for 40 classes, and there are 3999"),
        (4000, 40, None),
        (50_000, 201, "trials of 5000 examples have too few of each of 201 classes"),
    ],
)
def test_a_trial_needs_some_of_every_class(size: int, classes: int, why: str | None) -> None:
    task = replace(task_with(0.2, size=size), classes=tuple(map(str, range(classes))))
    choice = without_trials(task, Known(quality=()))
    assert (choice is None) == (why is None)
    assert why is None or (choice is not None and why in choice.why)


def test_data_read_from_disk_and_confirmed_labels_change_nothing_by_themselves() -> None:
    task = task_with(0.3, size=2000)
    quality = {0: 0.6, 25: 0.9, 50: 0.7}
    streamed = replace(task, x=Slow(task.x), fixed=torch.arange(2000) % 7 == 0)
    assert chosen(streamed, quality) == chosen(task, quality)


def test_numbers_are_left_alone() -> None:
    auto = Known(quality=())
    assert undecided(auto)
    assert not undecided(decided(auto, 25.0))
    assert not undecided(replace(auto, lambda_u=0.0))
