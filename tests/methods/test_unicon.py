"""UniCon: its split, targets and losses by hand, and what happens when a part is empty."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.methods.unicon import Mixed, Split, UniCon
from labelproof.recipes.recipe import chosen_net, is_ours, published, published_names
from labelproof.training.batches import Batch
from tiny import blobs, patterns

TINY = UniCon(epochs=6, warmup=2, batch=16, lr=0.05, lambda_u=5.0, ramp=2.0)


def ready(method: UniCon = TINY, problem=None):
    run = (problem or blobs()).run()
    state = method.setup(run)
    run.begin(2)
    return run, state


def random_logits(rows: int, classes: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(rows, classes, generator=rng, dtype=torch.float64)


def four_views(run, index: Tensor) -> Batch:
    return Batch(index, run.y[index], tuple(torch.randn(4, len(index), 6)))


def split_of(run, kept: Tensor, share: float = 0.5) -> Split:
    ones = torch.ones(run.task.size)
    return Split(kept=kept, weight=ones, share=share, given=ones)


class Fixed:
    """Stands for a learner whose network answers with given logits, row by row."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    def net(self, x: Tensor) -> Tensor:
        return self.logits[: len(x)]


# ---- split ----


@pytest.mark.parametrize("loss", ["ce", "edl"])
def test_the_split_keeps_the_least_divergent_of_every_class(loss):
    method = replace(TINY, loss=loss)
    run, state = ready(method)
    method.warm_up(state, run)
    gamma = 10 / 3 if loss == "edl" else 0.0
    logits = [run.predict(learner.net) for learner in state.learners]
    exps = [each.double().exp() + gamma for each in logits]
    probs = sum(each / each.sum(1, keepdim=True) for each in exps) / 2
    p = probs.gather(1, run.y[:, None]).squeeze(1)
    middle = (p + 1) / 2
    rest = (1 - p) * math.log(2)
    divergence = (p * (p / middle).log() + rest + (1 / middle).log()) / 2
    split = method.split(state, run)
    share = (divergence < divergence.mean()).double().mean().item()
    assert split.share == pytest.approx(share)
    quota = int(round(share * 240) / 3)
    for c in range(3):
        own = (run.y == c).nonzero().squeeze(1)
        best = own[divergence[own].argsort()[:quota]]
        assert set(best.tolist()) == set(own[split.kept[own]].tolist())
    believed = torch.where(divergence < 0.5, 1.0, 1 - divergence)
    torch.testing.assert_close(split.weight.double(), believed, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(split.given.double(), p, rtol=1e-4, atol=1e-5)


def test_labels_are_not_refined_below_half_a_nat():
    run, state = ready()
    logits = torch.zeros(240, 3).scatter(1, run.y[:, None], torch.linspace(-6, 6, 240)[:, None])
    run.predict = lambda net: logits
    p = logits.softmax(1).gather(1, run.y[:, None]).squeeze(1)
    weight = TINY.split(state, run).weight
    assert ((weight == 1) == (p > 0.1222)).all()  # where the divergence is half a nat
    assert weight.min() > 1 - math.log(2)


def test_the_threshold_is_lowered_in_bits_alone():
    far = torch.linspace(0.5, math.log(2), 100)  # as far apart as nats allow
    torch.testing.assert_close(TINY.threshold(far), far.mean())
    bits = far / math.log(2)
    assert bits.mean() > 0.7
    lowered = bits.mean() - (bits.mean() - bits.min()) / 5
    torch.testing.assert_close(TINY.threshold(bits), lowered)
    run, state = ready()
    run.predict = lambda net: torch.linspace(0, 5, 240)[:, None] * -F.one_hot(run.y, 3)
    shares = [replace(TINY, units=units).split(state, run).share for units in ("nats", "bits")]
    assert shares[1] < shares[0]


def test_scores_leave_the_networks_as_they_are():
    run, state = ready(problem=patterns(size=40))
    for learner in state.learners:
        learner.net.train()
    before = [{k: v.clone() for k, v in x.net.state_dict().items()} for x in state.learners]
    first = TINY.split(state, run)
    for old, learner in zip(before, state.learners, strict=True):
        assert all(torch.equal(old[k], v) for k, v in learner.net.state_dict().items())
        assert learner.net.training
        learner.net.eval()
    assert torch.equal(first.given, TINY.split(state, run).given)


def test_the_second_network_has_a_split_of_its_own(monkeypatch):
    run, state = ready()
    used = []

    def step(self, learner, peer, split, run):
        used.append((learner, peer, split.given, TINY.split(state, run).given))
        TINY.fit_given(learner, run, 0.1)

    monkeypatch.setattr(UniCon, "mixmatch", step)
    TINY.uniform(state, run)
    first, second = state.learners
    assert [each[:2] for each in used] == [(first, second), (second, first)]
    assert all(torch.equal(given, now) for _, _, given, now in used)
    assert not torch.equal(used[0][2], used[1][2])


def test_confirmed_labels_are_always_kept():
    problem = blobs()
    fixed = problem.audit.truth != problem.task.y
    run, state = ready(problem=replace(problem, task=replace(problem.task, fixed=fixed)))
    split = TINY.split(state, run)
    assert split.kept[fixed].all()
    assert (split.weight[fixed] == 1).all()
    assert not split.kept.all()
    TINY.score(state, run)
    assert (state.clean[fixed] == 1).all()


def test_an_absent_class_takes_no_part_of_the_quota():
    problem = blobs(size=40, classes=3, noise=0.0).with_labels(torch.arange(40) % 2)
    run, state = ready(problem=problem)
    split = TINY.split(state, run)
    assert split.kept.sum() == 2 * int(split.share * 40 / 2)


@pytest.mark.parametrize(("share", "size"), [(0.25, 128), (0.8, 40), (0.5, 64), (1.0, 32)])
def test_unlabelled_examples_of_a_step(share, size):
    assert UniCon().others(share) == size
    assert UniCon(batch=1).others(share) == max(1, int(0.5 / share))


@pytest.mark.parametrize("share", [0.1, 0.001, 0.0])
def test_a_small_share_makes_no_enormous_batch(share):
    assert UniCon().others(share) == 256


# ---- targets and losses ----


def test_targets_come_from_weak_views_and_inputs_from_strong_ones():
    run, state = ready()
    learner, peer = state.learners
    x, u = four_views(run, torch.arange(4)), four_views(run, torch.arange(4, 10))
    given, w = F.one_hot(x.y, 3).float(), torch.tensor([1.0, 0.4, 1.0, 0.5])
    probs = torch.stack([learner.net(view).softmax(1) for view in x.views[:2]]).mean(0)
    blend = w[:, None] * given + (1 - w[:, None]) * probs
    refined = blend**2 / (blend**2).sum(1, keepdim=True)  # T = 1/2 squares and renormalises
    torch.testing.assert_close(TINY.guess.refined(learner, x, given, w), refined)
    nets = (learner.net, peer.net)
    probs = torch.stack([net(view).softmax(1) for net in nets for view in u.views[:2]]).mean(0)
    guessed = probs**2 / (probs**2).sum(1, keepdim=True)
    torch.testing.assert_close(TINY.guess.guessed(learner, peer, u), guessed)
    still = replace(TINY, alpha=1e-9)  # mixing weights of one
    mixed = still.mix(learner, peer, x, u, w, run)
    torch.testing.assert_close(mixed.x, torch.cat([*x.views[2:], *u.views[2:]]))
    torch.testing.assert_close(
        mixed.targets, torch.cat([refined, refined, guessed, guessed]).detach()
    )
    assert mixed.labelled == 8


def losses_of(method: UniCon, logits: Tensor, targets: Tensor, labelled: int, elapsed: float):
    mixed = Mixed(torch.zeros(len(targets), 1), targets, labelled)
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
    assert len(losses_of(replace(TINY, lambda_u=0.0), logits, targets, 6, elapsed=9.0)) == 2


def test_labelled_rows_alone_are_forwarded_where_asked():
    method = replace(TINY, lambda_u=0.0, rows="labelled")
    logits, targets = random_logits(4, 3), random_logits(10, 3, seed=1).softmax(1)
    l_x, l_reg = losses_of(method, logits, targets, 4, elapsed=3.0)
    torch.testing.assert_close(l_x, F.cross_entropy(logits, targets[:4]))
    torch.testing.assert_close(l_reg, fn.prior_penalty(logits.softmax(1)))


def test_evidential_loss_without_its_constants_is_cross_entropy():
    plain = replace(TINY, loss="edl", gamma_c=0.0, beta=0.0)
    logits, targets = random_logits(6, 4), random_logits(6, 4, seed=1).softmax(1)
    torch.testing.assert_close(plain.objective.probability(logits), logits.softmax(1))
    expected = F.cross_entropy(logits, targets, reduction="none")
    torch.testing.assert_close(plain.objective.of_targets(logits, targets), expected)
    torch.testing.assert_close(TINY.objective.of_targets(logits, targets), expected)


def test_evidential_loss_of_two_mixed_labels_is_that_of_both():
    method = replace(TINY, loss="edl")
    logits = random_logits(5, 4)
    own, partner = torch.tensor([0, 1, 2, 3, 0]), torch.tensor([3, 1, 0, 2, 2])
    targets = 0.7 * F.one_hot(own, 4) + 0.3 * F.one_hot(partner, 4)
    both = [fn.edl_loss(logits, y, 2.5, 0.5) for y in (own, partner)]
    torch.testing.assert_close(
        method.objective.of_targets(logits, targets.double()), 0.7 * both[0] + 0.3 * both[1]
    )


def test_the_contrastive_loss_joins_strong_views_of_the_unlabelled():
    run, state = ready()
    learner = state.learners[0]
    learner.net.train()
    u = four_views(run, torch.arange(5))
    projected = learner.net(torch.cat(u.views[2:]), "contrast")
    assert projected.shape == (10, 128)
    torch.testing.assert_close(projected.mean(0), torch.zeros(128), atol=1e-5, rtol=0)
    expected = fn.nt_xent(projected[:5], projected[5:], 0.05).mean()
    torch.testing.assert_close(TINY.contrast(learner, u), expected)
    single = TINY.contrast(learner, four_views(run, torch.arange(1)))  # batch statistics of two
    assert single.item() == 0


def passes(method: UniCon, kept: Tensor, monkeypatch) -> tuple[list[float], int]:
    """Losses of the steps, and how often the contrastive loss was computed."""
    run, state = ready(method)
    losses, counted = [], []
    whole = UniCon.contrast
    monkeypatch.setattr(
        UniCon, "contrast", lambda self, a, u: counted.append(len(u.index)) or whole(self, a, u)
    )
    run.step = lambda learner, *each: losses.append(torch.stack(each).sum().item())
    method.mixmatch(*state.learners, split_of(run, kept), run)
    return losses, len(counted)


def test_a_step_without_the_contrastive_loss_computes_none_of_it(monkeypatch):
    kept = torch.arange(240) < 64
    losses, counted = passes(TINY, kept, monkeypatch)
    assert (len(losses), counted) == (4, 4)
    without = replace(TINY, lambda_c=0.0)
    assert passes(without, kept, monkeypatch)[1] == 0
    assert set(without.setup(blobs().run()).learners[0].net.heads) == {"label"}
    assert set(ready()[1].learners[0].net.heads) == {"label", "contrast"}


@pytest.mark.parametrize("kept", [0, 1, 3, 239, 240])
def test_parts_of_any_size(kept, monkeypatch):
    losses, counted = passes(TINY, torch.arange(240) < kept, monkeypatch)
    assert all(map(math.isfinite, losses))
    assert len(losses) == (240 // 32 if kept == 0 else max(1, kept // 16))
    assert (counted > 0) == (0 < kept < 240)


# ---- the whole ----


def test_the_learning_rate_climbs_again_after_its_lowest_point():
    method, run = UniCon(), blobs().run()

    def rate(epoch: int) -> float:
        run.begin(epoch)
        return method.learning_rate(run)

    for epoch in (0, 100, 280, 349):
        expected = 2e-4 + (0.02 - 2e-4) * (1 + math.cos(math.pi * epoch / 280)) / 2
        assert rate(epoch) == pytest.approx(expected)
    method = published("unicon", "webvision")
    assert [rate(epoch) for epoch in (59, 60)] == pytest.approx([0.01, 0.001])


def test_one_epoch_in_so_many_is_on_the_given_labels_again(monkeypatch):
    rates = []
    monkeypatch.setattr(UniCon, "fit_given", lambda self, a, run, lr: rates.append((run.epoch, lr)))
    monkeypatch.setattr(UniCon, "mixmatch", lambda self, a, b, split, run: None)
    blobs(size=40).train(replace(TINY, warmup=0, rewarm=3, rewarm_lr=0.007))
    assert rates == [(2, 0.007)] * 2 + [(5, 0.007)] * 2


def test_prediction_adds_logits_not_probabilities():
    state = ready()[1]
    logits = torch.tensor([[[5.0, 4.9, -20.0]], [[0.0, -6.0, 2.0]]])
    state.learners = tuple(Fixed(each) for each in logits)
    torch.testing.assert_close(TINY.predict(state, torch.zeros(1, 6)), logits.mean(0).softmax(1))


@pytest.mark.parametrize("loss", ["ce", "edl"])
def test_it_learns_and_finds_the_wrong_labels(loss):
    problem, method = blobs(), replace(TINY, loss=loss)
    result = problem.train(method)
    assert result.history[-1]["test_accuracy"] > 0.85
    assert result.history[-1]["error_auroc"] > 0.9
    assert 0.3 < result.history[-1]["selected"] < 0.8
    run = problem.run()
    nets = [learner.net for learner in result.state.learners]
    probs = sum(method.objective.probability(run.predict(net)) for net in nets) / 2
    torch.testing.assert_close(result.clean, probs.gather(1, run.y[:, None]).squeeze(1))


def test_settings_that_contradict_each_other():
    with pytest.raises(BadInput, match="warmup"):
        UniCon(epochs=5, warmup=5)
    with pytest.raises(BadInput, match="rows"):
        UniCon(rows="labelled")
    with pytest.raises(BadInput, match="lambda_u"):
        UniCon(lambda_u="auto").weight_u  # noqa: B018


def test_recipes_of_the_paper():
    rates = {"symmetric": (0.2, 0.5, 0.8, 0.9), "asymmetric": (0.1, 0.3, 0.4)}
    names = {f"{d}-{n}-{r}" for d in ("cifar10", "cifar100") for n in rates for r in rates[n]}
    known = [name for name in published_names("unicon") if not is_ours("unicon", name)]
    assert set(known) == {*names, "webvision"}
    for name in names:
        method = published("unicon", name)
        assert (method.epochs, method.batch, method.lr) == (350, 64, 0.02)
        assert (method.lambda_u, method.lambda_c, method.alpha) == (30, 0.025, 4)
        assert method.warmup == (30 if name.startswith("cifar100") else 10)
        assert method.confidence_penalty == ("asymmetric" in name)
    web = published("unicon", "webvision")
    assert (web.epochs, web.warmup, web.batch, web.lr, web.weight_decay) == (120, 2, 24, 0.01, 1e-4)
    assert (web.alpha, web.lambda_u, web.rows, web.rewarm) == (0.5, 0, "labelled", 25)
    assert chosen_net("auto", "unicon", "images", "webvision") == "inception_resnet_v2"


def test_time_passes_from_batch_to_batch(monkeypatch):
    method = UniCon(epochs=6, warmup=2, batch=8, lr=0.01)
    run = blobs(size=32).run()
    first, second = method.setup(run).learners
    kept = torch.arange(32) < 16  # two batches
    split = Split(kept=kept, weight=torch.ones(32), share=0.5, given=torch.ones(32))
    times = []

    def note(self, learner, mixed, elapsed: float):
        times.append(elapsed)
        return [next(learner.net.parameters()).sum() * 0]

    monkeypatch.setattr(UniCon, "losses", note)
    run.begin(3)
    method.mixmatch(first, second, split, run)
    assert times == [3.0, 3.5]
