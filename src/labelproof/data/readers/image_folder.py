"""Folders of pictures: a folder per class, or a flat folder with a CSV of labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labelproof.data.examples import Examples, Repeated
from labelproof.data.labels import label_notes
from labelproof.data.readers.column_roles import assign
from labelproof.data.readers.delimited import FILE_NAMES, layout, required
from labelproof.data.readers.file_names import (
    Blobs,
    FileBlobs,
    is_image,
    outside,
    printable,
    subfolders,
    walk,
)
from labelproof.data.readers.picture_inputs import Pictures, prepare
from labelproof.data.readers.reading_options import Reading, Told
from labelproof.data.readers.row_facts import csv_columns, tell
from labelproof.data.readers.sampling import few_pictures, seen
from labelproof.errors import BadInput
from labelproof.messages import cut_short

TRAIN_PARTS = ("train", "training")  # in small letters
TEST_PARTS = ("test", "testing", "val", "valid", "validation")
NOT_READ = (".heic", ".heif", ".avif", ".raw", ".cr2", ".nef", ".arw", ".dng", ".psd", ".svg")


def load_folder(root: Path, how: Reading) -> Examples:
    """Pictures of a folder: by `options.labels` if given, by class folders otherwise."""
    if how.options.labels is not None and how.like is None:
        return _listed(root, how.options.labels, how)
    root = _unwrapped(root)
    parts = {name.lower(): name for name in subfolders(root)}
    train = next((parts[name] for name in TRAIN_PARTS if name in parts), None)
    if how.like is None and train and set(parts) <= {train.lower(), *TEST_PARTS}:
        return _with_parts(root, train, parts, how)
    found = list(walk(root))
    files = [name for name in found if is_image(name)]
    if not files:
        raise BadInput(
            f"expected images (JPEG, PNG, WebP, BMP) in {printable(str(root))}, but there are none "
            f"in it{_others(found)}; {_instead(found)}"
        )
    about: dict[str, Any] = {"source": "folder", "path": str(root), "warnings": []}
    about["warnings"] += _left_out(found, files)
    if how.like is None:
        about["warnings"] += _folder_notes([*parts.values()], files)
    return _by_class(root, files, how, about)


def load_picture(path: Path, how: Reading) -> Examples:
    """One picture to predict on."""
    about = {"source": "image", "path": str(path)}
    return labelled_images(FileBlobs(str(path.parent), [path.name]), Told(), how, about)


def labelled_images(blobs: Blobs, told: Told, how: Reading, about: dict[str, Any]) -> Examples:
    """Examples of files with their labels, less the files that cannot be read."""
    if how.options.shard is not None:
        blobs, told = _part(blobs, how.options.shard, told)
    coded, votes, ids = told.coded(len(blobs), how), told.votes, told.ids
    pictures = _pictures(blobs, how, printable(about["path"]))
    rows, bad = pictures.rows, len(pictures.about["unreadable"])
    labels = coded.labels[rows] if coded.labels is not None else None
    rare: tuple[str, ...] = ()
    if labels is not None and how.like is None:
        rare = (*coded.skipped, *label_notes(labels[labels >= 0], coded.classes))
    return Examples(
        x=pictures.x,
        labels=labels,
        truth=coded.truth[rows] if coded.truth is not None else None,
        ids=[ids[row] if ids is not None else blobs.name(row) for row in rows],
        classes=coded.classes,
        groups=[told.groups[row] for row in rows] if told.groups else None,
        votes=votes.part(torch.as_tensor(rows)) if votes else None,
        sizes=None if pictures.sizes is None else torch.from_numpy(pictures.sizes),
        about={
            **about,
            **pictures.about,
            "warnings": [
                *about.get("warnings", ()),
                *(votes.notes if votes else ()),
                *rare,
                *([_bad_note(bad)] if bad else []),
            ],
        },
    )


def _pictures(blobs: Blobs, how: Reading, what: str) -> Pictures:
    """All pictures; or for a plan a few that stand for all."""
    few = few_pictures(blobs) if how.options.sample is not None else None
    if few is None:
        return prepare(blobs, how, what)
    lenient = replace(how.options, max_bad=1.0, cache=None)
    found = prepare(few, Reading(options=lenient, like=how.like), what)
    return Pictures(
        x=Repeated(found.x, len(blobs)),
        rows=np.arange(len(blobs)),
        about={**found.about, **seen(len(few), len(blobs))},
    )


def _part(blobs: Blobs, shard: tuple[int, int], told: Told) -> tuple[Blobs, Told]:
    """Every n-th picture from the i-th on, and the same rows of what belongs to them."""
    if not isinstance(blobs, FileBlobs):
        raise BadInput("expected picture files for --shard, but these are inside a data set")
    rows = np.arange(len(blobs))[shard[0] - 1 :: shard[1]]
    return FileBlobs(blobs.root, [blobs.files[row] for row in rows]), told.part(rows)


def _bad_note(bad: int) -> str:
    files = (
        "1 file could not be read and was"
        if bad == 1
        else f"{bad} files could not be read and were"
    )
    return f"{files} left out"


def _by_class(root: Path, files: list[str], how: Reading, about: dict[str, Any]) -> Examples:
    like = how.like
    inside = [name for name in files if "/" in name]
    labels: list[str] | None = [printable(name.split("/", 1)[0]) for name in inside]
    if like is not None and not set(labels or ()) & set(like.classes or ()):
        inside, labels = files, None  # none of the folders is a class: pictures to predict on
    elif not inside:
        raise BadInput(
            f"expected a folder per class in {printable(str(root))}, but its {len(files)} images "
            "are in one folder; sort them into class folders or give a CSV of labels with "
            "--labels"
        )
    elif like is None and len(set(labels or ())) == 1 and about["warnings"]:
        raise BadInput(
            f"expected at least two folders with pictures in {printable(str(root))}, but only "
            f"{labels[0]!r} has some; {about['warnings'][0]}"  # type: ignore[index]
        )
    elif len(inside) < len(files):
        note = f"{len(files) - len(inside)} images outside the class folders were left out"
        about["warnings"].append(note)
    told = Told(given=labels, what=f"the class folders of {printable(str(root))}")
    return labelled_images(FileBlobs(str(root), inside), told, how, about)


def _unwrapped(root: Path) -> Path:
    """The folder with the classes, where an archive wrapped it in folders of their own."""
    while True:
        entries = [entry for entry in root.iterdir() if not entry.name.startswith(".")]
        if len(entries) != 1 or not entries[0].is_dir() or len(subfolders(entries[0])) < 2:
            return root
        root = entries[0]


def _left_out(found: list[str], files: list[str]) -> list[str]:
    """How many files are not read, and of which kinds."""
    if len(files) == len(found):
        return []
    note = f"{len(found) - len(files)} files have no image suffix and were skipped"
    lost = any(Path(name).suffix.lower() in NOT_READ for name in found)
    advice = "; convert pictures of other formats to JPEG or PNG" if lost else ""
    return [note + _others(found) + advice]


def _folder_notes(folders: list[str], files: list[str]) -> list[str]:
    """What a person should know of the classes: folders that are none, and those inside them."""
    notes = []
    inner: dict[str, set[str]] = {}
    for name in files:
        first, *others = name.split("/")
        if others:
            inner.setdefault(first, set()).update(others[:-1][:1])
    empty = [name for name in folders if name not in inner and not name.startswith("__")]
    if empty and inner:
        notes.append(f"folders without a picture were not used as classes ({_named(empty)})")
    shared = sorted(set.intersection(*inner.values())) if inner else []
    if len(inner) > 1 and len(shared) > 1:
        notes.append(
            f"the classes are the outer folders ({_named(sorted(inner))}), but each of them has "
            f"the same folders inside ({_named(shared)}); if these are the classes, give a CSV of "
            "files and labels with --labels"
        )
    return notes


def _named(names: list[str]) -> str:
    return cut_short([repr(printable(name)) for name in names[:5]], len(names))


def _instead(found: list[str]) -> str:
    """What to do with a folder that has no picture in it."""
    other = any(Path(name).suffix.lower() in NOT_READ for name in found)
    return "convert these to JPEG or PNG" if other else "check the path"


def _others(found: list[str]) -> str:
    """The suffixes of files that are no pictures, the most frequent first."""
    counts = Counter(Path(name).suffix.lower() or "none" for name in found if not is_image(name))
    listed = ", ".join(f"{printable(suffix)}: {n}" for suffix, n in counts.most_common(3))
    return f" ({listed})" if listed else ""


def _with_parts(root: Path, first: str, parts: Mapping[str, str], how: Reading) -> Examples:
    """A folder that is split into `train` and `test` (or `val`) already."""
    train = load_folder(root / first, how)
    part = next((parts[name] for name in TEST_PARTS if name in parts), None)
    if part is None:
        return train
    return replace(train, test=load_folder(root / part, replace(how, like=train)))


def _listed(root: Path, table: Path, how: Reading) -> Examples:
    """Pictures that a CSV lists: with a label each, or what several people said."""
    how = replace(how, options=replace(how.options, labels=None))  # the votes are in this table
    header, options, what = layout(table).header, how.options, printable(table.name)
    wanted = (header, options.file_column, FILE_NAMES, table, "--file-column")
    file = required(*wanted, "file names")
    roles = replace(assign(header, how, table), file=file)
    if options.id_column is None:
        roles = replace(roles, id=None)  # files are the names, whatever else is called id
    columns = csv_columns(table, roles.named)
    voted = bool(roles.annotators or roles.annotator)
    content = "votes" if voted else "labels"
    if not len(columns[file]):
        raise BadInput(f"expected {content} in {what}, but there is only a header; check the file")
    told = tell(columns, roles, how, what, size=len(columns[file]), first_row=2)
    names = columns[file] if told.rows is None else columns[file][told.rows]
    files = check_files(root, names.tolist(), table)
    about = {
        "source": "folder",
        "path": str(root),
        content: str(table),
        "columns": roles.present(voted=voted),
        **outside(root, files),
    }
    return labelled_images(FileBlobs(str(root), files), told, how, about)


def check_files(root: Path, files: list[str], table: Path) -> list[str]:
    """File names of a table: each once, and each of them there."""
    files = [_spelled(root, name.strip()) for name in files]
    twice = [name for name, count in Counter(files).items() if count > 1]
    if twice:
        raise BadInput(
            f"expected every file once in {printable(table.name)}, but {len(twice)} occur more "
            f"often, such as {printable(twice[0])!r}; keep one row for each"
        )
    missing = [name for name in files if not _is_there(root, name)]
    if missing:
        shown = ", ".join(printable(name) or "(blank)" for name in missing[:3])
        raise BadInput(
            f"expected the files named in {printable(table.name)} below {printable(str(root))}, "
            f"but {len(missing)} of {len(files)} are not there ({shown}); "
            "correct the names or the folder"
        )
    return files


def _spelled(root: Path, name: str) -> str:
    """A name as written, or with the slashes turned where a table was made on another system."""
    turned = name.replace("\\", "/")
    return turned if turned != name and not _is_there(root, name) else name


def _is_there(root: Path, name: str) -> bool:
    try:
        return bool(name) and (root / name).is_file()
    except (OSError, ValueError):  # a name too long, or with a zero byte
        return False
