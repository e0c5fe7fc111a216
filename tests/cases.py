"""One tiny instance of every method, one with L_edl where that is a choice, and DPC's own form."""

from dataclasses import replace

from labelproof.methods.active_bias import ActiveBias
from labelproof.methods.apl import APL
from labelproof.methods.bootstrap import Bootstrap
from labelproof.methods.ce import CrossEntropy
from labelproof.methods.cores import CORES
from labelproof.methods.coteaching import CoTeaching
from labelproof.methods.coteaching_plus import CoTeachingPlus
from labelproof.methods.d2l import D2L
from labelproof.methods.decoupling import Decoupling
from labelproof.methods.dividemix import DivideMix
from labelproof.methods.dpc import DPC
from labelproof.methods.edl import EDL
from labelproof.methods.elr import ELR, ELRPlus
from labelproof.methods.gce import GCE
from labelproof.methods.incv import INCV
from labelproof.methods.jpl import JPL
from labelproof.methods.linear import Linear
from labelproof.methods.loss_correction import Backward, Forward
from labelproof.methods.mentornet import MentorNet
from labelproof.methods.mixup import Mixup
from labelproof.methods.mlnt import MLNT
from labelproof.methods.moit import MOIT
from labelproof.methods.mwnet import MWNet
from labelproof.methods.noise_layer import NoiseLayer
from labelproof.methods.o2u import O2U
from labelproof.methods.pencil import PENCIL
from labelproof.methods.pes import PES
from labelproof.methods.promix import ProMix
from labelproof.methods.sat import SAT
from labelproof.methods.sop import SOP, SOPPlus
from labelproof.methods.ssr import SSR
from labelproof.methods.unicon import UniCon
from labelproof.training.protocol import Method

CASES: dict[str, Method] = {
    "ce": CrossEntropy(epochs=6, batch=32, lr=0.05),
    "dividemix": DivideMix(epochs=6, warmup=2, batch=16, lr=0.05, lambda_u=5.0, ramp=2.0),
    "dpc": DPC(epochs=6, warmup=2, batch=16, lr=0.05, lambda_u=5.0, ramp=2.0),
    "linear": Linear(epochs=3),
    "mixup": Mixup(epochs=6, batch=32, lr=0.05),
    "gce": GCE(epochs=6, batch=32, lr=0.1, truncate=True, prune_every=2),
    "elr": ELR(epochs=6, batch=32, lr=0.05, cycle=6),
    "coteaching": CoTeaching(epochs=6, batch=32, lr=0.01, noise_rate=0.4, ramp=3),
    "coteaching_plus": CoTeachingPlus(
        epochs=6, together=3, batch=32, lr=0.01, noise_rate=0.4, ramp=3
    ),
    "sop": SOP(epochs=6, batch=32, lr=0.05, lr_u=50.0, lr_v=50.0),
    "sop_plus": SOPPlus(epochs=6, batch=32, lr=0.05, lr_u=50.0, lr_v=50.0),
    "pes": PES(epochs=8, early=2, renew=1, renew_lr=0.01, batch=32, lr=0.1, lambda_u=5.0, ramp=2.0),
    "elr_plus": ELRPlus(epochs=6, batch=32, lr=0.05, average_ramp=2.0),
    "bootstrap": Bootstrap(epochs=6, batch=32, lr=0.05),
    "cores": CORES(
        epochs=12,
        batch=16,
        beta=1.0,
        beta_from=2,
        beta_full=5,
        sieve_from=4,
        consistency=4,
        labelled=16,
        others=8,
        consistency_lr=0.05,
    ),
    "forward": Forward(epochs=8, batch=16, lr=0.05),
    "backward": Backward(epochs=8, batch=16, lr=0.02),
    "edl": EDL(epochs=6, batch=16, lr=0.05, scale=1.0, divergence=0.1),
    "mlnt": MLNT(
        epochs=7,
        mentor_epochs=2,
        batch=32,
        lr=0.05,
        synthetic=2,
        ramp=2.0,
        decay=0.8,
        late_decay=0.9,
    ),
    "unicon": UniCon(epochs=6, warmup=2, batch=16, lr=0.05, lambda_u=5.0, ramp=2.0),
    "pencil": PENCIL(epochs=6, warmup=2, joint=2, batch=16, lr=0.05, last_lr=0.05, label_lr=1600.0),
    "jpl": JPL(epochs=9, final=2, batch=16, lr=0.05, final_lr=0.05, complements=2),
    "moit": MOIT(
        epochs=6,
        plus=2,
        batch=16,
        lr=0.05,
        memory=10,
        memory_from=1,
        correct_from=3,
        neighbours=15,
        plus_lr=0.01,
        boot_from=1,
    ),
    "d2l": D2L(epochs=6, batch=16, lr=0.05, settle=1, window=2, neighbours=5, sample=64),
    "mentornet": MentorNet(
        epochs=11,
        batch=16,
        lr=0.05,
        kind="dd",
        burn_in=60,  # of 8 seeds, 2 lose a class on blobs with 18, and none with 60
        scout=2,
        record=2,
        tried=0.3,
        mentor_steps=60,
        mentor_lr=0.02,
        drop=(0.2, 100.0),
    ),
    "incv": INCV(epochs=8, validation=4, rounds=1, batch=16, lr=0.02, ramp=2),
    "ssr": SSR(epochs=5, batch=16, lr=0.05, neighbours=15),
    "mwnet": MWNet(epochs=7, scout=2, batch=16, lr=0.05, meta=12, meta_lr=0.01),
    "o2u": O2U(
        epochs=9,
        cyclic=3,
        final=3,
        batch=16,
        cyclic_batch=8,
        lr=0.05,
        high=0.05,
        low=0.005,
        cycle=3,
    ),
    "sat": SAT(epochs=6, warmup=2, batch=16, lr=0.05, keep=0.7),
    "apl": APL(epochs=6, batch=16, lr=0.05),
    "noise_layer": NoiseLayer(epochs=6, warmup=3, batch=16, lr=0.01),
    "active_bias": ActiveBias(epochs=6, warmup=2, batch=16, lr=0.05),
    "decoupling": Decoupling(epochs=6, warmup=4, batch=16, lr=0.01),
    "promix": ProMix(epochs=6, warmup=2, batch=16, lr=0.05, ramp=2.0, agree=2, sure_above=0.9),
}

EVIDENTIAL = ("ce", "mixup", "coteaching", "dividemix", "sop", "sop_plus", "unicon", "mlnt")
WITH_EDL: dict[str, Method] = {
    f"{name} with L_edl": replace(CASES[name], loss="edl") for name in EVIDENTIAL
}
WITH_EDL["dividemix with L_edl"] = DivideMix(
    epochs=6, warmup=3, batch=16, lr=0.02, lambda_u=5.0, ramp=2.0, loss="edl"
)
WITH_EDL["dpc across folds"] = DPC(
    epochs=6, warmup=0, batch=16, lr=0.05, lambda_u=0.0, start="crossfit", selector="confident",
    schedule="cosine", lr_unit="data", prior="given", steps=60, join_at=0.2, draws=1,
)  # fmt: skip

# of the methods with a choice of loss, two with L_edl: one of hard labels, one of soft targets
FEW_WITH_EDL = CASES | {name: WITH_EDL[name] for name in ("ce with L_edl", "dividemix with L_edl")}
