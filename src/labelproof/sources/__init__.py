"""Reading the user's data: every source turns a path, a name or an object into `Examples`."""

from labelproof.sources.arrays import from_arrays
from labelproof.sources.dataset import from_dataset
from labelproof.sources.duplicates import Duplicates, find_duplicates
from labelproof.sources.encoders import load_encoder, load_like, save_encoder, save_like
from labelproof.sources.labels import check_labels
from labelproof.sources.loading import load
from labelproof.sources.options import Progress, SourceOptions

__all__ = [
    "Duplicates",
    "Progress",
    "SourceOptions",
    "check_labels",
    "find_duplicates",
    "from_arrays",
    "from_dataset",
    "load",
    "load_encoder",
    "load_like",
    "save_encoder",
    "save_like",
]
