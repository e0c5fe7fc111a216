"""How a process ends: 0 on success, 2 on bad usage or input, 1 on a failed run, 130 on Ctrl-C."""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from labelproof.errors import LOST, BadInput, PeerLost, RunFailed

# Seconds that other processes than the first wait before they speak of an error. The first says it
# too where it meets the same one, and `torchrun` then ends the others.
POLITE = 5.0
ENDED = 1.0  # the same once `torchrun` ends them: the first has spoken, or never will
FULL = (errno.ENOSPC, errno.EDQUOT)
NO_MEMORY = (
    "not enough memory, or a memory limit was reached. Everything saved before is intact: with "
    "more memory, --resume continues the run. A new run needs less with --calibrate off, a "
    "smaller --memory-gb or smaller batches."
)


def carry_out(work: Callable[[], None]) -> None:
    """Do the work of a process; what goes wrong is one sentence and an exit code."""
    _end_as_ctrl_c_does()
    _speak_to_the_end()
    try:
        work()
    except (KeyboardInterrupt, SystemExit) as stop:
        code = stop.code if isinstance(stop, SystemExit) else 130
        sys.exit(_after(stop, code) if "RANK" in os.environ else code)
    except BadInput as error:
        _stop(str(error), 2)
    except (RunFailed, PeerLost) as error:
        _stop(str(error), 1)
    except OSError as error:
        _stop(_in_words(error), 1)
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        _stop(NO_MEMORY, 1)
    finally:
        gc.freeze()  # what is left goes with the process; looking through it takes half a second


class _Ended(KeyboardInterrupt):
    """A signal that ends the process."""


def _end_as_ctrl_c_does() -> None:
    """Let SIGTERM (a job that runs out of time) and SIGHUP (a lost terminal) stop like Ctrl-C."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise _Ended

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores it
            with contextlib.suppress(ValueError):  # outside the main thread
                signal.signal(number, interrupt)


def _speak_to_the_end() -> None:
    """Let printing never end a run: not a letter that a terminal lacks, nor a pipe that was closed.

    `labelproof fit ... | head -1` trains to its end, in silence once nobody listens.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
            buffer = stream.buffer
            raw = buffer.raw if isinstance(buffer, io.BufferedWriter) else buffer
            if type(raw) is io.FileIO:  # a console of Windows is none
                stream.flush()
                setattr(sys, name, _patient(stream))


def _patient(like: io.TextIOWrapper) -> io.TextIOWrapper:
    raw = _Patient(like.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(
        raw if isinstance(like.buffer, io.FileIO) else io.BufferedWriter(raw),
        encoding=like.encoding,
        errors=like.errors,
        line_buffering=like.line_buffering,
        write_through=like.write_through,
    )


class _Patient(io.FileIO):
    """A stream that goes nowhere once its reader has gone."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())  # for those who inherit it too
            os.close(nowhere)
            return len(data)


def _after(stop: BaseException, code: Any) -> Any:
    """The exit code of one of several processes that was stopped; where another ended, it says so.

    `torchrun` ends all processes once one has ended, often before they notice the loss themselves.
    """
    first, lost = os.environ["RANK"] == "0", _behind(stop, PeerLost)
    if first and not lost:
        if _behind(stop, KeyboardInterrupt):
            _has_spoken()  # it has said how to go on
        return code
    if not (lost or _behind(stop, _Ended)):
        return code
    _end_undisturbed()
    _speak(str(lost or LOST), 0.0 if first else ENDED)
    return 1


def _behind(error: BaseException | None, kind: type[BaseException]) -> BaseException | None:
    """The error of this kind that was being dealt with, or this one itself."""
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error


def _in_words(error: OSError) -> str:
    """What the system refused, where, and what to do."""
    place = f" ({error.filename})" if error.filename else ""
    if error.errno in FULL:
        return (
            f"no space is left on the disk{place}; free some. Everything saved before is intact: "
            "--resume continues the run."
        )
    return f"{error.strerror or error}{place}."


def _out_of_memory(error: Exception) -> bool:
    """Whether Python, PyTorch on the CPU or PyTorch on a GPU got no memory."""
    named = type(error).__name__ == "OutOfMemoryError"  # torch need not be imported here
    return isinstance(error, MemoryError) or named or "can't allocate memory" in str(error)


def _stop(sentence: str, code: int) -> None:
    wait = 0.0
    if os.environ.get("RANK", "0") != "0":
        try:
            time.sleep(POLITE)
        except KeyboardInterrupt:
            wait = ENDED
    _end_undisturbed()
    _speak(sentence, wait)
    sys.exit(code)


def _speak(sentence: str, wait: float) -> None:
    """Say it: the first process does so at once, another one only where none has spoken by then."""
    rank = os.environ.get("RANK", "0")
    time.sleep(wait)
    if _has_spoken() and rank != "0":
        return
    who = "labelproof" if rank == "0" or sentence == LOST else f"labelproof, process {rank}"
    sys.stderr.write(f"{who}: {sentence}\n")


def _has_spoken() -> bool:
    """Whether one of the processes on this machine has said why the run ends; from now on, yes.

    They meet in the folder that `torchrun` makes for one start of its processes.
    """
    place = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not place:  # another launcher
        return False
    try:
        (Path(place).parents[1] / "labelproof-has-spoken").touch(exist_ok=False)
    except FileExistsError:
        return True
    except OSError:
        return False
    return False


def _end_undisturbed() -> None:
    """`torchrun` now ends all processes; this one is about to end by itself."""
    if "RANK" in os.environ:
        with contextlib.suppress(ValueError):  # outside the main thread
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
