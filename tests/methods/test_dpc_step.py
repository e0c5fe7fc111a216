"""One step of DPC: targets, mixing and every loss, on fixed numbers and on recorded ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Dirichlet, kl_divergence

from labelproof import functional as fn
from labelproof.methods.dpc import DPC, Mixed
from labelproof.nets.heads import MultiHead
from labelproof.training.batches import Batch
from labelproof.training.learner import Learner

RECORDED = Path(__file__).parents[1] / "parity" / "data"
C = 4
GAMMA = 10 / C
METHOD = DPC(epochs=40, warmup=10, lambda_u=8.0)


class Times(nn.Module):
    """Inputs times a number."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


def times(factor: float) -> Learner:
    """Logits are the inputs times a number; those of the second head are twice as large."""
    net = MultiHead(Times(factor), {"label": Times(1), "mix": Times(2)})
    return Learner(net, None)  # type: ignore[arg-type]


ECHO, OPPOSITE = times(1), times(-1)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(*shape, generator=rng, dtype=torch.float64)


def rho(logits: Tensor) -> Tensor:
    """Equation 2, as it is written."""
    return (logits.exp() + GAMMA) / (logits.exp() + GAMMA).sum(1, keepdim=True)


def l_edl(logits: Tensor, labels: Tensor) -> Tensor:
    """Equations 6 and 7 by distributions: -ln ρ_y + β KL / C."""
    alpha = 1 + logits.exp() / GAMMA
    others = alpha.scatter(1, labels[:, None], 1.0)
    kl = kl_divergence(Dirichlet(others), Dirichlet(torch.ones(C, dtype=torch.float64)))
    return -rho(logits).gather(1, labels[:, None]).squeeze(1).log() + 0.5 * kl / C


def batch(views: int, y: list[int], seed: int) -> Batch:
    shown = tuple(numbers(len(y), C, seed=10 * seed + view) for view in range(views))
    return Batch(torch.arange(len(y)), torch.tensor(y), shown)


def a_run(classes: int = C) -> Any:
    rng = torch.Generator().manual_seed(1)
    return SimpleNamespace(rng=rng, device_rng=rng, task=SimpleNamespace(num_classes=classes))


def mixed(method: DPC = METHOD, views: int = 2, others: bool = True) -> Mixed:
    """Three labelled rows and two others, two views each."""
    x, u = batch(views, [0, 1, 2], 1), batch(views, [3, 0], 2) if others else None
    return method.mix(ECHO, OPPOSITE, x, u, torch.tensor([0.6, 0.9, 1.0]), a_run())


