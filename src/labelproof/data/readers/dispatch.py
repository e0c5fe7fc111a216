"""Which source reads what: a name, a file by its suffix, or a folder by what lies in it."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote

from labelproof.data.encoders.encode import default_cache
from labelproof.data.encoders.picture_encoding import PictureEncoding, encode_like, without_vectors
from labelproof.data.examples import Examples, labelled_only
from labelproof.data.readers.column_roles import PEOPLE
from labelproof.data.readers.delimited import layout, pick
from labelproof.data.readers.file_names import is_image, printable
from labelproof.data.readers.huggingface import is_saved_dataset, load_saved
from labelproof.data.readers.image_folder import load_folder, load_picture
from labelproof.data.readers.npy import load_npy
from labelproof.data.readers.npz import load_npz
from labelproof.data.readers.parquet import load_parquet
from labelproof.data.readers.published.named import NAMES, load_named
from labelproof.data.readers.reading_options import Progress, Reading, SourceOptions
from labelproof.data.readers.shards import is_shards, load_shards
from labelproof.data.readers.table import load_table
from labelproof.data.readers.table_files import PARQUET
from labelproof.errors import BadInput
from labelproof.messages import closest

TABLES = (".csv", ".tsv", ".txt", ".parquet", ".pq", ".jsonl", ".ndjson", ".xlsx")
PACKED = (".gz", ".zip", ".bz2", ".xz", ".zst", ".7z", ".rar", ".tar", ".tgz")
OTHERWISE = {
    ".json": "write one object per line and call it .jsonl",
    ".xls": "save it as .xlsx or CSV",
    ".ods": "save it as .xlsx or CSV",
    **dict.fromkeys((".pkl", ".pickle", ".pt", ".pth"), "save the arrays as .npz, or a table"),
}  # what to do with files that people try
DEFAULTS = SourceOptions()


def load(
    data: str | Path,
    options: SourceOptions = DEFAULTS,
    like: Examples | None = None,
    progress: Progress | None = None,
) -> Examples:
    """Read a data set.

    Args:
        data: A name (`digits`, `cifar10`, ...) or a path. A name wins over a file of the same name;
            write `./digits` for the file.
        options: How to read it.
        like: The training data, when this is a test set or data to predict on: its encoder,
            classes and image size are used, and labels may be absent.
        progress: Called with (done, all) while files are read.

    Raises:
        BadInput: If the data cannot be used; the sentence says what was expected and what to do.
    """
    if like is not None and isinstance(like.encoder, PictureEncoding):
        pictures = load(data, options, without_vectors(like), progress)
        return encode_like(pictures, like, options.cache or default_cache(), progress)
    if like is not None:
        return _load(data, options, like, progress)
    _check_options(data, options)
    return labelled_only(_load(data, options, None, progress))


def _load(
    data: str | Path, options: SourceOptions, like: Examples | None, progress: Progress | None
) -> Examples:
    """All examples; a label is -1 where there is none and that is allowed."""
    path, how = Path(data), Reading(options=options, like=like, progress=progress)
    if str(data) in NAMES:
        note = (
            f"{data} is the built-in set, although there is a file or folder of that name; write "
            "./ before it to use it"
        )
        return load_named(str(data), how).noted([note] if path.exists() else [])
    if not path.exists():
        raise BadInput(
            f"expected a data set, but there is no file or folder {str(data)!r} and no built-in "
            f"set of that name{_near(path)}; check the path, or use one of {', '.join(NAMES)}"
        )
    if not path.is_file() and not path.is_dir():
        raise BadInput(
            f"expected a file or a folder, but {printable(str(path))} is a pipe or a device; "
            "save the data as a file first"
        )
    if path.suffix.lower() == ".npz":
        return load_npz(path, how)
    if path.suffix.lower() == ".npy":
        return load_npy(path, how)
    if path.is_dir() and is_saved_dataset(path):
        return load_saved(path, how)
    if path.is_dir() and like is None and is_shards(path):
        return load_shards(path, options.merge_labels)
    if path.is_dir():
        return load_folder(path, how)
    if path.suffix.lower() in PARQUET:
        return load_parquet(path, how)
    if path.suffix.lower() in TABLES:
        return load_table(path, how)
    if like is not None and is_image(path.name):
        return load_picture(path, how)
    raise BadInput(
        "expected an .npz or .npy file, a table (CSV, Parquet, JSON lines, Excel) or a folder, but "
        f"{printable(path.name)} is none of these by its suffix; {_instead(path)}"
    )


def _near(path: Path) -> str:
    """A hint at a name like this one, of a built-in set or beside the path."""
    try:
        beside = sorted(os.listdir(path.parent))
    except OSError:  # the folder is not there either
        beside = []
    near = closest(path.name, [*NAMES, *beside], cutoff=0.7)
    return f" (did you mean {printable(str(path.with_name(near)))!r}?)" if near else ""


def _instead(path: Path) -> str:
    """What to do with a file of a kind that is not read."""
    suffix = path.suffix.lower()
    if suffix in PACKED:
        return "unpack it first"
    if is_image(path.name):
        return "name the folder that holds the pictures"
    return OTHERWISE.get(suffix, "rename or convert it")


def _check_options(data: str | Path, options: SourceOptions) -> None:
    """Refuse shares and sizes that mean nothing, and options that would be ignored."""
    if not 0 <= options.max_bad <= 1:
        raise BadInput(
            f"expected a share between 0 and 1 for --max-bad, but got {options.max_bad:g}; give "
            "0.05 for five per cent"
        )
    if not options.memory_gb >= 0:
        raise BadInput(
            f"expected gigabytes of 0 and above for --memory-gb, but got {options.memory_gb:g}"
        )
    path = Path(data)
    pictures = str(data) not in NAMES and path.is_dir() and not is_saved_dataset(path)
    _check_names(path, options, pictures)
    voted = bool(options.annotators or options.annotator_column)
    suffix = path.suffix.lower()
    rows = path.is_file() and (suffix == ".npy" or (suffix in (*TABLES, ".npz") and voted))
    there = path.exists() or str(data) in NAMES
    if options.labels is not None and not pictures and not rows and there:
        rows = path.is_file() and suffix in (*TABLES, ".npz")
        _check_said_who(options.labels if rows else None)
        raise BadInput(
            "expected --labels with a folder of images, an .npy, or a table or .npz and a table "
            "of several people's votes (--annotator-column), but the data is "
            f"{printable(path.name)}; leave it out, and name the labels with --label-column or "
            "--label-key"
        )


def _check_said_who(table: Path | None) -> None:
    """Refuse a table of votes with the option that it lacks, where a column has a usual name."""
    if table is None or table.suffix.lower() not in (".csv", ".tsv", ".txt") or not table.is_file():
        return
    who = pick(layout(table).header, None, PEOPLE, table, "--annotator-column")
    if who is not None:
        raise BadInput(
            f"expected to be told which column of {printable(table.name)} says who gave a label, "
            f"but no option does; add --annotator-column {quote(who)}"
        )


def _check_names(path: Path, options: SourceOptions, pictures: bool) -> None:
    """Refuse names of columns where there are none, and of an array where there are columns."""
    name, suffix = printable(path.name), path.suffix.lower()
    if path.is_file() and suffix in TABLES and options.label_key != DEFAULTS.label_key:
        raise BadInput(
            f"expected --label-key with an .npz, but {name} is a table; name its column of labels "
            "with --label-column"
        )
    columns = {
        "--label-column": options.label_column,
        "--text-column": options.text_column,
        "--file-column": options.file_column,
    }
    if pictures:
        columns |= {
            "--id-column": options.id_column,
            "--group": options.group,
            "--annotators": options.annotators[0] if options.annotators else None,
            "--annotator-column": options.annotator_column,
        }
    asked = next((option for option, column in columns.items() if column is not None), None)
    if asked is None or options.labels is not None:
        return
    if path.is_file() and suffix == ".npz":
        raise BadInput(
            f"expected {asked} with a table, but {name} holds arrays; name the labels with "
            "--label-key"
        )
    if pictures and not is_shards(path):
        raise BadInput(
            f"expected {asked} with a table, but {name} is a folder of pictures, whose folders are "
            "the classes; leave it out, or name a CSV with --labels"
        )
