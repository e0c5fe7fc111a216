"""What is wrong with pictures, and what of them goes with a class, from simple measurements.

Shapes: N or B pictures, H height, W width, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from labelproof.judging.health import robust_scores, wilson
from labelproof.judging.numbers import Floats, mean_ranks

DARK, BRIGHT = 0.32, 0.9  # limits of the 99th and 5th percentile of grey values
BLANK = 0.02  # contrast
SOFT = -4.0  # robust standard deviations of the log-sharpness
FEW_TONES = 1.5  # bits an average pixel tells
GREY = 0.005  # mean difference of the colours of a pixel, of 1
FEW = 0.5  # share of the pictures from which on a property is usual
NARROW = 0.35  # short edge by long edge
FAR = 3.0  # interquartile ranges beyond the quartiles
FEWEST = 20  # pictures of a class that is compared with the others
APART = 0.75  # of a probability to tell a class from the others, at the lower end of its interval
WAYS = {  # how the pictures of a class differ: above, below, and at one value
    "brightness": ("brighter", "darker", "all about equally bright"),
    "darkness": ("brighter", "darker", "all about equally bright"),
    "contrast": ("richer in contrast", "poorer in contrast", "all about equal in contrast"),
    "sharpness": ("sharper", "more blurred", "all about equally sharp"),
    "tones": ("richer in tones", "poorer in tones", "all about equal in tones"),
    "colour": ("more colourful", "greyer", "all about equally colourful"),
    "edge": ("larger", "smaller", "all about equally large"),
    "shape": ("wider", "taller", "all about of one shape"),
}
Listed = list[tuple[int, float]]
Side = Literal["left", "right"]


@dataclass(frozen=True, kw_only=True)
class PictureNumbers:
    """What is measured of every picture, (N,)."""

    brightness: Tensor  # 99th percentile of the grey values, 0 to 1
    darkness: Tensor  # 5th percentile
    contrast: Tensor  # standard deviation of the grey values
    sharpness: Tensor  # standard deviation of the Laplacian
    tones: Tensor  # entropy of the 256 grey values, in bits
    colour: Tensor  # mean difference of the largest and the smallest colour of a pixel, 0 to 1


@dataclass(frozen=True, kw_only=True)
class Telling:
    """A property that goes with a class."""

    code: int  # the class
    way: str  # how its pictures differ, such as "brighter"
    value: float  # probability that the property tells a picture of it from another one
    interval: tuple[float, float]  # 95%
    rows: list[int]  # its pictures that show the property most


def picture_numbers(pictures: Tensor) -> PictureNumbers:
    """Brightness, contrast, sharpness, tones and colour of uint8 pictures (B, H, W, 3)."""
    weights = torch.tensor([0.299, 0.587, 0.114])
    grey = (pictures.float() / 255) @ weights
    flat = grey.flatten(1)
    inner = grey[:, 1:-1, 1:-1]
    dark, bright = flat.quantile(torch.tensor([0.05, 0.99]), dim=1)  # sorted once for both
    around = grey[:, :-2, 1:-1] + grey[:, 2:, 1:-1] + grey[:, 1:-1, :-2] + grey[:, 1:-1, 2:]
    return PictureNumbers(
        brightness=bright,
        darkness=dark,
        contrast=flat.std(1),
        sharpness=(around - 4 * inner).flatten(1).std(1),
        tones=_entropy((flat * 255).round().long()),
        colour=(pictures.amax(3) - pictures.amin(3)).float().flatten(1).mean(1) / 255,
    )


def _entropy(levels: Tensor) -> Tensor:
    """Entropy (B,) in bits of grey values (B, pixels) from 0 to 255."""
    places = levels + 256 * torch.arange(len(levels))[:, None]
    counts = places.flatten().bincount(minlength=256 * len(levels)).view(-1, 256)
    shares = counts.double() / levels.shape[1]
    return -(shares * shares.clamp_min(1e-12).log2()).sum(1).float()


def picture_faults(found: PictureNumbers) -> dict[str, Listed]:
    """Pictures with each fault, the worst first; blur is judged against the other pictures."""
    blank = found.contrast < BLANK
    logs = found.sharpness.clamp_min(1e-6).log()
    soft = robust_scores(logs)
    return {
        "dark": _listed((found.brightness < DARK) & ~blank, found.brightness),
        "bright": _listed((found.darkness > BRIGHT) & ~blank, -found.darkness),
        "blank": _listed(blank, found.contrast),
        "blurred": _listed((soft < SOFT) & ~blank, soft),
        "plain": _listed(_unusual((found.tones < FEW_TONES) & ~blank), found.tones),  # few tones
        "grey": _listed(_unusual(found.colour < GREY), found.colour),  # among pictures in colour
    }


def odd_sizes(sizes: Tensor) -> tuple[Listed, Listed]:
    """Pictures far smaller or larger than the others, and very narrow ones, with their numbers.

    The numbers are the edge of a square of equal area, and the short edge by the long one.

    Args:
        sizes: (N, 2) heights and widths.
    """
    edge, shape = _edges(sizes)
    low, high = (float(end) for end in np.quantile(edge.numpy(), [0.25, 0.75]))
    room = FAR * (high - low)
    odd = (edge < low - room) | (edge > high + room)
    narrow = torch.minimum(shape, 1 / shape)
    away = (edge.log() - edge.log().median()).abs()
    rows = _listed(_unusual(odd), -away)
    return [(row, edge[row].item()) for row, _ in rows], _listed(narrow < NARROW, narrow)


def properties(found: PictureNumbers, sizes: Tensor | None = None) -> dict[str, Tensor]:
    """All that may go with a class, (N,) each, by the names of `WAYS`."""
    known = dict(vars(found))
    if sizes is not None:
        known["edge"], known["shape"] = _edges(sizes)
    return known


def _edges(sizes: Tensor) -> tuple[Tensor, Tensor]:
    """The edge of a square of equal area, and width by height, (N,) each."""
    height, width = sizes.double().clamp_min(1).unbind(1)
    return (height * width).sqrt(), width / height


def going_with_class(known: Mapping[str, Tensor], labels: Tensor, classes: int) -> list[Telling]:
    """Properties (N,) that tell a class from the others on their own, the surest first.

    The value is an AUROC: of two pictures, one of the class and one of another, how often the
    property tells which is which. Its interval is that of a share of the smaller part (Wilson),
    which is never too short.
    """
    counts = labels.bincount(minlength=classes)
    codes = [c for c in range(classes) if FEWEST <= counts[c] <= len(labels) - FEWEST]
    best: dict[tuple[int, str], Telling] = {}
    for name, values in known.items():
        whole = np.sort(values.double().numpy())
        ranks = torch.from_numpy(mean_ranks(values.double().numpy()))
        for code in codes:
            rows = (labels == code).nonzero().squeeze(1)
            one = _told(code, WAYS[name], rows, values.double(), ranks, whole)
            if one.interval[0] >= APART and one.value > _value(best.get((code, one.way))):
                best[code, one.way] = one
    return sorted(best.values(), key=lambda one: -one.interval[0])


def _value(one: Telling | None) -> float:
    return 0.0 if one is None else one.value


def _told(
    code: int,
    ways: tuple[str, str, str],
    rows: Tensor,
    values: Tensor,
    ranks: Tensor,
    whole: Floats,
) -> Telling:
    """How far one property tells the pictures `rows` of a class from all others."""
    own, number, others = values[rows], len(rows), len(values) - len(rows)
    above = (ranks[rows].mean().item() - (number + 1) / 2) / others
    away = (own - own.median()).abs()
    ends = (own.median() + torch.stack([-away, away])).numpy()
    nearer = _between(whole, ends, "right", "left") + _between(whole, ends, "left", "right")
    alike = 1 - (float(nearer.mean()) / 2 - number / 2) / others
    value = max(above, 1 - above, alike)
    place = (above, 1 - above, alike).index(value)
    order = (-own, own, away)[place].argsort(stable=True)
    return Telling(
        code=code,
        way=ways[place],
        value=min(value, 1.0),
        interval=wilson(min(value, 1.0), min(number, others)),
        rows=rows[order].tolist(),
    )


def _between(whole: Floats, ends: Floats, low: Side, high: Side) -> Floats:
    """How many sorted values lie between pairs of ends (2, n), with or without the ends."""
    after = np.searchsorted(whole, ends[1], side=low)
    before = np.searchsorted(whole, ends[0], side=high)
    between: Floats = np.maximum(after - before, 0).astype(np.float64)
    return between


def _unusual(mask: Tensor) -> Tensor:
    """The mask itself, or nothing where most pictures are in it."""
    return mask if mask.double().mean() < FEW else torch.zeros_like(mask)


def _listed(mask: Tensor, score: Tensor) -> Listed:
    rows = mask.nonzero().squeeze(1)
    order = rows[score[rows].argsort(stable=True)]
    return [(int(row), abs(score[row].item())) for row in order]
