"""The command line: `labelproof demo | fit | report | review | plan | methods | corrupt`."""

from __future__ import annotations

import os
import sys

# Threads that wait should sleep: spinning ones slow a busy machine down twentyfold. Read by torch
# when it is first imported, so this stands before every other import.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from labelproof.errors import BadInput, RunFailed


def main() -> None:
    """Run the command line: exit 0 on success, 2 on bad usage or input, 1 on a failed run."""
    try:
        from labelproof.cli.app import app  # here, so that Ctrl-C during a slow import is quiet

        app(prog_name="labelproof")
    except KeyboardInterrupt:
        sys.exit(130)
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
