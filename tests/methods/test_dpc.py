"""DPC as a whole: heads, split, who trains on what, and what is computed at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.methods.dpc import DPC, State
from labelproof.training.learner import Learner
from labelproof.training.run import Run
from tiny import Problem, blobs

B = 4
SMALL = DPC(epochs=8, warmup=2, batch=B, lr=0.05, lambda_u=5.0, ramp=2.0)


@dataclass
class Pass:
    """A forward pass: rows, and how the network stood."""

    rows: int
    training: bool
    grad: bool


@dataclass
class Passes:
    """Makes trunks that note every pass; one list a network."""

    made: list[list[Pass]] = field(default_factory=list)

    def trunk(self) -> nn.Module:
        self.made.append([])
        return Noting(self.made[-1])


class Noting(nn.Module):
    features = 8

    def __init__(self, passes: list[Pass]) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 8)
        self.passes = passes

    def forward(self, x: Tensor) -> Tensor:
        self.passes.append(Pass(len(x), self.training, torch.is_grad_enabled()))
        return self.layer(x).relu()


@pytest.fixture
def problem() -> Problem:
    return blobs(size=12)


def started(method: DPC, problem: Problem, epoch: int = 5) -> tuple[State, Run]:
    """A state and a run that stands at the beginning of an epoch after the warm-up."""
    run = problem.run()
    state = method.setup(run)
    run.begin(epoch)
    return state, run


def split(kept: int, size: int = 12) -> Tensor:
    """Clean probabilities that keep the first few labels."""
    return torch.where(torch.arange(size) < kept, 0.9, 0.1)


def parameters(net: nn.Module) -> list[Tensor]:
    return [value.detach().clone() for value in net.parameters()]


def changed(before: list[Tensor], net: nn.Module) -> bool:
    return not all(map(torch.equal, before, net.parameters()))


# Heads


@pytest.mark.parametrize(
    ("settings", "heads"),
    [
        ({}, ["label", "mix"]),
        ({"lambda_u": 0.5}, ["label", "mix"]),
        ({"lambda_u": 0.0}, ["label"]),
        ({"two_heads": False}, ["label"]),
    ],
)
def test_the_second_head_exists_only_where_a_loss_uses_it(problem, settings, heads):
    state = replace(SMALL, **settings).setup(problem.run())
    assert [list(learner.net.heads) for learner in state.learners] == [heads, heads]


def test_the_second_head_is_unchanged_in_the_warm_up_and_trained_after_it(problem):
    state, run = started(SMALL, problem, epoch=0)
    first = state.learners[0].net.heads
    label, mix = parameters(first["label"]), parameters(first["mix"])
    SMALL.warm_up(state, run)
    assert changed(label, first["label"])
    assert not changed(mix, first["mix"])  # not even by weight decay
    run.begin(5)
    SMALL.mixmatch(*state.learners, split(6), run)
    assert changed(mix, first["mix"])


def test_each_network_warms_up_by_itself_in_its_own_order(problem):
    state, run = started(SMALL, problem, epoch=0)
    orders = []
    batches = run.batches

    def noted(*args: Any) -> Any:
        made = list(batches(*args))
        orders.append([batch.index.tolist() for batch in made])
        return made

    run.batches = noted  # type: ignore[method-assign]
    SMALL.warm_up(state, run)
    first, second = orders
    assert [len(rows) for rows in first] == [2 * B]  # batches of twice the size
    assert first != second


# Split


def set_margins(run: Run, margins: Tensor) -> None:
    """Let every network give these margins of the given labels."""
    given = torch.arange(3) == run.y[:, None]
    run.predict = lambda net: margins[:, None] * given  # type: ignore[method-assign]


def two_modes(share: float, size: int = 2000) -> Tensor:
    """Margins around 3, and around -3 for this share of wrong labels."""
    rng = torch.Generator().manual_seed(0)
    low = torch.arange(size) < share * size
    return torch.where(low, -3.0, 3.0) + 0.6 * torch.randn(size, generator=rng)


@pytest.mark.parametrize(
    ("selector", "share", "mixture"),
    [
        ("gmm", 0.45, True),
        ("gmm", 0.05, True),
        ("normalised", 0.45, False),
        ("auto", 0.45, True),
        ("auto", 0.20, True),
        ("auto", 0.10, False),
        ("auto", 0.05, False),
    ],
)
def test_the_selector_auto_goes_by_kurtosis(selector, share, mixture):
    state, run = started(SMALL, blobs(size=2000))
    margins = two_modes(share)
    set_margins(run, margins)
    clean = replace(SMALL, selector=selector).clean_probability(state.learners[0], run)
    expected = fn.two_gaussians(margins) if mixture else fn.min_max(margins)
    torch.testing.assert_close(clean, expected)
    right = margins > 0
    assert ((clean > 0.5) == right).float().mean() > 0.99


@pytest.mark.parametrize(("shift", "mirrored"), [(0.0, True), (-4.5, False)])
def test_a_network_too_unsure_for_a_mirror_splits_by_two_gaussians(shift, mirrored):
    state, run = started(SMALL, blobs(size=2000))
    margins = two_modes(0.45) + shift  # moved down, right labels have negative margins too
    set_margins(run, margins)
    clean = replace(SMALL, selector="mirror").clean_probability(state.learners[0], run)
    expected = fn.mirrored_gaussians(margins) if mirrored else fn.two_gaussians(margins)
    torch.testing.assert_close(clean, expected)
    assert (clean > 0.5).float().mean().item() == pytest.approx(0.55, abs=0.02)


def test_a_mirrored_split_that_keeps_less_than_half_is_not_used():
    state, run = started(SMALL, blobs(size=2000))
    rng = torch.Generator().manual_seed(0)
    right, wrong = torch.randn(1100, generator=rng) + 0.5, 0.6 * torch.randn(900, generator=rng)
    margins = torch.cat([right, wrong - 2.5])
    assert 0.2 < (fn.mirrored_gaussians(margins) > 0.5).float().mean() < 0.3
    set_margins(run, margins)
    clean = replace(SMALL, selector="mirror").clean_probability(state.learners[0], run)
    torch.testing.assert_close(clean, fn.two_gaussians(margins))
    assert (clean > 0.5).float().mean().item() == pytest.approx(0.53, abs=0.02)


@pytest.mark.parametrize("selector", ["gmm", "normalised", "auto"])
def test_equal_margins_keep_every_label(problem, selector):
    state, run = started(SMALL, problem)
    set_margins(run, torch.full((12,), 1.5))
    clean = replace(SMALL, selector=selector).clean_probability(state.learners[0], run)
    assert clean.tolist() == [1.0] * 12


@pytest.mark.parametrize("loss", ["edl", "ce"])
def test_the_ablation_without_large_margin_splits_by_loss(loss):
    problem = blobs(size=90)
    method = replace(SMALL, criterion="loss", loss=loss)
    state, run = started(method, problem)
    learner = state.learners[0]
    logits = run.predict(learner.net)
    losses = method.l_edl(logits, run.y)
    clean = method.clean_probability(learner, run)
    torch.testing.assert_close(clean, fn.two_gaussians(-losses))
    assert losses[clean > 0.5].mean() < losses[clean <= 0.5].mean()
    assert not torch.equal(clean, SMALL.clean_probability(learner, run))


def test_each_network_trains_on_the_split_of_its_peer(problem, monkeypatch):
    state, run = started(SMALL, problem)
    first, second = state.learners
    splits = {id(first): split(3), id(second): split(9)}
    events: list[tuple[Any, ...]] = []

    def clean_probability(self: DPC, learner: Learner, run: Run) -> Tensor:
        events.append(("split", learner))
        return splits[id(learner)]

    def mixmatch(
        self: DPC, learner: Learner, peer: Learner, clean: Tensor, run: Run, unit: float
    ) -> None:
        events.append(("train", learner, peer, int((clean > 0.5).sum())))

    monkeypatch.setattr(DPC, "clean_probability", clean_probability)
    monkeypatch.setattr(DPC, "mixmatch", mixmatch)
    logs = SMALL.co_divide(state, run)
    assert events == [  # both splits come before any training
        ("split", first),
        ("split", second),
        ("train", first, second, 9),
        ("train", second, first, 3),
    ]
    assert torch.equal(state.clean, (split(3) + split(9)) / 2)
    assert logs == {"selected": 3 / 12}


def test_labels_above_the_threshold_are_the_labelled_part(problem, monkeypatch):
    method = replace(SMALL, threshold=0.7, batch=2)
    state, run = started(method, problem)
    seen: list[set[int]] = [set(), set()]
    mix = DPC.mix

    def noted(self: DPC, learner: Any, peer: Any, x: Any, u: Any, clean: Any, run: Any) -> Any:
        seen[0].update(x.index.tolist())
        seen[1].update(u.index.tolist())
        assert torch.equal(clean, weights[x.index])
        return mix(self, learner, peer, x, u, clean, run)

    monkeypatch.setattr(DPC, "mix", noted)
    weights = torch.linspace(0, 1.1, 12)
    weights[7] = 0.7  # not above
    method.mixmatch(*state.learners, weights, run)
    assert seen[0] == {8, 9, 10, 11}
    assert seen[1] <= set(range(8))


# What is computed


def counted(method: DPC, clean: Tensor) -> tuple[list[Pass], list[Pass]]:
    """Passes of the network that trains and of its peer, in one epoch on this split."""
    passes = Passes()
    problem = replace(blobs(size=12), trunk=passes.trunk)
    state, run = started(method, problem)
    first, second = state.learners
    second.net.train()
    method.mixmatch(first, second, clean, run)
    return passes.made[0], passes.made[1]


def rows(passes: list[Pass]) -> list[tuple[int, bool]]:
    """Rows of each pass and whether it was for a gradient."""
    assert all(one.training for one in passes)
    return [(one.rows, one.grad) for one in passes]


@pytest.mark.parametrize(
    ("settings", "own"),
    [
        # refine 2B, co-guess 2B, mixed 4B
        ({}, [(8, False), (8, False), (16, True)]),
        # the refined targets would only be seen by L_uns
        ({"lambda_u": 0.0}, [(8, False), (16, True)]),
        ({"lambda_u": 0.0, "rows": "labelled"}, [(8, False), (8, True)]),
        ({"consistency": 1.0}, [(8, False), (8, False), (16, True), (16, True)]),
        (
            {"lambda_u": 0.0, "rows": "labelled", "consistency": 1.0},
            [(8, False), (8, True), (8, True)],
        ),
        ({"lambda_u": 0.0, "sup_on": "unmixed"}, [(8, False), (16, True), (16, True)]),
    ],
)
def test_only_what_a_loss_uses_is_computed(settings, own):
    learner, peer = counted(replace(SMALL, **settings), split(B))
    assert rows(learner) == own
    assert peer == [Pass(2 * B, training=False, grad=False)]  # it only guesses


@pytest.mark.parametrize("lambda_u", [0.0, 5.0])
def test_with_every_label_kept_there_is_nothing_to_guess_or_refine(lambda_u):
    learner, peer = counted(replace(SMALL, lambda_u=lambda_u), split(12))
    assert rows(learner) == [(2 * B, True)] * 3  # 12 labels make three batches
    assert peer == []


def test_with_no_label_kept_it_warms_up_for_another_epoch():
    learner, peer = counted(SMALL, split(0))
    assert rows(learner) == [(2 * B, True)]
    assert peer == []


@pytest.mark.parametrize(("kept", "steps", "labelled", "others"), [(1, 1, 1, 4), (11, 2, 4, 1)])
def test_parts_smaller_than_a_batch_train(kept, steps, labelled, others):
    learner, _ = counted(SMALL, split(kept))
    assert rows(learner) == steps * [
        (2 * labelled, False),
        (2 * others, False),
        (2 * (labelled + others), True),
    ]


@pytest.mark.parametrize("kept", [0, 1, 11, 12])
def test_every_split_teaches_something(problem, kept):
    state, run = started(SMALL, problem)
    before = parameters(state.learners[0].net)
    SMALL.mixmatch(*state.learners, split(kept), run)
    assert changed(before, state.learners[0].net)
    assert run.mean_loss() > 0


# Settings


def losses_of_steps(method: DPC, epoch: Callable[[State, Run], object]) -> list[list[float]]:
    """What each step of an epoch was given."""
    state, run = started(method, blobs(size=12), epoch=0)
    given: list[list[float]] = []
    step = run.step

    def noted(learner: Learner, *losses: Tensor) -> None:
        given.append([loss.item() for loss in losses])
        step(learner, *losses)

    run.step = noted  # type: ignore[method-assign]
    epoch(state, run)
    return given


def test_the_negative_entropy_joins_the_warm_up_where_asked():
    sure = replace(SMALL, confidence_penalty=0.5)
    plain, penalised = (losses_of_steps(m, m.warm_up) for m in (SMALL, sure))
    assert len(plain[0]) == 1
    assert penalised[0][0] == plain[0][0]  # the first step begins with the same weights
    # an untrained network is not sure of anything: sum p ln p is about -ln 3, times 0.5
    assert penalised[0][1] == pytest.approx(-0.5 * 1.0986, abs=0.03)


def test_the_learning_rate_falls_to_a_tenth_half_way():
    method = DPC(epochs=10, warmup=2, lr=0.02)
    run = blobs(size=12).run()
    rates = []
    for epoch in range(10):
        run.begin(epoch)
        rates.append(method.learning_rate(run))
    assert rates == pytest.approx([0.02] * 5 + [0.002] * 5)


def test_the_learning_rate_reaches_both_optimisers(problem):
    method = replace(SMALL, decay_at=0.5)
    state, run = started(method, problem, epoch=6)
    method.co_divide(state, run)
    rates = [learner.optimiser.param_groups[0]["lr"] for learner in state.learners]
    assert rates == pytest.approx([0.005, 0.005])


def test_the_prediction_is_that_of_the_mean_logits(problem):
    state = SMALL.setup(problem.run())
    x = torch.randn(5, 6)
    first, second = (learner.net(x) for learner in state.learners)
    evidence = ((first + second) / 2).exp() + 10 / 3
    expected = evidence / evidence.sum(1, keepdim=True)
    torch.testing.assert_close(SMALL.predict(state, x), expected)


def test_the_clean_probability_at_the_end_is_by_the_trained_networks():
    problem = blobs(size=60)
    result = problem.train(SMALL)
    expected = [SMALL.clean_probability(one, problem.run()) for one in result.state.learners]
    torch.testing.assert_close(result.clean, sum(expected) / 2)


def test_settings_that_contradict_each_other_are_refused():
    with pytest.raises(BadInput, match="leaves no rows for L_uns; set lambda_u=0"):
        DPC(rows="labelled", lambda_u=25.0)
    with pytest.raises(BadInput, match="warmup must be smaller than epochs, not 10 of 10"):
        DPC(epochs=10, warmup=10)
    with pytest.raises(BadInput, match="selector must be one of 'gmm', 'normalised', 'auto'"):
        DPC(selector="best")


def test_the_first_split_can_come_from_models_that_have_not_seen_the_labels() -> None:
    """With 12 examples a network knows all labels by heart; linear models across folds do not."""
    found = blobs(size=90, noise=0.3, seed=1)
    method = DPC(
        epochs=4, warmup=0, batch=16, lr=0.05, lambda_u=0.0, start="crossfit", draws=1,
        selector="confident", schedule="cosine", lr_unit="data", prior="given", steps=30,
        join_at=0.5,
    )  # fmt: skip
    run = found.run()
    state = method.setup(run)
    run.begin(0)
    logs = method.cross_fit(state, run)
    wrong = found.audit.truth != found.task.y
    assert state.outside.shape == (90, 3)
    assert (state.clean[wrong] < 0.5).float().mean() > 0.8
    assert (state.clean[~wrong] > 0.5).float().mean() > 0.8
    assert logs["selected"] == (state.clean > 0.5).float().mean()
    run.begin(1)
    assert method.splits(state, run)[0] is state.clean  # networks have learnt nothing yet
    method.co_divide(state, run)
    run.begin(2)
    assert method.splits(state, run)[0] is not state.clean
    assert method.steps_an_epoch(90) == 10


def test_crossfit_and_its_split_rule_go_together() -> None:
    for settings in ({"start": "crossfit"}, {"selector": "confident"}):
        with pytest.raises(BadInput, match="go together"):
            DPC(**settings)
