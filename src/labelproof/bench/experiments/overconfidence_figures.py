"""Figures 1 and 2 of the over-confidence experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from labelproof import metrics
from labelproof.bench import figures
from labelproof.bench.experiments import overconfidence_measure as measure
from labelproof.bench.experiments.overconfidence_measure import Outputs

Runs = Mapping[str, Outputs]  # by name of the method
FIRST = 0  # the network whose view of the training set is drawn
SHOWN = (measure.ONE, measure.MEAN_PROBABILITY, measure.SUMMED_LOGITS)
CALIBRATED = "mean logits, calibrated"
COUNTED = ("b-confidence", "c-logit")  # histograms, compared by their heights


def figure_1(folder: Path) -> list[Path]:
    """Logits, softmax and calibrated softmax of the paper's two examples."""
    groups = ["class 1", "cat", "class 3", "class 4"]
    gamma = measure.FIGURE_1_GAMMA
    names = ("x₁: much speaks for a cat", "x₂: nothing does, but less for the rest")

    def parts(values: Sequence[Sequence[float]]) -> dict[str, Sequence[float]]:
        return dict(zip(names, values, strict=True))

    def chances(title: str, gamma: float) -> figures.Panel:
        values = parts(measure.figure_1(gamma).tolist())
        return figures.bars(title, "probability", groups, values, top=0.8)

    panels = [
        figures.bars("logits", "logit", groups, parts(measure.LOGITS), digits=0),
        chances("softmax: the same for both", 0),
        chances(f"calibrated softmax, γ = {gamma:g}: less for x₂", gamma),
    ]
    title = "Softmax sees differences of logits alone; calibrated softmax also their size"
    return figures.draw(folder / "figure1", title, panels)


def figure_2(folder: Path, runs: Runs, data: str, ending: str = "") -> list[Path]:
    """The four parts of figure 2, two panels each; `ending` ends the names of their files."""
    parts = {
        "a-reliability": ("Confidence against accuracy, test set", reliability(runs)),
        "b-confidence": ("Maximum probability on the training set", confidence(runs)),
        "c-logit": ("Logit of the given label on the training set", logit(runs)),
        "d-selection": ("Finding wrong labels: small loss or large margin", selection(runs)),
    }
    return [
        path
        for name, (title, panels) in parts.items()
        for path in figures.draw(
            folder / f"figure2{name}{ending}",
            f"{title}\n{data}",
            panels,
            same_height=name in COUNTED,
        )
    ]


def reliability(runs: Runs) -> list[figures.Panel]:
    """(a) Reliability of three ways to make probabilities, and after calibration."""
    return [figures.reliability(name, _calibration_curves(run)) for name, run in runs.items()]


def _calibration_curves(run: Outputs) -> dict[str, figures.Calibrated]:
    known = measure.variants(run)
    shown = {name: known[name].before[FIRST] for name in SHOWN}
    shown[CALIBRATED] = known[measure.MEAN_LOGITS].after[FIRST]
    return {name: _curve(probs, run.test_y) for name, probs in shown.items()}


def _curve(probs: Tensor, labels: Tensor) -> figures.Calibrated:
    bins = measure.FIGURE_BINS
    return figures.Calibrated(
        diagram=metrics.reliability(probs, labels, bins), ece=metrics.ece(probs, labels, bins)
    )


def confidence(runs: Runs) -> list[figures.Panel]:
    """(b) Maximum probability of one network, right and wrong labels apart."""
    edges = np.linspace(0, 1, 21)
    return [
        figures.histogram(
            name,
            "maximum probability, one network",
            _apart(run, run.probability(run.train[FIRST]).amax(1)),
            edges,
        )
        for name, run in runs.items()
    ]


def logit(runs: Runs) -> list[figures.Panel]:
    """(c) Logit of the given label by one network, right and wrong labels apart."""
    values = {
        name: _apart(run, run.train[FIRST].gather(1, run.given[:, None]).squeeze(1))
        for name, run in runs.items()
    }
    edges = figures.shared_edges((v for parts in values.values() for v in parts.values()), 40)
    xlabel = "logit of the given label, one network"
    return [figures.histogram(name, xlabel, parts, edges) for name, parts in values.items()]


def _apart(run: Outputs, values: Tensor) -> dict[str, figures.Numbers]:
    found = values.double().numpy()
    wrong = run.wrong.numpy()
    return {"right labels": found[~wrong], "wrong labels": found[wrong]}


def selection(runs: Runs) -> list[figures.Panel]:
    """(d) ROC of both criteria on the same network."""
    return [
        figures.roc(f"network of {name}", _roc_curves(run), len(run.given))
        for name, run in runs.items()
    ]


def _roc_curves(run: Outputs) -> dict[str, figures.Roc]:
    wrong = run.wrong
    curves = {}
    for name, score in measure.suspicion(run, FIRST).items():
        accused, found = figures.roc_points(wrong.numpy(), score.double().numpy())
        auroc = metrics.error_auroc(wrong, score)
        curves[name] = figures.Roc(false_alarms=accused, found=found, auroc=auroc)
    return curves
