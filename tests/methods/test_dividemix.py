"""DivideMix: its targets and losses by hand, its split, and what happens when a part is empty."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.methods.dividemix import DivideMix, Mixed
from labelproof.methods.dpc import DPC
from labelproof.training.batches import Batch
from tiny import blobs

TINY = DivideMix(epochs=6, warmup=2, batch=16, lr=0.05, lambda_u=5.0, ramp=2.0)


def ready(method: DivideMix = TINY):
    run = blobs().run()
    state = method.setup(run)
    run.begin(0)
    return run, state


def random_logits(rows: int, classes: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(rows, classes, generator=rng, dtype=torch.float64)


def two_views(run, index: Tensor) -> Batch:
    return Batch(index, run.y[index], tuple(torch.randn(2, len(index), 6)))


def test_refined_targets_on_fixed_tensors():
    run, state = ready()
    learner = state.learners[0]
    x = two_views(run, torch.arange(4))
    probs = torch.stack([learner.net(view).softmax(1) for view in x.views]).mean(0)
    squares = probs**2 / (probs**2).sum(1, keepdim=True)  # T = 1/2 squares and renormalises
    given = F.one_hot(x.y, 3).float()
    torch.testing.assert_close(TINY.guess.refined(learner, x, given, torch.ones(4)), given)
    torch.testing.assert_close(TINY.guess.refined(learner, x, given, torch.zeros(4)), squares)
    blend = 0.7 * given + 0.3 * probs
    blend = blend**2 / (blend**2).sum(1, keepdim=True)
    refined = TINY.guess.refined(learner, x, given, torch.full((4,), 0.7))
    torch.testing.assert_close(refined, blend)


def test_guessed_targets_come_from_both_networks():
    run, state = ready()
    first, second = state.learners
    u = two_views(run, torch.arange(5))
    nets = (first.net, second.net)
    probs = torch.stack([net(view).softmax(1) for net in nets for view in u.views]).mean(0)
    squares = probs**2 / (probs**2).sum(1, keepdim=True)
    torch.testing.assert_close(TINY.guess.guessed(first, second, u), squares)
    torch.testing.assert_close(TINY.guess.guessed(second, first, u), squares)


class Fixed:
    """Stands for a learner whose network answers with given logits, row by row."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    def net(self, x: Tensor) -> Tensor:
        return self.logits[: len(x)]


def losses_of(method: DivideMix, logits: Tensor, targets: Tensor, labelled: int, elapsed: float):
    mixed = Mixed(torch.zeros(len(logits), 1), targets, labelled)
    return method.losses(Fixed(logits), mixed, elapsed)


def test_losses_against_torch():
    logits, targets = random_logits(10, 4), random_logits(10, 4, seed=1).softmax(1)
    l_x, l_reg, l_u = losses_of(TINY, logits, targets, 6, elapsed=3.0)
    torch.testing.assert_close(l_x, F.cross_entropy(logits[:6], targets[:6]))
    mean = logits.softmax(1).mean(0)
    uniform = torch.full_like(mean, 0.25)
    torch.testing.assert_close(l_reg, F.kl_div(mean.log(), uniform, reduction="sum"))
    square = F.mse_loss(logits[6:].softmax(1), targets[6:])
    torch.testing.assert_close(l_u, 5.0 * 0.5 * square)  # half way up the ramp of two epochs
    paper = losses_of(replace(TINY, square="sum"), logits, targets, 6, elapsed=3.0)[2]
    torch.testing.assert_close(paper, 4 * l_u)


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_unsupervised_loss_of_a_flat_prediction(classes):
    sure = F.one_hot(torch.zeros(2, dtype=torch.long), classes).double()
    flat = torch.zeros(2, classes, dtype=torch.float64)
    method = replace(TINY, lambda_u=1.0)
    l_u = losses_of(method, flat, sure, 0, elapsed=100.0)[2]
    assert l_u.item() == pytest.approx((1 - 1 / classes) / classes)


