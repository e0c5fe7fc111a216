"""DPC's form for own data: a first split by linear models, a cosine, labels in their shares."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from labelproof import functional as fn
from labelproof.methods.dpc import DPC
from labelproof.training.learner import Learner
from tiny import blobs

OWN = DPC(
    epochs=4, warmup=0, batch=16, lr=0.01, lambda_u=5.0, start="crossfit", draws=1,
    selector="confident", schedule="cosine", lr_unit="data", prior="given", steps=6, join_at=0.5,
)  # fmt: skip


@pytest.mark.parametrize(
    ("variance", "unit", "epochs"), [(100.0, 0.5, 4), (25.0, 1.0, 2), (0.5, 5.0, 4)]
)
def test_the_form_for_own_data_step_by_step(
    monkeypatch: pytest.MonkeyPatch, variance: float, unit: float, epochs: int
) -> None:
    own, after = replace(OWN, epochs=epochs), epochs - 1
    problem = blobs(size=90, noise=0.3, seed=1)
    run = problem.run()
    state = own.setup(run)
    mix, losses = DPC.mix, DPC.losses
    joined, rates, times, priors = [], [], [], []

    def note_mix(self: DPC, learner: Learner, peer: Learner, x: Any, u: Any, *more: Any) -> Any:
        joined.append(u is not None)
        rates.append(learner.optimiser.param_groups[0]["lr"])
        return mix(self, learner, peer, x, u, *more)

    def note_losses(self: DPC, learner: Learner, mixed: Any, elapsed: float, prior: Any) -> Any:
        times.append(elapsed)
        priors.append(prior)
        return losses(self, learner, mixed, elapsed, prior)

    monkeypatch.setattr("labelproof.functional.top_variance", lambda _: variance)
    monkeypatch.setattr(DPC, "mix", note_mix)
    monkeypatch.setattr(DPC, "losses", note_losses)
    run.begin(0)
    own.cross_fit(state, run)
    for epoch in range(1, epochs):
        run.begin(epoch)
        own.co_divide(state, run)
    # each network takes six steps, as many in every epoch
    steps = torch.arange(6).div(6).double().view(after, -1)
    done = steps[:, None].expand(-1, 2, -1).flatten().tolist()
    assert rates == pytest.approx([unit * 0.01 * (1 + math.cos(math.pi * t)) / 2 for t in done])
    assert times == pytest.approx([1 + after * t for t in done])
    assert joined == [t >= 0.5 - 1e-9 for t in done]
    shares = (torch.bincount(problem.task.y, minlength=3) + 0.5) / (90 + 1.5)
    assert all(torch.allclose(prior, shares) for prior in priors)


@pytest.mark.parametrize("schedule", ["step", "one_cycle", "cosine"])
@pytest.mark.parametrize("start", ["warm-up", "crossfit"])
def test_the_unit_of_the_learning_rate_counts_everywhere(
    monkeypatch: pytest.MonkeyPatch, schedule: Any, start: Any
) -> None:
    selector: Any = "confident" if start == "crossfit" else "gmm"
    own = replace(OWN, start=start, warmup=1, selector=selector, schedule=schedule)
    monkeypatch.setattr("labelproof.functional.top_variance", lambda _: 100.0)
    rates: dict[str, list[float]] = {}
    for method in (own, replace(own, lr_unit="one")):
        run = blobs(size=90, noise=0.3, seed=1).run()
        state, seen = method.setup(run), rates.setdefault(method.lr_unit, [])
        for phase in method.plan():
            for _ in range(min(phase.epochs, 2)):
                run.begin(len(seen))
                phase.epoch(state, run)
                seen.append(state.learners[0].optimiser.param_groups[0]["lr"])
        method.fit_given(state.learners[0], run, state.unit)  # where a split keeps nothing
        seen.append(state.learners[0].optimiser.param_groups[0]["lr"])
    first = 1 if start == "crossfit" else 0  # linear models have no learning rate
    assert rates["data"][first:] == pytest.approx([0.5 * rate for rate in rates["one"][first:]])


def test_networks_and_linear_models_count_equally_in_the_split() -> None:
    run = blobs(size=90, noise=0.3).run()
    state = OWN.setup(run)
    learner = state.learners[0]
    own = OWN.objective.log_probability(run.predict(learner.net))
    state.outside = own
    torch.testing.assert_close(OWN.joint_probability(learner, state, run), fn.confident(own, run.y))
    state.outside = -own  # so that nothing is known
    even = fn.confident(torch.zeros(90, 3), run.y)
    torch.testing.assert_close(OWN.joint_probability(learner, state, run), even)


@pytest.mark.parametrize(
    ("settings", "alone"),
    [
        ({"lambda_u": 0.0, "prior_weight": 0.0}, True),
        ({"lambda_u": 0.0, "prior_weight": 1.0}, False),
        ({"lambda_u": 5.0, "prior_weight": 0.0}, False),
        ({"lambda_u": 0.0, "prior_weight": 0.0, "consistency": 1.0}, False),
        ({"lambda_u": 0.0, "prior_weight": 0.0, "rows": "all"}, False),
    ],
)
def test_rows_that_no_loss_uses_need_not_be_forwarded(
    settings: dict[str, Any], alone: bool
) -> None:
    weights, forwarded = [], set()
    for rows in ("all", settings.get("rows", "used")):
        method = DPC(**{"batch": 16, "start": "warm-up", **settings, "rows": rows})
        run = blobs(size=90, noise=0.3).run()
        first, second = method.setup(run).learners
        run.begin(method.warmup)
        hook = first.net.trunk.register_forward_hook(
            lambda _, given, __: forwarded.add(len(given[0])) if torch.is_grad_enabled() else None
        )
        forwarded.clear()
        method.mixmatch(first, second, (torch.arange(90) < 60).float(), run)
        hook.remove()
        weights.append(torch.cat([w.flatten() for w in first.net.trunk.parameters()]))
    assert forwarded == {32 if alone else 64}
    torch.testing.assert_close(*weights, rtol=1e-5, atol=1e-6)
