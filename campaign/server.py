"""The review server under many writers and a kill: nothing that it acknowledged is lost."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

import httpx

from campaign.children import ended, run, start
from campaign.kills import data
from campaign.readers import Tally
from labelproof.runs.reviewed import open_review

WRITERS = 6
NONE = "-"  # stands for no decision


def attack(root: Path, kills: int, seed: int) -> Tally:
    """Kill the server `kills` times while writers decide; count acknowledged decisions."""
    path, tally, rng, log = data(root), Tally(), random.Random(seed), root / "log"
    out = root / "run"
    run(["fit", str(path), "--method", "ce", "--epochs", "1", "--calibrate", "quick",
         "--out", str(out)], log)  # fmt: skip
    stands: dict[int, str] = {}
    for _ in range(kills):
        tally.calls += 1
        _once(out, root / "page", stands, rng)
        found = open_review(out).decisions.labels()
        lost = [index for index, may in stands.items() if found.get(index, NONE) not in may]
        if lost:
            tally.places["acknowledged decisions lost"] += len(lost)
        stands.update({index: found.get(index, NONE) for index in stands})
        tally.read += 1
    return tally


def _once(out: Path, page: Path, stands: dict[int, str], rng: random.Random) -> None:
    page.unlink(missing_ok=True)
    child = start(["review", str(out), "--no-browser"], page)
    address = _address(page)
    stop = threading.Event()
    # each writer has examples of its own, so that the last acknowledged label is the one to find
    writers = [
        threading.Thread(target=_write, args=(address, number, stands, stop))
        for number in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    time.sleep(rng.uniform(0.1, 1.5))
    os.kill(child, signal.SIGKILL)
    ended(child)
    stop.set()
    for writer in writers:
        writer.join()


def _write(address: str, number: int, stands: dict[int, str], stop: threading.Event) -> None:
    rng = random.Random(f"{address}/{number}")
    with httpx.Client(timeout=10) as client:
        while not stop.is_set():
            index, label = number + WRITERS * rng.randrange(90 // WRITERS), rng.choice("012")
            wish = {"index": index, "decision": "change", "label": label}
            stands[index] = stands.get(index, NONE) + label  # until it answers, either may stand
            try:
                answer = client.post(f"{address}api/decide", json={"decisions": [wish]})
            except httpx.HTTPError:
                return
            if answer.status_code == 200:
                stands[index] = label


def _address(page: Path) -> str:
    stop = time.monotonic() + 60
    while time.monotonic() < stop:
        text = page.read_text(errors="replace") if page.exists() else ""
        found = [word for word in text.split() if word.startswith("http://")]
        if found and text.endswith("\n"):
            return found[0]
        time.sleep(0.02)
    raise TimeoutError("the review page did not start")
