"""Running cells in parallel processes; what was stopped goes on, what is finished stays."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from labelproof.bench import gpus
from labelproof.bench.cell import Cell
from labelproof.bench.results import is_done, record_path, same_record
from labelproof.errors import BadInput
from labelproof.files import write_json
from labelproof.run_files import RUN

POLL = 0.2  # seconds between looks at the running processes
GRACE = 15.0  # seconds a stopped run has to end by itself
REFUSED = 2  # exit code of `labelproof fit` for what it cannot use
SAID = "labelproof: "  # begins the sentence of a run that failed
WAIT = 20.0  # seconds to wait for the last processes of a bench that was killed


@dataclass(frozen=True, kw_only=True)
class Running:
    """A cell at work."""

    cell: Cell
    process: subprocess.Popen[bytes]
    log: Path
    started: float  # by the monotonic clock
    resumed: bool  # whether it continues what was there
    gpu: str = ""  # the one it sees, where there are any


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a grid stands; handed to whoever shows it."""

    total: int
    done: int
    failed: int
    running: tuple[Running, ...]


Launcher = Literal["local", "torchrun"]
Show = Callable[[Progress], None]
Ended = Callable[[Cell, str, float], None]  # a cell, its error or "", seconds


def run_cells(
    cells: Sequence[Cell],
    folder: Path,
    jobs: int,
    *,
    show: Show,
    ended: Ended,
    launcher: Launcher = "local",
) -> dict[str, str]:
    """Run every cell that is not finished, each once; returns the errors of failed ones, by name.

    `show` is called several times a second, `ended` after every cell that ran.
    """
    unique = {cell.name: cell for cell in cells}
    left = [cell for cell in unique.values() if not is_done(cell, folder)]
    waiting = deque(sorted(left, key=lambda cell: cell.seed))  # first seeds of all rows first
    done, errors = len(unique) - len(waiting), dict[str, str]()
    running: list[Running] = []
    there, several = gpus.visible(), launcher == "torchrun"
    try:
        while waiting or running:
            # processes of one run take the GPUs from the first on, so there is one run at a time
            while waiting and len(running) < (1 if several and there else jobs):
                gpu = gpus.least_used(there, (job.gpu for job in running))
                if several:
                    count = together(1 if there else jobs)
                    running.append(start(waiting.popleft(), folder, 1, processes=count))
                else:
                    running.append(start(waiting.popleft(), folder, threads(jobs), gpu))
            time.sleep(POLL)
            for job in [job for job in running if job.process.poll() is not None]:
                running.remove(job)
                if job.resumed and job.process.returncode == REFUSED:
                    set_aside(folder / job.cell.name)  # it cannot be continued: from the start
                    waiting.appendleft(job.cell)
                    continue
                if error := what_went_wrong(job, folder):
                    errors[job.cell.name] = error
                else:
                    done += 1
                ended(job.cell, error, time.monotonic() - job.started)
            show(Progress(total=len(unique), done=done, failed=len(errors), running=(*running,)))
    finally:
        stop(running)
    return errors


def cores() -> int:
    """The cores that this process may use: `taskset`, Slurm or a container may allow fewer."""
    from joblib import cpu_count  # slow to import

    found: int = cpu_count()
    return found


def threads(jobs: int) -> int:
    """Threads of one process, so that all together use each core once."""
    return max(1, cores() // jobs)


def together(jobs: int) -> int:
    """Processes of one run, so that all runs together use each GPU, or each core, once."""
    return max(1, (len(gpus.visible()) or cores()) // jobs)


def start(cell: Cell, cells: Path, threads: int, gpu: str = "", processes: int = 1) -> Running:
    """Begin or continue a cell; what another record left in its folder is removed."""
    folder, log = cells / cell.name, cells / f"{cell.name}.log"
    if cell.maker != "fit" or not same_record(cell, cells):
        discard(folder)
    write_json(record_path(cell, cells), cell.record())
    resumed = (folder / RUN).exists()
    spec = cells / f"{cell.name}.spec.json"
    write_json(spec, replace(cell.spec, out=folder).describe())
    words = ["-m", "labelproof.bench.child", str(os.getpid()), cell.maker, str(spec)]
    if processes > 1 and cell.maker == "fit":
        count = ["--nproc-per-node", str(processes)]
        words = ["-m", "torch.distributed.run", "--standalone", *count, *words]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
    if gpu:
        environment[gpus.NAME] = gpu
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**environment, "COLUMNS": "200"},
            close_fds=False,  # the lock stays as long as any run lives
        )
    began = time.monotonic()
    return Running(cell=cell, process=process, log=log, started=began, resumed=resumed, gpu=gpu)


def discard(folder: Path) -> None:
    """Remove a folder; a kill on the way leaves no half of it under its name.

    What was measured of it later stands beside it and goes first.
    """
    folder.with_name(f"{folder.name}.top.json").unlink(missing_ok=True)
    if not folder.exists():
        return
    aside = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(aside, ignore_errors=True)
    os.replace(folder, aside)
    shutil.rmtree(aside)


def set_aside(folder: Path) -> None:
    """Keep a run that `fit` refused to continue, under another name, until the next such one."""
    kept = folder.with_name(f"{folder.name}.refused")
    shutil.rmtree(kept, ignore_errors=True)
    os.replace(folder, kept)


def what_went_wrong(job: Running, cells: Path) -> str:
    """The last line a failed run wrote; nothing for one that ended well."""
    code = job.process.returncode
    if code == 0 and is_done(job.cell, cells):
        return ""
    if code is not None and code < 0:
        return f"signal {-code} ended it; it may have run out of memory"
    lines = job.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    told = [line for line in lines if line.startswith(SAID)] or lines  # torchrun says more after it
    return told[-1].removeprefix(SAID) if told else f"it ended with code {code}"


def stop(running: Sequence[Running]) -> None:
    """End what still runs, gently first: a run that was interrupted keeps its last epoch."""
    end = time.monotonic() + 1  # Ctrl-C in a terminal has reached them already
    while _alive(running) and time.monotonic() < end:
        time.sleep(POLL)
    for job in _alive(running):
        job.process.send_signal(signal.SIGINT)
    end = time.monotonic() + GRACE
    while _alive(running) and time.monotonic() < end:
        time.sleep(POLL)
    for job in _alive(running):
        job.process.kill()
        job.process.wait()


def _alive(running: Sequence[Running]) -> list[Running]:
    return [job for job in running if job.process.poll() is None]


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Hold `out` for this bench; another one on the same folder is refused."""
    out.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # no such locks on Windows
        yield
        return
    with (out / ".lock").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        end = time.monotonic() + WAIT
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > end:
                    raise BadInput(
                        f"another bench is running in {out}; wait for it, or name another --out."
                    ) from None
                time.sleep(POLL)
        yield
