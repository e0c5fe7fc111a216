"""Freed memory is kept for the next batch, in processes of our own.

The C library gives large blocks back to the system when they are freed. A step of training frees
and asks for the same blocks again, and the system then clears every page anew, which takes time.
"""

from __future__ import annotations

import ctypes
import sys

TRIM, LARGE = -1, -3  # numbers of mallopt: free memory that is kept, size of a block of its own
KEPT = 512 << 20  # bytes
BLOCKS = 128 << 20, 32 << 20  # bytes; older glibc takes no more than the second


def keep_freed_memory() -> None:
    """Have the C library keep freed memory for this process; nothing happens where it is no glibc.

    For processes that train and end, such as those of the command line. Blocks above 128 MB
    (32 MB with older glibc) and free memory above 512 MB still go back to the system.
    """
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    try:
        # either setting ends the C library's own search for a good one: both or none
        if any(library.mallopt(LARGE, block) for block in BLOCKS):
            library.mallopt(TRIM, KEPT)
    except AttributeError:  # another C library
        return
