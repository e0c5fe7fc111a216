"""Every method by name. A new one: its file, a line here, a line in tests/cases.py, a page."""

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

METHODS: dict[str, type[Method]] = {
    "ce": CrossEntropy,
    "dividemix": DivideMix,
    "dpc": DPC,
    "linear": Linear,
    "mixup": Mixup,
    "gce": GCE,
    "elr": ELR,
    "coteaching": CoTeaching,
    "coteaching_plus": CoTeachingPlus,
    "sop": SOP,
    "sop_plus": SOPPlus,
    "pes": PES,
    "elr_plus": ELRPlus,
    "bootstrap": Bootstrap,
    "cores": CORES,
    "forward": Forward,
    "backward": Backward,
    "edl": EDL,
    "mlnt": MLNT,
    "unicon": UniCon,
    "pencil": PENCIL,
    "jpl": JPL,
    "moit": MOIT,
    "d2l": D2L,
    "mentornet": MentorNet,
    "incv": INCV,
    "ssr": SSR,
    "mwnet": MWNet,
    "o2u": O2U,
    "sat": SAT,
    "apl": APL,
    "noise_layer": NoiseLayer,
    "active_bias": ActiveBias,
    "decoupling": Decoupling,
    "promix": ProMix,
}
