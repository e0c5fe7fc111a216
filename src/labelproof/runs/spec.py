"""`RunSpec`: everything that makes a run, as one record that run.json holds and reads back.

A spec with the data it names, and the same version and number of threads, gives the same run:

    labelproof fit --from RUN/run.json --out NEW
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from labelproof.data.readers.reading_options import SourceOptions
from labelproof.errors import BadInput
from labelproof.files import read_json
from labelproof.judging import How
from labelproof.judging.suspects import Rule
from labelproof.run_files import RUN
from labelproof.runs.ownership import WITHHELD, visible
from labelproof.runs.schemas import AnyRecord
from labelproof.training.run import Precision

AUTO, FLAGSHIP = "auto", "dpc"


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """Everything that makes a run; each field is also an option of `labelproof fit`."""

    data: str | None = None  # a name or a path; None where it was handed over in memory
    test: str | None = None  # test data with trusted labels
    reading: SourceOptions = field(default_factory=SourceOptions)  # how both are read
    flip: bool | None = None  # whether a mirrored image keeps its label; None: as the data says
    noise: str | None = None  # label noise put in on purpose, such as symmetric:0.4
    reviewed: Path | None = None  # an earlier run whose reviewed labels are held fixed
    method: str = AUTO  # DPC, joined with other models where held-out labels say so
    recipe: str | None = None  # published settings to start from
    settings: Mapping[str, Any] = field(default_factory=dict)  # changes to the method's settings
    net: str = "auto"
    encoder: str = "auto"  # what makes vectors of pictures and texts; none: nothing
    calibrate: How | None = None  # None: folds, or quick with a recipe
    suspect_precision: float | None = None  # by our own estimate, at the least
    review_budget: int | None = None  # how many labels are suspects, at the most
    seed: int = 0
    device: str = "auto"
    precision: Precision = "auto"  # of the network's trunk; auto: bfloat16 on GPUs that have it
    compile: bool = False  # whether torch.compile fuses the trunk's operations
    deterministic: bool = False  # whether a GPU shall give the same bits again
    out: Path | None = None  # the run folder; None keeps nothing
    tensorboard: bool = False  # whether curves go to the run folder too

    def __post_init__(self) -> None:
        Rule(
            precision=self.suspect_precision, budget=self.review_budget
        )  # refused before data is read

    @property
    def how(self) -> How:
        """How to calibrate; published settings train too long to do it twice unasked."""
        return self.calibrate or ("quick" if self.recipe else "folds")

    @property
    def trained(self) -> str:
        """The method that is trained."""
        return FLAGSHIP if self.method == AUTO else self.method

    @property
    def number_type(self) -> Precision:
        """Of the trunk; published settings are those of float32 unless told otherwise."""
        return "fp32" if self.recipe and self.precision == "auto" else self.precision

    @property
    def joins(self) -> bool:
        """Whether other models may predict along with the method."""
        return self.method == AUTO and self.recipe is None

    @property
    def rule(self) -> Rule:
        """Which labels are called suspects."""
        return Rule(precision=self.suspect_precision, budget=self.review_budget)

    def describe(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        plain: dict[str, Any] = msgspec.to_builtins(self, enc_hook=str)
        return plain

    def same_run(self, other: RunSpec) -> bool:
        """Whether both are one run, wherever its folder is and however paths are written."""
        here, there = (replace(spec, out=None, tensorboard=False) for spec in (self, other))
        return here.describe() == there.describe() or _located(here) == _located(there)


def _located(spec: RunSpec) -> RunSpec:
    """The spec with every path from the root, however it was written."""
    reading = spec.reading
    return replace(
        spec,
        data=spec.data and os.path.realpath(spec.data),
        test=spec.test and os.path.realpath(spec.test),
        reviewed=spec.reviewed and spec.reviewed.resolve(),
        reading=replace(
            reading,
            labels=reading.labels and reading.labels.resolve(),
            data_dir=reading.data_dir and reading.data_dir.resolve(),
            cache=reading.cache and reading.cache.resolve(),
            files=reading.files and reading.files.resolve(),
            text_model=reading.text_model and reading.text_model.resolve(),
        ),
    )


def read_spec(values: Any, where: Path) -> RunSpec:
    """The spec that `describe` described, from the file `where`."""
    try:
        spec = msgspec.convert(values, RunSpec, dec_hook=_path)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise BadInput(
            f"{where} does not describe a run ({error}); restore it, or give the options again."
        ) from None
    fixed = {name: frozen(value) for name, value in spec.settings.items()}
    return replace(spec, settings=fixed)


def load_spec(path: Path, data: str | None = None) -> RunSpec:
    """The spec in a run.json or a folder; `data` is what the user names in its place."""
    file = path / RUN if path.is_dir() else path
    record = visible(read_json(file, AnyRecord, "name another file"), data)
    spec = spec_of(record, file)
    if spec.data is None and record.get(WITHHELD):
        raise BadInput(
            f"{file} was changed, or not made by you on this computer, so the files it names are "
            f"not read; name the data yourself: labelproof fit DATA --from {path}"
        )
    return spec


def spec_of(record: Mapping[str, Any], where: Path) -> RunSpec:
    """The spec of a run's record."""
    if "spec" not in record:
        raise BadInput(f"{where} is not the {RUN} of a run (it has no spec); name another file.")
    return read_spec(record["spec"], where)


def _path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise ValueError(f"expected a {kind.__name__.lower()}")


def frozen(value: Any) -> Any:
    """A value of JSON as records hold it: lists are tuples."""
    return tuple(frozen(item) for item in value) if isinstance(value, list) else value
