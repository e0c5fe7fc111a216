"""A Hugging Face data set saved to disk: images, vectors, texts or columns, and class names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from labelproof.data.encoders.columns import Frame
from labelproof.data.examples import Examples
from labelproof.data.optional_packages import need
from labelproof.data.readers.arrays import from_arrays
from labelproof.data.readers.column_roles import Roles, assign
from labelproof.data.readers.delimited import LABEL_NAMES, pick
from labelproof.data.readers.file_names import open_picture, printable
from labelproof.data.readers.image_folder import labelled_images
from labelproof.data.readers.in_batches import column_of_lists, file_key
from labelproof.data.readers.large_tables import TableSource, is_large, load_large
from labelproof.data.readers.parquet import is_vectors, single
from labelproof.data.readers.pixels import Unreadable
from labelproof.data.readers.reading_options import Reading, Told
from labelproof.data.readers.sampling import seen, spread
from labelproof.data.readers.table import from_frame
from labelproof.errors import BadInput, RunFailed
from labelproof.files import read_regular

TEST_PARTS = ("test", "validation", "val")
LARGEST = 2**24  # bytes of a state.json
MARKS = ("dataset_dict.json", "dataset_info.json", "state.json")


def is_saved_dataset(folder: Path) -> bool:
    """Whether `save_to_disk` wrote this folder."""
    return (folder / MARKS[0]).is_file() or all((folder / mark).is_file() for mark in MARKS[1:])


@dataclass(frozen=True)
class RowBlobs:
    """Encoded pictures in a column of a data set."""

    rows: Any  # the data set, with the column not decoded
    column: str

    def __len__(self) -> int:
        return len(self.rows)

    def open(self, index: int) -> BinaryIO:
        """The bytes in the row, or the file that the row names."""
        value = self.rows[index][self.column]
        if value is None:
            raise Unreadable("no image in this row")
        if value["bytes"] is not None:
            return BytesIO(value["bytes"])
        if not value["path"]:
            raise Unreadable("no image in this row")
        return open_picture(value["path"])

    def name(self, index: int) -> str:
        """The number of the row."""
        return f"row {index}"

    def fingerprint(self) -> str:
        """The data set's own."""
        return f"{self.rows._fingerprint}/{self.column}"


def load_saved(folder: Path, how: Reading) -> Examples:
    """Examples of a saved data set; a saved dictionary has a training and perhaps a test part."""
    need("datasets", "hf", "a saved Hugging Face data set")
    try:
        return _load(folder, how)
    except (BadInput, RunFailed, MemoryError):
        raise
    except Exception as error:  # the library fails in many ways on a damaged folder
        raise BadInput(
            f"expected a data set written by save_to_disk in {printable(str(folder))}, but it "
            f"could not be read ({' '.join(str(error).split())[:120]}); save it again"
        ) from None


def _load(folder: Path, how: Reading) -> Examples:
    datasets = need("datasets", "hf", "a saved Hugging Face data set")
    _check_files(folder)
    found = datasets.load_from_disk(str(folder))
    for part in found.values() if isinstance(found, datasets.DatasetDict) else [found]:
        part.data.table.validate(full=True)  # else Arrow ends the process where offsets are wrong
    about = {"source": "hugging face", "path": str(folder)}
    if not isinstance(found, datasets.DatasetDict):
        return _examples(found, how, about)
    test = next((found[name] for name in TEST_PARTS if name in found), None)
    if how.like is not None:
        part = test if test is not None else next(iter(found.values()))
        return _examples(part, how, about)
    train = _examples(training_part(found, folder), how, about)
    if test is None:
        return train
    return replace(train, test=_examples(test, replace(how, like=train), about))


def _check_files(folder: Path) -> None:
    """Refuse data files that are pipes or devices, which never end, or lie somewhere else."""
    for state in [*folder.glob("state.json"), *folder.glob("*/state.json")]:
        for file in json.loads(read_regular(state, LARGEST))["_data_files"]:
            path = state.parent / file["filename"]
            if path.parent != state.parent or not path.is_file():
                raise ValueError(f"{printable(file['filename'])} is no file in {state.parent.name}")


def training_part(found: Any, folder: Path) -> Any:
    """The part of a saved dictionary to train on."""
    if "train" in found:
        return found["train"]
    if len(found) == 1:
        return next(iter(found.values()))
    raise BadInput(
        f"expected a part called train in {printable(str(folder))}, but its parts are "
        f"{', '.join(found)}; give the folder of one part"
    )


