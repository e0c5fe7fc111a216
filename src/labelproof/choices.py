"""What options can be, for commands that show their help without loading what does the work."""

from typing import Literal

How = Literal["folds", "quick", "off"]  # how labels are judged
