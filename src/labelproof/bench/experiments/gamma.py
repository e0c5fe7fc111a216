"""How DPC depends on γ, the constant of the calibrated softmax."""

from __future__ import annotations

from labelproof.bench import published_numbers as published
from labelproof.bench.curves import Curve

EXPERIMENT = Curve(
    setting="gamma_c",
    symbol="γ C",
    usual=10.0,
    values={
        "paper": published.GAMMAS,
        "small": (0.0, 5.0, 10.0, 20.0),
        "tiny": (0.0, 10.0, 20.0),
    },
    published=published.GAMMA_CURVES,
).experiment(
    "gamma", "sensitivity of DPC to γ, the constant of the calibrated softmax (figure 3 c, d)"
)
