"""The .npz source: `x`, labels under a key of choice, an optional test part; no pickles."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labelproof.data.examples import Examples
from labelproof.data.plain_files import Refused, read_npz
from labelproof.data.readers.arrays import from_arrays
from labelproof.data.readers.delimited import FILE_NAMES, layout, read_columns, required
from labelproof.data.readers.file_names import outside
from labelproof.data.readers.image_folder import check_files
from labelproof.data.readers.on_disk import left_on_disk
from labelproof.data.readers.reading_options import Reading, SourceOptions, as_groups
from labelproof.data.readers.vote_table import annotator_names, pick_annotators
from labelproof.data.readers.votes_beside import votes_beside
from labelproof.errors import BadInput

Arrays = Mapping[str, Any]  # arrays; large vectors are left on disk
VOTES, ANNOTATORS = "votes", "annotators"  # keys of several people's labels and of their names
SHOWN = ("id", "file", "text")  # arrays that say what a person is shown of each vector,
PLURALS = tuple(f"{name}s" for name in SHOWN)  # also so: np.savez has an argument `file`


def load_npz(path: Path, how: Reading) -> Examples:
    """Examples of an .npz: `x`, `y` or another key, and `x_test`, `y_test`, `classes` if there."""
    options, like = how.options, how.like
    wanted = {"x", "x_test", "y_test", "classes", "y", options.label_key, options.truth_key}
    beside = options.labels if like is None else None
    people = _people(path, options, like) if beside is None else ()
    wanted |= {VOTES, ANNOTATORS, *people, *SHOWN, *PLURALS, options.group}
    large = left_on_disk(path, "x", options.memory_gb * 1e9)
    arrays, shapes = read_arrays(path, wanted - {"x"} if large else wanted)
    arrays = {**arrays, "x": large} if large else arrays
    if "x" not in arrays:
        raise BadInput(
            f"expected an array 'x' of inputs in {path.name}, but it holds {_keys(shapes)}; "
            "save the inputs under the name x"
        )
    has_test = like is None and "x_test" in arrays and "y_test" in arrays
    classes = _class_names(arrays.get("classes"), path) if like is None else None
    votes = _votes(arrays, people, options.label_key) if like is None else None
    names = arrays.get(ANNOTATORS)
    if votes is not None and votes.ndim == 2 and not people and names is None:
        people = annotator_names(votes)
    shown = _shown(arrays, options, path) if like is None else Shown()
    notes = _unused(arrays, options, several=votes is not None or beside is not None)
    if beside is not None:
        told = votes_beside(beside, options, shown.ids or [*map(str, range(len(arrays["x"])))])
        votes, people, notes = told.cells, told.annotators, (*notes, *told.notes)
    examples = from_arrays(
        arrays["x"],
        _labels(arrays, shapes, options.label_key, path, like) if votes is None else votes,
        annotators=people or (names.tolist() if names is not None else None),
        truth=_truth(arrays, shapes, options.truth_key, path, like),
        classes=classes,
        x_test=arrays["x_test"] if has_test else None,
        y_test=arrays["y_test"] if has_test else None,
        like=like,
        name=path.name,
        ids=shown.ids,
        merge=options.merge_labels,
        skip=options.skip_unlabelled,
        about={"source": "npz", "path": str(path), "label_key": options.label_key, **shown.about},
    )
    groups = _groups(arrays, shapes, options.group, path) if like is None else None
    examples = examples.noted(notes, last=False)
    return replace(examples, captions=shown.texts or examples.captions, groups=groups)


def _unused(arrays: Arrays, options: SourceOptions, *, several: bool) -> tuple[str, ...]:
    """A note on an array of labels beside those of annotators."""
    if not several or "y" not in arrays or options.truth_key == "y":
        return ()
    return (
        "the array 'y' is not used, because labels come from the annotators; if it holds true "
        "labels, add --truth-key y to measure against them",
    )


def _groups(
    arrays: Arrays, shapes: dict[str, str], key: str | None, path: Path
) -> list[str] | None:
    """The group of every example, where an array says so."""
    if key is None:
        return None
    if key not in arrays:
        raise BadInput(
            f"expected a group for each example under the key {key!r} in {path.name}, but it "
            f"holds {_keys(shapes)}; correct --group"
        )
    size = len(arrays["x"])
    if arrays[key].shape != (size,):
        raise BadInput(
            f"expected a group for each of the {size} examples under the key {key!r} in "
            f"{path.name}, but its shape is {arrays[key].shape}; save an array of shape ({size},)"
        )
    return as_groups(arrays[key].tolist(), f"the array {key!r} of {path.name}")


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What the report shows of vectors: names, texts, and where their pictures lie."""

    ids: list[str] | None = None
    texts: list[str] | None = None
    about: Mapping[str, str | list[str]] = field(default_factory=dict)


