"""Running an encoder's network in PyTorch: on a GPU, or where onnxruntime is not installed."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from labelproof.data.encoders.encoder_protocol import Batch, InputRule, Vectors


class Pixels(nn.Module):
    """From uint8 (B, H, W, 3) to normalised (B, 3, S, S): the centred square, resampled."""

    mean: Tensor
    std: Tensor

    def __init__(self, rule: InputRule) -> None:
        super().__init__()
        self.size = rule.size
        self.register_buffer("mean", torch.tensor(rule.mean)[:, None, None])
        self.register_buffer("std", torch.tensor(rule.std)[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        """The input of the network."""
        height, width = x.shape[1], x.shape[2]
        edge = min(height, width)
        top, left = (height - edge) // 2, (width - edge) // 2
        pixels = x[:, top : top + edge, left : left + edge].permute(0, 3, 1, 2).float()
        if edge != self.size:
            size = (self.size, self.size)
            pixels = interpolate(pixels, size, mode="bilinear", antialias=self.size < edge)
        return (pixels - self.mean) / self.std


class TorchRun:
    """A network behind its input rule, on the best device there is."""

    def __init__(self, network: nn.Module, rule: InputRule) -> None:
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._whole = nn.Sequential(Pixels(rule), network).eval().to(self._device)

    def __call__(self, batch: Batch) -> Vectors:
        """uint8 (B, H, W, 3) to float32 (B, D)."""
        with torch.inference_mode():
            vectors: Tensor = self._whole(torch.from_numpy(batch).to(self._device))
        return vectors.float().cpu().numpy()
