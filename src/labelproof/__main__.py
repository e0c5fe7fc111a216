"""`labelproof`, or `python -m labelproof`: every command, with those of the bench among them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

# Threads that wait should sleep: spinning ones slow a busy machine down twentyfold. Read by torch
# when it is first imported, so this stands before every other import.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from labelproof.exit_codes import carry_out
from labelproof.process_memory import keep_freed_memory

if TYPE_CHECKING:
    import typer


def main() -> None:
    """Run the command line."""
    keep_freed_memory()
    carry_out(lambda: application()(prog_name="labelproof"))


def application() -> typer.Typer:
    """All commands as one application."""
    # imported here, so that Ctrl-C during a slow import is quiet
    from labelproof.bench.bench_options import bench
    from labelproof.cli.app import with_commands

    return with_commands(bench)


if __name__ == "__main__":
    main()
