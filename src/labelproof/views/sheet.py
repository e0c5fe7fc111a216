"""A picture of the views, so that a person can look at what a network is shown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from labelproof.data.examples import Inputs
from labelproof.data.task import Views
from labelproof.errors import BadInput
from labelproof.files import written_whole
from labelproof.views.image_views import ImageViews

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPEATS = 3  # weak and strong views shown of each example


def views_sheet(
    inputs: Inputs, views: Views, path: str | os.PathLike[str], rng: torch.Generator, rows: int = 8
) -> Path:
    """Draw examples evenly spaced over a data set, each with three weak and three strong views.

    Args:
        inputs: The training inputs.
        views: How they are shown to a network.
        path: The PNG file to write; it appears whole or not at all.
        rng: Where the random views come from.
        rows: How many examples to show.

    Returns:
        The path written.

    Raises:
        BadInput: If the file cannot be written.
    """
    count = min(rows, len(inputs))
    raw = inputs.take(torch.arange(count) * len(inputs) // count)
    weak = [views.weak(raw, rng) for _ in range(REPEATS)]
    strong = [views.strong(raw, rng) for _ in range(REPEATS)]
    if len(inputs.shape) == 3:
        figure = _images(raw, views, weak, strong)
    else:
        figure = _vectors(views.plain(raw), weak, strong)
    return _saved(figure, Path(path))


def _images(raw: Tensor, views: Views, weak: list[Tensor], strong: list[Tensor]) -> Figure:
    from matplotlib.figure import Figure  # slow to import, and seldom needed

    pictures = [raw.float() / 255, *(_picture(view, views) for view in weak + strong)]
    titles = ["stored", *(["weak"] * len(weak)), *(["strong"] * len(strong))]
    figure = Figure(figsize=(1.2 * len(titles), 1.2 * len(raw) + 0.3), layout="constrained")
    axes = figure.subplots(len(raw), len(titles), squeeze=False)
    for column, (title, batch) in enumerate(zip(titles, pictures, strict=True)):
        axes[0, column].set_title(title, fontsize=9)
        for row, picture in enumerate(batch):
            axes[row, column].imshow(picture.cpu().numpy(), interpolation="nearest")
            axes[row, column].set_axis_off()
    return figure


def _picture(view: Tensor, views: Views) -> Tensor:
    """Network input back to colours in [0, 1], (B, h, w, 3)."""
    pixels = view.permute(0, 2, 3, 1).cpu()
    if isinstance(views, ImageViews):
        pixels = pixels * torch.tensor(views.std) + torch.tensor(views.mean)
    else:
        low, high = pixels.amin(), pixels.amax()
        pixels = (pixels - low) / (high - low).clamp(min=1e-12)
    return pixels.clamp(0, 1)


def _vectors(plain: Tensor, weak: list[Tensor], strong: list[Tensor]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 1.2 * len(plain) + 0.6), layout="constrained")
    axes = figure.subplots(len(plain), 2, squeeze=False, sharex=True, sharey="row")
    for column, (title, drawn) in enumerate((("weak", weak), ("strong", strong))):
        axes[0, column].set_title(f"{title} views (plain in black)", fontsize=9)
        for row in range(len(plain)):
            for view in drawn:
                axes[row, column].plot(view[row].cpu().numpy(), linewidth=0.7)
            axes[row, column].plot(plain[row].cpu().numpy(), color="black", linewidth=1.0)
    for axis in axes[-1]:
        axis.set_xlabel("feature")
    return figure


def _saved(figure: Figure, path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as aside:
            figure.savefig(aside, format="png")
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInput(
            f"The picture of the views cannot be written to {path} ({reason}); give another file."
        ) from error
    return path