def test_no_unsupervised_loss_at_the_end_of_the_warm_up_nor_at_weight_zero():
    logits, targets = random_logits(10, 4), random_logits(10, 4, seed=1).softmax(1)
    assert losses_of(TINY, logits, targets, 6, elapsed=2.0)[2] == 0
    assert len(losses_of(replace(TINY, lambda_u=0.0), logits, targets, 6, elapsed=9.0)) == 2


def test_gradient_of_the_prior_penalty_of_one_row():
    logits = random_logits(1, 5).requires_grad_()
    losses_of(TINY, logits, torch.zeros(1, 5), 1, elapsed=0.0)[1].backward()
    torch.testing.assert_close(logits.grad, logits.detach().softmax(1) - 0.2)


def test_evidential_loss_of_soft_targets_is_the_expectation_over_hard_ones():
    method = replace(TINY, loss="edl")
    logits, targets = random_logits(6, 4), random_logits(6, 4, seed=1).softmax(1)
    hard = torch.stack([fn.edl_loss(logits, torch.full((6,), c), 2.5, 0.5) for c in range(4)], 1)
    torch.testing.assert_close(
        method.objective.of_targets(logits, targets), (targets * hard).sum(1)
    )
    torch.testing.assert_close(
        method.objective.probability(logits), fn.calibrated_softmax(logits, 2.5)
    )


def test_mixing_keeps_the_majority_of_each_row():
    run, state = ready()
    first, second = state.learners
    x, u = two_views(run, torch.arange(4)), two_views(run, torch.arange(4, 8))
    mixed = TINY.mix(first, second, x, u, torch.ones(4), run)
    assert mixed.labelled == 8
    assert len(mixed.x) == len(mixed.targets) == 16
    own = mixed.targets[:8].gather(1, run.y[:4].repeat(2)[:, None])
    assert (own >= 0.5 - 1e-6).all()  # w = 1: the target of a labelled row is its given label


def test_each_network_trains_on_the_split_of_its_peer(monkeypatch):
    run, state = ready()
    run.begin(2)
    used = []
    monkeypatch.setattr(
        DivideMix, "mixmatch", lambda self, a, b, clean, run: used.append((a, b, clean))
    )
    TINY.co_divide(state, run)
    first, second = state.learners
    (a, b, for_first), (c, d, for_second) = used
    assert (a, b, c, d) == (first, second, second, first)
    for clean, peer in ((for_first, second), (for_second, first)):
        losses = F.cross_entropy(run.predict(peer.net), run.y, reduction="none")
        torch.testing.assert_close(clean, fn.two_gaussians(-losses))


def test_losses_are_averaged_over_the_last_epochs():
    method = replace(TINY, average=2)
    run, state = ready(method)
    learner = state.learners[0]
    past = torch.rand(2, run.task.size)
    now = method.with_losses(past, learner, run)
    losses = F.cross_entropy(run.predict(learner.net), run.y, reduction="none")
    torch.testing.assert_close(now[0], past[1])
    scaled = (losses - losses.min()) / (losses.max() - losses.min())
    torch.testing.assert_close(now[1], scaled.detach())
    averaged = method.clean_probability(now, run)
    torch.testing.assert_close(averaged, fn.two_gaussians(-now.mean(0)))


def test_a_low_loss_is_clean():
    rng = torch.Generator().manual_seed(0)
    losses = torch.randn(500, generator=rng) * 0.05 + 0.1
    losses[300:] += 0.6
    clean = TINY.clean_probability(losses[None], blobs().run())
    assert clean[:300].min() > 0.9
    assert clean[300:].max() < 0.1


def test_confirmed_labels_are_always_kept():
    problem = blobs()
    fixed = torch.arange(240) < 100
    run = replace(problem, task=replace(problem.task, fixed=fixed)).run()
    losses = torch.linspace(1, 0, 240)
    clean = TINY.clean_probability(losses[None], run)
    assert (clean[:100] == 1).all()
    torch.testing.assert_close(clean[100:], fn.two_gaussians(-losses)[100:])


