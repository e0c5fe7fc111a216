"""Every issue type of cleanlab's Datalab, planted once: what it finds, and what we find.

Each type has data of its own: scikit-learn's digits, a sample photo cut into pieces, or
simulated vectors. Both tools get the same vectors and held-out probabilities; pictures are read
from a folder, rows with blank cells from a CSV. A picture that we call blank counts as found for
each fault of pictures. Types of pictures need the package `cleanvision`.

    python benchmarks/issue_types.py
"""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import io
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from cleanlab import Datalab
from datasets import Dataset, Image
from health_vs_datalab import out_of_fold, planted
from PIL import Image as Pillow
from PIL import ImageFilter
from sklearn.datasets import load_digits, load_sample_images

from labelproof.data.readers import SourceOptions, load
from labelproof.judging import health, regions
from labelproof.report.findings import picture_findings
from labelproof.report.health_measure import BLANK
from labelproof.sklearn import find_label_issues

EACH = 6  # pictures with each fault
KINDS = {  # of pictures: cleanvision's name and ours
    "dark": "dark pictures",
    "light": "bright pictures",
    "blurry": "blurred pictures",
    "low_information": "plain pictures",
    "grayscale": "grey pictures",
    "odd_size": "pictures of odd size",
    "odd_aspect_ratio": "pictures of odd shape",
}
Rows = set[int]
Line = tuple[str, Rows, Rows, Rows]  # what, planted, ours, Datalab's


def issues(data: dict[str, object], kind: str, **told: object) -> Rows:
    """Rows with one type of issue, by Datalab."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        lab = Datalab(data, label_name="y")
        lab.find_issues(issue_types={kind: {}}, **told)
    return set(np.flatnonzero(lab.get_issues(kind)[f"is_{kind}_issue"]).tolist())


def of_rows() -> list[Line]:
    """Wrong labels, copies, outliers and a rare class in digits."""
    x, y, known = planted()
    near, probs = health.neighbours(torch.from_numpy(x)), out_of_fold(x, y)
    wrong = set(np.flatnonzero(find_label_issues(labels=y, pred_probs=probs)).tolist())
    against = set(np.flatnonzero(probs.argmax(1) != y).tolist())
    data, rare = {"y": y.tolist()}, {code for code, _ in health.rare_classes(torch.tensor(y), 10)}
    pairs = health.near_duplicates(near)
    harm = {row for row, _ in regions.harmful(near, torch.from_numpy(y))}
    bad, both = known["label issues"], {row for a, b, _ in pairs for row in (a, b)}
    kinds = (
        ("label", bad, wrong | against, {"pred_probs": probs}),
        ("near_duplicate", known["near duplicates"], both, {"features": x}),
        ("outlier", known["outliers"], {row for row, _ in health.outliers(near)}, {"features": x}),
        ("class_imbalance", rows_of(y, {3}), rows_of(y, rare), {}),
        ("data_valuation", bad, harm, {"features": x}),
    )
    return [(kind, true, mine, issues(data, kind, **told)) for kind, true, mine, told in kinds]


def rows_of(y: np.ndarray, codes: Rows) -> Rows:
    return set(np.flatnonzero(np.isin(y, list(codes))).tolist())


def in_sequence() -> Line:
    """Digits, each recorded next to those most like it."""
    x, y = load_digits(return_X_y=True)
    order = np.argsort((x - x.mean(0)) @ np.linalg.svd(x - x.mean(0), full_matrices=False)[2][0])
    x, y = x[order].astype(np.float32), y[order]
    near = health.neighbours(torch.from_numpy(x))
    mine = {row for row, _ in regions.in_order(near, torch.from_numpy(y))}
    return "non_iid", set(range(len(y))), mine, issues({"y": y.tolist()}, "non_iid", features=x)


def failing_group(seed: int = 0) -> Line:
    """A group far from the others, such as a new camera, that the model has never seen."""
    rng = np.random.default_rng(seed)
    place, y = rng.integers(0, 6, 900), rng.integers(0, 2, 900)
    x = 8 * np.eye(6, 20)[place] + rng.normal(size=(900, 20)) * 0.5
    side = np.where(place == 5, 1 - y, y)  # there the classes look the other way round
    x[np.arange(900), 10 + side] += 3
    probs, seen = np.empty((900, 2)), place != 5
    probs[seen] = out_of_fold(x[seen].astype(np.float32), y[seen])
    centres = np.stack([x[seen & (y == code)].mean(0) for code in (0, 1)])
    apart = ((x[~seen, None] - centres[None]) ** 2).sum(2)
    probs[~seen] = np.exp(-apart) / np.exp(-apart).sum(1, keepdims=True)
    near = health.neighbours(torch.from_numpy(x))
    given = torch.from_numpy(probs[np.arange(900), y])
    mine = {row for row, _ in regions.failing(near, given)}
    told = {"features": x, "pred_probs": probs}
    theirs = issues({"y": y.tolist()}, "underperforming_group", **told)
    return "underperforming_group", set(np.flatnonzero(~seen).tolist()), mine, theirs


def blank_rows(folder: Path) -> Line:
    """A table with rows of blank cells."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 5)), np.arange(200) % 2
    x[[11, 60, 142]] = np.nan
    with (folder / "t.csv").open("w", newline="") as file:
        rows = (
            [*("" if np.isnan(v) else v for v in row), f"k{c}"] for row, c in zip(x, y, strict=True)
        )
        csv.writer(file).writerows([["a", "b", "c", "d", "e", "label"], *rows])
    gaps = load(folder / "t.csv", SourceOptions()).gaps
    mine = set(torch.nonzero(gaps >= BLANK).squeeze(1).tolist())
    return "null", {11, 60, 142}, mine, issues({"y": y.tolist()}, "null", features=x)


