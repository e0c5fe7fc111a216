"""PES: progressive early stopping, semi-supervised or supervised (Bai and others, NeurIPS 2021).

Paper: https://arxiv.org/abs/2106.15853. Code of its authors: https://github.com/tmllab/2021_NeurIPS_PES.
Departures: docs/methods/pes.md.

1. One network is trained on all given labels and stopped early.
2. Later layers memorise wrong labels sooner than earlier ones: the last layer is drawn anew and
   trained alone for a few epochs.
3. Labels that agree with the network's prediction are the labelled part of MixMatch, weighted by
   class; the others are unlabelled.
4. The supervised form first draws the last block anew together with the last layer, trains both,
   then the last layer alone; from then on it trains on the labels that agree, and on nothing else.

Shapes: B batch, C classes, N training examples; X labelled part, U unlabelled part of a split.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, repeat
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.nets.heads import MultiHead, linear
from labelproof.training import settings as hp
from labelproof.training.batches import Batch
from labelproof.training.learner import Learner, sgd_of, softmax_of_net
from labelproof.training.mixmatch import Mixed, parts, square_loss
from labelproof.training.optimisers import LightAdam
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run

LAYERS = (nn.Conv2d, nn.Linear, nn.BatchNorm1d, nn.BatchNorm2d)  # what can be drawn anew


@dataclass
class State:
    """What changes during training."""

    learner: Learner
    adam: torch.optim.Optimizer  # of the head, while it is trained alone
    adam_block: torch.optim.Optimizer | None  # of the last block and the head, where both are
    clean: Tensor  # (N,) of the given label and its strongest rival, the given label's share


@hp.record
class PES:
    """Hyper-parameters; defaults are those of the released code for CIFAR-10."""

    about: ClassVar[About] = About(
        title="Progressive early stopping",
        paper="Bai, Yang, Han, Yang, Li, Mao, Niu and Liu, NeurIPS 2021",
        year=2021,
        link="https://arxiv.org/abs/2106.15853",
        code="https://github.com/tmllab/2021_NeurIPS_PES",
        cost="(8 + 2 u) N, u <= 1/2 the unlabelled share of a batch",
    )

    epochs: hp.Count = 305  # 300 of the whole network, and `renew` of its head alone
    early: hp.RampEpochs = 20  # T_1, epochs on all given labels
    renew_block: hp.RampEpochs = 0  # epochs of the new last block, with the head
    renew: hp.RampEpochs = 5  # T_2, epochs of the new head alone
    renew_lr: hp.Positive = 1e-4  # of Adam on the new head
    rebuild_optimiser: bool = False  # True trains the new parts further; released: they stay
    form: Literal["semi", "supervised"] = "semi"  # MixMatch | confident labels alone
    batch: hp.PerStep = 128  # labelled and unlabelled examples together
    lr: hp.Positive = 0.02
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 5e-4
    schedule: Literal["cosine", "steps"] = "cosine"
    lr_floor: hp.Share = 0.01  # "cosine": its end, as a share of lr
    decay_at: tuple[hp.Share, ...] = (0.5, 0.75)  # "steps": lr x 0.1 from these shares on
    max_weight: hp.Positive = 3.0  # of a class with few confident examples
    temperature: hp.Positive = 0.5  # T
    alpha: hp.Positive = 4.0  # Beta(α, α) of the mixing weight, first half of the epochs
    late_alpha: hp.Positive = 0.75  # the same, second half
    lambda_u: hp.NonNegative = 150.0  # λ_u, weight of L_u
    ramp: Annotated[hp.Positive, hp.Epochs()] = 16.0  # epochs until λ_u is reached

    def __post_init__(self) -> None:
        if self.early + self.renewing >= self.epochs:
            raise BadInput(
                f"PES: early + renew must be smaller than epochs, not {self.early} + "
                f"{self.renewing} of {self.epochs}."
            )

    def plan(self) -> tuple[Phase, ...]:
        """Early stopping, new last parts, then confident and perhaps other examples."""
        rest = self.epochs - self.early - self.renewing
        return (
            Phase("early", self.early, self.fit_given),
            Phase("new block", self.renew_block, self.fit_block, enter=self.renew_last_block),
            Phase("new head", self.renew, self.fit_head, enter=self.renew_head),
            Phase(self.form, rest, self.split_and_fit, self.settle_optimiser, self.score),
        )

    @property
    def renewing(self) -> int:
        """Epochs of new parts alone."""
        return self.renew_block + self.renew

    def setup(self, run: Run) -> State:
        """One network with a linear head."""
        learner = run.learner(sgd_of(self), label=linear)
        adam = LightAdam(learner.net.heads.parameters(), self.renew_lr)
        block = None
        if self.renew_block:
            parts = [last_block(learner.net), learner.net.heads]
            weights = (weight for part in parts for weight in part.parameters())
            block = LightAdam(weights, self.renew_lr)
        return State(learner, adam, block, torch.ones(run.task.size))

    predict = softmax_of_net

    def position(self, run: Run) -> int:
        """Epochs of the whole network so far; those of new parts alone do not count."""
        return run.epoch if run.epoch < self.early else run.epoch - self.renewing

    def prepare(self, learner: Learner, run: Run) -> None:
        """Training mode, and a learning rate on a cosine or a stair."""
        learner.net.train()
        whole, floor = self.epochs - self.renewing, self.lr_floor * self.lr
        if self.schedule == "cosine":
            learner.set_lr(fn.cosine_decay(self.lr, self.position(run), whole, floor))
        else:
            learner.set_lr(fn.stair_decay(self.lr, self.position(run), whole, self.decay_at))

    # ---- early stopping, part by part ----

    def fit_given(self, state: State, run: Run) -> Logs:
        """One epoch of cross-entropy on all given labels."""
        self.prepare(state.learner, run)
        for batch in run.batches(self.batch):
            logits = state.learner.net(batch.views[0])
            run.step(state.learner, fn.edl_nll(logits, batch.y, gamma=0).mean())
        return {}

    def renew_last_block(self, state: State, run: Run) -> None:
        """Draw the last block and the last layer anew."""
        for part in last_block(state.learner.net).modules():
            if isinstance(part, LAYERS):
                part.reset_parameters()
        self.renew_head(state, run)

    def fit_block(self, state: State, run: Run) -> Logs:
        """One epoch of the last block and the head, on all given labels."""
        net = state.learner.net
        net.train()
        adam = state.adam_block
        if adam is None:  # an empty phase has no epoch
            return {}
        for batch in run.batches(self.batch):
            loss = fn.edl_nll(net(batch.views[0]), batch.y, gamma=0).mean()
            run.step(Learner(net, adam), loss)
        return {}

    def renew_head(self, state: State, run: Run) -> None:
        """Draw the last layer anew; nothing else changes."""
        head = state.learner.net.heads["label"]
        width = next(head.parameters()).shape[1]
        head.load_state_dict(linear(width, run.task.num_classes).state_dict())

    def fit_head(self, state: State, run: Run) -> Logs:
        """One epoch of the head alone, on all given labels; batch statistics still move."""
        net = state.learner.net
        net.train()
        for batch in run.batches(self.batch):
            with torch.no_grad():
                features = net.trunk_features(batch.views[0])
            logits = net.head("label", features)
            run.step(Learner(net, state.adam), fn.edl_nll(logits, batch.y, gamma=0).mean())
        return {}

    def settle_optimiser(self, state: State, run: Run) -> None:
        """A rebuilt optimiser has no momentum of the time before the new head."""
        if self.rebuild_optimiser:
            state.learner.optimiser.state.clear()

    # ---- split ----

    def split_and_fit(self, state: State, run: Run) -> Logs:
        """One epoch: confident examples keep their labels, the others are unlabelled, or unused."""
        # the released optimiser never hears of the new parts, which then stay as they are
        state.learner.net.heads.requires_grad_(self.rebuild_optimiser)
        net, block = state.learner.net, last_block(state.learner.net)
        if self.renew_block and len([*block.parameters()]) < len([*net.trunk.parameters()]):
            block.requires_grad_(self.rebuild_optimiser)  # unless it is all there is to train
        probs = self.two_view_probability(state.learner, run)
        state.clean = run.trusted(agreement(probs, run.y))
        confident = run.trusted((probs.argmax(1) == run.y).float()) > 0
        if confident.any() and self.form == "supervised":
            self.fit_confident(state.learner, confident, run)
        elif confident.any():
            self.mixmatch(state.learner, confident, run)
        else:  # nothing to trust: another epoch on the given labels
            self.fit_given(state, run)
        return {"selected": confident.float().mean().item()}

    def score(self, state: State, run: Run) -> None:
        """Clean probabilities by the network as it is at the end."""
        probs = self.two_view_probability(state.learner, run)
        state.clean = run.trusted(agreement(probs, run.y))

    @torch.no_grad()
    def two_view_probability(self, learner: Learner, run: Run) -> Tensor:
        """Mean softmax of two weak views of every training example, eval mode, (N, C)."""
        learner.net.eval()
        size, everything = 2 * self.batch, torch.arange(run.task.size)
        out = torch.zeros(run.task.size, run.task.num_classes, device=run.device)
        # in two parts, since batches leave a remainder out
        for part in everything.tensor_split([len(everything) // size * size]):
            for batch in run.batches(size, part, ("weak", "weak")):
                first, second = (learner.net(view).softmax(1) for view in batch.views)
                out[batch.index] = (first + second) / 2
        return out

    def fit_confident(self, learner: Learner, confident: Tensor, run: Run) -> None:
        """One pass over the confident examples: cross-entropy, weighted by class."""
        rows = confident.nonzero().squeeze(1)
        weights = class_weights(run.y[rows], run.task.num_classes, self.max_weight)
        self.prepare(learner, run)
        for batch in run.batches(self.batch, rows):
            losses = fn.edl_nll(learner.net(batch.views[0]), batch.y, gamma=0)
            weight = weights[batch.y]
            run.step(learner, (weight * losses).sum() / weight.sum())

    # ---- MixMatch on the two parts ----

    def mixmatch(self, learner: Learner, confident: Tensor, run: Run) -> None:
        """N / B steps on labelled and unlabelled examples, either part as often as it takes."""
        labelled, unlabelled = parts(confident)
        weights = class_weights(run.y[labelled], run.task.num_classes, self.max_weight)
        for_x, for_u = batch_split(len(labelled), len(unlabelled), self.batch)
        steps = max(1, run.task.size // self.batch)
        self.prepare(learner, run)
        batches = run.batches(for_x, labelled, ("weak", "weak"), forever=True)
        others = run.batches(max(1, for_u), unlabelled, ("weak", "weak"), forever=True)
        pairs = zip(batches, others if for_u else repeat(None), strict=False)
        for i, (x, u) in enumerate(islice(pairs, steps)):
            elapsed = self.position(run) + i / steps
            run.step(learner, *self.losses(learner, self.mix(learner, x, u, run), weights, elapsed))

    @torch.no_grad()
    def mix(self, learner: Learner, x: Batch, u: Batch | None, run: Run) -> Mixed:
        """Given labels for X, sharpened guesses for U, mixed with one weight and permutation."""
        targets = one_hot(x.y, run.task.num_classes).float().repeat(2, 1)
        inputs = [*x.views]
        if u is not None:
            first, second = learner.net(torch.cat(u.views)).softmax(1).chunk(2)
            guess = fn.sharpen((first + second) / 2, self.temperature)
            targets, inputs = torch.cat([targets, guess, guess]), [*inputs, *u.views]
        late = self.position(run) >= (self.epochs - self.renewing) / 2
        alpha = self.late_alpha if late else self.alpha
        mixed, weight, permutation = fn.mixup(torch.cat(inputs), alpha, run.rng, run.device_rng)
        return Mixed(mixed, fn.mix(targets, weight, permutation), 2 * len(x.index))

    def losses(
        self, learner: Learner, mixed: Mixed, weights: Tensor, elapsed: float
    ) -> list[Tensor]:
        """L_x, weighted by class, + λ_u(t) L_u, each a scalar."""
        n, logits = mixed.labelled, learner.net(mixed.x)
        losses = [fn.soft_cross_entropy(logits[:n], weights * mixed.targets[:n]).mean()]
        if self.lambda_u and len(logits) > n:
            ramped = self.lambda_u * fn.ramp(elapsed, self.early, self.ramp)
            losses.append(ramped * square_loss(logits[n:].softmax(1), mixed.targets[n:]))
        return losses


def last_block(net: MultiHead) -> nn.Module:
    """The last part of the trunk that has weights, below parts that hold all others."""
    part: nn.Module = net.trunk
    while inner := [child for child in part.children() if [*child.parameters()]]:
        part = inner[-1]
        if len(inner) > 1:
            break
    return part


def agreement(probs: Tensor, labels: Tensor) -> Tensor:
    """p_y / (p_y + max_{j≠y} p_j): above a half exactly where the prediction is the label, (N,)."""
    return fn.label_margin(probs.log(), labels).sigmoid()


def class_weights(labels: Tensor, classes: int, highest: float) -> Tensor:
    """Mean count of the classes present over each one's own, at most `highest`; 0 if absent."""
    counts = torch.bincount(labels, minlength=classes).float()
    present = counts > 0
    weights = (counts[present].mean() / counts).clamp(max=highest)
    return torch.where(present, weights, torch.zeros_like(weights))


def batch_split(labelled: int, unlabelled: int, batch: int) -> tuple[int, int]:
    """Labelled and unlabelled examples of a batch: as in the whole set, or half and half."""
    share = batch / 2 if unlabelled > labelled else batch * unlabelled / (labelled + unlabelled)
    return batch - int(share), int(share)
