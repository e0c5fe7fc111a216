"""A noise asked for in words: `symmetric:0.4`, `pair:0.45,select=per-class`, `matrix:t.csv`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from labelproof.choices import NOISE_KINDS, Option
from labelproof.errors import BadInput
from labelproof.messages import closest
from labelproof.noise.record import check_rate

KINDS = NOISE_KINDS


@dataclass(frozen=True, kw_only=True)
class NoiseSpec:
    """A kind of noise, its rate and its options, as checked by `parse_noise` or `noise_spec`."""

    kind: str
    rate: float  # 0 for a matrix, which brings its own
    options: Mapping[str, Option] = field(default_factory=dict)
    file: str | None = None  # of a matrix


def parse_noise(text: str) -> NoiseSpec:
    """Read `KIND:RATE`, `KIND:RATE,option=value` or `matrix:FILE`.

    Raises:
        BadInput: If the kind is unknown, the rate is no share or an option does not fit the kind.
    """
    kind, colon, rest = text.strip().partition(":")
    if kind == "matrix" or not colon:
        return noise_spec(kind, None, file=rest or None)
    rate, _, options = rest.partition(",")
    return noise_spec(f"{kind},{options}" if options else kind, _number(rate, text))


def noise_spec(kind: str, rate: float | None, file: str | None = None) -> NoiseSpec:
    """Check a noise given in parts.

    Args:
        kind: One of `KINDS`, with its options after commas where there are any, as in
            `pair,select=per-class`; `matrix:FILE` is understood too.
        rate: The nominal rate; None for a matrix.
        file: The file of a matrix.

    Raises:
        BadInput: If the kind is unknown, the rate is no share or an option does not fit the kind.
    """
    if kind.startswith("matrix:"):
        kind, file = "matrix", kind.removeprefix("matrix:")
    kind, *pairs = (part.strip() for part in kind.split(","))
    options = {name.strip(): value.strip() for name, _, value in (p.partition("=") for p in pairs)}
    _known(kind, KINDS, "kind of noise")
    if kind == "matrix":
        if not file:
            raise BadInput("Noise from a matrix needs its file, as in matrix:transitions.csv.")
        return NoiseSpec(kind=kind, rate=0.0, file=file)
    if rate is None:
        raise BadInput(f"Noise of kind {kind} needs a rate from 0 to 1, as in {kind}:0.4.")
    check_rate(rate)
    return NoiseSpec(kind=kind, rate=rate, options=_options(kind, options))


def _options(kind: str, given: Mapping[str, str]) -> dict[str, Option]:
    read: dict[str, Option] = {}
    for name, text in given.items():
        _known(name, KINDS[kind], f"option of {kind} noise")
        values = {str(value).lower(): value for value in KINDS[kind][name]}
        _known(text.lower(), values, f"value of {name}")
        read[name] = values[text.lower()]
    return read


def _known(name: str, names: Mapping[str, object], what: str) -> None:
    if name in names:
        return
    near = closest(name, names, cutoff=0.4)
    hint = f"; did you mean {near}?" if near is not None else "."
    choices = f"it may be {', '.join(names)}" if names else "there is none"
    raise BadInput(f"There is no {what} called {name!r}: {choices}{hint}")


def _number(text: str, whole: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadInput(
            f"The noise rate must be a number from 0 to 1, but {whole!r} has {text!r}; "
            "write for example symmetric:0.4."
        )
    return value
