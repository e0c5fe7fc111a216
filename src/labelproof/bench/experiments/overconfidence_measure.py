"""How confident, how right and how well selected: the numbers of the over-confidence experiment.

Ordinary runs keep nothing for this: the weights in a run's folder are applied once more to the data
it was trained on. A probability of two networks can be made in several ways, and the paper does not
say which one its figure shows; here each is measured by itself, before and after calibration.

Shapes: C classes, K networks, M test examples, N training examples.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof import metrics
from labelproof.data.examples import Examples, Inputs
from labelproof.data.readers import load
from labelproof.errors import BadInput
from labelproof.judging.link import TINY, Link
from labelproof.methods.dividemix import DivideMix
from labelproof.methods.dpc import DPC
from labelproof.nets.heads import MultiHead
from labelproof.runs.folder import read_task
from labelproof.runs.labels_file import read_rows
from labelproof.runs.load import load_model
from labelproof.runs.model import Model
from labelproof.runs.reread import read_again
from labelproof.runs.spec import spec_of
from labelproof.training.run import forward_all

Heads = Mapping[str, Tensor]
BINS = 15  # of the tables
FIGURE_BINS = 10  # of the paper's reliability diagram
LOGITS = ((0.0, 2.0, 0.0, 0.0), (-2.0, 0.0, -2.0, -2.0))  # x1 and x2 of figure 1
CAT = 1  # the class that figure 1 speaks of
FIGURE_1_GAMMA = 1.0  # the printed numbers need it; γ C = 10 of all experiments would be 2.5

ONE, SECOND_HEAD = "one network", "one network, second head"
MEAN_PROBABILITY = "mean probability"
MEAN_LOGITS, SUMMED_LOGITS = "mean logits", "summed logits"
NO_GAMMA = "mean logits, γ left out"


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Logits of both networks of one run, with the labels to hold against them."""

    method: DPC | DivideMix
    link: Link  # the run's own calibration; leaves all as it is where there was none
    train: Tensor  # (K, N, C) of the classifier
    test: Heads  # by head, the classifier first: (K, M, C)
    given: Tensor  # (N,)
    truth: Tensor  # (N,)
    test_y: Tensor  # (M,)

    @property
    def wrong(self) -> Tensor:
        """Whether each given label is wrong, (N,)."""
        return self.given != self.truth

    @property
    def classifier(self) -> Tensor:
        """Logits of the test set by the head that predicts, (K, M, C)."""
        return next(iter(self.test.values()))

    def probability(self, logits: Tensor) -> Tensor:
        """The method's own probabilities: softmax, or DPC's calibrated softmax."""
        return self.method.objective.probability(logits)

    def linked(self, logits: Tensor) -> Tensor:
        """Probabilities by the run's calibration."""
        if self.link.of == "logits":
            return self.link(logits)
        return self.link(self.probability(logits).clamp_min(TINY).log())

    def loss(self, logits: Tensor) -> Tensor:
        """The loss of every given label by which the method is trained, (N,)."""
        return self.method.objective.of_labels(logits, self.given)


def read_outputs(folder: Path) -> Outputs:
    """Apply the networks of a run folder to its training and test data.

    Raises:
        BadInput: the run is of another method, its data is gone or has changed, or there are no
            true labels or no test data to measure with.
    """
    record, classes, size = read_task(folder)
    model = load_model(folder).model
    if not isinstance(model.method, DPC | DivideMix):
        raise BadInput(f"{folder} is a run of {record['method']}; expected dpc or dividemix.")
    rows = read_rows(folder, classes, size)
    train = read_again(folder, record, rows)
    spec = spec_of(record, folder)
    test = load(spec.test, spec.reading, train) if spec.test else train.test
    if test is None or test.labels is None:
        raise BadInput(f"the run in {folder} had no test data with labels; fit again with --test.")
    return Outputs(
        method=model.method,
        link=model.link,
        train=_logits(model, train.x)["label"],
        test=_logits(model, test.x, all_heads=True),
        given=torch.from_numpy(rows.labels()),
        truth=_truth(train, noisy=bool(record.get("noise")), folder=folder),
        test_y=torch.as_tensor(test.labels).long(),
    )


