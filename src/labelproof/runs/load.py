"""Reading a model back from a run folder: JSON and safetensors alone, no code is executed."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from labelproof.data.encoders.picture_encoding import (
    BUILT_IN,
    PictureEncoding,
    encode_like,
    without_vectors,
)
from labelproof.data.encoders.texts import MINILM, JoinedTexts, TransformerEncoder
from labelproof.data.examples import Encoder, Examples
from labelproof.data.readers import from_arrays, load_like
from labelproof.data.task import Task, Views
from labelproof.errors import BadInput
from labelproof.files import read_json
from labelproof.judging.link import Link
from labelproof.methods import METHODS
from labelproof.nets import NETS
from labelproof.nets.pretrained import is_timm
from labelproof.run_files import CALIBRATION, MODEL
from labelproof.runs.folder import read_record
from labelproof.runs.manifest import check_manifest
from labelproof.runs.model import Model, member_prefix
from labelproof.runs.ownership import is_own
from labelproof.runs.schemas import CalibrationRecord
from labelproof.runs.spec import frozen
from labelproof.training.protocol import Method
from labelproof.training.run import pick_device
from labelproof.training.trained import Trained, blank_task, revive
from labelproof.training.trunk import make_trunk
from labelproof.views import ImageViews, RandAugment, VectorViews

DAMAGE = (
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    IndexError,
    RuntimeError,
    OSError,
)
MOST_WAVES = 2**16  # of a vector; runs have hundreds


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A model from a folder, and what other data must look like to be predicted."""

    model: Model
    like: Examples
    record: Mapping[str, Any]  # run.json

    def predict(self, x: Any) -> npt.NDArray[np.str_]:
        """The name of the most probable class of each example, (M,)."""
        best = self.predict_proba(x).argmax(1)
        names: npt.NDArray[np.str_] = np.array(self.model.classes)[best]
        return names

    def predict_proba(self, x: Any) -> npt.NDArray[np.float64]:
        """Calibrated probabilities, (M, C), with a column for each of `model.classes`.

        Args:
            x: examples in the form of the training data: vectors (M, D), images (M, H, W, 3), a
                pandas frame, or a list of texts.

        Raises:
            BadInput: the examples are of another form or size than the training data.
        """
        like = self.like
        if isinstance(like.encoder, PictureEncoding):
            examples = encode_like(from_arrays(x, None, like=without_vectors(like)), like)
        else:
            examples = from_arrays(x, None, like=like)
        probs = self.model.predict(examples.x).probabilities.double()
        return probs.div(probs.sum(1, keepdim=True)).numpy()


def load_model(
    folder: Path | str,
    *,
    net: nn.Module | Callable[[], nn.Module] | None = None,
    method: Method | None = None,
    encoder: str | None = None,
    device: str = "auto",
) -> Loaded:
    """Read the model of a finished run, or a folder that `labelproof export --format folder` made.

    Args:
        folder: the run folder.
        net: the network, where the run was made with one of your own rather than a named one.
        method: the method's record, where it was one of your own.
        encoder: the file or folder of the encoder, where the run used one that came as a file and
            was not made by you on this computer.
        device: `auto`, `cpu`, `cuda` or `mps`.

    Raises:
        BadInput: the folder is no finished run, or is damaged, or needs `net` or `method`.
    """
    folder = Path(folder)
    record = read_record(folder)
    if not (folder / MODEL).is_file():
        raise BadInput(
            f"{folder} has no {MODEL}: the run has not ended, or was copied only in part; "
            "finish it with `labelproof fit ... --resume`, or copy it again."
        )
    check_manifest(folder)
    like = with_named_encoder(load_like(folder), record, encoder)
    where = pick_device(device)
    try:
        method = method or _method(record)
        task = _task(record)
        trunk, _ = make_trunk(net or _net_name(record), task, weights=False)
        own, *members = _trained(folder / MODEL)
        states = tuple(revive(method, task, trunk, each, where) for each in (own, *members))
        link = _link(folder / CALIBRATION, own)
        _check_like(like, task, folder)
    except DAMAGE as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(
            f"the files of {folder} do not fit together ({_first_line(error)}); "
            "restore the folder or copy it again."
        ) from error
    return Loaded(
        model=Model(method=method, states=states, task=task, device=where, link=link),
        like=like,
        record=record,
    )


def _method(record: Mapping[str, Any]) -> Method:
    name = record["method"]
    if name not in METHODS:
        raise BadInput(
            f"the run used the method {name!r}, which is not part of labelproof; load it from "
            "Python with load_model(folder, method=...)."
        )
    return METHODS[name](**{key: frozen(value) for key, value in record["settings"].items()})


