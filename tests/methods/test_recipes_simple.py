"""Recipes of the simpler rivals: each number as its paper or released code has it."""

from __future__ import annotations

import pytest

from labelproof.recipes.recipe import (
    chosen_net,
    nearest_recipe,
    published,
    published_names,
    read_settings,
)
from labelproof.training.settings import settings_of
from tiny import blobs

TRAINER = ("epochs", "batch", "lr", "momentum", "weight_decay")
IN_CIFAR_N = ("ce", "gce", "coteaching")
HUMANS = ("aggre", "rand1", "rand2", "rand3", "worst")

# method, recipe, values of TRAINER
TRAINERS = [
    ("ce", "cifar10-symmetric-0.5", (300, 128, 0.02, 0.9, 5e-4)),
    ("ce", "cifar100-asymmetric-0.4", (300, 128, 0.02, 0.9, 5e-4)),
    ("ce", "cifar10-protocol-b", (120, 128, 0.02, 0.9, 1e-3)),
    ("ce", "cifar100-protocol-b", (150, 128, 0.02, 0.9, 1e-3)),
    ("ce", "cifar10n-worst", (100, 128, 0.1, 0.9, 5e-4)),
    ("ce", "cifar100n", (100, 128, 0.1, 0.9, 5e-4)),
    ("mixup", "cifar10-symmetric-0.5", (300, 128, 0.02, 0.9, 5e-4)),
    ("mixup", "cifar10-clean", (200, 128, 0.1, 0.9, 1e-4)),
    ("mixup", "cifar10-corrupted-alpha-8", (200, 128, 0.1, 0.9, 1e-4)),
    ("gce", "cifar10-symmetric-0.5", (120, 128, 0.01, 0.9, 1e-4)),
    ("gce", "cifar10-truncated", (120, 128, 0.01, 0.9, 1e-4)),
    ("gce", "cifar100-truncated", (150, 128, 0.01, 0.9, 1e-4)),
    ("gce", "cifar10n-worst", (100, 128, 0.1, 0.9, 5e-4)),
    ("coteaching", "cifar10-pair-0.45", (200, 128, 1e-3, 0.9, 0.0)),
    ("coteaching_plus", "cifar10-pair-0.45", (200, 128, 1e-3, 0.9, 0.0)),
    ("bootstrap", "cifar10-symmetric-0.5", (120, 128, 0.1, 0.9, 2e-4)),
    ("bootstrap", "cifar100-soft", (150, 128, 0.1, 0.9, 2e-3)),
    ("edl", "mnist", (50, 1000, 1e-3, 0.9, 5e-3)),
    ("edl", "cifar10", (300, 128, 0.02, 0.9, 5e-4)),
    ("cores", "cifar10-instance-0.4", (100, 64, 0.1, 0.0, 0.0)),
]

