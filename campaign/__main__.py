"""`python -m campaign`: all attacks, for as long as is asked; the counts as a table and as JSON."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from campaign import children, disks, kills, readers, server
from campaign.readers import Tally

ROUNDS = 50  # with --minutes: the counts are spread over so many rounds of all parts
HEAD = "| attack | on | tried | as expected | refused in a sentence | failed |\n|" + "---|" * 6


def main() -> int:
    """Run the campaign; exit 1 if anything failed. Ctrl-C ends it with the table so far."""
    asked = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    found: dict[tuple[str, str], Tally] = {}
    try:
        for part, name, tally in _all(asked):
            print(_row(part, name, tally), flush=True)
            found[part, name] = found.get((part, name), Tally()) + tally
    except KeyboardInterrupt:
        print("stopped; what was done so far:")
    print(table(found))
    if asked.out:
        asked.out.write_text(readers.as_json({f"{p}: {n}": t for (p, n), t in found.items()}))
    return int(any(tally.failed for tally in found.values()))


def _all(asked: argparse.Namespace) -> Iterator[tuple[str, str, Tally]]:
    """Every attack once with the counts asked for, or in small rounds until the time is over."""
    if not asked.minutes:
        yield from _round(asked, asked.seed, 1)
        return
    stop = time.monotonic() + 60 * asked.minutes
    for number in range(ROUNDS):
        for row in _round(asked, asked.seed + 1000 * number, ROUNDS):
            yield row
            if time.monotonic() > stop:
                return


def _round(asked: argparse.Namespace, seed: int, share: int) -> Iterator[tuple[str, str, Tally]]:
    inputs, killed, full = (-(-n // share) for n in (asked.inputs, asked.kills, asked.disks))
    root = Path(tempfile.mkdtemp(prefix="labelproof-campaign-"))
    for part in asked.parts:
        (root / part).mkdir()
    try:
        if {*asked.parts} - {"readers"}:
            children.import_for(disks.words(kills.data(root), root / "run"), root / "log")
        if "disks" in asked.parts:
            yield from (("disks", *row) for row in _disks(root / "disks", full, seed))
        if "server" in asked.parts:
            tally = server.attack(root / "server", killed, seed)
            yield "review server", "kills under six writers", tally
        if "kills" in asked.parts:
            rows = kills.campaign(root / "kills", killed, seed, asked.only)
            yield from (("kills", *row) for row in rows)
        if "readers" in asked.parts:
            found = readers.campaign(root / "readers", inputs, seed, asked.only, asked.keep)
            yield from (("mutated inputs", *row) for row in found)
    finally:
        children.end_all()
        shutil.rmtree(root, ignore_errors=True)


def _disks(root: Path, tries: int, seed: int) -> Iterator[tuple[str, Tally]]:
    for name in ("full", "odd", "two"):
        (root / name).mkdir()
    if disks.can_mount():
        yield "full disks", disks.full(root / "full", tries, seed)
        yield "read-only and vanishing folders", disks.odd_folders(root / "odd")
    yield "three processes, one folder", disks.two_at_once(root / "two", tries)


def table(found: dict[tuple[str, str], Tally]) -> str:
    """The counts as a Markdown table, with the sums of each part and the failures below."""
    lines, parts = [HEAD], {part: Tally() for part, _ in found}
    for (part, name), tally in found.items():
        lines.append(_row(part, name, tally))
        parts[part] += tally
    lines += [_row(part, "all", tally) for part, tally in parts.items()]
    for (_, name), tally in found.items():
        lines += [
            f"- {name}: {place}, {count} times: {_short(tally.examples.get(place, ''))}"
            for place, count in tally.places.items()
        ]
    return "\n".join(lines)


def _row(part: str, name: str, tally: Tally) -> str:
    numbers = (tally.calls, tally.read, tally.refused, tally.failed)
    return " | ".join((f"| {part}", name, *map(str, numbers))) + " |"


def _short(text: str) -> str:
    return " ".join(text.split())[-200:]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000, help="mutated inputs a reader")
    parser.add_argument("--kills", type=int, default=50, help="kills a method")
    parser.add_argument("--disks", type=int, default=50, help="full disks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--minutes", type=float, help="end then; all parts in turn, in small shares"
    )
    parser.add_argument("--only", nargs="+", default=[], help="names of readers and kills")
    parser.add_argument("--keep", type=Path, help="a folder for mutated inputs that fail")
    parser.add_argument("--out", type=Path, help="a file for the counts as JSON")
    parser.add_argument(
        "--parts", nargs="+", default=["disks", "server", "kills", "readers"], help="what to attack"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
