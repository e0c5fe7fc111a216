"""Memory of processes that are our own: large imports, and blocks that are freed.

PyTorch's modules make several hundred thousand objects that all stay. Looking for garbage among
them takes a third of the time of the import, and again when the process ends.

The C library gives large blocks back to the system when they are freed. A step of training frees
and asks for the same blocks again, and the system then clears every page anew, which takes time.

Kept blocks have a price: the C library cannot put an aligned block, as PyTorch's are, into a hole
of just its size. Where a loop keeps something small after each large block, every round takes new
memory. So the largest blocks still go back, and between the stages of a run all that is free does.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


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


# numbers of mallopt: free memory that is kept, size of a block of its own, heaps of threads
TRIM, LARGE, HEAPS = -1, -3, -8
KEPT = 512 << 20  # bytes
BLOCKS = 40 << 20, 32 << 20  # bytes; older glibc takes no more than the second


def keep_freed_memory() -> None:
    """Have the C library keep freed memory for this process; nothing happens where it is no glibc.

    For processes that train and end, such as those of the command line. Blocks above 40 MB
    (32 MB with older glibc) and free memory above 512 MB still go back to the system. Threads
    share a heap for each core, and Arrow uses them too: heaps of their own count as address space
    (`ulimit -v`), 64 MB for every thread and 1 GB for Arrow.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    try:
        library.mallopt(HEAPS, os.cpu_count() or 1)
        # either setting ends the C library's own search for a good one: both or none
        if any(library.mallopt(LARGE, block) for block in BLOCKS):
            library.mallopt(TRIM, KEPT)
    except AttributeError:  # another C library
        return


def give_back() -> None:
    """Return all freed memory to the system, after a stage; nothing happens without glibc."""
    if not sys.platform.startswith("linux"):
        return
    with suppress(AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