VALUES = [
    ("mixup", "cifar10-clean", "alpha", 1.0),
    ("mixup", "cifar10-corrupted-alpha-8", "alpha", 8.0),
    ("mixup", "cifar10-corrupted-alpha-32", "alpha", 32.0),
    ("gce", "cifar10-truncated", "q", 0.7),
    ("gce", "cifar10-truncated", "k", 0.5),
    ("gce", "cifar10-truncated", "truncate", True),
    ("gce", "cifar10-truncated", "hold_out", 0.1),
    ("gce", "cifar100-truncated", "hold_out", 0.1),
    ("gce", "cifar10-symmetric-0.5", "truncate", False),
    ("gce", "cifar10-symmetric-0.5", "hold_out", 0.0),
    ("gce", "cifar10n-worst", "truncate", False),
    ("coteaching", "cifar10-symmetric-exclusive-0.5", "noise_rate", 0.5),
    ("coteaching", "cifar10-symmetric-0.5", "noise_rate", 0.45),
    ("coteaching", "cifar100-symmetric-0.5", "noise_rate", 0.495),
    ("coteaching", "cifar10-asymmetric-0.4", "noise_rate", 0.2),
    ("coteaching", "cifar100-asymmetric-0.4", "noise_rate", 0.4),
    ("coteaching", "cifar10n-worst", "noise_rate", 0.4021),
    ("coteaching", "cifar10-pair-0.45", "optimiser", "adam"),
    ("coteaching", "cifar10-pair-0.45", "view", "plain"),
    ("coteaching", "cifar10-pair-0.45", "ramp", 10),
    ("coteaching", "cifar10-pair-0.45", "exponent", 1.0),
    ("coteaching", "cifar10-pair-0.45", "late_momentum", 0.1),
    ("coteaching", "mnist-pair-0.45", "decay_from", 80 / 200),
    ("coteaching", "cifar10-pair-0.45", "decay_from", 80 / 200),
    ("coteaching", "cifar100-pair-0.45", "decay_from", 100 / 200),
    ("coteaching_plus", "cifar10-pair-0.45", "together", 20),
    ("coteaching_plus", "cifar100-pair-0.45", "together", 5),
    ("coteaching_plus", "mnist-pair-0.45", "together", 0),
    ("coteaching_plus", "mnist-pair-0.45", "noise_rate", 0.45),
    ("coteaching_plus", "cifar100-pair-0.45", "decay_from", 80 / 200),
    ("coteaching_plus", "cifar10-pair-0.45", "view", "plain"),
    ("bootstrap", "cifar10-symmetric-0.5", "target", "hard"),
    ("bootstrap", "cifar10-soft", "target", "soft"),
    ("bootstrap", "cifar100-soft", "warmup", 0),
    ("edl", "mnist", "optimiser", "adam"),
    ("edl", "mnist", "risk", "squared"),
    ("edl", "mnist", "scale", 10.0),
    ("edl", "mnist", "anneal", 10.0),
    ("edl", "mnist", "divergence", 1.0),
    ("cores", "cifar10-instance-0.2", "beta", 2.0),
    ("cores", "cifar10-instance-0.2", "sieve_from", 31),
    ("cores", "cifar10-instance-0.2-star", "others", 80),
    ("cores", "cifar10-instance-0.4-star", "others", 160),
    ("cores", "cifar10-instance-0.6-star", "others", 240),
    ("cores", "cifar10-instance-0.2-star", "consistency_weight", 0.2),
    ("cores", "cifar10-instance-0.4-star", "consistency_weight", 0.4),
    ("cores", "cifar10-instance-0.6-star", "consistency_weight", 0.9),
    ("cores", "cifar10-instance-0.6-star", "labelled", 320),
    ("cores", "cifar10-instance-0.6-star", "consistency", 1600),
    ("cores", "cifar10-instance-0.6-star", "clip", 5.0),
]

# method, recipe, {epoch counted from 0: learning rate}
RATES = [
    ("ce", "cifar10-symmetric-0.5", {149: 0.02, 150: 0.002}),
    ("ce", "cifar10-protocol-b", {39: 0.02, 40: 2e-4, 79: 2e-4, 80: 2e-6}),
    ("ce", "cifar100-protocol-b", {79: 0.02, 80: 2e-4, 119: 2e-4, 120: 2e-6}),
    ("ce", "cifar10n-worst", {59: 0.1, 60: 0.01}),
    ("mixup", "cifar10-clean", {99: 0.1, 100: 0.01, 149: 0.01, 150: 0.001}),
    ("mixup", "cifar10-symmetric-0.5", {149: 0.02, 150: 0.002}),
    ("gce", "cifar10-symmetric-0.5", {39: 0.01, 40: 0.001, 79: 0.001, 80: 1e-4}),
    ("gce", "cifar100-truncated", {79: 0.01, 80: 0.001, 119: 0.001, 120: 1e-4}),
    ("gce", "cifar10n-worst", {59: 0.1, 60: 0.01}),
    ("coteaching", "cifar10-pair-0.45", {79: 1e-3, 140: 5e-4, 200: 0.0}),
    ("coteaching", "cifar100-pair-0.45", {99: 1e-3, 150: 5e-4, 200: 0.0}),
    ("coteaching_plus", "cifar100-pair-0.45", {79: 1e-3, 140: 5e-4, 200: 0.0}),
    ("bootstrap", "cifar10-soft", {39: 0.1, 40: 0.01, 79: 0.01, 80: 0.001}),
    ("bootstrap", "cifar100-soft", {79: 0.1, 80: 0.01, 119: 0.01, 120: 0.001}),
    ("edl", "mnist", {0: 1e-3, 25: 1e-3, 49: 1e-3}),
    ("edl", "cifar10", {149: 0.02, 150: 0.002}),
    ("cores", "cifar10-instance-0.4", {49: 0.1 / 3, 50: 0.01 / 3}),
    ("cores", "cifar10-instance-0.4-star", {0: 0.1, 20: 0.1 / (1 + 20 / 29), 40: 0.1 / 3}),
]

