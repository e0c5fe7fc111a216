"""Run: the toolbox of a method."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cases import CASES
from labelproof import metrics
from labelproof.data.examples import Resident
from labelproof.errors import RunFailed
from labelproof.methods.ce import CrossEntropy
from labelproof.methods.dpc import DPC
from labelproof.nets.heads import linear, mlp
from labelproof.training.learner import SGD, Adam, Learner
from labelproof.training.run import derive_seed, forward_all, pick_device, precision_for
from tiny import CPU, Problem, Slow, blobs, patterns


class WithDropout(nn.Module):
    """Says by its output whether it is in train mode."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out


@pytest.fixture
def problem() -> Problem:
    return replace(blobs(size=50), trunk=WithDropout)


@pytest.mark.parametrize("training", [True, False])
def test_predicting_the_whole_set_is_in_eval_mode_and_gives_the_mode_back(problem, training):
    run = problem.run()
    net = run.learner(SGD(lr=0.1), label=linear, other=mlp).net
    net.train(training)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    logits, features = run.predict(net), run.features(net)
    assert net.training is training
    assert all(module.training is training for module in net.modules())
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert logits.shape == (50, 3)
    assert features.shape == (50, 8)
    assert not logits.requires_grad
    assert not features.requires_grad
    net.eval()
    plain = problem.task.views.plain(problem.task.x.take(torch.arange(50)))
    assert torch.equal(logits, net(plain))
    torch.testing.assert_close(net.heads["label"](features), logits)


def test_the_whole_set_in_chunks_and_fetched_is_the_same():
    images = patterns(size=200).task
    data = torch.randint(256, (200, 64, 64, 3), dtype=torch.uint8)
    task = replace(images, x=Resident(data), y=torch.zeros(200, dtype=torch.int64))
    chunks = list(forward_all(task.x, task, lambda x: x.mean((2, 3)), CPU))
    assert len(chunks) > 1
    fetched = forward_all(Slow(task.x), task, lambda x: x.mean((2, 3)), CPU)
    whole = task.views.plain(data).mean((2, 3))
    assert torch.equal(torch.cat(chunks), torch.cat(list(fetched)))
    torch.testing.assert_close(torch.cat(chunks), whole)


def test_a_learner_has_the_heads_and_the_optimiser_asked_for(problem):
    sgd = SGD(lr=0.3, momentum=0.8, weight_decay=1e-3)
    learner = problem.run().learner(sgd, label=linear, mix=mlp)
    assert list(learner.net.heads) == ["label", "mix"]
    assert learner.net(torch.ones(4, 6)).shape == (4, 3)
    (group,) = learner.optimiser.param_groups
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.3, 0.8, 1e-3)
    held = {id(parameter) for parameter in group["params"]}
    assert held == {id(parameter) for parameter in learner.net.parameters()}
    learner.set_lr(0.03)
    assert group["lr"] == 0.03


def test_learners_of_a_run_begin_differently_and_of_a_seed_alike(problem):
    def weights(seed: int) -> list[Tensor]:
        run = problem.run(seed)
        nets = [run.learner(SGD(lr=0.1), label=linear).net for _ in range(2)]
        return [torch.cat([p.detach().flatten() for p in net.parameters()]) for net in nets]

    (first, second), (again, _), (other, _) = weights(0), weights(0), weights(1)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert not torch.equal(first, other)


def one_weight(value: float) -> tuple[Learner, nn.Parameter]:
    weight = nn.Parameter(torch.tensor(value))
    return Learner(None, torch.optim.SGD([weight], lr=0.1)), weight  # type: ignore[arg-type]


def test_a_step_descends_on_the_sum_of_the_losses(problem):
    run = problem.run()
    ticks = []
    run.on_step = lambda: ticks.append(1)
    learner, weight = one_weight(1.0)
    run.step(learner, weight**2, 3 * weight)  # gradient 2 + 3
    assert weight.item() == pytest.approx(0.5)
    run.step(learner, weight**2)  # gradient 1, the old one is gone
    assert weight.item() == pytest.approx(0.4)
    assert len(ticks) == 2
    assert run.mean_loss() == pytest.approx((4 + 0.25) / 2)
    run.begin(1)
    assert run.mean_loss() == 0.0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_ends_the_run_with_a_sentence(problem, value):
    run = problem.run()
    run.begin(4)
    learner, weight = one_weight(1.0)
    run.step(learner, weight * value)
    with pytest.raises(RunFailed, match=r"became (nan|-?inf) in epoch 5; try .*\.$"):
        run.mean_loss()


@pytest.mark.parametrize(
    "method",
    [
        CrossEntropy(epochs=3, batch=16, lr=1e30),
        DPC(epochs=2, warmup=1, batch=8, lr=1e30),
        DPC(epochs=1, warmup=0, batch=8, lr=1e30),  # diverges in its last epoch
    ],
)
def test_a_diverging_run_fails_and_says_what_to_try(method):
    with pytest.raises(RunFailed, match="smaller learning rate"):
        blobs(size=60).train(method)