def _shown(arrays: Arrays, options: SourceOptions, path: Path) -> Shown:
    size = len(arrays["x"])
    named = {one: name for name, more in zip(SHOWN, PLURALS, strict=True) for one in (more, name)}
    columns = {
        name: _strings(arrays[one], one, size, path) for one, name in named.items() if one in arrays
    }
    root = path.parent
    if options.files is not None:
        columns["file"], root = _listed_files(options, size), options.files.parent
    texts = columns.get("text")
    if "file" not in columns:
        return Shown(ids=columns.get("id"), texts=texts)
    files = check_files(root, columns["file"], options.files or path)
    return Shown(ids=files, texts=texts, about={"pictures": str(root), **outside(root, files)})


def _strings(values: npt.NDArray[Any], name: str, size: int, path: Path) -> list[str]:
    if values.shape != (size,):
        raise BadInput(
            f"expected an array {name!r} of shape ({size},) in {path.name}, but it has shape "
            f"{values.shape}; save one for each row of x"
        )
    return [str(value) for value in values]


def _listed_files(options: SourceOptions, size: int) -> list[str]:
    assert options.files is not None
    found = layout(options.files)
    column = required(
        found.header, options.file_column, FILE_NAMES, options.files, "--file-column", "file names"
    )
    (files,) = read_columns(options.files, found, [column])
    if len(files) != size:
        raise BadInput(
            f"expected a file for each of the {size} vectors in {options.files.name}, but it "
            f"names {len(files)}; give one row for each, in the same order"
        )
    return files


def _people(path: Path, options: SourceOptions, like: Examples | None) -> tuple[str, ...]:
    """The arrays that `--annotators` means: one person's labels each."""
    if not options.annotators or like is not None:
        return ()
    shapes = read_arrays(path, set())[1]
    return pick_annotators(list(shapes), options.annotators, path.name)


def _votes(arrays: Arrays, people: tuple[str, ...], label_key: str) -> npt.NDArray[Any] | None:
    """Votes (N, A): of the arrays named, or `votes` unless labels under another name are wanted."""
    if people:
        columns = [arrays[name] for name in people]
        if len({column.shape for column in columns}) > 1 or columns[0].ndim != 1:
            raise BadInput(
                "expected one label per example in each array of --annotators, but their shapes "
                f"are {', '.join(f'{n} {arrays[n].shape}' for n in people)}; name others"
            )
        return np.stack(columns, axis=1)
    return arrays.get(VOTES) if label_key == "y" else None


def read_arrays(path: Path, wanted: set[str | None]) -> tuple[Arrays, dict[str, str]]:
    """The wanted arrays of an .npz, and a description of every array in it."""
    if path.is_file() and not zipfile.is_zipfile(path):
        raise _damaged(path, "it is no zip archive")
    try:
        arrays, shapes = read_npz(path, wanted.__contains__)
    except Refused as error:
        if "pickle" in str(error):
            raise BadInput(
                f"expected plain number and string arrays in {path.name}, but it holds pickled "
                "objects, which could run code when loaded; save it again without dtype=object"
            ) from None
        raise _damaged(path, error) from None
    return arrays, {key: f"{found.dtype.kind}{found.shape}" for key, found in shapes.items()}


def _class_names(names: npt.NDArray[Any] | None, path: Path) -> list[str] | None:
    if names is None:
        return None
    if names.ndim != 1 or names.dtype.kind not in "iuUS":
        raise BadInput(
            f"expected a row of class names under 'classes' in {path.name}, but it holds "
            f"{names.dtype} of shape {names.shape}; save one name for each class"
        )
    return [
        name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else str(name)
        for name in names.tolist()
    ]


def _damaged(path: Path, error: Exception | str) -> BadInput:
    return BadInput(
        f"expected a readable .npz archive, but {path.name} could not be read ({error}); "
        "write it again with numpy.savez"
    )


def _labels(
    arrays: Arrays, shapes: dict[str, str], key: str, path: Path, like: Examples | None
) -> npt.NDArray[Any] | None:
    """Given labels; data to predict on may have none, test data may call them `y`."""
    if key in arrays:
        found: npt.NDArray[Any] = arrays[key]
        return found
    if like is not None:
        return arrays.get("y")
    size = len(arrays["x"]) if arrays["x"].ndim else 0
    fitting = [k for k, text in shapes.items() if text[0] in "iuUS" and text[1:] == f"({size},)"]
    advice = f"save labels of shape ({size},) under the name {key}"
    if fitting:
        advice = f"name one of {', '.join(fitting)} with --label-key"
    if len(fitting) == 1:
        advice = f"use --label-key {fitting[0]}"
    raise BadInput(
        f"expected labels under the key {key!r} in {path.name}, but it holds {_keys(shapes)}; "
        f"{advice}."
    )


def _truth(
    arrays: Arrays, shapes: dict[str, str], key: str | None, path: Path, like: Examples | None
) -> npt.NDArray[Any] | None:
    if key is None or (key not in arrays and like is not None):
        return None
    if key not in arrays:
        raise BadInput(
            f"expected true labels under the key {key!r} in {path.name}, but it holds "
            f"{_keys(shapes)}; name one of these with --truth-key or leave the option out"
        )
    true: npt.NDArray[Any] = arrays[key]
    return true


def _keys(shapes: dict[str, str]) -> str:
    return ", ".join(sorted(shapes)) or "no arrays"
