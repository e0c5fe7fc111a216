"""How much encoders are worth: logistic regression and nearest neighbours on their vectors.

    python benchmarks/encoders.py photos PICTURES.npz    # x, xt (uint8), yt, clean, and label sets
    python benchmarks/encoders.py texts TEXTS.tsv        # a label, a tab, a text in each line
    python benchmarks/encoders.py speed 10000            # so many made JPEGs of 256 pixels

For photos: test accuracy of a logistic regression trained on each label set, and the AUROC of
finding wrong labels by the vote of 20 neighbours. For texts: accuracy in three folds. For speed:
seconds of reading and encoding a folder against bare decoding plus bare forward passes, by the
clock and of CPU time. The aim is at most 1.15 times as many.
"""

from __future__ import annotations

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from memory import EDGE, make_folder
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score

from labelproof.data.encoders.encode import BATCH, encode
from labelproof.data.encoders.picture_encoding import BUILT_IN, DEFAULT
from labelproof.data.encoders.texts import fit_texts, use_minilm
from labelproof.data.examples import Resident
from labelproof.data.readers import load
from labelproof.data.readers.pixels import decode

NEIGHBOURS = 20


def photos(path: Path) -> None:
    data = np.load(path)
    sets = [name for name in data.files if name not in ("x", "xt", "yt", "idx")]
    for encoder in BUILT_IN.values():
        start = time.process_time()
        x, xt = (
            encode(Resident(torch.from_numpy(data[name])), encoder).data.float().numpy()
            for name in ("x", "xt")
        )
        cost = 1000 * (time.process_time() - start) / (len(x) + len(xt))
        mean, scale = x.mean(0), x.std()
        x, xt = (x - mean) / scale, (xt - mean) / scale
        print(f"{encoder.name}: {cost:.1f} ms of CPU time a picture")
        for name in sets:
            print(f"  {name}: {_photo_line(x, data[name], xt, data['yt'], data['clean'])}")


def speed(count: Path) -> None:
    """Time of encoding a folder against its bare parts."""
    encoder = BUILT_IN[DEFAULT]
    with tempfile.TemporaryDirectory() as root:
        make_folder(Path(root), int(str(count)))
        path = Path(root) / "images"
        blobs = [file.read_bytes() for file in sorted(path.rglob("*.jpg"))]
        begun = _now()
        with ThreadPoolExecutor() as threads:
            pixels = np.stack(list(threads.map(lambda data: decode(data, (EDGE, EDGE)), blobs)))
        decoding = _now() - begun
        work = encoder.open()
        work(pixels[:BATCH])  # the first pass pays for set-up
        begun = _now()
        for place in range(0, len(pixels), BATCH):
            work(pixels[place : place + BATCH])
        forward = _now() - begun
        del pixels
        begun = _now()
        encode(load(path).x, encoder)
        whole = _now() - begun
    for name, place in {"by the clock": 0, "of CPU time": 1}.items():
        bare = decoding[place] + forward[place]
        print(
            f"{len(blobs)} pictures, seconds {name}: bare decoding {decoding[place]:.1f}, bare "
            f"forward {forward[place]:.1f}, reading and encoding {whole[place]:.1f}, which is "
            f"{whole[place] / bare:.2f} times as much"
        )


def _now() -> np.ndarray:
    return np.array([time.perf_counter(), time.process_time()])


def _photo_line(
    x: np.ndarray, y: np.ndarray, xt: np.ndarray, yt: np.ndarray, clean: np.ndarray
) -> str:
    model = LogisticRegression(C=0.003, max_iter=100).fit(x, y)
    text = f"accuracy {model.score(xt, yt):.1%}"
    wrong = y != clean
    if not wrong.any():
        return text
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    alike = unit @ unit.T
    np.fill_diagonal(alike, -np.inf)
    near = np.argpartition(-alike, NEIGHBOURS, 1)[:, :NEIGHBOURS]
    agree = (y[near] == y[:, None]).mean(1)
    return f"{text}, AUROC of wrong labels {roc_auc_score(wrong, -agree):.3f}"


def texts(path: Path) -> None:
    lines = [line.split("\t", 1) for line in path.read_text(encoding="utf-8").splitlines()]
    labels, words = np.array([line[0] for line in lines]), [line[1] for line in lines]
    _, plain = fit_texts(words, "text", path.name)
    start = time.process_time()
    meant = use_minilm("text").transform(words)
    print(f"minilm: {1000 * (time.process_time() - start) / len(words):.1f} ms of CPU time a text")
    both = np.concatenate([plain, meant], 1)
    for name, x in {"tf-idf": plain, "minilm": meant, "tf-idf+minilm": both}.items():
        model = LogisticRegression(C=10.0, max_iter=300)
        print(f"  {name}: accuracy {cross_val_score(model, x, labels, cv=3).mean():.1%}")


if __name__ == "__main__":
    {"photos": photos, "texts": texts, "speed": speed}[sys.argv[1]](Path(sys.argv[2]))
