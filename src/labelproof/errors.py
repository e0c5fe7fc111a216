"""How a command ends badly: the input was wrong (exit 2), or the run failed (exit 1); and notes."""

LOST = (
    "another process of this run ended, so this one stops too; everything up to the last "
    "complete epoch is saved: continue with the same command and --resume."
)


class BadInput(ValueError):
    """What the user gave cannot be used; the message is one sentence that says what to do."""


class RunFailed(RuntimeError):
    """Training could not go on; the message says why and what to try."""


class PeerLost(RuntimeError):
    """Another process of a run on several ended; the message says what to do."""


class Note(UserWarning):
    """A warning that commands show as a plain sentence."""
