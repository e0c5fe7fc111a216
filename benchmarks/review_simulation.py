"""How much a review gains per check: in random order, by suspicion, and by expected gain.

The clean labels of CIFAR-10N play the reviewer. Scores come from five-fold cross-fitting of a small
network on the noisy labels; the noise model and the orders are labelproof's own. After some of the
checks the noise model is fitted again. Two accuracies of the labels are printed: with the given
label, or with the model's best guess, where nobody checked.

    python benchmarks/review_simulation.py DATA.npz --label-key rand1 --truth-key clean
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from labelproof.judging.next_check import check_order, expected_gain, posterior_after

MARKS = (0, 100, 500, 1000, 2000)
BATCH = 100
REFITS = (100, 300, 500, 1000, 1500)  # checks after which the noise model is fitted again
Pick = Callable[[Tensor, Tensor], np.ndarray]


def out_of_fold(x: Tensor, y: Tensor, classes: int, epochs: int = 8, folds: int = 5) -> Tensor:
    scores = torch.zeros(len(x), classes)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    for fold in range(folds):
        held = order[fold::folds]
        rest = torch.ones(len(x), dtype=torch.bool)
        rest[held] = False
        scores[held] = trained(x[rest], y[rest], classes, epochs)(x[held]).detach()
    return scores


def trained(x: Tensor, y: Tensor, classes: int, epochs: int) -> nn.Module:
    torch.manual_seed(0)
    width = x.shape[1]
    layers = (nn.Linear(width, 512), nn.ReLU(), nn.Dropout(0.3), nn.Linear(512, classes))
    net = nn.Sequential(*layers)
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-3)
    for _ in range(epochs):
        for part in torch.randperm(len(x)).split(256):
            loss = nn.functional.cross_entropy(net(x[part]), y[part])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return net.eval()


def simulate(scores: Tensor, given: Tensor, truth: Tensor, pick: Pick) -> list[tuple[float, float]]:
    """Accuracies (given where unchecked, best guess where unchecked) at each mark."""
    done = torch.zeros(0, dtype=torch.long)
    posterior = posterior_after(scores, given, done, done)
    results = []
    for checked in range(0, max(MARKS) + 1, BATCH):
        if checked in MARKS:
            results.append((_right(given, done, truth), _right(posterior.argmax(1), done, truth)))
        open_ = torch.ones(len(given), dtype=torch.bool)
        open_[done] = False
        order = pick(posterior, open_)
        done = torch.cat([done, torch.from_numpy(order[:BATCH].copy())])
        if checked + BATCH in REFITS:
            posterior = posterior_after(scores, given, done, truth[done])
    return results


def _right(labels: Tensor, done: Tensor, truth: Tensor) -> float:
    labels = labels.clone()
    labels[done] = truth[done]
    return (labels == truth).double().mean().item()


def orders(given: Tensor, classes: int) -> dict[str, Pick]:
    rng = np.random.default_rng(0)
    chance = rng.random(len(given))

    def by_gain(posterior: Tensor, open_: Tensor) -> np.ndarray:
        clean = posterior.gather(1, given[:, None]).squeeze(1).numpy()
        best = posterior.max(1)
        pairs = (given * classes + best.indices).numpy()
        gain = expected_gain(clean, best.values.numpy())
        return check_order(gain, pairs, open_=open_.numpy())

    def by_suspicion(posterior: Tensor, open_: Tensor) -> np.ndarray:
        clean = posterior.gather(1, given[:, None]).squeeze(1)
        return clean.masked_fill(~open_, 2.0).argsort().numpy()

    def at_random(posterior: Tensor, open_: Tensor) -> np.ndarray:
        return np.argsort(np.where(open_.numpy(), chance, 2.0))

    return {"random": at_random, "suspicion": by_suspicion, "expected gain": by_gain}


def draw(found: dict[str, list[tuple[float, float]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.6))
    for name, values in found.items():
        axes.plot(MARKS, [100 * best for _, best in values], marker="o", label=name)
    axes.set_xlabel("labels checked")
    axes.set_ylabel("right labels (%)")
    axes.legend(title="order")
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("data")
    options.add_argument("--label-key", default="rand1")
    options.add_argument("--truth-key", default="clean")
    options.add_argument("--most", type=int, default=50_000)
    options.add_argument("--figure", type=Path)
    options.add_argument("--scores", help=".npz with out-of-fold `logits` computed before")
    told = options.parse_args()
    arrays = np.load(told.data)
    x = torch.from_numpy(arrays["x"][: told.most].astype(np.float32))
    given = torch.from_numpy(arrays[told.label_key][: told.most].astype(np.int64))
    truth = torch.from_numpy(arrays[told.truth_key][: told.most].astype(np.int64))
    classes = int(max(given.max(), truth.max())) + 1
    if told.scores:
        scores = torch.from_numpy(np.load(told.scores)["logits"][: told.most].astype(np.float32))
    else:
        scores = out_of_fold(x / x.std(), given, classes)
    found = {}
    print("order, checks: right with given label elsewhere / with best guess elsewhere")
    for name, pick in orders(given, classes).items():
        found[name] = simulate(scores, given, truth, pick)
        cells = (f"{n}: {a:.2%} / {b:.2%}" for n, (a, b) in zip(MARKS, found[name], strict=True))
        print(f"{name:14} {'  '.join(cells)}", flush=True)
    if told.figure:
        draw(found, told.figure)


if __name__ == "__main__":
    main()
