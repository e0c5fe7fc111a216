"""Fitting again from the page: the command that a person would type, in the background."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from labelproof.errors import BadInput
from labelproof.run_files import REFIT_LOG
from labelproof.runs.folder import free_name, history_so_far
from labelproof.runs.reviewed import Reviewed
from labelproof.runs.spec import load_spec

PATIENCE = 10.0  # seconds an interrupted fit has to save what it has


class Again:
    """One fit at a time, followed through the metrics it writes."""

    def __init__(self, review: Reviewed) -> None:
        self._review = review
        self._process: subprocess.Popen[bytes] | None = None
        self._out = self._free()

    def command(self) -> str:
        """What a person would type to the same end."""
        return shlex.join(["labelproof", *self._words()])

    def _words(self) -> list[str]:
        """The run's own spec with the reviewed labels, into a folder of its own."""
        run, data = str(self._review.folder), self._review.named
        named = [data] if data else []
        return ["fit", *named, "--from", run, "--reviewed", run, "--out", str(self._out)]

    def _check_data(self) -> None:
        """Refuse a run that does not say where its data is, before a process begins."""
        if load_spec(self._review.folder, self._review.named).data is None:
            raise BadInput(
                f"{self._review.folder} does not say where its data is; name it: "
                f"labelproof review {self._review.folder} --data DATA"
            )

    def start(self) -> None:
        """Start the fit, unless one runs already."""
        if self._process and self._process.poll() is None:
            raise BadInput("a fit is running already.")
        self._check_data()
        self._out = self._free()
        with (self._review.folder / REFIT_LOG).open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "labelproof", *self._words()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def status(self) -> dict[str, Any]:
        """How far it is."""
        if self._process is None:
            return {"state": "idle", "command": self.command()}
        code = self._process.poll()
        state = "running" if code is None else "done" if code == 0 else "failed"
        return {
            "state": state,
            "epoch": _epochs_done(self._out),
            "epochs": self._review.record["settings"].get("epochs"),
            "folder": str(self._out),
            "said": _last_lines(self._review.folder / REFIT_LOG) if code is not None else "",
        }

    def stop(self) -> None:
        """End a running fit as Ctrl-C would; it can be resumed."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)  # a shell may have it ignore Ctrl-C
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _free(self) -> Path:
        folder = self._review.folder
        return free_name(folder.with_name(f"{folder.name}-reviewed"))


def _epochs_done(folder: Path) -> int:
    try:
        lines = history_so_far(folder)
        return int(lines[-1]["epoch"]) if lines else 0
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0


def _last_lines(path: Path, most: int = 4) -> str:
    try:
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-most:])
    except OSError:
        return ""
