"""Active Bias: weights from the history by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from labelproof.errors import BadInput
from labelproof.methods.active_bias import ActiveBias, deviation
from tiny import blobs

METHOD = ActiveBias(epochs=6, warmup=3, batch=16, lr=0.05)
HISTORY = torch.tensor([[0.1, 0.9, 0.5], [0.8, 0.8, 0.8], [0.2, 0.1, 0.3]])


def with_history(method):
    run = blobs(size=3, classes=3, noise=0.0).run()
    state = method.setup(run)
    state.count += 3
    state.total += HISTORY.sum(1)
    state.squares += (HISTORY**2).sum(1)
    return state, run


def test_spread_of_past_probabilities():
    state, _ = with_history(METHOD)
    variance = HISTORY.var(1, correction=0)
    expected = (variance + variance**2 / 2).sqrt()
    torch.testing.assert_close(METHOD.uncertainty(state), expected, rtol=1e-4, atol=1e-4)
    assert deviation(torch.tensor(0.04), torch.tensor(5.0)).item() == pytest.approx(0.0404**0.5)


def test_nearness_to_the_threshold():
    method = replace(METHOD, kind="threshold")
    state, _ = with_history(method)
    mean = HISTORY.mean(1)
    torch.testing.assert_close(method.uncertainty(state), mean * (1 - mean))


def test_an_example_without_a_history_is_as_uncertain_as_the_mean():
    state, _ = with_history(METHOD)
    state.count[1] = 1
    values = METHOD.uncertainty(state)
    assert values[1].item() == pytest.approx(values[[0, 2]].mean().item())


def test_weights_have_mean_one_and_lie_between_those_of_certainty(monkeypatch):
    seen = {}
    monkeypatch.setattr(ActiveBias, "epoch", lambda self, state, run, w: seen.update(w=w))
    for smooth in (0.0, 1.0):
        method = replace(METHOD, smooth=smooth)
        state, run = with_history(method)
        method.weighted(state, run)
        values = method.uncertainty(state)
        expected = values + smooth * values.mean()
        torch.testing.assert_close(seen["w"], expected / expected.mean())
        assert seen["w"].mean().item() == pytest.approx(1)


def test_the_history_is_what_the_network_said_in_training():
    run = blobs(size=32).run()
    state = METHOD.setup(run)
    run.begin(0)
    METHOD.warm_up(state, run)
    assert state.count.tolist() == [1.0] * 32
    torch.testing.assert_close(state.squares, state.total**2)
    assert ((state.total > 0) & (state.total < 1)).all()


def test_warm_up_must_leave_epochs():
    with pytest.raises(BadInput, match="warmup must be smaller"):
        ActiveBias(epochs=5, warmup=5)


def test_clean_is_the_mean_of_past_probabilities_and_the_last():
    state, run = with_history(METHOD)
    METHOD.score(state, run)
    now = run.predict(state.learner.net).softmax(1)[torch.arange(3), run.y]
    torch.testing.assert_close(state.clean, (HISTORY.sum(1) + now) / 4)


def test_two_probabilities_are_a_history():
    state, _ = with_history(METHOD)
    past = HISTORY[:, :2]
    state.count[:], state.total[:] = 2, past.sum(1)
    state.squares[:] = (past**2).sum(1)
    variance = past.var(1, correction=0)
    expected = (variance + variance**2).sqrt()
    torch.testing.assert_close(METHOD.uncertainty(state), expected, rtol=1e-4, atol=1e-4)


def test_the_paper_smooths_by_the_mean_uncertainty():
    assert ActiveBias().smooth == 1.0
