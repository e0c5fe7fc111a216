"""Full, read-only and vanishing disks, and two processes on one run folder."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from campaign.children import ended, run, start
from campaign.kills import SHORT, data, difference
from campaign.readers import Tally


@contextlib.contextmanager
def disk(place: Path, kilobytes: int, options: str = "") -> Iterator[Path]:
    """A tmpfs of its own; mounting needs root."""
    place.mkdir(exist_ok=True)
    size = f"size={kilobytes}k{options}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def words(path: Path, out: Path) -> list[str]:
    """A short fit."""
    return [
        "fit",
        str(path),
        "--method",
        "dpc",
        "--epochs",
        "4",
        *SHORT,
        "--device",
        "cpu",
        "--out",
        str(out),
    ]


def full(root: Path, tries: int, seed: int) -> Tally:
    """A run on disks of every size from nothing to enough: it ends well, or says that space is out.

    Afterwards the disk is made larger, and the resumed run must equal one that was never in need.
    """
    path, tally, rng = data(root), Tally(), random.Random(seed)
    whole, log = root / "whole", root / "log"
    run(words(path, whole), log)
    need = sum(file.stat().st_size for file in whole.rglob("*")) // 1024 + 64
    for _ in range(tries):
        tally.calls += 1
        with disk(root / "disk", rng.randrange(8, need)) as place:
            log.unlink(missing_ok=True)
            code = run(words(path, place / "run"), log)
            said = log.read_text(errors="replace")
            if "Traceback" in said or (code and "pace" not in said):
                _note(tally, f"exit {code} without the word space", said[-300:])
                continue
            tally.refused += bool(code)
            subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)
            code = run([*words(path, place / "run"), "--resume"], log)
            problem = f"resume: exit {code}" if code else difference(whole, place / "run")
            if problem:
                _note(tally, problem, log.read_text(errors="replace")[-300:])
            else:
                tally.read += 1
    return tally


def odd_folders(root: Path) -> Tally:
    """Folders that cannot be written, are no folders, or vanish while a run goes on."""
    path, tally, log = data(root), Tally(), root / "log"
    (root / "file").write_text("not a folder")
    with disk(root / "fixed", 64, ",ro") as fixed:
        for out in (fixed / "run", root / "file", root / "file" / "run", Path("/proc/run")):
            tally.calls += 1
            log.unlink(missing_ok=True)
            code = run(words(path, out), log)
            _judge(tally, code, log, (2,))
    for number in range(8):
        tally.calls += 1
        log.unlink(missing_ok=True)
        child = start(words(path, root / "gone"), log)
        time.sleep(0.1 * number)
        shutil.rmtree(root / "gone", ignore_errors=True)
        _judge(tally, ended(child), log, (0, 1, 2))
        shutil.rmtree(root / "gone", ignore_errors=True)
    return tally


def two_at_once(root: Path, tries: int) -> Tally:
    """Three processes that resume one run: one works, the others refuse, the result is the same."""
    path, tally, log = data(root), Tally(), root / "log"
    run(words(path, root / "whole"), log)
    for _ in range(tries):
        tally.calls += 1
        shutil.rmtree(root / "run", ignore_errors=True)
        log.unlink(missing_ok=True)
        children = [start([*words(path, root / "run"), "--resume"], log) for _ in range(3)]
        codes = sorted(ended(child) for child in children)
        said = log.read_text(errors="replace")
        if "Traceback" in said or not set(codes) <= {0, 2} or codes[0] != 0:
            _note(tally, f"exits {codes}", said[-300:])
        elif problem := difference(root / "whole", root / "run"):
            _note(tally, problem, said[-300:])
        else:
            tally.read += 1
            tally.refused += codes.count(2)
    return tally


def _judge(tally: Tally, code: int, log: Path, codes: tuple[int, ...]) -> None:
    said = log.read_text(errors="replace")
    if code not in codes or "Traceback" in said:
        _note(tally, f"exit {code}", said[-300:])
    else:
        tally.refused += bool(code)
        tally.read += not code


def _note(tally: Tally, place: str, text: str) -> None:
    tally.places[place] += 1
    tally.examples.setdefault(place, text)


def can_mount() -> bool:
    """Whether disks can be made here."""
    return os.name == "posix" and os.geteuid() == 0
