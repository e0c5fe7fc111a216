"""Settings for few examples and for short runs."""

from __future__ import annotations

import pytest

from labelproof.methods import METHODS
from labelproof.recipes.recipe import chosen_method, own_data, published, published_names
from labelproof.recipes.sizing import shortened, suited
from labelproof.training.settings import settings_of


@pytest.mark.parametrize("name", METHODS)
def test_every_recipe_can_be_made_any_length(name: str) -> None:
    recipes = [own_data(name, "vectors"), own_data(name, "images")]
    recipes += [published(name, experiment) for experiment in published_names(name)]
    for epochs in (2, 3, 4, 5, 7, 12, 59, 400):
        if (name, epochs) == ("pes", 3):
            continue  # its supervised form renews two parts after an early stop: four epochs
        for recipe in recipes:  # none refuses its own settings
            assert shortened(recipe, epochs).epochs == epochs, recipe


def test_what_is_counted_in_epochs_shrinks_with_them() -> None:
    whole = own_data("cores", "images")
    short = settings_of(shortened(whole, 12))
    assert settings_of(whole)["beta_full"] == 24
    assert (short["beta_from"], short["beta_full"], short["sieve_from"]) == (3, 5, 4)
    assert settings_of(shortened(own_data("elr", "vectors"), 5))["cycle"] == 5
    dpc = settings_of(shortened(own_data("dpc", "images"), 30))
    assert (dpc["warmup"], dpc["ramp"]) == (5, 8.0)
    assert settings_of(shortened(own_data("dpc", "images"), 6))["warmup"] == 3


def test_a_longer_run_leaves_all_as_it_is() -> None:
    whole = own_data("dpc", "images")
    longer = settings_of(shortened(whole, 200))
    assert {**longer, "epochs": whole.epochs} == settings_of(whole)


def test_the_users_own_setting_wins() -> None:
    record = settings_of(chosen_method("dpc", "images", {"epochs": 8, "ramp": 5}))
    assert (record["epochs"], record["warmup"], record["ramp"]) == (8, 4, 5.0)


def test_few_examples_get_small_batches_and_many_passes() -> None:
    usual = own_data("dividemix", "vectors")
    few, many = (suited(usual, size, "vectors") for size in (100, 50_000))
    assert many == usual
    few, many = settings_of(few), settings_of(many)
    assert few["batch"] < many["batch"]
    assert few["epochs"] // many["epochs"] == few["warmup"] // many["warmup"] > 1


def test_a_warm_up_gets_its_steps() -> None:
    pictures = settings_of(suited(own_data("dpc", "images"), 400, "images"))
    assert (pictures["batch"], pictures["epochs"], pictures["warmup"]) == (50, 60, 20)
    assert suited(own_data("dpc", "images"), 10_000, "images") == own_data("dpc", "images")


def test_batches_of_a_later_phase_shrink_with_the_first() -> None:
    whole = own_data("cores", "images")
    assert suited(whole, 5120, "images") == whole
    few = settings_of(suited(whole, 1437, "images"))
    assert (few["labelled"], few["others"]) == (89, 44)  # ten steps with 60 % of the labels kept
    assert {**few, "labelled": 320, "others": 160} == settings_of(whole)
    least = settings_of(suited(whole, 20, "images"))
    assert (least["labelled"], least["others"]) == (8, 4)
    own = settings_of(chosen_method("cores", "images", {"labelled": 100}, size=1437))
    assert (own["labelled"], own["others"]) == (100, 44)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("size", [30, 2000])
def test_every_method_suits_few_and_many(name: str, size: int) -> None:
    for kind in ("vectors", "images"):
        record = chosen_method(name, kind, {}, None, size)
        batches = [v for n, v in settings_of(record).items() if n in ("batch", "cyclic_batch")]
        assert all(1 <= batch <= max(8, size) for batch in batches)


def test_a_batch_beside_the_main_one_shrinks_with_it() -> None:
    whole, few = (settings_of(chosen_method("o2u", "images", {}, None, n)) for n in (50_000, 100))
    assert few["batch"] < whole["batch"]
    assert few["cyclic_batch"] == max(1, whole["cyclic_batch"] * few["batch"] // whole["batch"])
