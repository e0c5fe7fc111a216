"""Recipes: every one makes a method, and DPC's are those of its paper."""

from __future__ import annotations

import pytest

from labelproof.errors import BadInput
from labelproof.methods import METHODS
from labelproof.nets import NETS
from labelproof.recipes import chosen_method, chosen_net, own_data, published, published_names


@pytest.mark.parametrize("name", METHODS)
def test_every_recipe_makes_a_method(name):
    assert own_data(name, "vectors").epochs <= 20
    assert own_data(name, "images").epochs <= 100
    assert published_names(name)
    for experiment in published_names(name):
        assert published(name, experiment).epochs > 0


@pytest.mark.parametrize(
    ("experiment", "lambda_u", "warmup"),
    [
        ("cifar10-symmetric-0.2", 0, 10),
        ("cifar10-symmetric-0.8", 25, 10),
        ("cifar10-asymmetric-0.4", 0, 10),
        ("cifar100-symmetric-0.5", 150, 30),
        ("cifar100-asymmetric-0.4", 150, 30),
        ("cifar10n-worst", 25, 30),
        ("cifar10n-aggre", 0, 30),
        ("cifar100n", 25, 40),
        ("webvision", 0, 1),
    ],
)
def test_dpc_as_published(experiment, lambda_u, warmup):
    method = published("dpc", experiment)
    assert (method.lambda_u, method.warmup) == (lambda_u, warmup)
    star = published("dpc", f"{experiment}-star")
    assert star.consistency == (3 if experiment.startswith("cifar100") else 1)
    assert method.consistency == 0


def test_a_recipe_brings_its_network():
    assert chosen_net("auto", "dpc", "images", "cifar10n-worst") == "resnet34"
    assert chosen_net("auto", "dpc", "images", "webvision") == "inception_resnet_v2"
    assert chosen_net("auto", "dpc", "images", "cifar10-symmetric-0.5") == "auto"
    assert chosen_net("cnn", "dpc", "images", "cifar10n-worst") == "cnn"
    assert chosen_net("auto", "dpc", "vectors", "cifar10n-worst") == "auto"
    assert chosen_net("auto", "dpc", "images") == "auto"


@pytest.mark.parametrize("name", METHODS)
def test_the_networks_of_recipes_exist(name):
    nets = {chosen_net("auto", name, "images", recipe) for recipe in published_names(name)}
    assert nets <= {*NETS, "auto"}


def test_a_warm_up_takes_at_most_half_of_fewer_epochs():
    assert chosen_method("dpc", "images", {"epochs": "120"}).warmup == 5
    assert chosen_method("dpc", "images", {"epochs": "6"}).warmup == 3
    assert chosen_method("dpc", "images", {"epochs": "1"}).warmup == 0
    assert chosen_method("dpc", "images", {"epochs": "6", "warmup": "1"}).warmup == 1


def test_an_unknown_recipe_names_the_nearest():
    with pytest.raises(BadInput, match=r"did you mean 'cifar10-symmetric-0\.5'"):
        published("dpc", "cifar10-symetric-0.5")
