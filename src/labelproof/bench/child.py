"""The process of one cell: it reads a spec, carries it out, and ends with the bench.

    python -m labelproof.bench.child PARENT MAKER SPEC

A bench that was killed must not leave runs behind: they would write to the folders that its
successor continues. So this process watches for the end of the bench, which is its parent, or
with `torchrun` the parent of that.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from labelproof.exit_codes import carry_out
from labelproof.process_memory import keep_freed_memory

PATIENCE = 20  # looks, half a second each, before a run that ignores Ctrl-C is ended


def main() -> None:
    """Run one cell."""
    keep_freed_memory()
    parent, maker = int(sys.argv[1]), sys.argv[2]
    threading.Thread(target=watch, args=(parent,), daemon=True).start()
    carry_out(lambda: run(maker, Path(sys.argv[3])))


def run(maker: str, file: Path) -> None:
    """Carry out the spec, from where a run that was stopped left it."""
    import msgspec  # imports are here, so that Ctrl-C during them is quiet
    from rich.console import Console

    from labelproof.runs.spec import read_spec

    spec = read_spec(msgspec.json.decode(file.read_bytes()), file)
    if maker != "fit":
        from labelproof.bench.outside_rivals import run as run_rival

        run_rival(spec, maker)
    else:
        from labelproof import pipeline
        from labelproof.training import ranks
        from labelproof.training.log import reporter_for

        with ranks.joined(device=spec.device) as here:
            told = reporter_for(Console(stderr=True)) if here.first else None
            pipeline.run(spec, resume=True, reporter=told)


def watch(parent: int) -> None:
    """Press Ctrl-C once the process that this one works for is gone."""
    looks = 0
    while looks < PATIENCE:
        time.sleep(0.5)
        if os.getppid() == parent or ("LOCAL_RANK" in os.environ and _lives(parent)):
            continue
        if not looks:
            os.kill(os.getpid(), signal.SIGINT)
        looks += 1
    os._exit(1)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main()
