"""Following a run in TensorBoard (extra `track`): every number of metrics.jsonl as a curve."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labelproof.errors import BadInput
from labelproof.training.log import Reporter


class Tensorboard:
    """Writes each epoch's numbers to an event folder, and passes everything on to `inner`."""

    def __init__(self, folder: Path, inner: Reporter) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise BadInput(
                'TensorBoard is not installed; pip install "labelproof[track]", or leave out '
                "--tensorboard."
            ) from error
        self._make, self._folder, self._inner = SummaryWriter, folder, inner

    @property
    def inner(self) -> Reporter:
        """Who tells a person."""
        return self._inner

    def start(self, name: str, epochs: int, done: int, unit: str = "epochs") -> None:
        """Open the event file; what a resumed run repeats is dropped from the curves."""
        self._writer = self._make(str(self._folder), purge_step=done + 1)
        self._inner.start(name, epochs, done)

    def begin(self, phase: str) -> None:
        """Pass on."""
        self._inner.begin(phase)

    def step(self) -> None:
        """Pass on."""
        self._inner.step()

    def epoch(self, line: Mapping[str, Any]) -> None:
        """Write the numbers of an epoch."""
        for name, value in line.items():
            if isinstance(value, (int, float)) and name != "epoch":
                self._writer.add_scalar(name, value, line["epoch"])
        self._writer.flush()
        self._inner.epoch(line)

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()
        self._inner.close()
