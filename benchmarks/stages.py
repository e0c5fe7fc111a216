"""Where the time of a run goes, and the memory: one `labelproof fit`, stage by stage.

    python benchmarks/stages.py DATA [any option of `labelproof fit`]

Carries out the command as the command line does, and prints seconds and peak memory after each
stage. What is left over (imports, checks, printing) is the last line.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import Any

BEGAN = time.perf_counter()
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


def clocked(module: Any, name: str, stage: str, spent: dict[str, tuple[float, float]]) -> None:
    """Let a function of a module note what it took."""
    inner: Callable[..., Any] = vars(module)[name]

    def outer(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return inner(*args, **kwargs)
        finally:
            before = spent.get(stage, (0.0, 0.0))[0]
            spent[stage] = before + time.perf_counter() - start, peak_gb()

    setattr(module, name, outer)


def main() -> int:
    from labelproof import pipeline
    from labelproof.__main__ import application
    from labelproof.cli import fit

    spent: dict[str, tuple[float, float]] = {"imports": (time.perf_counter() - BEGAN, peak_gb())}
    clocked(fit, "_announce", "estimate", spent)
    for name, stage in STAGES.items():
        clocked(pipeline, name, stage, spent)
    sys.argv[1:1] = ["fit"]
    code = 0
    try:
        application()(prog_name="labelproof")
    except SystemExit as end:
        code = int(end.code or 0)
    rest = time.perf_counter() - BEGAN - sum(seconds for seconds, _ in spent.values())
    print("| stage | seconds | peak memory, GB |\n|---|---:|---:|")
    for stage, (seconds, peak) in {**spent, "everything else": (rest, peak_gb())}.items():
        print(f"| {stage} | {seconds:.1f} | {peak:.2f} |")
    return code


if __name__ == "__main__":
    sys.exit(main())