def pieces(rng: np.random.Generator) -> tuple[list[Pillow.Image], np.ndarray]:
    """Pieces of the lower half of a photo, in two classes at random."""
    photo, y = load_sample_images().images[0], np.arange(240) % 2
    corners = zip(rng.integers(200, 330, len(y)), rng.integers(0, 540, len(y)), strict=True)
    return [Pillow.fromarray(photo[a : a + 96, b : b + 96]) for a, b in corners], y


def spoil(picture: Pillow.Image, kind: str) -> Pillow.Image:
    how: dict[str, Callable[[], Pillow.Image]] = {
        "dark": lambda: picture.point(lambda v: v // 6),
        "light": lambda: _framed(picture.point(lambda v: 245 + v // 26)),
        "blurry": lambda: picture.filter(ImageFilter.GaussianBlur(8)),
        "low_information": lambda: picture.convert("L").point(lambda v: 200 * (v > 90)),
        "grayscale": lambda: picture.convert("L"),
        "odd_size": lambda: picture.resize((900, 900)),
        "odd_aspect_ratio": lambda: picture.crop((0, 40, 96, 60)),
    }
    return how[kind]()


def _framed(picture: Pillow.Image) -> Pillow.Image:
    picture.paste(0, (0, 0, 12, 12))  # or nothing would be there
    return picture


def of_pictures(folder: Path, pictures: Sequence[Pillow.Image], y: np.ndarray) -> dict[str, Rows]:
    """Our findings in a folder of pictures, by row; a property of a class has its classes."""
    for row, (picture, code) in enumerate(zip(pictures, y, strict=True)):
        (folder / f"k{code}").mkdir(exist_ok=True, parents=True)
        picture.save(folder / f"k{code}" / f"{row:03}.png")
    train = load(folder, SourceOptions())
    rows = [int(Path(name).stem) for name in train.ids or ()]
    labels = torch.from_numpy(np.asarray([int(y[row]) for row in rows]))
    found = {one.kind: one for one in picture_findings(train, labels, ("k0", "k1"))}
    mine = {
        kind: {rows[e["index"]] for e in one.entries if "index" in e} for kind, one in found.items()
    }
    told = found["property of a class"].entries
    mine = {kind: found | mine["blank pictures"] for kind, found in mine.items()}
    return {**mine, "told": {int(one["class"][1:]) for one in told}}


def theirs_in_pictures(pictures: Sequence[Pillow.Image], y: np.ndarray) -> Datalab:
    def saved(picture: Pillow.Image) -> dict[str, object]:
        file = io.BytesIO()
        picture.save(file, "png")
        return {"bytes": file.getvalue(), "path": None}

    columns = {"image": [saved(one) for one in pictures], "y": y.tolist()}
    data = Dataset.from_dict(columns).cast_column("image", Image())
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        lab = Datalab(data, label_name="y", image_key="image")
        lab.find_issues()
    return lab


def faults(folder: Path) -> list[Line]:
    """Pictures with a fault each, and then a class that is darker than the other."""
    if importlib.util.find_spec("cleanvision") is None:
        print("cleanvision is not installed: types of pictures are left out")
        return []
    rng = np.random.default_rng(0)
    pictures, y = pieces(rng)
    places = rng.permutation(len(y))[: EACH * len(KINDS)].reshape(len(KINDS), EACH)
    for kind, rows in zip(KINDS, places, strict=True):
        for row in rows:
            pictures[row] = spoil(pictures[row], kind)
    mine, lab = of_pictures(folder / "faults", pictures, y), theirs_in_pictures(pictures, y)
    lines = []
    for (kind, ours), rows in zip(KINDS.items(), places, strict=True):
        theirs = set(np.flatnonzero(lab.get_issues(kind)[f"is_{kind}_issue"]).tolist())
        lines.append((kind, set(rows.tolist()), mine[ours], theirs))
    pictures, y = pieces(rng)
    pairs = zip(pictures, y, strict=True)
    pictures = [one.point(lambda v: v // 3) if code else one for one, code in pairs]
    mine, lab = of_pictures(folder / "told", pictures, y), theirs_in_pictures(pictures, y)
    found = lab.get_info("spurious_correlations")
    below = found["correlations_df"].query(f"score < {found['threshold']}")
    theirs = {0, 1} if "dark_score" in set(below["property"]) else set()
    return [*lines, ("spurious_correlations (classes)", {0, 1}, mine["told"], theirs)]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [*of_rows(), in_sequence(), failing_group(), blank_rows(folder), *faults(folder)]
    print("| type | planted | Datalab | ours | both | planted, Datalab | planted, ours |")
    print("|---|---|---|---|---|---|---|")
    for kind, true, mine, theirs in lines:
        counts = (true, theirs, mine, mine & theirs, true & theirs, true & mine)
        print(f"| {kind} | {' | '.join(str(len(one)) for one in counts)} |")


if __name__ == "__main__":
    main()
