"""The two ways a command ends badly: the input was wrong (exit 2), or the run failed (exit 1)."""


class BadInput(ValueError):  # noqa: N818 - reads as a sentence where it is raised
    """What the user gave cannot be used; the message is one sentence that says what to do."""


class RunFailed(RuntimeError):  # noqa: N818
    """Training could not go on; the message says why and what to try."""
