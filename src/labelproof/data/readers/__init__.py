"""Reading the user's data: every source turns a path, a name or an object into `Examples`."""

from labelproof.data.encoders.saved import load_encoder, load_like, save_encoder, save_like
from labelproof.data.labels import check_labels
from labelproof.data.readers.arrays import from_arrays
from labelproof.data.readers.dispatch import load
from labelproof.data.readers.duplicates import Duplicates, find_duplicates
from labelproof.data.readers.reading_options import Progress, SourceOptions
from labelproof.data.readers.torch_dataset import from_dataset

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
