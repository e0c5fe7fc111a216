"""What the networks of a finished run say, read from its folder and the data it was trained on.

Nothing is kept for this in ordinary runs: the weights of the folder are applied once more.

Shapes: C classes, K networks, M test examples, N training examples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

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
