"""One thread for every test: tiny networks run faster on it, and two processes share two cores."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
