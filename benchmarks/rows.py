"""Time and memory of a run by the number of examples, 10,000 to 10 million.

    python benchmarks/rows.py [--sizes 1e4,1e5,1e6,1e7] [--folder KEPT] [--memory 4] [--figure F]

For each size, vectors of 256 numbers in float16 (10 classes, a fifth of the labels wrong) are
written to an .npz. `labelproof fit` then trains one epoch of cross-entropy and writes labels.csv
and the report, in a process that may not use more address space than `--memory` gigabytes. Then the
review opens the run and answers requests for pages. Prints a Markdown table; `--figure` draws time
and memory as SVG. Seconds are CPU seconds. The largest file takes 5.3 GB of disk, and is removed
unless `--folder` is named.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
from stages import peak_gb

WIDTH, CLASSES, BLOCK = 256, 10, 100_000
PAGES = ("", "&scope=all", "&scope=all&given=3&status=open")


def make_vectors(path: Path, size: int) -> None:
    """An .npz with `x` and `y`, written a block at a time."""
    rng = np.random.default_rng(0)
    centres = 0.15 * rng.standard_normal((CLASSES, WIDTH), dtype=np.float32)
    true = rng.integers(CLASSES, size=size)
    given = np.where(rng.random(size) < 0.2, rng.integers(CLASSES, size=size), true)
    about = {"descr": "<f2", "fortran_order": False, "shape": (size, WIDTH)}
    with zipfile.ZipFile(path, "w") as archive:
        with archive.open("x.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array_header_1_0(file, about)
            for start in range(0, size, BLOCK):
                rows = centres[true[start : start + BLOCK]]
                rows = rows + rng.standard_normal(rows.shape, dtype=np.float32)
                file.write(rows.astype(np.float16).tobytes())
        with archive.open("y.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array(file, given)


def fit(data: Path, run: Path, memory: float) -> dict[str, tuple[float, float]]:
    """CPU seconds and peak memory of each stage of the run."""
    words = [sys.executable, str(Path(__file__).with_name("stages.py")), str(data)]
    words += ["--method", "ce", "--epochs", "1", "--set", "batch=1024", "--calibrate", "off"]
    done = subprocess.run(
        [*words, "--memory-gb", "0.5", "--out", str(run)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        preexec_fn=lambda: _limited(memory),
    )
    lines = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if "|" in line]
    return {stage: (float(busy), float(peak)) for stage, _, busy, peak in lines[2:]}


def _limited(memory: float) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (int(memory * 1e9), int(memory * 1e9)))


def review(run: Path) -> None:
    """Open the run and answer pages; prints seconds to open, seconds a page, peak memory."""
    from labelproof.process_memory import keep_freed_memory
    from labelproof.report.example_view import Shown
    from labelproof.review.queue import parse_query
    from labelproof.review.refit_job import Again
    from labelproof.review.web_app import Desk, open_places
    from labelproof.runs.reviewed import open_review

    keep_freed_memory()  # as the command does
    start = time.process_time()
    opened = open_review(run)
    desk = Desk(opened, Shown(), None, Again(opened))
    ready = time.process_time()
    for page in PAGES:
        values = dict(pair.split("=") for pair in page.split("&") if pair)
        query = parse_query(values, opened.codes())
        open_places(desk.queue, query)
        places = desk.queue.page(query)[0]
        assert [desk.row(place) for place in places] or not page
    each = (time.process_time() - ready) / len(PAGES)
    print(f"{ready - start:.1f} {each:.2f} {peak_gb():.2f}")


def measured(size: int, folder: Path, memory: float) -> tuple[float, ...]:
    """A row of the table."""
    data, run = folder / f"rows-{size}.npz", folder / f"run-{size}"
    if not data.exists():
        make_vectors(data, size)
    shutil.rmtree(run, ignore_errors=True)
    took = fit(data, run, memory)
    words = [sys.executable, __file__, "--review", str(run)]
    asked = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    opened, page, held = map(float, asked.stdout.split())
    reading = sum(took[stage][0] for stage in ("reading", "encoding", "statistics", "estimate"))
    writing = took["calibrating"][0] + took["reporting"][0]
    total = sum(seconds for seconds, _ in took.values())
    peak = max(peak for _, peak in took.values())
    return reading, took["training"][0], writing, total, peak, opened, page, held


def draw(path: Path, rows: dict[int, tuple[float, ...]]) -> None:
    """Time and memory against the number of examples, both axes in powers of ten."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.6))
    sizes = sorted(rows)
    for axes, place, name in zip(panels, (3, 4), ("CPU seconds", "peak memory, GB"), strict=True):
        values = [rows[size][place] for size in sizes]
        axes.loglog(sizes, values, "o-", color="#0072B2", label="measured")
        straight = [values[-1] * size / sizes[-1] for size in sizes]
        axes.loglog(sizes, straight, "--", color="#666666", label="in proportion")
        axes.set(xlabel="examples", ylabel=name)
        axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1e4,1e5,1e6,1e7")
    parser.add_argument("--memory", type=float, default=4.0, help="gigabytes of address space")
    parser.add_argument("--folder", type=Path, help="make the files here and keep them")
    parser.add_argument("--figure", type=Path, help="draw time and memory here")
    parser.add_argument("--review", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.review:
        review(arguments.review)
        return
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="rows-"))
    folder.mkdir(parents=True, exist_ok=True)
    print("| examples | reading, s | training, s | labels.csv and report, s | all, s | peak, GB | "
          "review opens, s | a page, s | review's peak, GB |")  # fmt: skip
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    rows: dict[int, tuple[float, ...]] = {}
    try:
        for size in map(int, map(float, arguments.sizes.split(","))):
            rows[size] = found = measured(size, folder, arguments.memory)
            cells = [f"{value:.2f}" if place in (4, 6, 7) else f"{value:.1f}"
                     for place, value in enumerate(found)]  # fmt: skip
            print(f"| {size:,} | {' | '.join(cells)} |", flush=True)
        if arguments.figure:
            draw(arguments.figure, rows)
    finally:
        if arguments.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
