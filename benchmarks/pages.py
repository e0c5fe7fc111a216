"""Write what the bench measured onto the methods' pages.

    python benchmarks/pages.py runs/vectors/vectors-small runs/digits/digits-small ...

Each argument is a folder of `labelproof bench` with its results.jsonl. Every page below
docs/methods has a line `<!-- measured -->`; what stands between it and `<!-- end -->` is replaced,
for the methods that these folders measured.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from labelproof.files import write_text
from labelproof.methods import METHODS

PAGES = Path(__file__).parent.parent / "docs" / "methods"
BLOCK = re.compile(r"<!-- measured -->.*?<!-- end -->", re.DOTALL)
TITLES = {
    "vectors-small": "vectors, CIFAR-10N",
    "cifarn-small": "20,000 vectors, CIFAR-10N",
    "images-small": "small images",
    "digits-small": "digits",
}
LABELS = {"digits": "sym. 40%", "vectors worst": "worst"}
AUROCS = ("error_auroc_own", "error_auroc")
NOTE = """\
AUROC is how well wrong labels are found. *Own* uses the clean probability described above. The
other uses `p_clean` of labels.csv, which joins it with the noise model of the
[calibration](../calibration.md#how-it-works); `--calibrate off` leaves the method's own.
Commands, settings and all methods side by side: [results](../results-appendix.md)."""
HEAD = ("data", "labels", "accuracy, last (%)", "cross-entropy (%)", "ECE, raw", "AUROC, own")
Summaries = dict[tuple[str, str, str], list[dict[str, Any]]]


def main() -> None:
    """Rewrite the block of every method's page."""
    found: Summaries = defaultdict(list)
    for folder in map(Path, sys.argv[1:]):
        for line in (folder / "results.jsonl").read_text().splitlines():
            cell = json.loads(line)
            if cell["state"] == "done":
                place = (cell["row"], TITLES[folder.name], cell["column"])
                found[place].append(cell["summary"])
    for name in {method for method, _, _ in found} & METHODS.keys():
        page = PAGES / f"{name}.md"
        text, count = BLOCK.subn(block(name, found), page.read_text())
        if count != 1:
            sys.exit(f"expected one block <!-- measured --> ... <!-- end --> in {page}.")
        write_text(page, text)


def block(name: str, found: Summaries) -> str:
    """The table of one method, cross-entropy beside it."""
    lines = [
        "<!-- measured -->",
        f"| {' | '.join(HEAD)} | AUROC | seeds |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for (method, data, labels), runs in found.items():
        if method == name:
            cells = [
                mean([100 * run["accuracy"]["last"] for run in runs], 2),
                mean(
                    [100 * run["accuracy"]["last"] for run in found.get(("ce", data, labels), [])],
                    2,
                ),
                mean([run["ece"] for run in runs], 3),
                *(mean([run[key] for run in runs if run.get(key)], 3) for key in AUROCS),
            ]
            place = f"| {data} | {LABELS.get(labels, labels)} |"
            lines.append(f"{place} {' | '.join(cells)} | {len(runs)} |")
    lines += ["", NOTE]
    return "\n".join([*lines, "<!-- end -->"])


def mean(values: list[float], digits: int) -> str:
    """Mean, and the standard deviation where there are several."""
    if not values:
        return ""
    text = f"{statistics.mean(values):.{digits}f}"
    return f"{text} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else text


if __name__ == "__main__":
    main()
