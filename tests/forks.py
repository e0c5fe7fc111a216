"""Processes that start from one that has imported PyTorch already, which takes seconds."""

from __future__ import annotations

from multiprocessing import get_context
from multiprocessing.context import ForkServerContext

LOADED = ["labelproof.pipeline", "torch._dynamo", "sklearn.utils"]


def forks() -> ForkServerContext:
    """Makes clean processes, forked from a server that has only imported."""
    context = get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    return context