def _truth(train: Examples, noisy: bool, folder: Path) -> Tensor:
    """True labels; where noise was put in on purpose, the labels as they were read."""
    known = train.truth if train.truth is not None else train.labels if noisy else None
    if known is None:
        raise BadInput(
            f"the true labels of the run in {folder} are not known; fit again with --noise or "
            "--truth-key."
        )
    return torch.as_tensor(known).long()


def _logits(model: Model, x: Inputs, all_heads: bool = False) -> dict[str, Tensor]:
    """Logits (K, M, C) by head, on the CPU."""
    nets = [learner.net for learner in model.states[0].learners]
    heads = list(nets[0].heads) if all_heads else [nets[0].classifier]
    found = [_of_net(model, net, heads, x) for net in nets]
    return {name: torch.stack([one[:, i] for one in found]) for i, name in enumerate(heads)}


def _of_net(model: Model, net: MultiHead, heads: list[str], x: Inputs) -> Tensor:
    """Logits of one network, (M, heads, C)."""
    net.eval()

    def forward(v: Tensor) -> Tensor:
        features = net.trunk_features(v)
        return torch.stack([net.head(name, features) for name in heads], 1)

    return torch.cat([part.cpu() for part in forward_all(x, model.task, forward, model.device)])


@dataclass(frozen=True, kw_only=True)
class Honesty:
    """Confidence against accuracy on the test set."""

    accuracy: float
    confidence: float
    ece: float  # BINS bins
    ece_figure: float  # FIGURE_BINS bins

    @property
    def gap(self) -> float:
        """Confidence minus accuracy: above 0 is over-confident, below 0 under-confident."""
        return self.confidence - self.accuracy


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to turn the networks' logits into probabilities of the test set."""

    before: tuple[Tensor, ...]  # (M, C), one for each network or one of both
    after: tuple[Tensor, ...]  # the same by the run's calibration; empty where it has no meaning


def figure_1(gamma: float) -> Tensor:
    """Probabilities of the four classes for x1 and x2, (2, 4); γ = 0 is plain softmax."""
    return fn.calibrated_softmax(torch.tensor(LOGITS, dtype=torch.float64), gamma)


def variants(run: Outputs) -> dict[str, Variant]:
    """All ways to make probabilities of the test set, by name.

    The calibration was fitted to the mean logits. A scale fitted to their sum would be half of it
    and give the same probabilities, so both share them.
    """
    logits = run.classifier
    mean, total = logits.mean(0), logits.sum(0)
    own, linked = run.probability, run.linked
    one = Variant(before=tuple(map(own, logits)), after=tuple(map(linked, logits)))
    found = {ONE: one}
    for head in list(run.test.values())[1:]:
        found[SECOND_HEAD] = Variant(before=tuple(map(own, head)), after=tuple(map(linked, head)))
    found[MEAN_PROBABILITY] = Variant(before=(_mean(one.before),), after=(_mean(one.after),))
    found[MEAN_LOGITS] = Variant(before=(own(mean),), after=(linked(mean),))
    found[SUMMED_LOGITS] = Variant(before=(own(total),), after=(linked(mean),))
    if run.method.objective.gamma(mean) > 0:
        found[NO_GAMMA] = Variant(before=(mean.softmax(1),), after=())
    return found


def _mean(probs: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(probs)).mean(0)


def honesty(probs: Sequence[Tensor], labels: Tensor) -> Honesty:
    """Confidence and accuracy of probabilities; means where there are several."""
    return Honesty(
        accuracy=statistics.mean(metrics.accuracy(p, labels) for p in probs),
        confidence=statistics.mean(p.amax(1).double().mean().item() for p in probs),
        ece=statistics.mean(metrics.ece(p, labels, BINS) for p in probs),
        ece_figure=statistics.mean(metrics.ece(p, labels, FIGURE_BINS) for p in probs),
    )


def suspicion(run: Outputs, network: int) -> dict[str, Tensor]:
    """Two scores of every training label by one and the same network, higher for wrong ones."""
    logits = run.train[network]
    return {"small loss": run.loss(logits), "large margin": -fn.label_margin(logits, run.given)}


def selection(run: Outputs) -> dict[str, float]:
    """AUROC of each criterion, mean over the networks."""
    scores = [suspicion(run, network) for network in range(len(run.train))]
    return {
        name: statistics.mean(metrics.error_auroc(run.wrong, score[name]) for score in scores)
        for name in scores[0]
    }
