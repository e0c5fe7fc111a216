"""Recipes of DivideMix, ELR, ELR+, PES, SOP, SOP+, forward and backward, value by value.

The numbers are written out from the papers and the released code, not derived from the tables under
test. "at" stands for the epochs at which the learning rate falls.
"""

from __future__ import annotations

from typing import Any

import pytest

from labelproof.recipes.recipe import chosen_net, is_ours, published, published_names

SYMMETRIC, ASYMMETRIC = ("0.2", "0.5", "0.8"), ("0.1", "0.3", "0.4")
HUMANS = ("aggre", "rand1", "rand2", "rand3", "worst")
RES_34, INCEPTION, AUTO = {"net": "resnet34"}, {"net": "inception_resnet_v2"}, {"net": "auto"}
SGD_002 = {"lr": 0.02, "momentum": 0.9, "batch": 128}

LAMBDA_U = {  # of DivideMix
    "cifar10-symmetric-0.2": 0,
    "cifar10-symmetric-0.5": 25,
    "cifar10-symmetric-0.8": 25,
    "cifar10-symmetric-0.9": 50,
    "cifar10-asymmetric-0.4": 0,
    "cifar100-symmetric-0.2": 25,
    "cifar100-symmetric-0.5": 150,
    "cifar100-symmetric-0.8": 150,
    "cifar100-symmetric-0.9": 150,
    "webvision": 0,
}


def named(data: str, noise: str, rates: tuple[str, ...], values: dict[str, Any]) -> dict[str, Any]:
    """The same values for every rate of one kind of noise."""
    return {f"{data}-{noise}-{rate}": values for rate in rates}


def dividemix() -> dict[str, dict[str, Any]]:
    cifar = {**SGD_002, **AUTO, "batch": 64, "weight_decay": 5e-4, "epochs": 300, "at": [150]}
    cifar |= {"alpha": 4, "temperature": 0.5, "ramp": 16, "prior_weight": 1, "square": "mean"}
    table = {name: {**cifar, "lambda_u": LAMBDA_U[name]} for name in LAMBDA_U}
    for name, row in table.items():
        ninety = name.endswith("0.9")
        row["warmup"] = 30 if name.startswith("cifar100") else 10
        row["confidence_penalty"] = 1 if "asymmetric" in name else 0
        row["threshold"], row["average"] = (0.6, 5) if ninety else (0.5, 1)
    web = {"epochs": 80, "at": [40], "lr": 0.01, "batch": 32, "warmup": 1, "alpha": 0.5}
    table["webvision"] |= {**web, **INCEPTION, "rows": "labelled"}
    return table


def elr() -> dict[str, dict[str, Any]]:
    common = {**SGD_002, **RES_34, "weight_decay": 1e-3}
    symmetric = {"beta": 0.7, "lam": 3, "epochs": 150}
    symmetric |= {"schedule": "cosine", "cycle": 10, "lr_floor": 1e-3}
    steps = {"schedule": "steps", "decay": 0.01}
    asymmetric = {"beta": 0.9, "lam": 1, "epochs": 120, "at": [40, 80]}
    hundred = {**common, **steps, "beta": 0.9, "lam": 7, "epochs": 150, "at": [80, 120]}
    rates = (*SYMMETRIC, "0.4", "0.6")
    return {
        **named("cifar10", "symmetric", rates, {**common, **symmetric}),
        **named("cifar10", "asymmetric", ASYMMETRIC, {**common, **steps, **asymmetric}),
        **named("cifar100", "symmetric", rates, hundred),
        **named("cifar100", "asymmetric", ASYMMETRIC, hundred),
    }


def elr_plus() -> dict[str, dict[str, Any]]:
    common = {**SGD_002, **AUTO, "weight_decay": 5e-4, "decay": 0.997, "alpha": 1, "agree": False}
    ramped = {"average": "ramped", "average_ramp": 113.64}
    ten = {**common, **ramped, "epochs": 200, "at": [150], "lam_ramp": 0}
    hundred = {**common, **ramped, "epochs": 250, "at": [200], "lam_ramp": 113.64, "agree": True}
    hundred |= {"beta": 0.9, "lam": 7}
    web = {"epochs": 100, "at": [50], "batch": 32, "alpha": 1.5, "beta": 0.7, "lam": 3}
    return {
        **named("cifar10", "symmetric", SYMMETRIC, {**ten, "beta": 0.7, "lam": 3}),
        **named("cifar10", "asymmetric", ASYMMETRIC, {**ten, "beta": 0.9, "lam": 1}),
        **named("cifar100", "symmetric", SYMMETRIC, hundred),
        **named("cifar100", "asymmetric", ASYMMETRIC, hundred),
        "webvision": {**common, **web, **INCEPTION, "average": "running"},
    }


