"""How right a consensus is on simulated crowds: majority, Dawid-Skene, cleanlab, ours.

Sparse crowds of many annotators whose skill varies, with spammers, people who always say one class,
and examples that are hard for everybody. All that use a classifier get the same out-of-fold
probabilities of a softmax regression. True labels only measure.

    python benchmarks/crowds.py
    python benchmarks/crowds.py --data DATA.npz --truth-key clean
    python benchmarks/crowds.py --data DATA.npz --truth-key clean --votes-key votes

With --votes-key the votes are real ones: an array (N, A) of the .npz, with -1 for none.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from cleanlab.multiannotator import get_label_quality_multiannotator
from crowdkit.aggregation import DawidSkene
from sklearn.datasets import load_digits, make_classification
from torch import Tensor

from labelproof.data.votes import Votes, majority
from labelproof.functional.softmax_regression import cross_fit, folds_of
from labelproof.judging.annotators import fit_crowd
from labelproof.judging.vote_labels import labels_from_votes

MOST = 2000  # examples
SPREAD = 4.0  # length of an input, after scaling


@dataclass(frozen=True, kw_only=True)
class People:
    """A crowd."""

    count: int
    votes: int  # an example
    skill: tuple[float, float]  # Beta distribution of the share of right labels
    spam: float = 0.0  # share of people who answer at random
    one: float = 0.0  # share of people who always say the same
    hard: float = 0.0  # spread of difficulty, in logits


CROWDS = {
    "few good votes": People(count=60, votes=3, skill=(8, 3)),
    "sparse, spammers": People(count=200, votes=5, skill=(6, 3), spam=0.15, one=0.05, hard=0.7),
    "many weak votes": People(count=200, votes=20, skill=(4, 4), spam=0.2, one=0.1, hard=1.0),
    "fifty votes, hard examples": People(count=400, votes=50, skill=(30, 2), hard=1.5),
}


def voted(truth: np.ndarray, classes: int, people: People, rng: np.random.Generator) -> Votes:
    """Everybody labels some examples; busy people many, most of them few."""
    size, count = len(truth), people.count
    busy = rng.pareto(1.5, count) + 0.1
    order = np.argsort(-np.log(rng.random((size, count))) / busy, axis=1)[:, : people.votes]
    skill = np.log(1 / (1 / rng.beta(*people.skill, size=count) - 1))
    ease = skill[None] - people.hard * rng.normal(size=(size, 1))
    right = rng.random((size, count)) < 1 / (1 + np.exp(-ease))
    habit = rng.integers(0, classes, (count, classes))[:, truth].T  # what each says for a class
    lure = rng.integers(0, classes, (size, 1))  # what everybody says by mistake
    chance = rng.integers(0, classes, (size, count))
    kind = rng.random((size, count))
    wrong = np.where(kind < 0.3, lure, np.where(kind < 0.7, habit, chance))
    said = np.where(right, truth[:, None], wrong)
    role = rng.random(count)
    said = np.where(role < people.spam, chance, said)
    always = (role >= people.spam) & (role < people.spam + people.one)
    said = np.where(always, rng.integers(0, classes, count), said)
    table = np.full((size, count), -1)
    np.put_along_axis(table, order, np.take_along_axis(said, order, 1), 1)
    table = table[:, (table >= 0).any(0)]
    return Votes(table=torch.tensor(table), annotators=tuple(map(str, range(table.shape[1]))))


def out_of_fold(x: np.ndarray, labels: Tensor, classes: int) -> Tensor:
    inputs = torch.from_numpy(x).float()
    inputs = (inputs - inputs.mean(0)) / inputs.std(0).clamp_min(1e-6)
    inputs = SPREAD * inputs / inputs.square().sum(1).mean().sqrt()
    fold = folds_of(labels, 5, torch.Generator().manual_seed(0))
    return cross_fit(inputs, labels, classes, fold).log_probs.double()


def dawid_skenes(votes: Votes) -> Tensor:
    long = votes.long()
    columns = {"task": long.rows, "worker": long.who, "label": long.label}
    frame = pd.DataFrame({name: values.numpy() for name, values in columns.items()})
    return torch.tensor(DawidSkene(n_iter=100).fit_predict(frame).sort_index().to_numpy())


def cleanlabs(votes: Votes, probs: Tensor) -> Tensor:
    table = votes.table.double().numpy()
    table[table < 0] = np.nan
    told = get_label_quality_multiannotator(table, probs.numpy(), verbose=False)
    return torch.tensor(told["label_quality"]["consensus_label"].to_numpy())


def sets(data: str | None, truth_key: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    if data:
        arrays = np.load(data)
        some = np.random.default_rng(0).permutation(len(arrays["x"]))[:MOST]
        return {"data": (arrays["x"][some].astype(np.float32), arrays[truth_key][some].astype(int))}
    binary = make_classification(MOST, 20, n_informative=8, class_sep=0.8, random_state=0)
    rare = make_classification(
        MOST, 20, n_informative=8, n_classes=4, weights=[0.75, 0.15, 0.07, 0.03], random_state=0
    )
    return {"digits": load_digits(return_X_y=True), "two classes": binary, "rare classes": rare}


def compared(name: str, x: np.ndarray, truth: Tensor, classes: int, votes: Votes) -> None:
    """Print how right each consensus is."""
    said = out_of_fold(x, labels_from_votes(votes, classes).labels, classes)
    found = (
        majority(votes, classes),
        dawid_skenes(votes),
        cleanlabs(votes, said.exp()),
        fit_crowd(votes, classes, said).consensus,
    )
    cells = (f"{(labels == truth).double().mean():.1%}" for labels in found)
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def real(path: str, truth_key: str, votes_key: str) -> None:
    arrays = np.load(path)
    table, truth = torch.from_numpy(arrays[votes_key]).long(), torch.from_numpy(arrays[truth_key])
    votes = Votes(table=table, annotators=tuple(map(str, range(table.shape[1]))))
    classes = int(max(table.max(), truth.max())) + 1
    compared(f"data | {len(table)} examples", arrays["x"].astype(np.float32), truth, classes, votes)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--data", help=".npz with vectors `x`; scikit-learn's digits otherwise")
    options.add_argument("--truth-key", default="clean")
    options.add_argument("--votes-key", help="array (N, A) of real votes, not simulated")
    told = options.parse_args()
    print("| data | crowd | majority | Dawid-Skene | cleanlab | ours |\n|---|---|---|---|---|---|")
    if told.data and told.votes_key:
        return real(told.data, told.truth_key, told.votes_key)
    for name, (x, y) in sets(told.data, told.truth_key).items():
        truth, classes = torch.from_numpy(np.asarray(y)).long(), int(y.max()) + 1
        for crowd, people in CROWDS.items():
            votes = voted(truth.numpy(), classes, people, np.random.default_rng(0))
            compared(f"{name} | {crowd}", x, truth, classes, votes)
    return None


if __name__ == "__main__":
    main()
