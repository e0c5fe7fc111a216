"""The noise adaptation layer: its likelihood by hand, its start, and its posterior."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.methods.noise_layer import NoiseLayer, chance, confusion, log_given
from tiny import blobs

RNG = torch.Generator().manual_seed(0)
LOGITS = torch.randn(8, 3, generator=RNG, dtype=torch.float64)
CHANNEL = torch.randn(8, 9, generator=RNG, dtype=torch.float64)
LABELS = torch.arange(8) % 3
METHOD = NoiseLayer(epochs=6, warmup=3, batch=16, lr=0.01)


def test_likelihood_is_the_sum_over_true_labels():
    table = CHANNEL.view(8, 3, 3).softmax(2)
    given = torch.einsum("bi,bij->bj", LOGITS.softmax(1), table)
    expected = given.gather(1, LABELS[:, None]).squeeze(1).log()
    torch.testing.assert_close(log_given(LOGITS, CHANNEL, LABELS), expected)
    torch.testing.assert_close(chance(CHANNEL, LABELS).exp()[4], table[4][:, LABELS[4]])


def test_one_matrix_for_all_is_forward_correction():
    table = CHANNEL[:1].view(3, 3).softmax(1)
    ours = log_given(LOGITS, CHANNEL[:1].expand(8, -1), LABELS)
    torch.testing.assert_close(ours, fn.log_given(LOGITS, LABELS, table))


def test_confusion_by_hand():
    probs, labels = LOGITS.softmax(1), LABELS
    expected = torch.stack(
        [torch.stack([probs[labels == j, i].sum() for j in range(3)]) for i in range(3)]
    )
    expected = expected / probs.sum(0)[:, None]
    torch.testing.assert_close(confusion(probs, labels), expected)


@pytest.mark.parametrize("form", ["simple", "complex"])
def test_the_layer_starts_at_the_confusion_of_the_warm_up_whatever_the_features(form):
    run = blobs(size=60).run()
    method = replace(METHOD, form=form)
    state = method.setup(run)
    method.start_layer(state, run)
    probs = run.predict(state.learner.net).softmax(1)
    features = run.features(state.learner.net)
    table = state.learner.net.head("channel", features).view(-1, 3, 3).softmax(2)
    expected = confusion(probs, run.y)
    torch.testing.assert_close(table, expected.expand(60, 3, 3), rtol=1e-4, atol=1e-5)


def test_a_declared_start():
    run = blobs(size=30).run()
    method = replace(METHOD, start="declared", noise_rate=0.4)
    state = method.setup(run)
    method.start_layer(state, run)
    table = state.learner.net.heads["channel"].bias.view(3, 3).exp()
    expected = torch.full((3, 3), 0.2).fill_diagonal_(0.6)
    torch.testing.assert_close(table, expected)


def test_prediction_is_of_true_labels_and_clean_is_the_posterior():
    run = blobs(size=60).run()
    state = METHOD.setup(run)
    METHOD.start_layer(state, run)
    METHOD.score(state, run)
    probs = run.predict(state.learner.net).softmax(1)
    table = state.learner.net.heads["channel"].bias.view(3, 3).softmax(1)
    joint = probs * table[:, run.y].T
    expected = (joint / joint.sum(1, keepdim=True)).gather(1, run.y[:, None]).squeeze(1)
    torch.testing.assert_close(state.clean, expected.detach())


def test_warm_up_must_leave_epochs():
    with pytest.raises(BadInput, match="warmup must be smaller"):
        NoiseLayer(epochs=5, warmup=5)
