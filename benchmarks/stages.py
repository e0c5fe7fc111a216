"""Where the time of a run goes, and the memory: one `labelproof fit`, stage by stage.

    python benchmarks/stages.py DATA [any option of `labelproof fit`]

Carries out the command as the command line does, and prints seconds, CPU seconds and peak memory of
each stage. Other work on the machine changes the former more than the latter. What is left over
(checks, printing) is the last line.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

BEGAN = time.perf_counter()
Spent = dict[str, tuple[float, float, float]]  # by stage: seconds, CPU seconds, peak memory
STAGES = {  # functions of `pipeline` and the stage they belong to
    "load": "reading",
    "encoded": "encoding",
    "prepare": "statistics",
    "settle": "choosing",
    "train": "training",
    "judge": "calibrating",
    "_write": "reporting",
}


def peak_gb() -> float:
    """Peak resident memory of this process so far; Linux counts in kilobytes, macOS in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def busy_seconds() -> float:
    """CPU seconds of this process and of those it began that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def clocked(module: Any, name: str, stage: str, spent: Spent) -> None:
    """Let a function of a module note what it took."""
    inner: Callable[..., Any] = vars(module)[name]

    def outer(*args: Any, **kwargs: Any) -> Any:
        start, busy = time.perf_counter(), busy_seconds()
        try:
            return inner(*args, **kwargs)
        finally:
            before = spent.get(stage, (0.0, 0.0))
            took = time.perf_counter() - start, busy_seconds() - busy
            spent[stage] = before[0] + took[0], before[1] + took[1], peak_gb()

    setattr(module, name, outer)


def main() -> int:
    # the command itself, first: it says how threads wait and how memory is kept
    from labelproof.__main__ import main as command  # isort: skip
    from labelproof import pipeline
    from labelproof.cli import fit

    spent: Spent = {
        "imports": (time.perf_counter() - BEGAN, busy_seconds(), peak_gb()),
    }
    clocked(fit, "_announce", "estimate", spent)
    for name, stage in STAGES.items():
        clocked(pipeline, name, stage, spent)
    sys.argv[1:1] = ["fit"]
    code = 0
    try:
        command()
    except SystemExit as end:
        code = int(end.code or 0)
    sums = [sum(part[place] for part in spent.values()) for place in (0, 1)]
    rest = time.perf_counter() - BEGAN - sums[0], busy_seconds() - sums[1], peak_gb()
    print("| stage | seconds | CPU seconds | peak memory, GB |\n|---|---:|---:|---:|")
    for stage, (seconds, busy, peak) in {**spent, "everything else": rest}.items():
        print(f"| {stage} | {seconds:.1f} | {busy:.1f} | {peak:.2f} |")
    return code


if __name__ == "__main__":
    sys.exit(main())