def test_what_a_diverging_run_saved_is_from_before(tmp_path):
    class Poisoned(CrossEntropy):
        def train(self, state: Any, run: Any) -> dict[str, float]:
            logs = super().train(state, run)
            if run.epoch == 2:
                run.step(state.learner, state.learner.net(torch.ones(2, 6)).sum() * math.nan)
            return logs

    problem = blobs(size=60)
    with pytest.raises(RunFailed, match="epoch 3"):
        problem.train(Poisoned(epochs=4, batch=16), folder=tmp_path)
    resumed = problem.train(CrossEntropy(epochs=4, batch=16), folder=tmp_path, resume=True)
    assert [line["epoch"] for line in resumed.history] == [1, 2, 3, 4]
    assert resumed.probabilities.isfinite().all()


def test_seeds_of_uses_and_of_neighbours_differ():
    seeds = {derive_seed(seed, name) for seed in range(50) for name in ("epoch 0", "epoch 1")}
    assert len(seeds) == 100
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_dropout_of_an_epoch_follows_from_its_number(problem):
    def masks(epoch: int) -> Tensor:
        run = problem.run()
        run.begin(epoch)
        return nn.functional.dropout(torch.ones(100))

    with torch.random.fork_rng():
        assert torch.equal(masks(1), masks(1))
        assert not torch.equal(masks(1), masks(2))


def test_devices():
    assert pick_device("cpu") == CPU
    assert pick_device("auto").type in ("cpu", "cuda", "mps")
    assert precision_for(CPU) is None


@dataclass
class Seen:
    """What a recorded plan did, in order."""

    clean: Tensor
    calls: list[str]


def test_phases_run_in_order_with_enter_and_leave_once():
    from labelproof.training.protocol import Phase

    class Recorded(CrossEntropy):
        def note(self, what: str) -> Any:
            return lambda state, run: state.calls.append(f"{what} {run.epoch}") or {}

        def plan(self) -> tuple[Phase, ...]:
            n = self.note
            return (
                Phase("first", 2, n("a"), enter=n("enter a"), leave=n("leave a")),
                Phase("skipped", 0, n("b"), enter=n("enter b"), leave=n("leave b")),
                Phase("last", 1, n("c"), enter=n("enter c"), leave=n("leave c")),
            )

        def setup(self, run: Any) -> Seen:
            return Seen(torch.ones(run.task.size), [])

        def predict(self, state: Any, x: Tensor) -> Tensor:
            return torch.full((len(x), 3), 1 / 3)

    result = blobs(size=30).train(Recorded())
    assert result.state.calls == [
        "enter a 0", "a 0", "a 1", "leave a 1", "enter c 2", "c 2", "leave c 2",
    ]  # fmt: skip
    assert [line["phase"] for line in result.history] == ["first", "first", "last"]


def test_history_has_what_the_audit_knows_and_nothing_it_does_not():
    problem = blobs(size=30)
    known = {"epoch", "phase", "loss", "elapsed"}
    assert set(problem.train(CASES["ce"], audit=None).history[0]) == known
    full = problem.train(CASES["ce"]).history[-1]
    assert set(full) == known | {"test_accuracy", "test_ece", "error_auroc", "kept_right"}


def test_labels_without_scores_are_not_said_to_be_ranked(tmp_path):
    problem = blobs(size=30)
    result = problem.train(CASES["ce"], folder=tmp_path)  # scores the labels after the last epoch
    lines = [json.loads(text) for text in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert ["error_auroc" in line for line in lines] == [False] * 5 + [True]
    wrong = problem.audit.truth != problem.task.y
    assert lines[-1]["error_auroc"] == metrics.error_auroc(wrong, -result.clean)
    kept = result.clean > 0.5
    assert lines[-1]["kept_right"] == (~wrong)[kept].double().mean().item()
    warm_up, *split = problem.train(replace(CASES["dividemix"], epochs=4, warmup=1)).history
    assert "error_auroc" not in warm_up
    assert all("error_auroc" in line for line in split)  # DivideMix scores them every epoch


def test_a_result_predicts_new_inputs():
    problem = blobs(size=60)
    result = problem.train(CASES["ce"])
    assert torch.equal(result.predict(problem.audit.test_x), result.test_probabilities)
    assert torch.equal(result.predict(problem.task.x), result.probabilities)


def test_a_learner_has_the_optimiser_asked_for(problem):
    run = problem.run()
    plain = run.learner(SGD(lr=0.1, momentum=0.8, weight_decay=0.01), label=linear).optimiser
    assert isinstance(plain, torch.optim.SGD)
    wanted = {"lr": 0.1, "momentum": 0.8, "weight_decay": 0.01, "nesterov": False}
    assert wanted.items() <= plain.param_groups[0].items()
    ahead = run.learner(SGD(lr=0.1, nesterov=True), label=linear).optimiser
    assert ahead.param_groups[0]["nesterov"] is True
    assert SGD(lr=0.1, momentum=0.0, nesterov=True).of(nn.Linear(1, 1).parameters())
    adam = run.learner(Adam(lr=1e-3, betas=(0.5, 0.9)), label=linear).optimiser
    assert isinstance(adam, torch.optim.Adam)
    assert adam.param_groups[0]["betas"] == (0.5, 0.9)
