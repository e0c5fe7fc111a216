"""The learning rate with which every epoch is really trained, against plans written out by hand."""

from __future__ import annotations

import math

import pytest

from labelproof.data.task import Audit
from labelproof.methods.active_bias import ActiveBias
from labelproof.methods.apl import APL
from labelproof.methods.bootstrap import Bootstrap
from labelproof.methods.ce import CrossEntropy
from labelproof.methods.coteaching_plus import CoTeachingPlus
from labelproof.methods.d2l import D2L
from labelproof.methods.decoupling import Decoupling
from labelproof.methods.dividemix import DivideMix
from labelproof.methods.dpc import DPC
from labelproof.methods.edl import EDL
from labelproof.methods.elr import ELRPlus
from labelproof.methods.gce import GCE
from labelproof.methods.loss_correction import Forward
from labelproof.methods.mentornet import MentorNet
from labelproof.methods.mixup import Mixup
from labelproof.methods.moit import MOIT
from labelproof.methods.mwnet import MWNet
from labelproof.methods.promix import ProMix
from labelproof.methods.sat import SAT
from labelproof.methods.sop import SOP, SOPPlus
from labelproof.methods.unicon import UniCon
from labelproof.training.learner import Learner
from labelproof.training.protocol import Method
from labelproof.training.run import Run
from tiny import blobs

LR = 1e-3
SHORT = {"epochs": 12, "batch": 16, "lr": LR}


def stairs(*milestones: int, epochs: int = 12) -> list[float]:
    """A tenth from each milestone on."""
    return [0.1 ** sum(epoch >= at for at in milestones) for epoch in range(epochs)]


def cosine(floor: float = 0.0) -> list[float]:
    """Half a cosine from 1 to the floor."""
    return [floor + (1 - floor) * (1 + math.cos(math.pi * e / 12)) / 2 for e in range(12)]


def falling(first: int) -> list[float]:
    """Straight towards 0 at the end."""
    return [1.0 if e < first else (12 - e) / (12 - first) for e in range(12)]


ONE_CYCLE = [0.2 + 3.2 * (e + 0.5) / 12 for e in range(3)]  # at the middle of each epoch
ONE_CYCLE += [(1 - (e + 0.5) / 12) / 0.75 for e in range(3, 12)]
PLANS: dict[str, tuple[Method, list[float]]] = {
    "active_bias": (ActiveBias(**SHORT, warmup=3), stairs(6, 9)),
    "apl": (APL(**SHORT), cosine()),
    "bootstrap": (Bootstrap(**SHORT, warmup=2), stairs(4, 8)),
    "ce": (CrossEntropy(**SHORT), stairs(6)),
    "ce, several": (CrossEntropy(**SHORT, decay_at=(0.25, 0.75)), stairs(3, 9)),
    "ce, one cycle": (CrossEntropy(**SHORT, schedule="one_cycle"), ONE_CYCLE),
    "coteaching_plus": (CoTeachingPlus(**SHORT, together=3), falling(5)),
    "d2l": (D2L(**SHORT), stairs(4, 8)),
    "decoupling": (Decoupling(**SHORT, warmup=3), falling(5)),
    "dividemix": (DivideMix(**SHORT, warmup=2), stairs(6)),
    "dividemix, one cycle": (DivideMix(**SHORT, warmup=2, schedule="one_cycle"), ONE_CYCLE),
    "dpc": (DPC(**SHORT, warmup=2), stairs(6)),
    "dpc, one cycle": (DPC(**SHORT, warmup=2, schedule="one_cycle"), ONE_CYCLE),
    "edl": (EDL(**SHORT), stairs(6)),
    "elr_plus": (ELRPlus(**SHORT), stairs(9)),
    "forward": (Forward(**SHORT), 2 * stairs(2, 4, epochs=6)),
    "gce": (GCE(**SHORT), stairs(4, 8)),
    "mentornet": (MentorNet(**SHORT), stairs(6, 8, 9)),
    "mixup": (Mixup(**SHORT), stairs(6, 9)),
    "moit": (
        MOIT(**SHORT, plus=4, plus_lr=LR, plus_decay_at=(0.5,), neighbours=5, memory=4),
        stairs(4, 6, epochs=8) + stairs(2, epochs=4),
    ),
    "mwnet": (MWNet(**SHORT, scout=2, meta=6), stairs(1, 2, epochs=2) + stairs(7, 8, epochs=10)),
    "promix": (ProMix(**SHORT, warmup=2), cosine(0.001)),
    "sat": (SAT(**SHORT, warmup=2), cosine()),
    "sop": (SOP(**SHORT), stairs(4, 8)),
    "sop_plus": (SOPPlus(**SHORT), cosine(0.2)),
    "unicon": (UniCon(**SHORT, warmup=2, schedule="step"), stairs(6)),
}


@pytest.mark.parametrize("name", PLANS)
def test_every_epoch_has_the_learning_rate_of_its_plan(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, expected = PLANS[name]
    step, rates = Run.step, [set() for _ in range(12)]

    def note(self: Run, learner: Learner, *losses: object) -> None:
        rates[self.epoch].add(learner.optimiser.param_groups[0]["lr"] / LR)
        step(self, learner, *losses)  # type: ignore[arg-type]

    monkeypatch.setattr(Run, "step", note)
    blobs(size=32).train(method, audit=Audit())
    assert [len(each) for each in rates] == [1] * 12  # the same for all steps and networks
    assert [each.pop() for each in rates] == pytest.approx(expected)
