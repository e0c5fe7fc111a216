"""Tables of the over-confidence experiment: figure 1's numbers, calibration, and selection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from labelproof.bench.experiments import overconfidence_measure as measure
from labelproof.bench.experiments.overconfidence_measure import Honesty, Outputs
from labelproof.bench.results import mean_spread
from labelproof.bench.tables import Table

Runs = Mapping[str, Sequence[Outputs]]  # the seeds of every method
EVEN = 0.01  # gaps up to this are called neither over- nor under-confident
PUBLISHED_1 = {0.0: ("0.71", "0.71"), measure.FIGURE_1_GAMMA: ("0.58", "0.37")}
PUBLISHED_2A = {"DivideMix": ("94.4", "0.11"), "DPC": ("95.2", "0.04")}  # accuracy: table 1
PUBLISHED_2D = {("DivideMix", "small loss"): "0.975", ("DPC", "large margin"): "0.980"}
CALIBRATION_HEADER = (
    "method",
    "probability",
    "accuracy (%)",
    "confidence (%)",
    "gap",
    f"ECE, {measure.BINS} bins",
    f"ECE, {measure.FIGURE_BINS} bins",
    "calibrated: confidence (%)",
    "calibrated: gap",
    f"calibrated: ECE, {measure.BINS} bins",
    "published: accuracy (%)",
    f"published: ECE, {measure.FIGURE_BINS} bins",
)


def figure_1() -> Table:
    """Probability of "cat" for the paper's two examples, with what the paper prints."""
    c = len(measure.LOGITS[0])
    gammas = {
        0.0: "softmax",
        measure.FIGURE_1_GAMMA: f"calibrated softmax, γ = {measure.FIGURE_1_GAMMA:g}",
        10 / c: f"calibrated softmax, γ = 10 / C = {10 / c:g}",
    }
    rows = []
    for gamma, name in gammas.items():
        ours = [f"{p:.3f}" for p in measure.figure_1(gamma)[:, measure.CAT].tolist()]
        rows.append((name, *ours, *PUBLISHED_1.get(gamma, ("", ""))))
    return Table(
        title="Figure 1: probability of the class cat",
        header=("", "x1 = [0, 2, 0, 0]", "x2 = [-2, 0, -2, -2]", "published: x1", "published: x2"),
        rows=tuple(rows),
        notes=(
            "The published numbers need γ = 1, although the paper uses γ = 10 / C everywhere else.",
        ),
    )


def calibration(runs: Runs, data: str, closing: Sequence[str]) -> Table:
    """Confidence, accuracy and ECE of every way to make a probability, before and after."""
    rows = [row for name, seeds in runs.items() for row in _calibration_rows(name, seeds)]
    size = len(next(iter(runs.values()))[0].test_y)
    notes = (
        "Gap is confidence minus accuracy: positive is over-confident, negative under-confident. "
        "`one network` is the mean over the two. `mean logits` is what the package predicts with, "
        "`summed logits` the paper's rule for the class. Before calibration the probability is "
        "the method's own: softmax for DivideMix, calibrated softmax for DPC.",
        "Calibration is the run's own, fitted to the mean logits without true labels. A scale "
        "fitted to summed logits would be half of it, so these two agree after calibration.",
        "Published: ECE as printed in figure 2a of the paper and accuracy of its table 1, for "
        "CIFAR-10 with 50% symmetric noise; which probability was measured is not said, so they "
        "stand in the first row of each method. A curve below the diagonal cannot have an ECE of "
        "0.11 at an accuracy of 94.4%.",
    )
    return Table(
        title=f"Over- or under-confident? {data}, {size:,} test examples",
        header=CALIBRATION_HEADER,
        rows=tuple(rows),
        notes=(*notes, *closing),
        words=2,
    )


def _calibration_rows(name: str, seeds: Sequence[Outputs]) -> list[tuple[str, ...]]:
    found = [(measure.variants(run), run.test_y) for run in seeds]
    rows: list[tuple[str, ...]] = []
    for variant in found[0][0]:
        before = [measure.honesty(known[variant].before, y) for known, y in found]
        after = [measure.honesty(k[variant].after, y) for k, y in found if k[variant].after]
        said = ("", "") if rows else PUBLISHED_2A.get(name, ("", ""))
        rows.append((name, variant, *_before(before), *_after(after), *said))
    return rows


def _before(seeds: Sequence[Honesty]) -> tuple[str, ...]:
    return (
        _shown(seeds, lambda h: 100 * h.accuracy, 1),
        _shown(seeds, lambda h: 100 * h.confidence, 1),
        _gap(seeds),
        _shown(seeds, lambda h: h.ece, 3),
        _shown(seeds, lambda h: h.ece_figure, 3),
    )


def _after(seeds: Sequence[Honesty]) -> tuple[str, ...]:
    if not seeds:
        return ("", "", "")
    return (
        _shown(seeds, lambda h: 100 * h.confidence, 1),
        _gap(seeds),
        _shown(seeds, lambda h: h.ece, 3),
    )


def _shown(seeds: Sequence[Honesty], read: Callable[[Honesty], float], digits: int) -> str:
    return _mean([read(seed) for seed in seeds], digits)


def _mean(values: Sequence[float], digits: int, sign: str = "") -> str:
    found = mean_spread(values)
    assert found is not None
    text = f"{found[0]:{sign}.{digits}f}"
    return f"{text} ± {found[1]:.{digits}f}" if len(values) > 1 else text


def _gap(seeds: Sequence[Honesty]) -> str:
    gaps = [seed.gap for seed in seeds]
    mean = sum(gaps) / len(gaps)
    word = "" if abs(mean) <= EVEN else " over" if mean > 0 else " under"
    return _mean(gaps, 3, sign="+") + word


def selection(runs: Runs, data: str, closing: Sequence[str]) -> Table:
    """AUROC of both criteria on the networks of both methods."""
    rows = []
    for name, seeds in runs.items():
        found = [measure.selection(run) for run in seeds]
        for criterion in found[0]:
            auroc = _mean([seed[criterion] for seed in found], 4)
            rows.append((name, criterion, auroc, PUBLISHED_2D.get((name, criterion), "")))
    size = len(next(iter(runs.values()))[0].given)
    notes = (
        "Both criteria score the same networks (mean over the two) on the training examples they "
        "were trained on; the loss is the one the method is trained with.",
        "Published: figure 2d of the paper, CIFAR-10 with 50% symmetric noise. It does not say "
        "whose networks were scored; we read it as each method's own criterion.",
    )
    return Table(
        title=f"Finding wrong labels by loss or by margin: {data}, {size:,} labels",
        header=("networks of", "criterion", "AUROC", "published"),
        rows=tuple(rows),
        notes=(*notes, *closing),
        words=2,
    )
