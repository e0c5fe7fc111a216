"""Reading the user's data: every source turns a path, a name or an object into `Examples`."""

from labelproof.sources.arrays import from_arrays
from labelproof.sources.labels import check_labels
from labelproof.sources.loading import load
from labelproof.sources.options import SourceOptions

__all__ = ["SourceOptions", "check_labels", "from_arrays", "load"]
