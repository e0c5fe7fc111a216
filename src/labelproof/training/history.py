"""metrics.jsonl: a line an epoch, appended as it happens; the checkpoint has the last word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from labelproof.files import finite, write_text
from labelproof.run_files import METRICS


def append_metrics(folder: Path, line: dict[str, Any]) -> None:
    """Add one epoch."""
    with (folder / METRICS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(finite(line)) + "\n")


def rewrite_metrics(folder: Path, history: list[dict[str, Any]]) -> None:
    """Make the file say what the checkpoint knows (a kill may have come between the two)."""
    write_text(folder / METRICS, "".join(json.dumps(finite(line)) + "\n" for line in history))
