"""A Hugging Face data set saved to disk: images, vectors, texts or columns, and class names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from labelproof.data.encoders.columns import Frame
from labelproof.data.examples import Examples
from labelproof.data.optional_packages import need
from labelproof.data.readers.arrow_tables import TableSource, load_arrow, told_beside
from labelproof.data.readers.column_roles import Roles, assign
from labelproof.data.readers.file_names import open_picture, printable
from labelproof.data.readers.image_folder import labelled_images
from labelproof.data.readers.in_batches import file_key
from labelproof.data.readers.pixels import Unreadable
from labelproof.data.readers.reading_options import Reading
from labelproof.data.readers.sampling import seen, spread
from labelproof.data.readers.table_files import check_plain
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
    classes = [n for n, kind in rows.features.items() if isinstance(kind, datasets.ClassLabel)]
    otherwise = classes[0] if len(classes) == 1 else None
    roles = assign(rows.column_names, how, Path(about["path"]), otherwise)
    image = _image_column(rows, roles, how.options.file_column, datasets)
    most = how.options.sample
    together = bool(roles.annotator)  # rows of one example lie anywhere
    if image is None and most is not None and len(rows) > most and not together:
        about = {**about, **seen(most, len(rows))}
        rows = rows.select(spread(len(rows), most).tolist())
    table = _source(rows, _class_names(rows, roles, datasets), printable(Path(about["path"]).name))
    if image is None:
        return load_arrow(table, roles, how, about)
    told, roles = told_beside(table, replace(roles, file=image), how, "pictures")
    encoded = rows.select_columns([image]).cast_column(image, datasets.Image(decode=False))
    about = {**about, "columns": roles.present(voted=bool(told.votes))}
    return labelled_images(RowBlobs(encoded, image), told, how, about)


def _source(rows: Any, names: Sequence[str] | None, name: str) -> TableSource:
    """The columns of a data set."""
    schema = rows.features.arrow_schema

    def read(columns: Sequence[str], step: int) -> Iterator[Any]:
        some = rows.select_columns(list(columns)).with_format("arrow")
        return (part.replace_schema_metadata() for part in some.iter(batch_size=step))

    def whole(columns: Sequence[str]) -> Frame:
        check_plain(schema, columns, name)
        if columns:
            return rows.select_columns(list(columns)).to_pandas()
        return need("pandas", "table", "a table").DataFrame(index=range(len(rows)))

    files = [Path(file["filename"]) for file in rows.cache_files]
    return TableSource(
        name=name,
        schema=schema,
        size=len(rows),
        read=read,
        whole=whole,
        key=lambda text: file_key(files, rows._fingerprint, text),
        names=names,
    )


def _class_names(rows: Any, roles: Roles, datasets: Any) -> Sequence[str] | None:
    """The names of the classes, which all columns of labels must share."""
    labels = roles.annotators or ((roles.label,) if roles.label is not None else ())
    kinds = [rows.features[name] for name in labels]
    if not kinds or not all(isinstance(kind, datasets.ClassLabel) for kind in kinds):
        return None
    names = [list(kind.names) for kind in kinds]
    return names[0] if all(one == names[0] for one in names) else None


def _image_column(rows: Any, roles: Roles, asked: str | None, datasets: Any) -> str | None:
    if roles.text is not None:
        return None
    images = [n for n, kind in rows.features.items() if isinstance(kind, datasets.Image)]
    if asked is not None and asked == roles.file and asked not in images:
        raise BadInput(
            f"expected images in the column {asked!r} of the data set, but its image columns "
            f"are {', '.join(images) or 'none'}; correct --file-column"
        )
    return roles.file if roles.file in images else next(iter(images), None)
