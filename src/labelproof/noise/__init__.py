"""Label noise of every kind the literature trains on, seeded, with what was really done on record.

The same name means different things in different papers; here every meaning has a name of its own.
`symmetric` is DPC's: an exact share of the labels is redrawn over all classes, the true one
included, so that fewer labels than `rate` are wrong. `Noise.realised` always says how many are.
"""

from labelproof.noise.apply_noise import apply_noise
from labelproof.noise.classwise import (
    CIFAR10_MAP,
    CIFAR100_SUPERCLASS,
    asymmetric_cifar10,
    asymmetric_cifar100,
    from_matrix,
    pair,
    symmetric,
    symmetric_exclusive,
)
from labelproof.noise.instancewise import instance, pmd, probe_probabilities
from labelproof.noise.label_files import Corrupted, corrupt_file
from labelproof.noise.noise_spec import KINDS, NoiseSpec, parse_noise
from labelproof.noise.record import Noise

__all__ = [
    "CIFAR10_MAP",
    "CIFAR100_SUPERCLASS",
    "KINDS",
    "Corrupted",
    "Noise",
    "NoiseSpec",
    "apply_noise",
    "asymmetric_cifar10",
    "asymmetric_cifar100",
    "corrupt_file",
    "from_matrix",
    "instance",
    "pair",
    "parse_noise",
    "pmd",
    "probe_probabilities",
    "symmetric",
    "symmetric_exclusive",
]
