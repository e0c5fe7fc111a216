"""The process of one cell: `labelproof fit` that ends when the bench that started it is gone.

    python -m labelproof.bench.child PARENT fit|cleanlab ARGUMENTS

Without this, a bench that was killed would leave runs behind that write to the folders its
successor continues.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

PATIENCE = 20  # looks, half a second each, before a run that ignores Ctrl-C is ended


def main() -> None:
    """Run one cell."""
    parent, label = int(sys.argv[1]), sys.argv[2]
    threading.Thread(target=watch, args=(parent,), daemon=True).start()
    sys.argv = ["labelproof", *sys.argv[2:]]
    if label == "cleanlab":
        from labelproof.bench.cleanlab_rival import main as run  # its import is slow
    else:
        from labelproof.cli import main as run
    run()


def watch(parent: int) -> None:
    """Press Ctrl-C once the parent is another process than the one that started this one."""
    looks = 0
    while looks < PATIENCE:
        time.sleep(0.5)
        if os.getppid() == parent:
            continue
        if not looks:
            os.kill(os.getpid(), signal.SIGINT)
        looks += 1
    os._exit(1)


if __name__ == "__main__":
    main()
