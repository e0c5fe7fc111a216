"""The public names: a change here is a change for every user."""

from __future__ import annotations

import labelproof

NAMES = {
    "BadInput",
    "CrossEntropy",
    "DPC",
    "METHODS",
    "NoisyLabelClassifier",
    "RunFailed",
    "__version__",
    "add_findings",
    "find_label_issues",
    "label_quality",
    "load_model",
}
FUNCTIONS = {
    "calibrated_log_softmax",
    "calibrated_softmax",
    "edl_kl",
    "edl_loss",
    "edl_nll",
    "excess_kurtosis",
    "label_margin",
    "mixup",
    "neg_entropy",
    "prior_penalty",
    "sharpen",
    "two_gaussians",
}


def test_public_names_are_these_and_exist():
    assert set(labelproof.__all__) == NAMES
    for name in NAMES:
        assert getattr(labelproof, name) is not None


def test_promised_functions_exist():
    from labelproof import functional, metrics

    assert set(vars(functional)) >= FUNCTIONS
    assert callable(metrics.ece)