NETWORKS = [
    ("ce", "cifar10-symmetric-0.5", "auto"),  # PreAct ResNet-18
    ("ce", "cifar10-protocol-b", "resnet34"),
    ("mixup", "cifar10-clean", "auto"),
    ("gce", "cifar10-symmetric-0.5", "resnet34"),
    ("gce", "cifar100-truncated", "resnet34"),
    ("coteaching", "cifar10-pair-0.45", "cnn9"),
    ("coteaching_plus", "cifar10-pair-0.45", "lenet"),
    ("bootstrap", "cifar10-soft", "resnet32"),
    ("cores", "cifar10-instance-0.4", "resnet34"),
    ("cores", "cifar10-instance-0.4-star", "resnet34"),
    *(
        (m, f"cifar10n-{labels}", "resnet34")
        for m in ("ce", "gce", "coteaching")
        for labels in HUMANS
    ),
    *((m, "cifar100n", "resnet34") for m in ("ce", "gce", "coteaching")),
]


def test_trainers_and_values():
    for method, recipe, values in TRAINERS:
        found = tuple(settings_of(published(method, recipe))[name] for name in TRAINER)
        assert (method, recipe, found) == (method, recipe, values)
    for method, recipe, field, value in VALUES:
        found = settings_of(published(method, recipe))[field]
        near = pytest.approx(value) if isinstance(value, float) else value
        assert (method, recipe, field, found) == (method, recipe, field, near)


def test_learning_rates():
    for method, recipe, rates in RATES:
        seen = {epoch: rate_in_epoch(published(method, recipe), epoch) for epoch in rates}
        assert (method, recipe, seen) == (method, recipe, pytest.approx(rates))


def rate_in_epoch(method, epoch: int) -> float:
    """The learning rate of a real epoch, on very little data."""
    run = blobs(size=12).run()
    state = method.setup(run)
    run.begin(epoch)
    next(phase for phase in method.plan() if phase.epochs).epoch(state, run)
    learner = state.learners[1] if hasattr(state, "learners") else state.learner
    return learner.optimiser.param_groups[0]["lr"]


def test_networks():
    for method, recipe, net in NETWORKS:
        found = chosen_net("auto", method, "images", recipe)
        assert (method, recipe, found) == (method, recipe, net)


@pytest.mark.parametrize(
    ("recipe", "epochs"),
    [("cifar10-truncated", range(39, 120, 10)), ("cifar100-truncated", range(79, 150, 10))],
)
def test_pruning_in_every_tenth_epoch(recipe, epochs):
    method = published("gce", recipe)
    assert [e for e in range(method.epochs) if method.prunes(e)] == list(epochs)


def test_weight_of_the_label_in_bootstrapping():
    assert published("bootstrap", "cifar10-soft").label_weight(0) == 0.95
    assert published("bootstrap", "cifar10-symmetric-0.5").label_weight(0) == 0.8


def test_several_shares_of_the_epochs_can_be_set():
    read_settings("ce", {"decay_at": "0.5"}, None)
    read_settings("ce", {"decay_at": "0.3,0.6"}, "cifar10-protocol-b")


@pytest.mark.parametrize(
    ("method", "wanted", "nearest"),
    [
        ("ce", "cifar10-symmetric-0.5", "cifar10-symmetric-0.5"),
        ("mixup", "cifar10n-aggre", "cifar10-asymmetric-0.1"),
        ("mixup", "cifar10n-worst", "cifar10-asymmetric-0.4"),
        ("gce", "cifar100-symmetric-0.8", "cifar100-symmetric-0.8"),
        ("bootstrap", "cifar10n-aggre", "cifar10-asymmetric-0.1"),
        ("bootstrap", "cifar10n-worst", "cifar10-asymmetric-0.4"),
        ("coteaching", "cifar100-asymmetric-0.3", "cifar100-asymmetric-0.3"),
        ("coteaching_plus", "cifar10-symmetric-0.5", "cifar10-symmetric-exclusive-0.5"),
        ("edl", "cifar10-symmetric-0.5", "cifar10"),
        ("edl", "cifar10n-worst", "cifar10"),
        ("cores", "cifar10-symmetric-0.5", "cifar10-instance-0.4"),
    ],
)
def test_comparisons_borrow_no_special_recipe(method, wanted, nearest):
    assert nearest in published_names(method)
    assert nearest_recipe(method, wanted) == nearest