def _net_name(record: Mapping[str, Any]) -> str:
    name = str(record["net"])
    if name not in NETS and not is_timm(name):
        raise BadInput(
            f"the run used a custom network, {name!r}, which is not part of labelproof; load it "
            "from Python with load_model(folder, net=...)."
        )
    return name


def _task(record: Mapping[str, Any]) -> Task:
    about = record["task"]
    classes = tuple(str(name) for name in about["classes"])
    return blank_task(tuple(about["shape"]), classes, views_of(record["views"]), about["kind"])


def views_of(record: Mapping[str, Any]) -> Views:
    """The views that run.json describes."""
    values = {key: frozen(value) for key, value in record.items() if key != "type"}
    if record["type"] == "VectorViews":
        for key in ("mean", "std", "spread"):
            values[key] = None if values[key] is None else torch.tensor(values[key])
        views = VectorViews(**values)
        if not 0 <= views.waves <= MOST_WAVES or not 0 < views.wavelength < math.inf:
            raise ValueError(f"{views.waves!r} waves of length {views.wavelength!r}")
        return views
    if record["type"] != "ImageViews":
        raise ValueError(f"unknown views {record['type']!r}")
    if isinstance(values["policy"], Mapping):
        values["policy"] = RandAugment(**values["policy"])
    return ImageViews(**values)


def _check_like(like: Examples, task: Task, folder: Path) -> None:
    if like.x.shape != task.x.shape or tuple(like.classes or ()) != task.classes:
        raise BadInput(
            f"run.json and reading.json in {folder} are not of the same run; copy the folder again."
        )


def _trained(path: Path) -> list[Trained]:
    """The run's own networks, then those trained without a fold that predict too, if any."""
    try:
        with safe_open(path, framework="pt") as file:
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            plain = json.loads((file.metadata() or {}).get("state", "{}"))
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise BadInput(
            f"{path} cannot be read ({_first_line(error)}); copy the run folder again."
        ) from None
    broken = [name for name, values in weights.items() if not values.isfinite().all()]
    if broken:
        raise BadInput(f"{path} holds numbers that are not finite ({broken[0]}); train again.")
    numbered = (_starting(weights, member_prefix(number)) for number in itertools.count(1))
    members = itertools.takewhile(bool, numbered)
    return [Trained(weights=each, plain=plain) for each in (weights, *members)]


def _starting(weights: Mapping[str, Tensor], start: str) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of the name."""
    return {name[len(start) :]: t for name, t in weights.items() if name.startswith(start)}


def _link(path: Path, saved: Trained) -> Link:
    """The calibrated link; none was fitted where the file is absent."""
    if not path.is_file():
        return Link()
    record = read_json(path, CalibrationRecord, "restore the run folder")["link"]
    return Link.revive(record, saved.weights)


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:120]}" if text else type(error).__name__


IN_PACKAGES = re.compile(r"timm:[A-Za-z0-9_.]+")  # names of models; `local-dir:` is a path


def with_named_encoder(like: Examples, record: Mapping[str, Any], named: str | None) -> Examples:
    """What new data must look like, with an encoder that may be opened, `named` or not."""
    encoder = like.encoder
    place = place_of(encoder)
    if encoder is None or place is None:
        if named is not None:
            raise BadInput(
                "expected no --encoder, because this run used no encoder file; leave it out."
            )
        return like
    if named is not None:
        return replace(like, encoder=_moved(encoder, named))
    told = (record.get("data") or {}).get("encoding")
    if is_own(record) and told == json.loads(json.dumps(encoder.describe())):
        return like
    raise BadInput(
        f"this run folder was not made by you on this computer, and its encoder is the file "
        f"{place}; if that is the right one, name it yourself: --encoder {place}"
    )


def place_of(encoder: Encoder | None) -> str | None:
    """The file or folder that an encoder is read from; None for those that packages hold."""
    if isinstance(encoder, JoinedTexts):
        encoder = encoder.sentences
    if isinstance(encoder, TransformerEncoder):
        return None if encoder.model == MINILM else encoder.model
    if isinstance(encoder, PictureEncoding):
        held = encoder.name in BUILT_IN or IN_PACKAGES.fullmatch(encoder.name)
        return None if held else encoder.name
    return None


def _moved(encoder: Encoder, named: str) -> Encoder:
    """The encoder at another place; that it has the same weights is checked when it is opened."""
    if isinstance(encoder, JoinedTexts):
        return replace(encoder, sentences=replace(encoder.sentences, model=named))
    if isinstance(encoder, TransformerEncoder):
        return replace(encoder, model=named)
    assert isinstance(encoder, PictureEncoding)
    return replace(encoder, name=named)
