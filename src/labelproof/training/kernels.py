"""How PyTorch computes: whether a GPU gives the same bits again, and whether operations are fused.

On a CPU the same bits come again anyway, with the same number of threads.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from labelproof.training.run import Trunk


@contextmanager
def reproducible(wanted: bool) -> Iterator[None]:
    """Have a GPU give the same bits again where PyTorch can, or else be as fast as it can."""
    cudnn = torch.backends.cudnn
    before = (cudnn.benchmark, cudnn.deterministic)
    strict = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    cudnn.benchmark = not wanted  # tries several algorithms for each shape, and takes the fastest
    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS needs it for that
        cudnn.deterministic = True
        torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        cudnn.benchmark, cudnn.deterministic = before
        torch.use_deterministic_algorithms(strict, warn_only=warns)


def fused(make: Trunk, example: Tensor, device: torch.device) -> Trunk:
    """Trunks whose operations torch.compile fuses; as they are, with a warning, where it fails.

    Args:
        make: makes a new trunk.
        example: a batch of network input, which one of them is tried with.
        device: where.
    """

    def compiled() -> nn.Module:
        trunk = make()
        trunk.compile()
        return trunk

    try:
        compiled().to(device)(example.to(device)).sum().backward()
    except Exception as error:  # a compiler can fail in any way
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        warnings.warn(f"torch.compile fails here, so it is not used ({reason})", stacklevel=2)
        return make
    return compiled