def pes() -> dict[str, dict[str, Any]]:
    common = {**SGD_002, **AUTO, "weight_decay": 5e-4, "lr_floor": 0.01, "epochs": 305, "renew": 5}
    common |= {"renew_lr": 1e-4, "temperature": 0.5, "alpha": 4, "late_alpha": 0.75, "ramp": 16}
    common |= {"max_weight": 3, "rebuild_optimiser": False}
    ten, hundred = {**common, "early": 20}, {**common, "early": 35}
    supervised = {"form": "supervised", "lr": 0.1, "weight_decay": 1e-4, "batch": 128, **AUTO}
    supervised |= {"early": 25, "renew_block": 7, "renew": 7, "epochs": 25 + 7 + 7 + 174}
    return {
        "cifar10-default": {**ten, "lambda_u": 15},
        "cifar100-default": {**hundred, "lambda_u": 150},
        "cifar10-instance-0.4": {**ten, "lambda_u": 15},
        "cifar100-pair-0.45": {**hundred, "lambda_u": 50},
        **{f"cifar10n-{labels}": {**ten, "lambda_u": 5, **RES_34} for labels in HUMANS},
        "cifar100n": {**hundred, "lambda_u": 75, **RES_34},
        "cifar10-supervised": {**supervised, "net": "resnet18"},
        "cifar100-supervised": {**supervised, "early": 30, **RES_34},
    }


def with_noise_factors(ten: dict[str, Any], hundred: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Learning rates of u and v, the same for SOP and SOP+."""
    ten, hundred = {**ten, "lr_u": 10, "lr_v": 10}, {**hundred, "lr_u": 1, "lr_v": 10}
    return {
        **named("cifar10", "symmetric", SYMMETRIC, ten),
        **named("cifar10", "asymmetric", ASYMMETRIC, {**ten, "lr_v": 100}),
        **named("cifar100", "symmetric", SYMMETRIC, hundred),
        **named("cifar100", "asymmetric", ASYMMETRIC, {**hundred, "lr_u": 0.1, "lr_v": 100}),
        **{f"cifar10n-{labels}": ten for labels in HUMANS},
        "cifar100n": hundred,
    }


def sop() -> dict[str, dict[str, Any]]:
    common = {**SGD_002, **RES_34, "u_from": "both", "loss": "ce"}
    return with_noise_factors(
        {**common, "weight_decay": 5e-4, "epochs": 120, "at": [40, 80]},
        {**common, "weight_decay": 1e-3, "epochs": 150, "at": [80, 120]},
    )


def sop_plus() -> dict[str, dict[str, Any]]:
    common = {**SGD_002, **AUTO, "epochs": 300, "lr_floor": 2e-4}
    common |= {"consistency": 0.9, "balance": 0.1}
    return with_noise_factors({**common, "weight_decay": 5e-4}, {**common, "weight_decay": 1e-3})


def forward() -> dict[str, dict[str, Any]]:
    common = {**SGD_002, "lr": 0.1, "hold_out": 0.1, "estimate_for": 0.5}
    ten = {"epochs": 240, "weight_decay": 2e-4, "at": [40, 80], "quantile": 0.97}
    hundred = {"epochs": 300, "weight_decay": 2e-3, "at": [80, 120], "quantile": 1}
    ten, hundred = {**ten, "net": "resnet32"}, {**hundred, "net": "resnet44"}
    return {
        f"{data}-{noise}-{rate}": {**common, **values}
        for data, values in (("cifar10", ten), ("cifar100", hundred))
        for noise, rates in (("symmetric", SYMMETRIC), ("asymmetric", ASYMMETRIC))
        for rate in rates
    }


def backward() -> dict[str, dict[str, Any]]:
    return {name: {**values, "max_condition": 1e12} for name, values in forward().items()}


TABLES = {
    "dividemix": dividemix(),
    "elr": elr(),
    "elr_plus": elr_plus(),
    "pes": pes(),
    "sop": sop(),
    "sop_plus": sop_plus(),
    "forward": forward(),
    "backward": backward(),
}


def decays(method: Any) -> list[int]:
    """Epochs at which the learning rate falls, counted in each part of the run."""
    shares = method.decay_at if isinstance(method.decay_at, tuple) else (method.decay_at,)
    part = getattr(method, "estimation", method.epochs)
    return [round(share * part) for share in shares]


@pytest.mark.parametrize("name", TABLES)
def test_recipes_have_the_published_values(name):
    known = {recipe for recipe in published_names(name) if not is_ours(name, recipe)}
    assert known == set(TABLES[name])
    for recipe, expected in TABLES[name].items():
        method = published(name, recipe)
        found = {field: getattr(method, field) for field in expected if field not in ("net", "at")}
        found["net"] = chosen_net("auto", name, "images", recipe)
        if "at" in expected:
            found["at"] = decays(method)
        for field, value in expected.items():
            near = pytest.approx(value, rel=1e-4) if isinstance(value, int | float) else value
            assert (recipe, field, found[field]) == (recipe, field, near)


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_either_half_is_a_run_of_its_own(name):
    method = published(name, "cifar100-symmetric-0.5")
    rates = [method.learning_rate(epoch, method.estimation) for epoch in (79, 80, 119, 120)]
    assert method.estimation == 150
    assert rates == pytest.approx([0.1, 0.01, 0.01, 0.001])
