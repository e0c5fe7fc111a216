"""Losses, scores, mixing and schedules: pure functions that methods are written with."""

from labelproof.functional.contrast import (
    label_divergence as label_divergence,
    nt_xent as nt_xent,
    uniform_selection as uniform_selection,
)
from labelproof.functional.dirichlet import dirichlet_uncertainty as dirichlet_uncertainty
from labelproof.functional.losses import (
    Objective as Objective,
    calibrated_log_softmax as calibrated_log_softmax,
    calibrated_softmax as calibrated_softmax,
    clipped_softmax as clipped_softmax,
    descended as descended,
    early_learning_penalty as early_learning_penalty,
    edl_kl as edl_kl,
    edl_loss as edl_loss,
    edl_nll as edl_nll,
    kl_divergence as kl_divergence,
    label_noise as label_noise,
    mixed_edl_loss as mixed_edl_loss,
    neg_entropy as neg_entropy,
    noise_gap as noise_gap,
    prior_penalty as prior_penalty,
    soft_cross_entropy as soft_cross_entropy,
    soft_edl_loss as soft_edl_loss,
    with_noise as with_noise,
)
from labelproof.functional.mix import (
    Mixed as Mixed,
    mix as mix,
    mixing_weight as mixing_weight,
    mixup as mixup,
    sharpen as sharpen,
)
from labelproof.functional.select import (
    TwoGaussians as TwoGaussians,
    confident as confident,
    excess_kurtosis as excess_kurtosis,
    fit_two_gaussians as fit_two_gaussians,
    gaussians_or_scaled as gaussians_or_scaled,
    label_margin as label_margin,
    label_shares as label_shares,
    min_max as min_max,
    mirrored_gaussians as mirrored_gaussians,
    mirrored_or_free as mirrored_or_free,
    of_label as of_label,
    repeated as repeated,
    two_gaussians as two_gaussians,
)
from labelproof.functional.small_loss import (
    cosine_decay as cosine_decay,
    forget_rate as forget_rate,
    late_decay as late_decay,
    one_cycle as one_cycle,
    ramp as ramp,
    sigmoid_ramp as sigmoid_ramp,
    small_loss as small_loss,
    smallest_per_class as smallest_per_class,
    stair_decay as stair_decay,
    step_decay as step_decay,
)
from labelproof.functional.softmax_regression import (
    PENALTIES as PENALTIES,
    CrossFit as CrossFit,
    cross_fit as cross_fit,
    cross_fit_nested as cross_fit_nested,
    cross_fit_twice as cross_fit_twice,
    folds_of as folds_of,
    top_variance as top_variance,
)
from labelproof.functional.transition import (
    anchor_transition as anchor_transition,
    conditioned as conditioned,
    declared_transition as declared_transition,
    log_given as log_given,
    true_given as true_given,
)
