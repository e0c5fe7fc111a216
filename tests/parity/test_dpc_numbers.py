"""The functions against numbers recorded from the ones the authors of DPC released."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from labelproof import functional as fn

BETA = 0.5
Numbers = dict[str, Tensor]


@pytest.fixture(params=[10, 100])
def classes(request) -> int:
    return request.param


@pytest.fixture
def gamma(classes) -> float:
    return 10 / classes


@pytest.fixture
def recorded(classes) -> Numbers:
    with np.load(Path(__file__).parent / "data" / f"dpc_c{classes}.npz") as file:
        return {key: torch.as_tensor(file[key]) for key in file.files}


def close(ours: Tensor, theirs: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def test_probabilities_and_entropy(recorded, gamma):
    probs = fn.calibrated_softmax(recorded["loss_logits"], gamma)
    close(probs, recorded["calibrated_prob"])
    close(fn.neg_entropy(probs).mean(), recorded["neg_entropy_mean"])


def test_loss_terms_and_gradient(recorded, classes, gamma):
    logits = recorded["loss_logits"].clone().requires_grad_()
    labels = recorded["loss_labels"]
    close(fn.edl_nll(logits, labels, gamma), recorded["loss_nll"])
    # the recorded function holds its constant ln Γ(C) in float32; everything else is double
    rounding = torch.lgamma(torch.tensor(float(classes))).double() - math.lgamma(classes)
    kl = fn.edl_kl(logits, labels, gamma) - rounding
    close(BETA * kl / classes, recorded["loss_half_kl_over_c"])
    fn.edl_loss(logits, labels, gamma, BETA).mean().backward()
    close(logits.grad, recorded["loss_grad_of_mean_total"], 1e-9)


def test_loss_terms_in_single_precision(recorded, classes, gamma):
    total = recorded["loss_nll"] + recorded["loss_half_kl_over_c"]
    ours = fn.edl_loss(recorded["loss_logits"].float(), recorded["loss_labels"], gamma, BETA)
    close(ours.double(), total, 3e-6)


@pytest.mark.parametrize("classes", [100])
def test_margins_of_the_recorded_logits(recorded):
    logits, labels = recorded["sel_logits"], recorded["sel_labels"]
    assert torch.equal(fn.label_margin(logits, labels), recorded["sel_margins"][: len(labels)])


def test_split_of_the_set(recorded):
    margins = recorded.get("sel_margins")
    if margins is None:
        margins = fn.label_margin(recorded["sel_logits"], recorded["sel_labels"])
    clean = fn.two_gaussians(margins)
    theirs = recorded["sel_clean_probability"]
    assert len(clean) == len(theirs) == 2000
    assert ((clean > 0.5) == (theirs > 0.5)).double().mean() >= 0.997
    assert (clean - theirs).abs().mean() < 0.01
    assert ((clean > 0.5) == recorded["sel_truly_clean"]).double().mean() > 0.9


class TwoHeads(nn.Module):
    """tanh(Linear(8, 16)) and two linear heads, as recorded."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 16)
        self.head1 = nn.Linear(16, classes)
        self.head2 = nn.Linear(16, classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = torch.tanh(self.fc(x))
        return self.head1(features), self.head2(features)


def load(recorded: Numbers, prefix: str, classes: int) -> TwoHeads:
    net = TwoHeads(classes).double()
    net.load_state_dict(
        {k.removeprefix(prefix): v for k, v in recorded.items() if k.startswith(prefix)}
    )
    return net


def guess_targets(net: TwoHeads, peer: TwoHeads, step: Numbers, gamma: float) -> Tensor:
    """Refined targets of labelled rows, co-guessed ones of unlabelled rows, for both views."""

    def probs(model: TwoHeads, view: str) -> Tensor:
        return fn.calibrated_softmax(model(step[view])[0], gamma)

    guess = sum(probs(model, view) for model in (net, peer) for view in ("step_u1", "step_u2")) / 4
    own = (probs(net, "step_x1") + probs(net, "step_x2")) / 2
    clean = step["step_clean_probability"].float().double().unsqueeze(1)
    given = nn.functional.one_hot(step["step_labels"], own.shape[1])
    refined = clean * given + (1 - clean) * own
    t_x, t_u = fn.sharpen(refined, 0.5), fn.sharpen(guess, 0.5)
    return torch.cat([t_x, t_x, t_u, t_u])


def test_one_whole_step(recorded, classes, gamma):
    net, peer = (load(recorded, prefix, classes) for prefix in ("step_net_", "step_peer_"))
    with torch.no_grad():
        targets = guess_targets(net, peer, recorded, gamma)
    weight, order = recorded["step_mix_weight"].item(), recorded["step_permutation"]
    inputs = torch.cat([recorded[f"step_{view}"] for view in ("x1", "x2", "u1", "u2")])
    first, second = net(fn.mix(inputs, weight, order))
    rows = len(inputs) // 2
    label_a, label_b = targets.argmax(1)[:rows], targets[order].argmax(1)[:rows]
    assert torch.equal(label_a, recorded["step_label_a"])
    assert torch.equal(label_b, recorded["step_label_b"])
    l_sup = (
        weight * fn.edl_loss(first[:rows], label_a, gamma, BETA)
        + (1 - weight) * fn.edl_loss(first[:rows], label_b, gamma, BETA)
    ).mean()
    mixed = fn.mix(targets, weight, order)[rows:]
    close(mixed, recorded["step_mixed_target_u"], 1e-7)
    l_uns = ((fn.calibrated_softmax(second[rows:], gamma) - mixed) ** 2).mean()
    close(l_sup, recorded["step_l_sup"])
    close(l_uns, recorded["step_l_uns"], 1e-8)
    lambda_u = 25 * fn.ramp(18.0, 10.0)
    assert lambda_u == recorded["step_lambda"].item()
    loss = l_sup + lambda_u * l_uns + fn.prior_penalty(fn.calibrated_softmax(first, gamma))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    loss.backward()
    optimiser.step()
    for name, parameter in net.named_parameters():
        close(parameter.grad, recorded[f"step_grad_{name}"], 1e-8)
        close(parameter.detach(), recorded[f"step_after_{name}"], 1e-9)
