"""One tiny instance of every method, for the contract suite."""

from labelproof.engine.method import Method
from labelproof.methods.ce import CrossEntropy
from labelproof.methods.dpc import DPC
from labelproof.methods.mixup import Mixup

CASES: dict[str, Method] = {
    "ce": CrossEntropy(epochs=6, batch=32, lr=0.05),
    "dpc": DPC(epochs=6, warmup=2, batch=16, lr=0.05, lambda_u=5.0, ramp=2.0),
    "mixup": Mixup(epochs=6, batch=32, lr=0.05),
}
