"""Recipes of the fifteen newer methods: each number as its paper or released code has it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from labelproof.recipes.recipe import chosen_net, is_ours, published, published_names

Table = dict[str, dict[str, Any]]


def noisy(data: str, kind: str, rates: str, /, **values: Any) -> Table:
    """One entry for every rate, such as cifar10-symmetric-0.2, each with the same values."""
    return {f"{data}-{kind}-{rate}": values for rate in rates.split()}


def pencil() -> Table:
    usual = {"net": "preact32", "epochs": 320, "warmup": 70, "joint": 130, "batch": 128}
    usual |= {"lr": 0.06, "last_lr": 0.2, "weight_decay": 1e-4, "label_lr": 600, "start": 10}
    symmetric = noisy("cifar10", "symmetric", "0.2 0.5 0.8", **usual, alpha=0.4, beta=0.1)
    return symmetric | noisy("cifar10", "asymmetric", "0.1 0.3 0.4", **usual, alpha=0.1, beta=0.4)


def jpl() -> Table:
    usual = {"net": "resnet34", "filter_epochs": 1000, "final": 480, "lr": 0.01, "at": [800]}
    usual |= {"final_lr": 0.1, "powers": 3, "positive_weight": 0.01, "cut": 0.5, "batch": 128}
    return {
        name: values
        for (data, complements), (kind, rates) in product(
            (("cifar10", 1), ("cifar100", 110)),
            (("symmetric", "0.2 0.5 0.8"), ("asymmetric", "0.1 0.3 0.4")),
        )
        for name, values in noisy(data, kind, rates, **usual, complements=complements).items()
    }


def moit() -> Table:
    usual = {"first": 250, "lr": 0.1, "at": [125, 200], "weight_decay": 1e-4, "batch": 128}
    usual |= {"temperature": 0.1, "memory": 100, "memory_from": 3, "correct_from": 130}
    usual |= {"neighbours": 250, "plus_lr": 1e-3, "boot_from": 30, "boot": 0.2, "alpha": 1}
    out: Table = {}
    for data in ("cifar10", "cifar100"):
        out |= noisy(data, "symmetric", "0.2 0.5", **usual, plus=70, plus_decay_at=())
        out |= noisy(data, "asymmetric", "0.1 0.3 0.4", **usual, plus=70, plus_decay_at=())
        out |= noisy(data, "symmetric", "0.8", **usual, plus=140)
    return out


def d2l() -> Table:
    usual = {"batch": 128, "lr": 0.1, "window": 5, "neighbours": 20, "sample": 1280}
    ten = noisy("cifar10", "symmetric", "0.2 0.4 0.6", **usual, net="cnn8", epochs=120, settle=40,
                at=[40, 80], sce_alpha=0.1, sce_beta=1, weight_decay=0)  # fmt: skip
    more = noisy("cifar100", "symmetric", "0.2 0.4 0.6", **usual, net="resnet44", epochs=200,
                 settle=60, at=[80, 120, 160], sce_alpha=6, sce_beta=0.1,
                 weight_decay=4e-3)  # fmt: skip
    return ten | more


def mentornet() -> Table:
    usual = {"net": "resnet56", "epochs": 100, "lr": 0.1, "weight_decay": 2e-4, "kind": "pd"}
    usual |= {"drop": (0.5, 17, 0.05, 83), "level_decay": 0.5, "burn_in": 0, "at": [50, 64, 77]}
    out: Table = {}
    shares = ((0.2, 0.75), (0.4, 0.75), (0.8, 0.5))
    for data, (rate, share) in product(("cifar10", "cifar100"), shares):
        out |= noisy(data, "symmetric", str(rate), **usual, percentile=share)
    return out


def incv() -> Table:
    usual = {"net": "resnet32", "fold_epochs": 50, "rounds": 4, "main_epochs": 200, "batch": 128}
    usual |= {"lr": 1e-3, "weight_decay": 2e-4, "top": 1, "ramp": 10, "alone": 0.2}
    symmetric = noisy("cifar10", "symmetric", "0.2 0.5 0.8", **usual, noise="symmetric")
    return symmetric | noisy("cifar10", "asymmetric", "0.4", **usual, noise="asymmetric")


def mwnet() -> Table:
    usual = {"batch": 100, "lr": 0.1, "weight_decay": 5e-4, "meta": 1000, "meta_lr": 1e-3}
    wide = {"net": "wrn28_10", "epochs": 50, "nesterov": True, "normalise": "sum"}
    wide |= {"meta_optimiser": "sgd", "meta_decay": 5e-4, "decay_at": (0.9, 0.95)}
    stable = {"net": "resnet32", "epochs": 130, "nesterov": False, "normalise": "none"}
    stable |= {"meta_optimiser": "adam", "meta_decay": 1e-4}
    out: Table = {}
    for data in ("cifar10", "cifar100"):
        out |= noisy(data, "symmetric", "0.4 0.6", **usual, **wide)
        out |= noisy(data, "asymmetric", "0.2 0.4", **usual, **stable)
    return out


def o2u() -> Table:
    usual = {"net": "resnet101", "first": 250, "cyclic": 250, "final": 250, "batch": 128}
    usual |= {"cyclic_batch": 16, "lr": 0.01, "high": 0.01, "low": 1e-3, "cycle": 10}
    out: Table = {}
    for (data, other), rate in product((("cifar10", 0.9), ("cifar100", 0.99)), (0.2, 0.4, 0.8)):
        out |= noisy(data, "symmetric", str(rate), **usual, removed=other * rate)
    return out


def sat() -> Table:
    usual = {"net": "resnet34", "epochs": 200, "warmup": 60, "batch": 256, "lr": 0.1}
    usual |= {"weight_decay": 5e-4, "keep": 0.9, "reverse": 0}
    ten = noisy("cifar10", "symmetric", "0.2 0.4 0.6 0.8", **usual)
    return ten | noisy("cifar100", "symmetric", "0.2 0.4 0.6 0.8", **usual)


def apl() -> Table:
    ten = {"net": "cnn8", "epochs": 120, "lr": 0.01, "weight_decay": 1e-4}
    ten |= {"active_weight": 1, "passive_weight": 1, "clip": 5, "active": "nce", "passive": "rce"}
    more = {"net": "resnet34", "epochs": 200, "lr": 0.1, "weight_decay": 1e-5}
    more |= {"active_weight": 10, "passive_weight": 0.1, "clip": 5}
    out: Table = {}
    for data, values in (("cifar10", ten), ("cifar100", more)):
        out |= noisy(data, "symmetric", "0.2 0.4 0.6 0.8", **values)
        out |= noisy(data, "asymmetric", "0.1 0.2 0.3 0.4", **values)
    return out


def promix() -> Table:
    ten = {"net": "resnet18", "epochs": 600, "batch": 256, "lr": 0.05, "warmup": 10}
    ten |= {"sure_above": 0.99, "debias": 0.8, "agree": 250, "shares_momentum": 0.9999}
    more = ten | {"warmup": 30, "sure_above": 0.95, "debias": 0.5}
    out = {"cifar100n": more | {"base": 0.5}}
    for labels in ("aggre", "rand1", "rand2", "rand3", "worst"):
        out[f"cifar10n-{labels}"] = ten | {"base": 0.5, "confidence_penalty": 0}
    for data, values in (("cifar10", ten), ("cifar100", more)):
        out |= noisy(data, "symmetric", "0.2", **values, base=0.7)
        out |= noisy(data, "symmetric", "0.5", **values, base=0.5)
    return out | noisy("cifar10", "asymmetric", "0.4", **ten, base=0.5, confidence_penalty=1)


def ssr() -> Table:
    usual = {"epochs": 300, "batch": 128, "lr": 0.02, "lr_floor": 0.02, "weight_decay": 5e-4}
    usual |= {"select_from": 1, "neighbours": 200, "alpha": 4, "consistency": 1, "width": 128}
    web = {"net": "inception_resnet_v2", "epochs": 150, "batch": 32, "lr": 0.01, "at": [50, 100]}
    web |= {"weight_decay": 1e-4, "relabel_above": 0.95, "alpha": 0.5, "width": 256}
    out: Table = {"webvision": web}
    for data in ("cifar10", "cifar100"):
        out |= noisy(data, "symmetric", "0.2", **usual, relabel_above=0.9)
        out |= noisy(data, "symmetric", "0.5 0.8 0.9", **usual, relabel_above=0.8)
        out |= noisy(data, "asymmetric", "0.1 0.3 0.4", **usual, relabel_above=0.9)
    return out


TABLES = {
    made.__name__: made()
    for made in (pencil, jpl, moit, d2l, mentornet, incv, mwnet, o2u, sat, apl, promix, ssr)
} | {"noise_layer": {}, "active_bias": {}, "decoupling": {}}  # all recipes are ours
LENGTHS = {"jpl": "filter_epochs", "moit": "first"}  # what the shares in decay_at are of


def decays(name: str, method: Any) -> list[int]:
    """Epochs at which the learning rate falls."""
    shares = method.decay_at if isinstance(method.decay_at, tuple) else (method.decay_at,)
    return [round(share * getattr(method, LENGTHS.get(name, "epochs"))) for share in shares]


@pytest.mark.parametrize("name", TABLES)
def test_recipes_have_the_published_values(name):
    known = {recipe for recipe in published_names(name) if not is_ours(name, recipe)}
    assert known == set(TABLES[name])
    for recipe, expected in TABLES[name].items():
        method = published(name, recipe)
        found = {field: getattr(method, field) for field in expected if field not in ("net", "at")}
        found["net"] = chosen_net("auto", name, "images", recipe)
        found["at"] = decays(name, method) if "at" in expected else []
        for field, value in expected.items():
            near = pytest.approx(value) if isinstance(value, int | float) else value
            assert (recipe, field, found[field]) == (recipe, field, near)


def test_a_long_fine_tuning_falls_at_epoch_120_of_140():
    for data in ("cifar10", "cifar100"):
        method = published("moit", f"{data}-symmetric-0.8")
        assert [round(share * method.plus) for share in method.plus_decay_at] == [120]
