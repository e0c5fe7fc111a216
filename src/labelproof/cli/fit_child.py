"""The process of a fit that the review page started: it reads a spec and carries it out.

    python -m labelproof.cli.fit_child FILE

FILE holds the spec, and the command that a person would type, for the record of the run.
"""

from __future__ import annotations

import sys
from pathlib import Path

from labelproof.exit_codes import carry_out
from labelproof.process_memory import keep_freed_memory


def main() -> None:
    """Carry out the spec of the file that was named."""
    keep_freed_memory()
    carry_out(lambda: run(Path(sys.argv[1])))


def run(file: Path) -> None:
    """Fit as `labelproof fit` does, with what it says."""
    import shlex  # imports are here, so that Ctrl-C during them is quiet

    from labelproof.cli.fit import fit_spec
    from labelproof.files import read_json
    from labelproof.runs.schemas import RefitRecord
    from labelproof.runs.spec import read_spec

    job = read_json(file, RefitRecord, "start the fit from the review page again")
    fit_spec(read_spec(job["spec"], file), command=tuple(shlex.split(job["command"])))


if __name__ == "__main__":
    main()
