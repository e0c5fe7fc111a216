"""SOP: what moves what, how fast the noise grows, and where it ends."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from labelproof import functional as fn
from labelproof.methods.sop import SOP, START
from tiny import blobs

LOGITS = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LABELS = torch.tensor([0, 1, 2, 3, 0, 1])


def factors(u: float = START, v: float = START) -> tuple[torch.Tensor, torch.Tensor]:
    rows = torch.full((6, 1), u).double(), torch.full((6, 4), v).double()
    return rows[0].requires_grad_(), rows[1].requires_grad_()


def test_at_the_start_it_is_cross_entropy_and_twice_the_errors():
    cross_entropy, gap = SOP().losses(LOGITS, LABELS, *factors())
    expected = F.cross_entropy(LOGITS, LABELS)
    torch.testing.assert_close(cross_entropy, expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(gap, 2.0 * (LOGITS.argmax(1) != LABELS).double().mean())


def test_the_network_moves_by_the_prediction_with_noise_alone():
    logits = LOGITS.clone().requires_grad_()
    u, v = factors(0.5, 0.4)
    sum(SOP().losses(logits, LABELS, u, v)).backward()
    again = LOGITS.clone().requires_grad_()
    noisy = fn.with_noise(again.softmax(1), *fn.label_noise(LABELS, u, v))
    F.nll_loss(noisy.log(), LABELS).backward()
    torch.testing.assert_close(logits.grad, again.grad)


def test_v_moves_by_the_gap_alone_and_u_by_what_is_asked():
    given, hard = F.one_hot(LABELS, 4).double(), F.one_hot(LOGITS.argmax(1), 4).double()
    slopes = {}
    for u_from in ("both", "ce"):
        u, v = factors(0.5, 0.4)
        (6 * sum(SOP(u_from=u_from).losses(LOGITS, LABELS, u, v))).backward()
        slopes[u_from] = u.grad
        # slope of (h - v²)² on the other classes
        torch.testing.assert_close(v.grad, -4 * 0.4 * (hard - 0.16) * (1 - given))
    # slope of (h + u² - 1)² on the given class
    gap = 4 * 0.5 * ((hard * given).sum(1, keepdim=True) + 0.25 - 1)
    torch.testing.assert_close(slopes["both"] - slopes["ce"], gap)
    assert (slopes["ce"] < 0).all()  # cross-entropy always wants more u


@pytest.mark.parametrize(("lr_v", "factor", "visits"), [(10.0, 1.3125, 71), (100.0, 4.125, 13)])
def test_how_fast_the_noise_of_a_contradicted_label_grows(lr_v, factor, visits):
    logits, label = torch.tensor([[0.0, 9.0]]), torch.tensor([0])
    u, v, seen = torch.full((1, 1), START), torch.full((1, 2), START), 0
    first = None
    while v[0, 1] ** 2 <= 0.9:
        rows = v.requires_grad_()
        # one example of a batch of 128
        (fn.noise_gap(logits, label, *fn.label_noise(label, u, rows)).sum() / 128).backward()
        v = fn.descended(rows, lr_v)
        first = first or (v[0, 1] / START).item()
        seen += 1
    assert first == pytest.approx(factor)
    assert seen == visits


def test_the_noise_shrinks_while_the_network_agrees():
    logits, label = torch.tensor([[9.0, 0.0]]), torch.tensor([0])
    v = torch.full((1, 2), 0.5).requires_grad_()
    fn.noise_gap(logits, label, *fn.label_noise(label, torch.zeros(1, 1), v)).sum().backward()
    torch.testing.assert_close(v.grad, torch.tensor([[0.0, 4 * 0.5**3]]))


def test_evidential_loss_calibrates_and_adds_the_divergence():
    method = SOP(loss="edl", gamma_c=10.0, beta=0.5)
    probs = fn.calibrated_softmax(LOGITS, 2.5)
    torch.testing.assert_close(method.objective.probability(LOGITS), probs)
    likelihood, gap, kl = method.losses(LOGITS, LABELS, *factors())
    expected = -probs.gather(1, LABELS[:, None]).log().mean()
    torch.testing.assert_close(likelihood, expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(gap, 2.0 * (LOGITS.argmax(1) != LABELS).double().mean())
    torch.testing.assert_close(kl, 0.5 / 4 * fn.edl_kl(LOGITS, LABELS, 2.5).mean())


def test_a_step_moves_only_the_factors_of_its_batch():
    problem = blobs(size=48)
    method = SOP(batch=32)
    state = method.setup(run := problem.run())
    assert 0 < state.v.abs().mean() < 2 * START
    before = state.v.clone()
    run.begin(0)
    seen = torch.cat([batch.index for batch in run.batches(32)])
    run.begin(0)
    method.train(state, run)
    changed = (state.v != before).any(1).nonzero().squeeze(1)
    assert set(changed.tolist()) <= set(seen.tolist())
    assert len(changed) > 0


@pytest.mark.parametrize("loss", ["ce", "edl"])
def test_noise_settles_on_wrong_labels(loss):
    problem = blobs()
    method = SOP(epochs=20, batch=32, lr=0.05, lr_u=10.0, lr_v=10.0, loss=loss)
    result = problem.train(method)
    last, state = result.history[-1], result.state
    assert last["test_accuracy"] > 0.9
    assert last["error_auroc"] > 0.9
    noise = method.noise(state, problem.run())
    wrong = problem.audit.truth != problem.task.y
    assert noise[wrong].mean() > 5 * noise[~wrong].mean()
    given = result.probabilities.gather(1, problem.task.y[:, None]).squeeze(1)
    torch.testing.assert_close(result.clean, (given + 1 - noise) / 2)
