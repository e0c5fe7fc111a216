"""Carrying out a noise asked for in words on a data set's labels."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from labelproof.data.examples import Inputs
from labelproof.data.plain_files import read_npy
from labelproof.errors import BadInput
from labelproof.files import read_regular
from labelproof.noise.classwise import checked_matrix, classwise, from_matrix
from labelproof.noise.instancewise import Scaling, instance, pmd, probe_probabilities
from labelproof.noise.noise_spec import Floats, Labels, Noise, NoiseSpec

INSTANCEWISE = ("instance", "pmd-1", "pmd-2", "pmd-3")

LARGEST_MATRIX = 2**30  # bytes of its file


def apply_noise(
    spec: NoiseSpec, y: Labels, classes: Sequence[str], inputs: Inputs | None, seed: int
) -> Noise:
    """Corrupt labels as a specification says; the same seed gives the same labels.

    PMD noise takes its class probabilities from a quick probe of the labels given, out of fold
    (`probe_probabilities`); call `pmd` itself with those of another model.

    Args:
        spec: The noise, from `parse_noise`.
        y: Labels taken for true, (N,) integers.
        classes: Names of the classes, in the order of the integers.
        inputs: The examples; only instance and PMD noise need them.
        seed: Decides every draw, with no regard to any global state.

    Raises:
        BadInput: If the noise does not fit the classes, or needs inputs that are not there.
    """
    if seed < 0:
        raise BadInput(f"A seed must be a whole number of 0 or more, but got {seed}.")
    # A stream of its own, whatever else is drawn from the same seed.
    rng, count = np.random.default_rng((seed, 0x6E6F697365)), len(classes)
    if spec.kind == "matrix":
        noise = from_matrix(y, read_matrix(Path(spec.file or ""), count), rng)
        noise = dataclasses.replace(noise, options={"file": spec.file})
    elif spec.kind in INSTANCEWISE:
        noise = _instancewise(spec, y, count, rng, inputs, seed)
    else:
        options: dict[str, Any] = {**spec.options}
        kind = _asymmetric(count) if spec.kind == "asymmetric" else spec.kind
        noise = classwise(kind, y, count, spec.rate, rng, **options)
    return dataclasses.replace(noise, seed=seed)


def _instancewise(
    spec: NoiseSpec,
    y: Labels,
    count: int,
    rng: np.random.Generator,
    inputs: Inputs | None,
    seed: int,
) -> Noise:
    if inputs is None:
        raise BadInput(
            f"Noise of kind {spec.kind} depends on the examples, but a file of labels has none; "
            f"give the data, as in: labelproof fit DATA --noise {spec.kind}:{spec.rate:g}."
        )
    if spec.kind == "instance":
        scaling = cast(Scaling, spec.options.get("scaling", "raw"))
        shared = spec.options.get("shared", False) is True
        return instance(y, count, spec.rate, rng, inputs=inputs, scaling=scaling, shared=shared)
    eta = probe_probabilities(inputs, y, count, seed)
    kind = cast(Literal[1, 2, 3], int(spec.kind[-1]))
    return pmd(y, count, spec.rate, rng, eta=eta, kind=kind)


def _asymmetric(count: int) -> str:
    kinds = {10: "asymmetric-cifar10", 100: "asymmetric-cifar100"}
    if count not in kinds:
        raise BadInput(
            "Asymmetric noise maps the classes of CIFAR-10 or of CIFAR-100, but the data have "
            f"{count} classes; use pair, symmetric, or matrix:FILE with a map of your own."
        )
    return kinds[count]


def read_matrix(path: Path, count: int) -> Floats:
    """A transition matrix from `.npy`, or from CSV with commas or semicolons and no header."""
    try:
        if path.suffix == ".npy":
            matrix = read_npy(read_regular(path, LARGEST_MATRIX))
        else:
            text = read_regular(path, LARGEST_MATRIX).decode("utf-8-sig")
            delimiter = ";" if ";" in text else ","
            rows = csv.reader(text.splitlines(), delimiter=delimiter)
            matrix = np.array([[float(cell) for cell in row] for row in rows if row])
    except (ValueError, csv.Error) as error:  # Refused and BadInput are ValueErrors
        raise BadInput(
            f"The transition matrix {path} cannot be read ({error}); give a .npy file or a CSV "
            f"of {count} lines of {count} numbers."
        ) from error
    if matrix.shape != (count, count) or matrix.dtype.kind not in "fiu":
        raise BadInput(
            f"The transition matrix {path} must be {count} by {count} numbers, one row per class, "
            f"but is {matrix.dtype} of shape {matrix.shape}."
        )
    return checked_matrix(matrix)
