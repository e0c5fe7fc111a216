"""Label noise of every kind the literature trains on, seeded, with what was really done on record.

The same name means different things in different papers; here every meaning has a name of its own.
`symmetric` is DPC's: an exact share of the labels is redrawn over all classes, the true one
included, so that fewer labels than `rate` are wrong. `Noise.realised` always says how many are.
"""

from labelproof.noise.apply_noise import apply_noise
from labelproof.noise.classwise import classwise, from_matrix, symmetric
from labelproof.noise.instancewise import instance, pmd, probe_probabilities
from labelproof.noise.label_files import Corrupted, corrupt_file
from labelproof.noise.noise_spec import KINDS, Noise, NoiseSpec, parse_noise

__all__ = [
    "KINDS",
    "Corrupted",
    "Noise",
    "NoiseSpec",
    "apply_noise",
    "classwise",
    "corrupt_file",
    "from_matrix",
    "instance",
    "parse_noise",
    "pmd",
    "probe_probabilities",
    "symmetric",
]
