"""D2L: dimensionality-driven learning (Ma and others, ICML 2018).

The local intrinsic dimensionality (LID) of what the network makes of its inputs falls while it
learns structure and rises when it starts to memorise. At the turn, training goes back one epoch;
from then on every target is α times the given label plus 1 - α times the network's own answer, and
α falls as the dimensionality grows.

Paper: https://arxiv.org/abs/1806.02612. Authors' code:
https://github.com/xingjunm/dimensionality-driven-learning. Departures: docs/methods/d2l.md.
Shapes: B batch, C classes, F features, N training examples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from labelproof import functional as fn
from labelproof.functional.dirichlet import at_best_double
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.learner import Learner, copied, sgd_of, softmax_of_net
from labelproof.training.loop import given_label
from labelproof.training.protocol import About, Logs, one_phase
from labelproof.training.run import Run

SIGMAS = 2.0  # a dimensionality so many deviations above its recent mean is the turn
LEAST = 1e-4  # smallest probability in the logarithm of a label, for the symmetric loss


@dataclass
class State:
    """What changes during training."""

    learner: Learner
    dimensions: list[float]  # LID at the start of each epoch
    turned: int  # epoch of the turn, -1 before it
    before: dict[str, Tensor]  # the network as it was when the previous epoch began
    clean: Tensor  # (N,) probability of the given label


@hp.record
class D2L:
    """Hyper-parameters; defaults are those of the paper for CIFAR-10."""

    about: ClassVar[About] = About(
        title="D2L: dimensionality-driven learning",
        paper="Ma, Wang, Houle, Zhou, Erfani, Xia, Wijewickrema and Bailey, ICML 2018",
        year=2018,
        link="https://arxiv.org/abs/1806.02612",
        code="https://github.com/xingjunm/dimensionality-driven-learning",
        cost="3 N and 1,280 passes for the dimensionality",
    )

    epochs: hp.Count = 120  # T
    batch: hp.PerStep = 128
    lr: hp.Positive = 0.1
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 1e-4
    decay_at: tuple[hp.Share, ...] = (1 / 3, 2 / 3)  # lr x 0.1 from each share of the epochs on
    settle: hp.RampEpochs = 40  # epochs before a turn is looked for
    window: Annotated[int, hp.Range(2), hp.Epochs()] = 5  # w, epochs that a turn is compared with
    neighbours: hp.Count = 20  # k
    sample: hp.Count = 1280  # examples measured, in batches of 128
    unbiased: bool = False  # k - 1 in place of k
    start_loss: Literal["ce", "sce"] = "ce"  # before the turn; "sce" is released since 2019
    sce_alpha: hp.NonNegative = 0.1  # of the symmetric loss: weight of cross-entropy
    sce_beta: hp.NonNegative = 1.0  # and of its reverse

    plan = one_phase  # the turn lies inside it

    def setup(self, run: Run) -> State:
        """One network."""
        learner = run.learner(sgd_of(self), label=linear)
        return State(learner, [], -1, copied(learner), torch.ones(run.task.size))

    predict = softmax_of_net
    score = given_label

    def train(self, state: State, run: Run) -> Logs:
        """One epoch: measure, look for the turn, then train."""
        learner = state.learner
        state.dimensions.append(self.measure(state, run))
        if state.turned < 0 and self.is_turn(state.dimensions):
            learner.net.load_state_dict(state.before)
            state.turned = run.epoch - 1
        state.before = copied(learner)
        alpha = self.alpha(state, run.epoch)
        learner.train_at(fn.stair_decay(self.lr, run.epoch, self.epochs, self.decay_at))
        for batch in run.batches(self.batch):
            logits = learner.net(batch.views[0])
            run.step(learner, self.loss(logits, batch.y, alpha, state.turned >= 0).mean())
        return {"dimension": state.dimensions[-1], "alpha": alpha}

    def loss(self, logits: Tensor, labels: Tensor, alpha: float, turned: bool) -> Tensor:
        """Cross-entropy with α y + (1 - α) onehot(argmax p), (B,)."""
        if self.start_loss == "sce" and not turned:
            return symmetric(logits, labels, self.sce_alpha, self.sce_beta)
        given = F.cross_entropy(logits, labels, reduction="none")
        own = F.cross_entropy(logits, logits.detach().argmax(1), reduction="none")
        return alpha * given + (1 - alpha) * own

    # ---- dimensionality ----

    def measure(self, state: State, run: Run) -> float:
        """Mean LID of a drawn sample, network in eval mode; the last value where there is none."""
        net = state.learner.net
        net.eval()
        order = torch.randperm(run.task.size, generator=run.rng)[: self.sample]
        values = []
        with torch.no_grad():
            for batch in run.batches(128, order, ("plain",)):
                features = net.trunk_features(batch.views[0])
                values.append(local_dimension(features, self.neighbours, self.unbiased))
        mean = torch.cat(values).nanmean().item()
        usable = math.isfinite(mean) and mean > 0
        return mean if usable else (state.dimensions[-1] if state.dimensions else 1.0)

    def is_turn(self, dimensions: list[float]) -> bool:
        """Whether the last value lies two deviations above the mean of the window before it."""
        if len(dimensions) <= self.settle + self.window:
            return False
        recent = torch.tensor(dimensions[-self.window - 1 : -1], dtype=torch.float64)
        rise = dimensions[-1] - recent.mean().item()
        return rise > SIGMAS * recent.std(correction=0).item()

    def alpha(self, state: State, epoch: int) -> float:
        """exp(-(t / T) LID_t / min LID); 1 before the turn."""
        if state.turned < 0:
            return 1.0
        ratio = state.dimensions[-1] / min(state.dimensions)
        return math.exp(-epoch / self.epochs * ratio)


def local_dimension(features: Tensor, neighbours: int, unbiased: bool = False) -> Tensor:
    """LID = -k / Σ_j ln(r_j / r_k) of each row among the others, NaN where rows coincide, (B,)."""
    count = min(neighbours, len(features) - 1)
    if count < 2:
        return torch.full((len(features),), torch.nan)
    features = at_best_double(features)
    distances = torch.cdist(features, features)
    distances.fill_diagonal_(torch.inf)
    distances[distances == 0] = torch.inf  # copies say nothing of the dimension
    near = distances.topk(count, largest=False).values.sort(1).values
    near = torch.where(near.isinf().any(1, keepdim=True), torch.nan, near)
    logs = (near / near[:, -1:]).log().sum(1)
    return -(count - unbiased) / torch.where(logs < 0, logs, torch.nan)


def symmetric(logits: Tensor, labels: Tensor, alpha: float, beta: float) -> Tensor:
    """α cross-entropy + β reverse cross-entropy with ln 0 = ln 1e-4 (Wang et al. 2019), (B,)."""
    probability = fn.of_label(logits.softmax(1), labels)
    reverse = -math.log(LEAST) * (1 - probability)
    return alpha * F.cross_entropy(logits, labels, reduction="none") + beta * reverse
