"""Data of the bench: smaller sets made from the user's files, the same every time, or refused.

A prepared file's name holds a digest of its content, so that another source makes another file.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labelproof.bench.cell import Sources
from labelproof.errors import BadInput
from labelproof.files import written_whole
from labelproof.sources.npz import read_arrays
from labelproof.sources.published import digits

Arrays = Mapping[str, npt.NDArray[Any]]
LABEL_SETS = ("clean", "aggre", "rand1", "rand2", "rand3", "worst")


def vectors_file(sources: Sources, label_sets: tuple[str, ...]) -> Path:
    """The .npz of vectors that `--data` names, checked for the label sets asked for."""
    if sources.data is None:
        raise BadInput(
            "vectors needs --data FILE.npz with x, x_test, y_test and label arrays such as clean "
            "and worst; to try it without data add --scale tiny."
        )
    path = sources.data.resolve()
    if not path.is_file():
        raise BadInput(f"expected an .npz of vectors at {sources.data}, but no file is there.")
    _, shapes = read_arrays(path, set())
    missing = [k for k in ("x", "x_test", "y_test", "clean", *label_sets) if k not in shapes]
    if missing:
        raise BadInput(
            f"expected the arrays {', '.join(dict.fromkeys(missing))} in {path.name}, but it holds "
            f"{', '.join(sorted(shapes))}; add them, or restrict the label sets with --labels."
        )
    return path


def tiny_vectors(sources: Sources) -> Path:
    """The digits as vectors with three sets of wrong labels, for trying things out."""
    data = digits.load()
    assert data.test is not None
    assert data.labels is not None
    clean = np.asarray(data.labels, np.int64)
    arrays: dict[str, npt.NDArray[Any]] = {"clean": clean, "y_test": np.asarray(data.test.labels)}
    for name, share in (("aggre", 0.09), ("rand1", 0.17), ("worst", 0.4)):
        arrays[name] = _redrawn(clean, share)
    return store(
        sources.out, "digits-vectors", {"x": _flat(data.x), "x_test": _flat(data.test.x), **arrays}
    )


def _flat(x: Any) -> npt.NDArray[np.float32]:
    """One channel of the pictures as rows of numbers from 0 to 1."""
    import torch

    pixels = x.take(torch.arange(len(x))).numpy()[..., 0]
    return np.ascontiguousarray(pixels.reshape(len(pixels), -1).astype(np.float32) / 255)


def _redrawn(labels: npt.NDArray[np.int64], share: float) -> npt.NDArray[np.int64]:
    rng = np.random.default_rng(0)
    wrong = rng.random(len(labels)) < share
    return np.where(wrong, (labels + rng.integers(1, 10, len(labels))) % 10, labels)


def store(out: Path, stem: str, arrays: Arrays) -> Path:
    """Write arrays below out/data, whole or not at all; nothing where they are there already."""
    known = hashlib.sha256()
    for key in sorted(arrays):
        known.update(f"{key}{arrays[key].dtype}{arrays[key].shape}".encode())
        known.update(np.ascontiguousarray(arrays[key]).tobytes())
    path = (out / "data" / f"{stem}-{known.hexdigest()[:8]}.npz").resolve()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as aside, zipfile.ZipFile(aside, "w") as archive:
            for key in sorted(arrays):
                # numpy.savez would put the time of day into the file
                with archive.open(zipfile.ZipInfo(f"{key}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.ascontiguousarray(arrays[key]))
    return path
