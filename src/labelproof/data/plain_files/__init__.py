"""Files that others write with NumPy, pickle or `torch.save`, read as plain data.

Nothing in a file is run. Pickles are read by Python's own reader and by `torch.load` for weights
only, both with a short list of names that stand for functions of our own (`pickles`). An array of
NumPy is built once its header fits its bytes. Whatever else a file holds makes it be refused.
"""

from labelproof.data.plain_files.numpy_files import Refused, read_npy, read_npz
from labelproof.data.plain_files.pickles import read_plain, read_saved

__all__ = ["Refused", "read_npy", "read_npz", "read_plain", "read_saved"]
