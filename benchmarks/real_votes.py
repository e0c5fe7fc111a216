"""Real votes on short texts, as .npz files for `crowds.py --votes-key votes`.

The texts and ratings are those of the source package of `vaderSentiment` on PyPI (MIT licence):

    pip download --no-deps --no-binary :all: vaderSentiment     # then unpack it
    python benchmarks/real_votes.py hutto_ICWSM_2014.tar.gz tweets --votes 10 --out tweets-10.npz
    python benchmarks/crowds.py --data tweets-10.npz --truth-key truth --votes-key votes

A rating from -4 to 4 is a vote for negative, neutral or positive. So many votes of each text are
drawn at random; nobody knows who voted, so a column is not one person. The truth is the majority of
the votes that were not drawn. Texts without one, or with too few votes, are left out. Vectors are
MiniLM's.
"""

from __future__ import annotations

import argparse
import re
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from labelproof.data.encoders.apply import encoded
from labelproof.data.readers import SourceOptions, load

SETS = {
    "tweets": "tweets",
    "products": "amazonReviewSnippets",
    "comments": "nytEditorialSnippets",
    "films": "movieReviewSnippets",
}


def lines(archive: tarfile.TarFile, name: str) -> list[list[str]]:
    member = next(one for one in archive.getnames() if one.endswith(name))
    text = archive.extractfile(member).read().decode("utf8", errors="replace")
    return [line.split("\t") for line in text.splitlines() if line.strip()]


def rated(archive: tarfile.TarFile, name: str) -> list[tuple[str, np.ndarray]]:
    """Texts with their ratings."""
    texts = {line[0]: line[2] for line in lines(archive, f"{name}_GroundTruth.txt")}
    found = lines(archive, f"{name}_anonDataRatings.txt")
    ratings = [(line[0], np.array(re.findall(r"-?\d+", line[3]), dtype=int)) for line in found]
    return [(texts[key], values) for key, values in ratings if key in texts]


def drawn(ratings: np.ndarray, votes: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Some votes, and the majority of the others; -1 where there is none."""
    said = rng.permutation(np.sign(ratings) + 1)
    counts = np.bincount(said[votes:], minlength=3)
    clear = len(said) > votes and (counts == counts.max()).sum() == 1
    return said[:votes], int(counts.argmax()) if clear else -1


def vectors(texts: list[str]) -> np.ndarray:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.csv"
        labels = ["a" if row % 2 else "b" for row in range(len(texts))]  # a table needs some
        pd.DataFrame({"text": texts, "label": labels}).to_csv(path, index=False)
        examples = load(str(path), SourceOptions(text_column="text", cache=Path(folder)))
        inputs = encoded(examples, "minilm", cache=Path(folder)).x
        return inputs.take(torch.arange(len(inputs))).numpy()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("archive", help="hutto_ICWSM_2014.tar.gz of the source package")
    options.add_argument("texts", choices=SETS)
    options.add_argument("--votes", type=int, default=10, help="votes to draw for each text")
    options.add_argument("--out", required=True)
    told, rng = options.parse_args(), np.random.default_rng(0)
    with tarfile.open(told.archive) as archive:
        found = [(text, *drawn(r, told.votes, rng)) for text, r in rated(archive, SETS[told.texts])]
    kept = [one for one in found if one[2] >= 0 and len(one[1]) == told.votes]
    texts, votes, truth = zip(*kept, strict=True)
    np.savez(told.out, x=vectors(list(texts)), votes=np.stack(votes), truth=np.array(truth))
    print(f"{told.out}: {len(kept)} texts with {told.votes} votes each")


if __name__ == "__main__":
    main()
