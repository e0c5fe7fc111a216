"""Texts that are not English: `labelproof fit` by default beside TF-IDF, a regression and cleanlab.

    python benchmarks/languages.py FORTUNES ru,es,it,pl --out FOLDER

FORTUNES is a folder as Debian's packages fortunes-ru, fortunes-es and so on install it
(/usr/share/games/fortunes): a folder for each language and a file for each topic. A few topics are
the classes, a quarter of the texts is for testing, and a fifth of the other labels is made wrong.
The rival counts words and pairs of words. It chooses its penalty by cross-validation on the same
wrong labels; cleanlab ranks these by the regression's out-of-fold probabilities.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from cleanlab.rank import get_label_quality_scores
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

TOPICS = {
    "de": ("fussball", "letzteworte", "ms", "regeln", "witze", "woerterbuch"),
    "es": ("arte", "ciencia", "informatica", "leydemurphy", "refranes", "sentimientos"),
    "it": ("computer", "formiche", "leggi", "luke", "norm", "zuse"),
    "pl": ("argante", "chuck-norris", "dowcipy", "imiona", "linuxpl", "pld"),
    "cs": ("citace", "citat", "klasik-cz", "market", "zemeplocha"),
    "ru": ("computer", "education", "love", "murphy", "polit", "war"),
}
MOST = 300  # texts a topic
WRONG, TESTED = 0.2, 0.25


def texts_of(folder: Path, topic: str) -> list[str]:
    path = next(p for p in (folder / topic, folder / f"{topic}.fortunes") if p.is_file())
    parts = re.split(r"^%\s*$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return sorted({" ".join(part.split()) for part in parts} - {""})


def written(path: Path, texts: list[str], given: np.ndarray, true: np.ndarray) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label", "true"])
        writer.writerows(zip(texts, given, true, strict=True))


def compare(folder: Path, language: str, out: Path) -> str:
    rng, topics = np.random.default_rng(0), np.array(TOPICS[language])
    found = [(text, topic) for topic in topics for text in _some(texts_of(folder, topic), rng)]
    order = rng.permutation(len(found))
    texts, true = [found[row][0] for row in order], np.array([found[row][1] for row in order])
    cut = int(TESTED * len(texts))
    given = true[cut:].copy()
    for row in np.flatnonzero(rng.random(len(given)) < WRONG):
        given[row] = rng.choice(topics[topics != given[row]])
    out.mkdir(parents=True, exist_ok=True)
    written(out / "train.csv", texts[cut:], given, true[cut:])
    written(out / "test.csv", texts[:cut], true[:cut], true[:cut])
    theirs, found_wrong = rival(texts, given, true, cut)
    words = "train.csv --text-column text --label-column label --truth-key true --test test.csv"
    command = [sys.executable, "-m", "labelproof", "fit", *words.split(), "--out", "run"]
    start = time.perf_counter()
    subprocess.run(command, cwd=out, check=True)
    took = time.perf_counter() - start
    summary = json.loads((out / "run" / "summary.json").read_text())
    chosen = json.loads((out / "run" / "run.json").read_text())["data"]["encoding"]["encoder"]
    measured, stated = summary["suspect_detection"]["precision"], _stated(summary)
    return (
        f"{language}: {len(given)} texts, accuracy and AUROC of wrong labels: TF-IDF, regression "
        f"and cleanlab {theirs:.1%}, {found_wrong:.3f}; labelproof "
        f"{summary['accuracy']['last']:.1%}, {summary['error_auroc']:.3f} ({chosen}, "
        f"{took:.0f} s); {summary['suspects']} suspects, {measured:.0%} wrong, "
        f"{stated} stated"
    )


def _stated(summary: dict[str, Any]) -> str:
    """The precision that a run states of its suspects: a number, else an interval."""
    if summary["suspect_precision_estimate"] is not None:
        return f"{summary['suspect_precision_estimate']:.0%}"
    low, high = summary["suspect_precision_interval"] or (0, 1)
    return f"{low:.0%} to {high:.0%}"


def rival(texts: list[str], given: np.ndarray, true: np.ndarray, cut: int) -> tuple[float, float]:
    """Test accuracy, and the AUROC of finding the wrong ones among the given labels."""
    counter = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2))
    x, codes = counter.fit_transform(texts[cut:]), np.unique(given, return_inverse=True)[1]
    model = LogisticRegressionCV(Cs=(1, 10, 100), cv=3, max_iter=300).fit(x, given)
    right = model.predict(counter.transform(texts[:cut])) == true[:cut]
    again = LogisticRegression(C=float(model.C_[0]), max_iter=300)
    probabilities = cross_val_predict(again, x, codes, cv=5, method="predict_proba")
    quality = get_label_quality_scores(codes, probabilities)
    return float(right.mean()), float(roc_auc_score(given != true[cut:], -quality))


def _some(texts: list[str], rng: np.random.Generator) -> list[str]:
    return [texts[row] for row in rng.permutation(len(texts))[:MOST]]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    options.add_argument("languages", type=lambda text: text.split(","))
    options.add_argument("--out", type=Path, required=True)
    told = options.parse_args()
    for name in told.languages:
        print(compare(told.folder / name, name, told.out / name), flush=True)


if __name__ == "__main__":
    main()
