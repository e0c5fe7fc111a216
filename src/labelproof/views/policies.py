"""Which operations a strong view applies: AutoAugment for CIFAR-10 and ImageNet, and RandAugment.

AutoAugment (Cubuk et al., CVPR 2019) draws one of 25 sub-policies an image, and each of its two
operations happens with its own probability at its own level. Two readings of a level are in use
and both are kept:

- "cifar10" takes tenths of the paper's ranges, random signs and black fill, as Fast AutoAugment
  tabulates the policy; DPC* uses it on CIFAR. Translations are fractions of the image, so that the
  9 pixels of a 32-pixel image are 9/32 of any other.
- "imagenet" and "cifar10_ninths" take ninths, enhancement factors 1 ± level / 10, grey fill, cubic
  shears and rotations to the left alone, as in the widely copied code by DeepVoltaire; DPC* uses
  the former on WebVision, UniCon both. They come after the crop. "imagenet_zoomed" is the former
  after a crop that zooms, as SSR has it.

RandAugment (Cubuk et al., 2020) draws n operations an image, all at level m of 30.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from labelproof.data.task import Policy
from labelproof.views.ops import OPERATIONS

AFTER_CROP = ("imagenet", "cifar10_ninths")  # policies that act on what crop and flip leave
AFTER_ZOOM = ("imagenet_zoomed",)  # the same, where the crop zooms
Step = tuple[str, float, int]  # operation, probability, level
Reading = Callable[[str, int], tuple[float, float]]  # (operation, level) -> magnitude of each sign
NAMES = tuple(OPERATIONS)
ENHANCEMENTS = ("Contrast", "Color", "Brightness", "Sharpness")
SMOOTH = {"ShearX": "SmoothShearX", "ShearY": "SmoothShearY"}

CIFAR10: tuple[tuple[Step, ...], ...] = (
    (("Invert", 0.1, 7), ("Contrast", 0.2, 6)),
    (("Rotate", 0.7, 2), ("TranslateX", 0.3, 9)),
    (("Sharpness", 0.8, 1), ("Sharpness", 0.9, 3)),
    (("ShearY", 0.5, 8), ("TranslateY", 0.7, 9)),
    (("AutoContrast", 0.5, 8), ("Equalize", 0.9, 2)),
    (("ShearY", 0.2, 7), ("Posterize", 0.3, 7)),
    (("Color", 0.4, 3), ("Brightness", 0.6, 7)),
    (("Sharpness", 0.3, 9), ("Brightness", 0.7, 9)),
    (("Equalize", 0.6, 5), ("Equalize", 0.5, 1)),
    (("Contrast", 0.6, 7), ("Sharpness", 0.6, 5)),
    (("Color", 0.7, 7), ("TranslateX", 0.5, 8)),
    (("Equalize", 0.3, 7), ("AutoContrast", 0.4, 8)),
    (("TranslateY", 0.4, 3), ("Sharpness", 0.2, 6)),
    (("Brightness", 0.9, 6), ("Color", 0.2, 6)),  # the paper prints Color level 8
    (("Solarize", 0.5, 2), ("Invert", 0.0, 3)),
    (("Equalize", 0.2, 0), ("AutoContrast", 0.6, 0)),
    (("Equalize", 0.2, 8), ("Equalize", 0.6, 4)),
    (("Color", 0.9, 9), ("Equalize", 0.6, 6)),
    (("AutoContrast", 0.8, 4), ("Solarize", 0.2, 8)),
    (("Brightness", 0.1, 3), ("Color", 0.7, 0)),
    (("Solarize", 0.4, 5), ("AutoContrast", 0.9, 3)),
    (("TranslateY", 0.9, 9), ("TranslateY", 0.7, 9)),
    (("AutoContrast", 0.9, 2), ("Solarize", 0.8, 3)),
    (("Equalize", 0.8, 8), ("Invert", 0.1, 3)),
    (("TranslateY", 0.7, 9), ("AutoContrast", 0.9, 1)),
)
PRINTED = (("Brightness", 0.9, 6), ("Color", 0.2, 8))  # the row that Fast AutoAugment changed
CIFAR10_PRINTED = tuple(PRINTED if row[1] == ("Color", 0.2, 6) else row for row in CIFAR10)

IMAGENET: tuple[tuple[Step, ...], ...] = (
    (("Posterize", 0.4, 8), ("Rotate", 0.6, 9)),
    (("Solarize", 0.6, 5), ("AutoContrast", 0.6, 5)),
    (("Equalize", 0.8, 8), ("Equalize", 0.6, 3)),
    (("Posterize", 0.6, 7), ("Posterize", 0.6, 6)),
    (("Equalize", 0.4, 7), ("Solarize", 0.2, 4)),
    (("Equalize", 0.4, 4), ("Rotate", 0.8, 8)),
    (("Solarize", 0.6, 3), ("Equalize", 0.6, 7)),
    (("Posterize", 0.8, 5), ("Equalize", 1.0, 2)),
    (("Rotate", 0.2, 3), ("Solarize", 0.6, 8)),
    (("Equalize", 0.6, 8), ("Posterize", 0.4, 6)),
    (("Rotate", 0.8, 8), ("Color", 0.4, 0)),
    (("Rotate", 0.4, 9), ("Equalize", 0.6, 2)),
    (("Equalize", 0.0, 7), ("Equalize", 0.8, 8)),
    (("Invert", 0.6, 4), ("Equalize", 1.0, 8)),
    (("Color", 0.6, 4), ("Contrast", 1.0, 8)),
    (("Rotate", 0.8, 8), ("Color", 1.0, 2)),
    (("Color", 0.8, 8), ("Solarize", 0.8, 7)),
    (("Sharpness", 0.4, 7), ("Invert", 0.6, 8)),
    (("ShearX", 0.6, 5), ("Equalize", 1.0, 9)),
    (("Color", 0.4, 0), ("Equalize", 0.6, 3)),
    (("Equalize", 0.4, 7), ("Solarize", 0.2, 4)),
    (("Solarize", 0.6, 5), ("AutoContrast", 0.6, 5)),
    (("Invert", 0.6, 4), ("Equalize", 1.0, 8)),
    (("Color", 0.6, 4), ("Contrast", 1.0, 8)),
    (("Equalize", 0.8, 8), ("Equalize", 0.6, 3)),
)


@dataclass(frozen=True, kw_only=True)
class RandAugment:
    """`n` operations an image, each one of 13 (no Invert) or nothing, at level `m` of 30."""

    n: int = 2
    m: int = 10


@dataclass(frozen=True, kw_only=True)
class Table:
    """Sub-policies as tensors: S sub-policies of K operations, with magnitudes for either sign."""

    operation: Tensor  # (S, K) index into NAMES, -1 for doing nothing
    probability: Tensor  # (S, K)
    magnitude: Tensor  # (S, K, 2)
    rounds: int = 1  # how many sub-policies an image gets
    fill: int = 0  # grey level of uncovered pixels


def apply_policy(x: Tensor, policy: Policy | RandAugment, rng: torch.Generator) -> Tensor:
    """Operations drawn per image and applied one after the other to uint8 images (B, H, W, 3)."""
    table = policy_table(policy)
    x = x.clone()
    for operation, magnitude in draw(table, len(x), rng):
        for code in sorted(set(operation.tolist()) - {-1}):
            chosen = (operation == code).nonzero().view(-1)
            rows = chosen.to(x.device)
            x[rows] = OPERATIONS[NAMES[code]](x[rows], magnitude[chosen], table.fill)
    return x


def draw(table: Table, batch: int, rng: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """For each step in turn, the operation (-1: none) and magnitude of every image, (B,) each."""
    for _ in range(table.rounds):
        chosen = torch.randint(len(table.operation), (batch,), generator=rng)
        for step in range(table.operation.shape[1]):
            happens = torch.rand(batch, generator=rng) < table.probability[chosen, step]
            sign = torch.randint(2, (batch,), generator=rng)
            operation = torch.where(happens, table.operation[chosen, step], -1)
            yield operation, table.magnitude[chosen, step, sign]


@cache
def policy_table(policy: Policy | RandAugment) -> Table:
    """The table of a policy."""
    if policy == "randaugment":
        return _randaugment(RandAugment())
    if policy == "randaugment_3_15":
        return _randaugment(RandAugment(n=3, m=15))
    if isinstance(policy, RandAugment):
        return _randaugment(policy)
    if policy == "cifar10":
        return _table(CIFAR10, tenths, fill=0)
    imagenet = policy in ("imagenet", *AFTER_ZOOM)
    return _table(IMAGENET if imagenet else CIFAR10_PRINTED, released, fill=128)


def _table(rows: tuple[tuple[Step, ...], ...], reading: Reading, fill: int) -> Table:
    named: dict[str, str] = SMOOTH if reading is released else {}
    codes = [[NAMES.index(named.get(name, name)) for name, _, _ in row] for row in rows]
    magnitudes = [[reading(name, level) for name, _, level in row] for row in rows]
    return Table(
        operation=torch.tensor(codes),
        probability=torch.tensor([[chance for _, chance, _ in row] for row in rows]),
        magnitude=torch.tensor(magnitudes, dtype=torch.float64),
        fill=fill,
    )


def _randaugment(policy: RandAugment) -> Table:
    left_out = ("Invert", *SMOOTH.values())
    codes = [-1, *(code for code, name in enumerate(NAMES) if name not in left_out)]
    levels = [ninths(NAMES[code], policy.m * 9 / 30) if code >= 0 else (0.0, 0.0) for code in codes]
    return Table(
        operation=torch.tensor(codes)[:, None],
        probability=torch.ones(len(codes), 1),
        magnitude=torch.tensor(levels, dtype=torch.float64)[:, None],
        rounds=policy.n,
    )


def tenths(name: str, level: int) -> tuple[float, float]:
    """Magnitude of either sign where level 10 is the end of the range."""
    if name in ENHANCEMENTS:
        return 0.1 + 0.18 * level, 0.1 + 0.18 * level
    if name == "Solarize":
        return 256 - level * 256 // 10, 256 - level * 256 // 10
    if name == "Posterize":
        return 4 - level * 4 // 10, 4 - level * 4 // 10
    size = {"Rotate": 3.0 * level, "ShearX": 0.03 * level, "ShearY": 0.03 * level}
    size |= {"TranslateX": level / 32, "TranslateY": level / 32}
    return size.get(name, 0.0), -size.get(name, 0.0)


def ninths(name: str, level: float) -> tuple[float, float]:
    """Magnitude of either sign where level 9 is the end of the range."""
    share = level / 9
    if name in ENHANCEMENTS:
        return 1 + 0.9 * share, 1 - 0.9 * share
    if name == "Solarize":
        return 256 * (1 - share), 256 * (1 - share)
    if name == "Posterize":
        return round(8 - 4 * share), round(8 - 4 * share)
    size = {"Rotate": 30.0, "ShearX": 0.3, "ShearY": 0.3}
    size |= {"TranslateX": 150 / 331, "TranslateY": 150 / 331}
    return share * size.get(name, 0.0), -share * size.get(name, 0.0)


def released(name: str, level: float) -> tuple[float, float]:
    """The same without a sign for rotations, which the released code turns to the left alone."""
    more, less = ninths(name, level)
    return (more, more) if name == "Rotate" else (more, less)
