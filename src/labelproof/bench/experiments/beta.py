"""How DPC depends on β, the weight of the divergence in L_edl."""

from __future__ import annotations

from labelproof.bench import published_numbers as published
from labelproof.bench.curves import Curve

EXPERIMENT = Curve(
    setting="beta",
    symbol="β",
    usual=0.5,
    values={"paper": published.BETAS, "small": (0.0, 0.5, 1.0), "tiny": (0.0, 0.5, 1.0)},
    published=published.BETA_CURVES,
).experiment("beta", "sensitivity of DPC to β, the weight of the divergence (figure 3 a, b)")
