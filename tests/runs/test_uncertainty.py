"""Whether uncertainty rises on inputs that the training data say nothing about."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from labelproof import NoisyLabelClassifier
from labelproof import functional as fn
from labelproof.judging.link import log_evidence

Array = npt.NDArray[np.float64]
X, TRUTH = load_digits(return_X_y=True)
X, TRUTH = X[:1000], TRUTH[:1000]
KNOWN, NEAR = X[:700], X[700:]
CENTRE = KNOWN.mean(0)


@pytest.fixture(scope="module")
def model() -> NoisyLabelClassifier:
    """DPC on vectors with a fifth of the labels redrawn, begun with a warm-up as in the paper.

    Begun across folds, as on few vectors by default, it is sure of far inputs as well.
    """
    rng = np.random.default_rng(0)
    given = np.where(rng.random(700) < 0.2, rng.integers(0, 10, 700), TRUTH[:700])
    paper = {
        "start": "warm-up", "selector": "mirror", "steps": 0, "draws": 2, "join_at": 0.0,
        "lr": 0.1, "lr_unit": "one", "schedule": "step", "weight_decay": 5e-4, "prior": "uniform",
        "warmup": 4, "epochs": 20, "prior_weight": 1.0, "balance": 0.0,
    }  # fmt: skip
    return NoisyLabelClassifier(calibrate=False, settings=paper).fit(KNOWN, given)


def uncertainties(model: NoisyLabelClassifier, inputs: Array) -> tuple[Array, ...]:
    """Vacuity, expected entropy and mutual information."""
    trained = model.model_
    x = trained.task.views.plain(torch.as_tensor(inputs, dtype=torch.float32)).to(trained.dtype)
    with torch.no_grad():
        evidence = log_evidence(trained.method, trained.states[0], x)
    return tuple(values.numpy() for values in fn.dirichlet_uncertainty(evidence, gamma=1.0))


def directions(size: int) -> Array:
    drawn = np.random.default_rng(1).normal(size=(size, X.shape[1]))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


RADIUS = np.linalg.norm(KNOWN - CENTRE, axis=1).mean()
FAR = {
    "as far from the centre, anywhere": CENTRE + RADIUS * directions(300),
    "pixels in another order": NEAR[:, np.random.default_rng(2).permutation(X.shape[1])],
}


@pytest.mark.parametrize("name", FAR)
def test_far_inputs_have_more_vacuity_and_mutual_information(
    name: str, model: NoisyLabelClassifier
) -> None:
    assert model.score(NEAR, TRUTH[700:]) > 0.9  # it did learn something
    far = np.repeat([False, True], [len(NEAR), len(FAR[name])])
    near_values, far_values = uncertainties(model, NEAR), uncertainties(model, FAR[name])
    for which in (0, 2):
        told = np.concatenate([near_values[which], far_values[which]])
        assert roc_auc_score(far, told) > 0.9
        assert np.median(far_values[which]) > 2 * np.median(near_values[which])


def test_what_users_see_is_the_vacuity(model: NoisyLabelClassifier) -> None:
    np.testing.assert_allclose(model.uncertainty(NEAR), uncertainties(model, NEAR)[0], rtol=1e-4)


def test_known_inputs_made_larger_look_known(model: NoisyLabelClassifier) -> None:
    # A limit, not a wish (docs/calibration.md): a ReLU network's logits grow along such a ray.
    larger = CENTRE + 10 * (NEAR - CENTRE)
    assert model.uncertainty(larger).mean() < model.uncertainty(NEAR).mean()
