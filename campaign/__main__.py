"""`python -m campaign`: all attacks, for as long as is asked; the counts as JSON and as a table."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from campaign import disks, kills, readers, server
from campaign.readers import Tally


def main() -> int:
    """Run the campaign; exit 1 if anything failed."""
    asked = _arguments()
    root = Path(tempfile.mkdtemp(prefix="labelproof-campaign-"))
    found: dict[str, Mapping[str, Tally]] = {}
    try:
        if "readers" in asked.parts:
            found["mutated inputs"] = readers.campaign(asked.inputs, asked.seed, asked.only)
        if "kills" in asked.parts:
            found["kills"] = kills.campaign(root, asked.kills, asked.seed, asked.only)
        if "disks" in asked.parts:
            found["disks"] = _disks(root, asked.disks, asked.seed)
        if "server" in asked.parts:
            (root / "server").mkdir()
            found["review server"] = {
                "kills under six writers": server.attack(root / "server", asked.kills, asked.seed)
            }
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(table(found))
    if asked.out:
        asked.out.write_text(
            json.dumps({k: json.loads(readers.as_json(v)) for k, v in found.items()})
        )
    return int(any(tally.failed for part in found.values() for tally in part.values()))


def _disks(root: Path, tries: int, seed: int) -> dict[str, Tally]:
    found = {}
    for name in ("full", "odd", "two"):
        (root / name).mkdir()
    if disks.can_mount():
        found["full disks"] = disks.full(root / "full", tries, seed)
        found["read-only and vanishing folders"] = disks.odd_folders(root / "odd")
    found["three processes, one folder"] = disks.two_at_once(root / "two", tries)
    return found


def table(found: Mapping[str, Mapping[str, Tally]]) -> str:
    """The counts as a Markdown table, with the failures below."""
    lines = ["| attack | on | tried | as expected | refused in a sentence | failed |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for part, tallies in found.items():
        lines += [
            f"| {part} | {name} | {t.calls} | {t.read} | {t.refused} | {t.failed} |"
            for name, t in tallies.items()
        ]
    for tallies in found.values():
        for name, tally in tallies.items():
            lines += [
                f"- {name}: {place}, {count} times: {_short(tally.examples.get(place, ''))}"
                for place, count in tally.places.items()
            ]
    return "\n".join(lines)


def _short(text: str) -> str:
    return " ".join(text.split())[-200:]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000, help="mutated inputs a reader")
    parser.add_argument("--kills", type=int, default=50, help="kills a method")
    parser.add_argument("--disks", type=int, default=50, help="full disks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="readers and kills whose name contains this")
    parser.add_argument("--out", type=Path, help="a file for the counts as JSON")
    parser.add_argument(
        "--parts", nargs="+", default=["readers", "kills", "disks", "server"], help="what to attack"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
