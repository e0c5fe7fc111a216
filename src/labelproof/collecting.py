"""Large imports without garbage collection.

PyTorch's modules make several hundred thousand objects that all stay. Looking for garbage among
them takes a third of the time of the import, and again when the process ends.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Collect nothing in the block, and never look again at what is there after it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
