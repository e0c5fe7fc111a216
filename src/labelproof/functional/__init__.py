"""Losses, scores, mixing and schedules: pure functions that methods are written with."""

from labelproof.functional.contrast import label_divergence, nt_xent, uniform_selection
from labelproof.functional.coteaching import forget_rate, late_decay, small_loss
from labelproof.functional.dirichlet import dirichlet_uncertainty
from labelproof.functional.linear import cross_fit, cross_fit_twice, folds_of, top_variance
from labelproof.functional.losses import (
    calibrated_log_softmax,
    calibrated_softmax,
    edl_kl,
    edl_loss,
    edl_nll,
    neg_entropy,
    prior_penalty,
    soft_cross_entropy,
    soft_edl_loss,
)
from labelproof.functional.mix import Mixed, mix, mixing_weight, mixup, sharpen
from labelproof.functional.objective import Objective
from labelproof.functional.robust import (
    clipped_softmax,
    descended,
    early_learning_penalty,
    label_noise,
    noise_gap,
    with_noise,
)
from labelproof.functional.schedule import cosine_decay, one_cycle, ramp, sigmoid_ramp, step_decay
from labelproof.functional.select import (
    TwoGaussians,
    confident,
    excess_kurtosis,
    fit_two_gaussians,
    gaussians_or_scaled,
    label_margin,
    min_max,
    mirrored_gaussians,
    mirrored_or_free,
    of_label,
    two_gaussians,
)
from labelproof.functional.transition import (
    anchor_transition,
    conditioned,
    declared_transition,
    log_given,
    true_given,
)

__all__ = [
    "Mixed",
    "Objective",
    "TwoGaussians",
    "anchor_transition",
    "calibrated_log_softmax",
    "calibrated_softmax",
    "clipped_softmax",
    "conditioned",
    "confident",
    "cosine_decay",
    "cross_fit",
    "cross_fit_twice",
    "declared_transition",
    "descended",
    "dirichlet_uncertainty",
    "early_learning_penalty",
    "edl_kl",
    "edl_loss",
    "edl_nll",
    "excess_kurtosis",
    "fit_two_gaussians",
    "folds_of",
    "forget_rate",
    "gaussians_or_scaled",
    "label_divergence",
    "label_margin",
    "label_noise",
    "late_decay",
    "log_given",
    "min_max",
    "mirrored_gaussians",
    "mirrored_or_free",
    "mix",
    "mixing_weight",
    "mixup",
    "neg_entropy",
    "noise_gap",
    "nt_xent",
    "of_label",
    "one_cycle",
    "prior_penalty",
    "ramp",
    "sharpen",
    "sigmoid_ramp",
    "small_loss",
    "soft_cross_entropy",
    "soft_edl_loss",
    "step_decay",
    "top_variance",
    "true_given",
    "two_gaussians",
    "uniform_selection",
    "with_noise",
]
