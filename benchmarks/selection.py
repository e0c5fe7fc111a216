"""Our two-Gaussian split against scikit-learn's mixture, on the same margins, in one run.

    OMP_NUM_THREADS=1 python benchmarks/selection.py

Seconds are CPU seconds, the best of some rounds.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from sklearn.mixture import GaussianMixture

from labelproof.functional import min_max, mirrored_gaussians, two_gaussians


def seconds(function, repeat: int = 5) -> float:
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def scikit_learn(values: torch.Tensor) -> np.ndarray:
    x = min_max(values).numpy().reshape(-1, 1)
    mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=0).fit(x)
    return mixture.predict_proba(x)[:, mixture.means_.argmax()]


def margins(rng: np.random.Generator, n: int) -> torch.Tensor:
    wrong = rng.random(n) < 0.3
    return torch.from_numpy(np.where(wrong, rng.normal(-3, 3, n), rng.normal(4, 2.3, n)))


def main() -> None:
    rng = np.random.default_rng(0)
    print("| examples | scikit-learn / two_gaussians | scikit-learn / mirrored | same selection |")
    print("|---:|---:|---:|---:|")
    for n in (5_000, 50_000, 1_000_000):
        values = margins(rng, n)
        reference = seconds(lambda v=values: scikit_learn(v), repeat=3)
        ours = seconds(lambda v=values: two_gaussians(v))
        mirrored = seconds(lambda v=values: mirrored_gaussians(v))
        same = ((two_gaussians(values).numpy() > 0.5) == (scikit_learn(values) > 0.5)).mean()
        print(f"| {n} | {reference / ours:.1f} | {reference / mirrored:.1f} | {same:.2%} |")
    many = margins(rng, 10_000_000).float()
    for split in (two_gaussians, mirrored_gaussians):
        print(f"10,000,000 margins, {split.__name__}: {seconds(lambda s=split: s(many)):.2f} s")


if __name__ == "__main__":
    main()
