"""Views of vectors: Gaussian jitter (weak), and jitter with features hidden at random (strong).

Shapes: B batch, D features, R waves. In place of B there may be several axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from labelproof.data.task import Strong
from labelproof.functional.waves import Waves, random_waves, with_waves

Numbers = Sequence[float] | Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class VectorViews:
    """Standardised vectors, and random changes of them in units of each feature's spread.

    Attributes:
        mean: What is subtracted from each feature; also what a hidden feature is set to.
        std: What each feature is divided by; a zero (a constant feature) divides by one.
        spread: Spread of each feature after the division, the unit of jitter; where None, one, and
            zero for constant features.
        jitter: Standard deviation of the weak view's noise, in spreads; the strong view doubles it.
        mask: Probability that the strong view hides a feature.
        waves: How many random waves of the features follow them in every view.
        wavelength: Their length, in units of the features after the division.
    """

    mean: Numbers
    std: Numbers
    spread: Numbers | None = None
    jitter: float = 0.1
    mask: float = 0.1
    waves: int = 0
    wavelength: float = 1.0

    def plain(self, x: Tensor) -> Tensor:
        """`(x - mean) / std`, (B, D), and its waves, (B, D + R)."""
        return self._waved(self._standard(x))

    def weak(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """The plain view with Gaussian noise of `jitter` spreads."""
        return self._waved(self._jittered(x, self.jitter, rng))

    def strong(self, x: Tensor, rng: torch.Generator, own: Strong | None = None) -> Tensor:
        """Noise of twice `jitter`, then each feature set to its mean with probability `mask`."""
        noisy = self._jittered(x, 2 * self.jitter, rng)
        hidden = torch.rand(x.shape, generator=rng, device=rng.device) < self.mask
        return self._waved(noisy.masked_fill(hidden.to(x.device), 0.0))

    def _standard(self, x: Tensor) -> Tensor:
        mean, scale, _ = self._rows(x.device)
        return (x.float() - mean).div_(scale)

    def _waved(self, z: Tensor) -> Tensor:
        if not self.waves:
            return z
        if z.device not in self._drawn:
            drawn = random_waves(z.shape[-1], self.waves, self.wavelength)
            self._drawn[z.device] = Waves(*(part.to(z.device) for part in drawn))
        return with_waves(z, self._drawn[z.device])

    def _jittered(self, x: Tensor, amount: float, rng: torch.Generator) -> Tensor:
        _, _, unit = self._rows(x.device)
        noise = torch.randn(x.shape, generator=rng, device=rng.device).to(x.device)
        return noise.mul_(amount * unit).add_(self._standard(x))

    def _rows(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, scale and unit of jitter on a device: made once, not for every batch."""
        if device not in self._made:
            std = _row(self.std, device)
            scale = torch.where(std == 0, torch.ones_like(std), std)
            unit = (std != 0).float() if self.spread is None else _row(self.spread, device)
            self._made[device] = _row(self.mean, device), scale, unit
        return self._made[device]

    @cached_property
    def _drawn(self) -> dict[torch.device, Waves]:
        return {}

    @cached_property
    def _made(self) -> dict[torch.device, tuple[Tensor, Tensor, Tensor]]:
        return {}


def _row(values: Numbers, device: torch.device) -> Tensor:
    """`values` as one float32 row on a device."""
    return torch.as_tensor(values, dtype=torch.float32, device=device)