def _examples(rows: Any, how: Reading, about: dict[str, Any]) -> Examples:
    datasets = need("datasets", "hf", "a saved Hugging Face data set")
    label = _label_column(rows, how, datasets)
    options = replace(how.options, label_column=label or how.options.label_column)
    how = replace(how, options=options)
    roles = assign(rows.column_names, how, Path(about["path"]))
    names = _class_names(rows, roles.label, datasets)
    image = _image_column(rows, roles, datasets)
    if image is not None:
        return _images(rows, image, roles, names, how, about)
    if options.sample is not None and len(rows) > options.sample:
        about = {**about, **seen(options.sample, len(rows))}
        rows = rows.select(spread(len(rows), options.sample).tolist())
    schema = rows.features.arrow_schema
    vectors = [name for name in rows.column_names if is_vectors(schema.field(name).type)]
    if vectors and roles.text is None:
        return _vectors(rows, single(vectors, "the data set"), roles, names, how, about)
    frame = rows.remove_columns([n for n in options.drop_columns if n in rows.column_names])
    table = _source(frame, roles, about)
    found = load_large(table, roles, how, about, names) if is_large(table, roles, how) else None
    return found or from_frame(frame.to_pandas(), roles, how, about, 0, names)


def _source(rows: Any, roles: Roles, about: dict[str, Any]) -> TableSource:
    """The plain columns of a data set."""

    def read(columns: Sequence[str], step: int) -> Iterator[Any]:
        some = rows.select_columns(list(columns)).with_format("arrow")
        return (part.replace_schema_metadata() for part in some.iter(batch_size=step))

    def whole(columns: Sequence[str]) -> Frame:
        if columns:
            return rows.select_columns(list(columns)).to_pandas()
        return need("pandas", "table", "a table").DataFrame(index=range(len(rows)))

    return TableSource(
        name=printable(Path(about["path"]).name),
        size=len(rows),
        columns=tuple(name for name in rows.column_names if name not in roles.named),
        read=read,
        whole=whole,
        key=lambda text: _key(rows, text),
    )


def _key(rows: Any, *more: object) -> str:
    """Changes when the files of a data set do, or the rows that are taken from them."""
    files = [Path(file["filename"]) for file in rows.cache_files]
    return file_key(files, rows._fingerprint, *more)


def _label_column(rows: Any, how: Reading, datasets: Any) -> str | None:
    """The column an option names, or has a usual name, or is the only one of class labels."""
    found, wanted = None, how.options.label_column
    if how.like is None:
        folder = Path("the data set")
        found = pick(rows.column_names, wanted, LABEL_NAMES, folder, "--label-column")
    labels = [n for n, kind in rows.features.items() if isinstance(kind, datasets.ClassLabel)]
    return found or (labels[0] if len(labels) == 1 and wanted is None else None)


def _class_names(rows: Any, label: str | None, datasets: Any) -> Sequence[str] | None:
    kind = rows.features[label] if label is not None else None
    return list(kind.names) if isinstance(kind, datasets.ClassLabel) else None


def _image_column(rows: Any, roles: Roles, datasets: Any) -> str | None:
    if roles.text is not None:
        return None
    images = [n for n, kind in rows.features.items() if isinstance(kind, datasets.Image)]
    if roles.file is not None and roles.file not in images:
        raise BadInput(
            f"expected images in the column {roles.file!r} of the data set, but its image columns "
            f"are {', '.join(images) or 'none'}; correct --file-column"
        )
    return roles.file or (images[0] if images else None)


def _images(
    rows: Any,
    column: str,
    roles: Roles,
    names: Sequence[str] | None,
    how: Reading,
    about: dict[str, Any],
) -> Examples:
    datasets = need("datasets", "hf", "a saved Hugging Face data set")
    encoded = rows.select_columns([column]).cast_column(column, datasets.Image(decode=False))
    told = Told(
        given=_values(rows, roles.label),
        truth=_values(rows, roles.truth),
        names=names,
        ids=_ids(rows, roles),
        what=f"the label column {roles.label!r} of {Path(about['path']).name}",
    )
    about = {**about, "columns": roles.present()}
    return labelled_images(RowBlobs(encoded, column), told, how, about)


def _vectors(
    rows: Any,
    column: str,
    roles: Roles,
    names: Sequence[str] | None,
    how: Reading,
    about: dict[str, Any],
) -> Examples:
    name = printable(Path(about["path"]).name)
    alone = rows.select_columns([column]).with_format("arrow")
    vectors = column_of_lists(
        lambda step: alone.iter(batch_size=step),
        np.arange(len(rows)),
        key=_key(rows, column, len(rows)),
        what=f"the column {column!r} of {name}",
        source="the data set",
    )
    return from_arrays(
        vectors.kept(how.options),
        _values(rows, roles.label),
        truth=_values(rows, roles.truth),
        ids=_ids(rows, roles),
        classes=names,
        like=how.like,
        name=name,
        about={**about, "columns": roles.present()},
        merge=how.options.merge_labels,
        skip=how.options.skip_unlabelled,
    )


def _ids(rows: Any, roles: Roles) -> list[str] | None:
    return [printable(str(v)) for v in rows[roles.id]] if roles.id is not None else None


def _values(rows: Any, column: str | None) -> npt.NDArray[Any] | None:
    if column is None:
        return None
    if getattr(rows.features[column], "dtype", "") == "int64":  # numbers of classes, most often
        found = rows.select_columns([column]).with_format("arrow")[:].column(0)
        if not found.null_count:
            return np.asarray(found.to_numpy())
    return np.array(list(rows[column]), dtype=object)
