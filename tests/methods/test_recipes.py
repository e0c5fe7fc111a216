"""Recipes: every one makes a method, and DPC's are those of its paper."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from labelproof.errors import BadInput
from labelproof.methods import METHODS, ssr, unicon
from labelproof.methods.dpc import DPC
from labelproof.nets import NETS
from labelproof.recipes.recipe import (
    Recipe,
    Recipes,
    chosen_method,
    chosen_net,
    departure,
    is_ours,
    nearest_recipe,
    own_data,
    published,
    published_names,
    read,
    recipes_of,
    with_views,
)
from labelproof.training.settings import settings_of
from labelproof.views import ImageViews, VectorViews
from tiny import blobs


def test_every_recipe_makes_a_method_with_a_known_network_and_a_source():
    for name in METHODS:
        assert own_data(name, "vectors").epochs <= 20
        assert own_data(name, "images").epochs <= 100
        recipes = recipes_of(name).published
        assert recipes or name == "linear"  # nobody published settings for it
        for experiment, recipe in recipes.items():
            assert published(name, experiment).epochs > 0
            assert recipe.net in (*NETS, "auto")
            assert recipe.source


def test_a_method_without_a_file_has_its_own_defaults():
    assert recipes_of("nobody's") == Recipes()


def test_a_row_of_cifar_n_has_one_form_of_the_method():
    humans = [f"cifar10n-{labels}" for labels in ("aggre", "rand1", "rand2", "rand3", "worst")]
    for name in ("elr", "elr_plus", "unicon"):
        first, *others = (published(name, experiment) for experiment in humans)
        assert all(other == first for other in others)
    for experiment in (*humans, "cifar100n", "cifar100-asymmetric-0.3"):
        assert published("dividemix", experiment).confidence_penalty == 1
        assert is_ours("dividemix", experiment)


def test_dpc_star_on_labels_of_people_is_ours():
    assert is_ours("dpc", "cifar10n-worst-star")
    assert not is_ours("dpc", "cifar10n-worst")
    assert not is_ours("dpc", "cifar10-symmetric-0.5-star")


def test_what_a_file_of_recipes_says():
    known = read(
        """
        [vectors]
        epochs = 3
        [[published]]
        names = ["a", "b"]
        source = "table 1"
        star = { consistency = 2.0 }
        decay_at = [0.5, 0.8]
        [[published]]
        source = "table 2"
        ours = true
        net = "cnn"
        [published.lr]
        c = 0.1
        d = 0.2
        """
    )
    assert known.vectors == {"epochs": 3}
    assert known.images == {}
    assert list(known.published) == ["a", "b", "c", "d", "a-star", "b-star"]
    assert known.published["b"] == Recipe(settings={"decay_at": (0.5, 0.8)}, source="table 1")
    assert known.published["d"].settings == {"lr": 0.2}
    assert (known.published["d"].ours, known.published["d"].net) == (True, "cnn")
    assert known.published["a-star"].settings == {"decay_at": (0.5, 0.8), "consistency": 2.0}


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


def test_a_warm_up_takes_at_most_half_of_fewer_epochs():
    assert chosen_method("dpc", "images", {"epochs": 120}).warmup == 5
    assert chosen_method("dpc", "images", {"epochs": 6}).warmup == 3
    assert chosen_method("dpc", "images", {"epochs": 1}).warmup == 0
    assert chosen_method("dpc", "images", {"epochs": 6, "warmup": 1}).warmup == 1


def refusal(method: str, recipe: str) -> str:
    with pytest.raises(BadInput) as info:
        published(method, recipe)
    return str(info.value)


@pytest.mark.parametrize(
    ("method", "recipe", "meant"),
    [
        ("dpc", "cifar10-symetric-0.5", "cifar10-symmetric-0.5"),
        ("dpc", "webvison", "webvision"),
        ("gce", "cifar10-truncate", "cifar10-truncated"),
    ],
)
def test_a_misspelt_recipe_gets_the_name_that_was_meant(method, recipe, meant):
    says = refusal(method, recipe)
    assert f"did you mean {meant!r}? known: " in says
    assert "published" not in says


@pytest.mark.parametrize(
    ("method", "recipe", "similar"),
    [
        ("dividemix", "cifar100-symmetric-0.6", "cifar100-symmetric-0.5"),
        ("pes", "cifar10-symmetric-0.5", "cifar10-default"),
        ("cores", "cifar10-instance-0.5", "cifar10-instance-0.4"),
        ("dpc", "cifar10-symmetric-0.4-star", "cifar10-symmetric-0.5-star"),
        ("edl", "mnist-symmetric-0.5", "mnist"),
    ],
)
def test_an_experiment_without_settings_gets_the_most_similar(method, recipe, similar):
    says = refusal(method, recipe)
    assert f"no recipe {recipe!r}, since no settings are published for it" in says
    assert f"the most similar is {similar!r}, and" in says
    assert "did you mean" not in says
    assert similar == nearest_recipe(method, recipe)


def test_a_similar_recipe_of_ours_is_not_called_published():
    assert "'cifar10-symmetric-0.5' (ours: " in refusal("coteaching", "cifar10-symmetric-0.4")


@pytest.mark.parametrize(
    ("method", "recipe"),
    [
        ("pes", "cifar10-symetric-0.5"),  # means cifar10-symmetric-0.5, which pes has not
        ("ce", "cifar10-truncated"),  # of gce
        ("dpc", "cifar10"),  # of edl
        ("elr", "cifar10-symmetric-nan"),
        ("mixup", "cifar10n-noisy100"),
    ],
)
def test_no_hint_to_another_experiment(method, recipe):
    known = ", ".join(published_names(method))
    assert refusal(method, recipe) == f"{method} has no recipe {recipe!r}; known: {known}."


@pytest.mark.parametrize(
    ("method", "recipe", "name"),
    [
        ("dpc", "cifar10-symmetric-0.50", "cifar10-symmetric-0.5"),
        ("elr", "cifar10-symmetric-0.5-star", "cifar10-symmetric-0.5"),
        ("coteaching", "cifar100n-star", "cifar100n"),
    ],
)
def test_the_same_experiment_by_another_name(method, recipe, name):
    assert refusal(method, recipe) == f"{method} has no recipe {recipe!r}; use {name!r}."


@pytest.mark.parametrize("name", ["ce", "dividemix", "dpc"])
def test_fast_is_ours_on_the_compact_network_with_one_cycle(name):
    method = published(name, "fast")
    assert chosen_net("auto", name, "images", "fast") == "compact"
    assert is_ours(name, "fast")
    assert (method.schedule, method.nesterov) == ("one_cycle", True)
    run = blobs(size=20).run()
    rates = []
    for epoch in range(method.epochs):
        run.begin(epoch)
        rates.append(method.learning_rate(run))
    assert max(rates) == pytest.approx(method.lr, rel=0.1)
    assert rates[-1] < 0.1 * method.lr
    assert rates.index(max(rates)) in (method.epochs // 4 - 1, method.epochs // 4)


def test_paper_is_the_published_algorithm_on_any_data():
    for kind in ("vectors", "images"):
        method = chosen_method("dpc", kind, {}, "paper")
        lengths = {"epochs", "warmup", "batch", "lr", "ramp", "lambda_u", "alpha"}
        changed = {k for k, v in settings_of(method).items() if v != settings_of(DPC())[k]}
        assert changed <= lengths
    assert chosen_method("dpc", "vectors", {}, "paper").epochs <= 20


def test_defaults_that_are_not_the_published_algorithm_say_so_in_a_clause():
    assert "not the paper's algorithm" in departure("dpc", None)
    assert "--recipe paper" in departure("dpc", None)
    assert departure("dpc", "paper") == departure("dpc", "cifar10n-worst") == ""
    assert departure("dpc", "cifar10n-worst", "vectors") == ""
    assert departure("dpc", "paper", "vectors").startswith("those of paper-vectors: the paper's")
    assert departure("ce", None) == ""


def test_views_are_the_authors_where_they_have_their_own():
    small = ImageViews(mean=(0.5,) * 3, std=(0.2,) * 3)
    large = replace(small, size=299, crop="resized", padding=0, policy="imagenet", cutout=0)
    assert with_views(large, "unicon", None) == large
    assert with_views(small, "dpc", "cifar10-symmetric-0.5") == small
    web = with_views(large, "elr_plus", "webvision")
    assert (web.size, web.crop, web.padding) == (227, "pad", 0)
    web = with_views(large, "unicon", "webvision")
    assert web.crop == "pad"
    assert web.like(unicon.STRONG).policy == "imagenet"  # whatever the crop
    assert with_views(large, "ssr", "webvision").like(ssr.STRONG).policy == "imagenet_zoomed"
    vectors = VectorViews(mean=torch.zeros(3), std=torch.ones(3))
    assert with_views(vectors, "unicon", None) is vectors


def test_unicon_has_its_own_batches_on_webvision():
    method = published("unicon", "webvision")
    assert (method.warm_batch, method.others(0.1), method.others(0.9)) == (96, 24, 24)
