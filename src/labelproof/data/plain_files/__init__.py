"""Files that others write with pickle or torch.save, read as plain data by a fixed grammar.

Nothing here unpickles or calls `torch.load`. A file is a sequence of opcodes. A short list
of them is understood, and each puts a number, a text, bytes, a list, a tuple or a dict on a stack.
The few names that a saved array refers to stand for layouts, which this code builds itself with
`frombuffer`. Any other name or opcode makes it refuse the file.
"""

from labelproof.data.plain_files.archive import read_saved
from labelproof.data.plain_files.machine import read_plain
from labelproof.data.plain_files.numpy_files import read_npy, read_npz
from labelproof.data.plain_files.opcodes import Refused

__all__ = ["Refused", "read_npy", "read_npz", "read_plain", "read_saved"]
