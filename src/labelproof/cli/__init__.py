"""The command line: `labelproof demo | fit | report | review | plan | methods | corrupt`."""

from __future__ import annotations

import os
import sys

# Threads that wait should sleep: spinning ones slow a busy machine down twentyfold. Read by torch
# when it is first imported, so this stands before every other import.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import typer

from labelproof.cli.corrupt import corrupt
from labelproof.cli.demo import demo
from labelproof.cli.fit import fit
from labelproof.cli.methods import methods
from labelproof.cli.plan import plan
from labelproof.cli.report import report
from labelproof.cli.review import review
from labelproof.errors import BadInput, RunFailed

app = typer.Typer(
    name="labelproof",
    help="Train a classifier on labels that are partly wrong, and find out which ones are.",
    epilog="Start with: labelproof demo. Then, on your data: labelproof fit DATA.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (demo, fit, report, review, plan, methods, corrupt):
    app.command()(command)


def main() -> None:
    """Run the command line: exit 0 on success, 2 on bad usage or input, 1 on a failed run."""
    try:
        app(prog_name="labelproof")
    except BadInput as error:
        _stop(str(error), 2)
    except RunFailed as error:
        _stop(str(error), 1)
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        _stop(f"{error.strerror or error}{place}.", 1)


def _stop(sentence: str, code: int) -> None:
    sys.stderr.write(f"labelproof: {sentence}\n")
    sys.exit(code)
