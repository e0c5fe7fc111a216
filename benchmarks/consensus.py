"""How right a consensus of CIFAR-10N's annotators is: majority, Dawid-Skene, cleanlab, ours.

All that use a classifier get the same out-of-fold scores: five folds of a small network trained on
the shares of the votes. True labels only measure.

    python benchmarks/consensus.py DATA.npz --annotators rand1 rand2 rand3 --truth-key clean
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from crowds import cleanlabs, dawid_skenes
from review_simulation import out_of_fold

from labelproof.data.votes import Votes, majority, vote_shares
from labelproof.judging.agreement import annotator_quality, krippendorff_alpha
from labelproof.judging.annotators import fit_crowd


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("data")
    options.add_argument("--annotators", nargs="+", default=["rand1", "rand2", "rand3"])
    options.add_argument("--truth-key", default="clean")
    told = options.parse_args()
    arrays = np.load(told.data)
    table = torch.from_numpy(np.stack([arrays[n] for n in told.annotators], 1).astype(np.int64))
    truth = torch.from_numpy(arrays[told.truth_key].astype(np.int64))
    x = torch.from_numpy(arrays["x"].astype(np.float32))
    votes = Votes(table=table, annotators=tuple(told.annotators))
    classes = int(table.max()) + 1
    scores = out_of_fold(x / x.std(), vote_shares(votes, classes).float(), classes)
    crowd = fit_crowd(votes, classes, scores)
    found = {
        "majority": majority(votes, classes),
        "Dawid-Skene": dawid_skenes(votes),
        "classifier alone": scores.argmax(1),
        "cleanlab (CROWDLAB)": cleanlabs(votes, scores.softmax(1)),
        "ours": crowd.consensus,
    }
    print(f"Krippendorff's alpha {krippendorff_alpha(votes, classes):.3f}")
    for name, labels in found.items():
        print(f"{name:20} {(labels == truth).double().mean():.2%} right")
    quality = annotator_quality(votes, crowd)
    for who, name in enumerate(votes.annotators):
        low, high = quality.low[who].item(), quality.high[who].item()
        real = (table[:, who] == truth)[table[:, who] >= 0].double().mean()
        print(f"{name:20} right {low:.1%} to {high:.1%} of the time; in truth {real:.1%}")


if __name__ == "__main__":
    main()
