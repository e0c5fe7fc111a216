"""Fitting again from the page: the command, and the same command running in the background."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from labelproof.errors import BadInput
from labelproof.run_files import METRICS, REFIT_LOG
from labelproof.runs.folder import free_name
from labelproof.runs.reviewed import Reviewed

PATIENCE = 10.0  # seconds an interrupted fit has to save what it has


class Again:
    """One fit at a time, followed through the metrics it writes."""

    def __init__(self, review: Reviewed) -> None:
        self._review = review
        self._process: subprocess.Popen[bytes] | None = None
        self._out = self._free()

    def command(self) -> str:
        """What a person would type."""
        return shlex.join(["labelproof", *self._arguments()])

    def _arguments(self) -> list[str]:
        run = str(self._review.folder)
        data = [self._review.named] if self._review.named else []
        return ["fit", *data, "--from", run, "--reviewed", run, "--out", str(self._out)]

    def start(self) -> None:
        """Start the command, unless it runs already.

        Raises:
            BadInput: If it does.
        """
        if self._process and self._process.poll() is None:
            raise BadInput("a fit is running already.")
        self._out = self._free()
        with (self._review.folder / REFIT_LOG).open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "labelproof", *self._arguments()],
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
        self._process.send_signal(signal.SIGINT)
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
        lines = (folder / METRICS).read_text(encoding="utf-8").splitlines()
        return int(json.loads(lines[-1])["epoch"]) if lines else 0
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0


def _last_lines(path: Path, most: int = 4) -> str:
    try:
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-most:])
    except OSError:
        return ""