def close(ours: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(ours, expected, rtol=1e-6, atol=1e-7, check_dtype=False)


# Targets and mixing


@pytest.mark.parametrize("w", [0.5001, 0.6, 0.99, 1.0])
def test_refinement_never_relabels(w):
    x = batch(2, [i % C for i in range(200)], 3)
    given = nn.functional.one_hot(x.y, C).float()
    refined = METHOD.guess.refined(ECHO, x, given, torch.full((200,), w))
    assert torch.equal(refined.argmax(1), x.y)
    close(refined.sum(1), torch.ones(200))


def test_refinement_by_hand():
    x = batch(2, [2], 4)
    given = nn.functional.one_hot(x.y, C).float()
    mean = (rho(x.views[0]) + rho(x.views[1])) / 2
    target = (0.75 * given + 0.25 * mean) ** 2  # T = 0.5
    refined = METHOD.guess.refined(ECHO, x, given, torch.tensor([0.75]))
    close(refined, target / target.sum(1, keepdim=True))


def test_co_guessing_is_the_mean_of_both_networks_over_both_views():
    u = batch(2, [0, 0, 0], 5)
    first, second = u.views
    mean = (rho(first) + rho(second) + rho(-first) + rho(-second)) / 4
    expected = mean**2 / (mean**2).sum(1, keepdim=True)
    close(METHOD.guess.guessed(ECHO, OPPOSITE, u), expected)


def test_all_rows_mix_with_one_weight_and_one_permutation():
    m = mixed()
    assert m.labelled == 6
    assert len(m.x) == len(m.plain) == len(m.targets) == len(m.own) == 10
    assert 0.5 <= m.weight <= 1  # each row stays mostly itself
    assert sorted(m.permutation.tolist()) == list(range(10))
    close(m.x, m.weight * m.plain + (1 - m.weight) * m.plain[m.permutation])
    assert m.own[:6].tolist() == [0, 1, 2, 0, 1, 2]  # the given labels, for both views
    assert torch.equal(m.own[6:8], m.own[8:])
    assert torch.equal(m.partner, m.own[m.permutation])
    close(m.targets.sum(1), torch.ones(10))
    assert not m.targets.requires_grad


def test_strong_views_mix_in_the_same_way():
    m = mixed(replace(METHOD, consistency=1.0), views=4)
    x, u = batch(4, [0, 1, 2], 1), batch(4, [3, 0], 2)
    strong = torch.cat([*x.views[2:], *u.views[2:]])
    assert m.strong is not None
    close(m.strong, m.weight * strong + (1 - m.weight) * strong[m.permutation])


@pytest.mark.parametrize(
    ("method", "others"), [(replace(METHOD, lambda_u=0.0), True), (METHOD, False)]
)
def test_targets_are_hard_where_no_loss_sees_soft_ones(method, others):
    m = mixed(method, others=others)
    both = ((m.permutation < 6) & (torch.arange(len(m.x)) < 6)).nonzero().squeeze(1)
    assert len(both)
    own, partner = (nn.functional.one_hot(y[both], C) for y in (m.own, m.partner))
    close(m.targets[both], m.weight * own + (1 - m.weight) * partner)


# Losses


def test_the_supervised_loss_on_mixed_inputs_as_released():
    m = mixed()
    n, w = m.labelled, m.weight
    expected = w * l_edl(m.x[:n], m.own[:n]) + (1 - w) * l_edl(m.x[:n], m.partner[:n])
    close(METHOD.losses(ECHO, m, 20.0)[0], expected.mean())


def test_the_supervised_loss_on_unmixed_inputs_as_the_paper_has_it():
    m = mixed()
    n, w = m.labelled, m.weight
    own, partner = m.plain[:n], m.plain[m.permutation][:n]
    expected = w * l_edl(own, m.own[:n]) + (1 - w) * l_edl(partner, m.partner[:n])
    unmixed = replace(METHOD, sup_on="unmixed").losses(ECHO, m, 20.0)
    close(unmixed[0], expected.mean())
    released = METHOD.losses(ECHO, m, 20.0)
    assert (unmixed[0] - released[0]).abs() > 0.01
    for ours, theirs in zip(unmixed[1:], released[1:], strict=True):
        close(ours, theirs)  # the other terms see the mixed inputs either way


def l_uns(m: Mixed, scale: float) -> Tensor:
    n = m.labelled
    return ((rho(scale * m.x[n:]) - m.targets[n:]) ** 2).mean()


@pytest.mark.parametrize(
    ("elapsed", "share"), [(10.0, 0.0), (14.0, 0.25), (26.0, 1.0), (39.5, 1.0)]
)
def test_the_unsupervised_loss_rises_from_the_end_of_the_warm_up(elapsed, share):
    m = mixed()
    _, uns, _ = METHOD.losses(ECHO, m, elapsed)
    close(uns, share * 8.0 * l_uns(m, scale=2))  # by the second head


def test_the_papers_unsupervised_loss_sums_over_classes():
    m = mixed()
    _, uns, _ = replace(METHOD, square="sum").losses(ECHO, m, 26.0)
    close(uns, 8.0 * m.targets.shape[1] * l_uns(m, scale=2))


def test_the_ablation_without_two_heads_uses_the_first():
    m = mixed()
    _, uns, _ = replace(METHOD, two_heads=False).losses(ECHO, m, 26.0)
    close(uns, 8.0 * l_uns(m, scale=1))


def test_without_unlabelled_rows_or_weight_there_is_no_unsupervised_loss():
    assert len(METHOD.losses(ECHO, mixed(others=False), 26.0)) == 2
    method = replace(METHOD, lambda_u=0.0)
    assert len(method.losses(ECHO, mixed(method), 26.0)) == 2


@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_the_prior_penalty_is_that_of_all_rows(weight):
    m = mixed()
    penalty = METHOD.losses(ECHO, m, 20.0)[-1]
    mean = rho(m.x).mean(0)
    expected = (torch.log(1 / (C * mean)) / C).sum()
    close(penalty, expected)
    close(replace(METHOD, prior_weight=weight).losses(ECHO, m, 20.0)[-1], weight * expected)


def test_no_prior_penalty_where_it_has_no_weight():
    assert len(replace(METHOD, prior_weight=0.0).losses(ECHO, mixed(), 20.0)) == 2


def test_the_second_head_sees_the_unlabelled_rows_alone():
    m, seen = mixed(), []
    net = MultiHead(Times(1), {"label": Times(1), "mix": Times(2)})
    net.heads["mix"].register_forward_hook(lambda head, given, out: seen.append(given[0]))
    METHOD.losses(Learner(net, None), m, 20.0)  # type: ignore[arg-type]
    (rows,) = seen
    assert torch.equal(rows, m.x[m.labelled :])


def test_labelled_rows_alone_are_forwarded_for_webvision():
    method = replace(METHOD, lambda_u=0.0, rows="labelled", consistency=1.0)
    m = mixed(method, views=4)
    n, w = m.labelled, m.weight
    sup, penalty, consistency = method.losses(ECHO, m, 20.0)
    expected = w * l_edl(m.x[:n], m.own[:n]) + (1 - w) * l_edl(m.x[:n], m.partner[:n])
    close(sup, expected.mean())
    close(penalty, (torch.log(1 / (C * rho(m.x[:n]).mean(0))) / C).sum())
    close(consistency, kl(rho(m.x[:n]), rho(m.strong[:n])).mean())


def kl(p: Tensor, q: Tensor) -> Tensor:
    return (p * (p.log() - q.log())).sum(1)


def test_consistency_goes_from_weak_to_strong_and_its_weight_counts():
    method = replace(METHOD, consistency=3.0)
    m = mixed(method, views=4)
    weak, strong = m.x.clone().requires_grad_(), m.strong.clone().requires_grad_()
    *_, consistency = method.losses(ECHO, replace(m, x=weak, strong=strong), 20.0)
    close(consistency, 3 * kl(rho(m.x), rho(m.strong)).mean())
    consistency.backward()
    assert weak.grad is None  # the weak view teaches and does not learn
    assert strong.grad.abs().sum() > 0


def test_consistency_of_a_view_with_itself_is_zero_and_pulls_nowhere():
    method = replace(METHOD, consistency=1.0)
    m = mixed(method, views=4)
    weak, strong = m.x.clone().requires_grad_(), m.x.clone().requires_grad_()
    *_, consistency = method.losses(ECHO, replace(m, x=weak, strong=strong), 20.0)
    assert consistency.item() == pytest.approx(0.0, abs=1e-12)
    consistency.backward()
    assert weak.grad is None
    assert strong.grad.abs().max() < 1e-12


def test_the_ablation_without_l_edl_is_softmax_and_cross_entropy():
    method = replace(METHOD, loss="ce")
    logits, labels = numbers(7, C), torch.arange(7) % C
    close(method.probability(logits), logits.softmax(1))
    close(
        method.l_edl(logits, labels),
        nn.functional.cross_entropy(logits, labels, reduction="none"),
    )
    m = mixed(method)
    _, uns, penalty = method.losses(ECHO, m, 26.0)
    close(uns, 8 * (((2 * m.x[6:]).softmax(1) - m.targets[6:]) ** 2).mean())
    close(penalty, (torch.log(1 / (C * m.x.softmax(1).mean(0))) / C).sum())


def test_gamma_is_shared_among_the_classes():
    assert METHOD.objective.gamma(numbers(1, 10)) == pytest.approx(1.0)
    assert METHOD.objective.gamma(numbers(1, 50)) == pytest.approx(0.2)
    close(METHOD.probability(numbers(6, C)), rho(numbers(6, C)))
    close(
        METHOD.l_edl(numbers(6, C), torch.arange(6) % C),
        l_edl(numbers(6, C), torch.arange(6) % C),
    )


@pytest.mark.parametrize("sup_on", ["mixed", "unmixed"])
def test_huge_logits_give_finite_losses_and_gradients(sup_on):
    method = replace(METHOD, consistency=1.0, sup_on=sup_on)
    m = mixed(method, views=4)

    def huge(x: Tensor) -> Tensor:
        return (1000 * x.sign()).float().requires_grad_()

    inputs = [huge(m.x), huge(m.plain), huge(m.strong)]
    wild = replace(m, x=inputs[0], plain=inputs[1], strong=inputs[2])
    loss = torch.stack(method.losses(ECHO, wild, 26.0)).sum()
    loss.backward()
    assert loss.isfinite()
    assert all(x.grad is None or x.grad.isfinite().all() for x in inputs)


# A whole step, as recorded from the released code


@dataclass
class Step:
    """What was recorded of one step."""

    values: dict[str, Tensor]

    def __getitem__(self, name: str) -> Tensor:
        return self.values[f"step_{name}"]

    def starting(self, prefix: str) -> dict[str, Tensor]:
        start = f"step_{prefix}_"
        return {k.removeprefix(start): v for k, v in self.values.items() if k.startswith(start)}


@pytest.fixture(params=[10, 100])
def recorded(request) -> Step:
    with np.load(RECORDED / f"dpc_c{request.param}.npz") as file:
        return Step({key: torch.as_tensor(file[key]) for key in file.files})


PARTS = {"fc": "trunk.0", "head1": "heads.label", "head2": "heads.mix"}  # recorded name: ours


def renamed(name: str) -> str:
    part, kind = name.split(".")
    return f"{PARTS[part]}.{kind}"


def network(state: dict[str, Tensor]) -> Learner:
    """tanh(Linear(8, 16)) and two linear heads, in double precision."""
    classes = len(state["head1.bias"])
    heads = {"label": nn.Linear(16, classes), "mix": nn.Linear(16, classes)}
    net = MultiHead(nn.Sequential(nn.Linear(8, 16), nn.Tanh()), heads).double()
    net.load_state_dict({renamed(name): value for name, value in state.items()})
    sgd = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    return Learner(net, sgd)


def test_one_whole_step_as_recorded(recorded, monkeypatch):
    own, peer = (network(recorded.starting(name)) for name in ("net", "peer"))
    weight, order = recorded["mix_weight"].item(), recorded["permutation"]

    def drawn(inputs: Tensor, alpha: float, rng: torch.Generator, *_: object) -> fn.Mixed:
        return fn.Mixed(fn.mix(inputs, weight, order), weight, order)

    monkeypatch.setattr(fn, "mixup", drawn)
    x = Batch(torch.arange(6), recorded["labels"], (recorded["x1"], recorded["x2"]))
    u = Batch(torch.arange(6), torch.zeros(6).long(), (recorded["u1"], recorded["u2"]))
    method = DPC(warmup=10, lambda_u=25.0, ramp=16.0)
    run = a_run(len(recorded["net_head1.bias"]))
    m = method.mix(own, peer, x, u, recorded["clean_probability"], run)
    assert torch.equal(m.own[:12], recorded["label_a"])
    assert torch.equal(m.partner[:12], recorded["label_b"])
    torch.testing.assert_close(m.targets[12:], recorded["mixed_target_u"], rtol=0, atol=1e-7)
    losses = method.losses(own, m, elapsed=18.0)
    torch.testing.assert_close(losses[0], recorded["l_sup"], rtol=1e-9, atol=0)
    torch.testing.assert_close(losses[1], recorded["lambda"] * recorded["l_uns"], rtol=1e-7, atol=0)
    torch.stack(losses).sum().backward()
    own.optimiser.step()
    parameters = dict(own.net.named_parameters())
    for name, after in recorded.starting("after").items():
        ours = parameters.pop(renamed(name))
        torch.testing.assert_close(ours.grad, recorded[f"grad_{name}"], rtol=0, atol=1e-8)
        torch.testing.assert_close(ours.data, after, rtol=0, atol=1e-9)
    assert parameters == {}
