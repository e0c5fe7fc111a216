"""Whether random crops of the photos make better views of vectors than jitter does.

    python benchmarks/crops.py FOLDER        # as benchmarks/photos.py left it

Each photo is encoded five times: as it is, and as four random crops, half of them mirrored. The
vectors are brought to 256 principal directions, which makes training quicker. DPC is then trained
twice each with jittered vectors (the default), with vectors drawn among the five, and with both.
Printed: test accuracy, and AUROC of wrong labels by DPC's own scores.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from labelproof import pipeline
from labelproof.data.encoders.encode import encode
from labelproof.data.encoders.picture_encoding import BUILT_IN, DEFAULT
from labelproof.data.examples import Examples, Resident
from labelproof.data.readers import SourceOptions, load
from labelproof.data.task import Strong
from labelproof.runs import prepare
from labelproof.runs.spec import RunSpec
from labelproof.views.defaults import default_views
from labelproof.views.vector_views import VectorViews

CROPS, SEEDS = 4, (0, 1)
WIDTH = 256
SMALLEST = 0.5  # share of the picture that a crop shows at the least


@dataclass(frozen=True, eq=False)
class CropViews:
    """Views of rows that hold the vectors of a picture and of its crops, one after the other."""

    inner: VectorViews
    jitter: bool

    def plain(self, x: Tensor) -> Tensor:
        return self.inner.plain(x[:, :WIDTH])

    def weak(self, x: Tensor, rng: torch.Generator) -> Tensor:
        drawn = self._drawn(x, rng)
        return self.inner.weak(drawn, rng) if self.jitter else self.inner.plain(drawn)

    def strong(self, x: Tensor, rng: torch.Generator, own: Strong | None = None) -> Tensor:
        return self.inner.strong(self._drawn(x, rng), rng, own)

    def _drawn(self, x: Tensor, rng: torch.Generator) -> Tensor:
        which = torch.randint(x.shape[1] // WIDTH, (len(x),), generator=rng)
        return x.view(len(x), -1, WIDTH)[torch.arange(len(x)), which]


def cropped(pictures: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    edge, made = pictures.shape[1], []
    for picture in pictures:
        side = edge * np.sqrt(rng.uniform(SMALLEST, 1))
        left, top = rng.uniform(0, edge - side, 2)
        box = (left, top, left + side, top + side)
        crop = Image.fromarray(picture).resize((edge, edge), Image.Resampling.BILINEAR, box=box)
        turned = crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else crop
        made.append(np.asarray(turned))
    return np.stack(made)


def vectors(photos: Examples, test: Examples, cache: Path) -> tuple[Tensor, Tensor]:
    """Rows of all views (N, 5 * 256) of the photos, and of the test photos (M, 256)."""
    rng, pictures = np.random.default_rng(0), photos.x.take(torch.arange(len(photos))).numpy()
    views = [Resident(torch.from_numpy(cropped(pictures, rng))) for _ in range(CROPS)]
    encoder = BUILT_IN[DEFAULT]
    plain, new, *rest = (
        encode(x, encoder, cache=cache).data.float() for x in (photos.x, test.x, *views)
    )
    mean = plain.mean(0)
    directions = torch.linalg.svd(plain - mean, full_matrices=False).Vh[:WIDTH].T
    rows = torch.cat([(view - mean) @ directions for view in (plain, *rest)], 1)
    return rows, (new - mean) @ directions


def measured(data: Examples, test: Examples, seed: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        spec = RunSpec(method="dpc", calibrate="off", seed=seed, encoder="none", out=out)
        pipeline.run(spec, pipeline.Given(data=data, test=test))
        summary = json.loads((out / "summary.json").read_text())
    return summary["accuracy"]["last"], summary["error_auroc_own"]


def main(folder: Path) -> None:
    options = SourceOptions(labels=folder / "labels.csv", truth_key="true")
    photos = load(folder / "photos", options)
    test = load(folder / "test", like=photos)
    rows, new = vectors(photos, test, folder / "cache")
    single, every = (replace(photos, x=Resident(x)) for x in (rows[:, :WIDTH].contiguous(), rows))
    narrow, wide = (replace(test, x=Resident(new.repeat(1, times))) for times in (1, 1 + CROPS))
    inner = default_views(single, torch.as_tensor(photos.labels))
    assert isinstance(inner, VectorViews)
    for name, data, views in (
        ("jitter", single, inner),
        ("crops and jitter", every, CropViews(inner, jitter=True)),
        ("crops", every, CropViews(inner, jitter=False)),
    ):
        prepare.default_views = lambda *_, found=views, **__: found  # type: ignore[attr-defined]
        tested = narrow if data is single else wide
        numbers = np.array([measured(data, tested, seed) for seed in SEEDS])
        (accuracy, auroc), (spread, other) = numbers.mean(0), numbers.std(0)
        print(
            f"{name}: accuracy {accuracy:.1%} ± {spread:.1%}, AUROC {auroc:.3f} ± {other:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