def test_prediction_adds_logits_not_probabilities():
    state = ready()[1]
    logits = torch.tensor([[[5.0, 4.9, -20.0]], [[0.0, -6.0, 2.0]]])
    state.learners = tuple(Fixed(each) for each in logits)
    probs = TINY.predict(state, torch.zeros(1, 6))
    assert probs.argmax() == 0
    assert logits.softmax(2).mean(0).argmax() == 2
    torch.testing.assert_close(probs, logits.mean(0).softmax(1))


@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_all_kept_and_none_kept(threshold):
    result = blobs(size=40, noise=0.2).train(replace(TINY, threshold=threshold))
    assert torch.isfinite(result.probabilities).all()
    assert len(result.history) == 6


def test_unlabelled_inputs_matter_at_weight_zero():
    method = replace(TINY, lambda_u=0.0)
    run, state = ready(method)
    x, u = two_views(run, torch.arange(2)), two_views(run, torch.arange(2, 8))

    def outside(others: Batch | None) -> float:
        """What of the labelled mixed rows four labelled views in 6 dimensions do not span."""
        mixed = method.mix(*state.learners, x, others, torch.ones(2), run).x[:4].T
        pool = torch.cat(x.views).T
        return (mixed - pool @ torch.linalg.lstsq(pool, mixed).solution).norm().item()

    assert outside(None) < 1e-4
    assert outside(u) > 0.1


def test_labelled_rows_alone_are_forwarded_where_asked():
    method = replace(TINY, lambda_u=0.0, rows="labelled")
    logits, targets = random_logits(4, 3), random_logits(10, 3, seed=1).softmax(1)
    mixed = Mixed(torch.zeros(10, 1), targets, 4)
    l_x, l_reg = method.losses(Fixed(logits), mixed, 3.0)
    torch.testing.assert_close(l_x, F.cross_entropy(logits, targets[:4]))
    torch.testing.assert_close(l_reg, fn.prior_penalty(logits.softmax(1)))


def test_confidence_penalty_enters_the_warm_up():
    run, plain = ready()
    run_2, penal = ready()
    TINY.warm_up(plain, run)
    replace(TINY, confidence_penalty=1.0).warm_up(penal, run_2)
    entropies = [
        -fn.neg_entropy(r.predict(s.learners[0].net).softmax(1)).mean()
        for r, s in ((run, plain), (run_2, penal))
    ]
    assert entropies[1] > entropies[0]


@pytest.mark.parametrize("loss", ["ce", "edl"])
def test_it_learns_and_finds_the_wrong_labels(loss):
    problem, method = blobs(), replace(TINY, loss=loss, lr=0.1)
    result = problem.train(method)
    assert result.history[-1]["test_accuracy"] > 0.85
    assert result.history[-1]["error_auroc"] > 0.9
    run = problem.run()
    again = [
        fn.two_gaussians(-method.objective.of_labels(run.predict(learner.net), run.y))
        for learner in result.state.learners
    ]
    torch.testing.assert_close(result.clean, (again[0] + again[1]) / 2)


def test_settings_that_contradict_each_other():
    with pytest.raises(BadInput, match="warmup"):
        DivideMix(epochs=5, warmup=5)
    with pytest.raises(BadInput, match="rows"):
        DivideMix(rows="labelled")


def test_evidential_form_splits_as_dpc_does_without_large_margin():
    run, state = ready()
    learner = state.learners[0]
    ours, theirs = replace(TINY, loss="edl"), DPC(epochs=6, warmup=2, criterion="loss")
    past = torch.zeros(0, run.task.size)
    clean = ours.clean_probability(ours.with_losses(past, learner, run), run)
    torch.testing.assert_close(clean, theirs.clean_probability(learner, run))
