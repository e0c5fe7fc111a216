"""The user's own table with our findings in new columns, as a table or a Hugging Face data set.

The original columns stay in place and in order. Examples that are no rows of a table get a table
of their own: the picture file or the id, and the findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labelproof.csv_files import safe, write_csv
from labelproof.data.optional_packages import need
from labelproof.data.readers.huggingface import is_saved_dataset, training_part
from labelproof.data.readers.table_files import PARQUET, read_header, read_table
from labelproof.errors import BadInput
from labelproof.files import written_whole
from labelproof.report.example_view import files_of
from labelproof.review.corrected_file import kept_rows
from labelproof.runs.labels_file import Columns, spread
from labelproof.runs.ownership import WITHHELD
from labelproof.runs.reviewed import Reviewed

SUFFIXES = (".csv", ".tsv", *PARQUET)


def write_with_findings(review: Reviewed, out: Path) -> None:
    """Write the table by the suffix of `out`: .csv, .tsv or .parquet."""
    suffix = out.suffix.lower()
    if suffix not in SUFFIXES:
        raise BadInput(
            f"expected a file ending in .csv, .tsv or .parquet, but got {out.name}; choose one of "
            "these."
        )
    if suffix in PARQUET:
        table = _arrow(review)
        with written_whole(out) as aside:
            need("pyarrow.parquet", "table", "a Parquet table").write_table(table, aside)
        return
    frame = _frame(review, as_text=True)
    rows = ([_cell(value) for value in row] for row in frame.itertuples(index=False))
    header = [safe(str(name)) for name in frame.columns]
    write_csv(out, header, rows, "\t" if suffix == ".tsv" else ",")


def write_dataset(review: Reviewed, out: Path) -> None:
    """Save a Hugging Face data set with the new columns into the folder `out`."""
    datasets = need("datasets", "hf", "a Hugging Face data set")
    if out.exists():
        raise BadInput(f"{out} exists already; name another --out.")
    source = _source(review)
    if source is not None and source.is_dir() and is_saved_dataset(source):
        found = datasets.load_from_disk(str(source))
        several = isinstance(found, datasets.DatasetDict)
        part = training_part(found, source) if several else found
        names = [f"row {place}" for place in range(len(part))]  # as unreadable pictures are listed
        made = _with_columns(part, _fitted(review, names, source))
        if several:
            name = next(name for name, one in found.items() if one is part)
            made = datasets.DatasetDict({**found, name: made})
    else:
        made = datasets.Dataset(_arrow(review))
        if "image" in made.column_names and files_of(review.record, review.rows) is not None:
            made = made.cast_column("image", datasets.Image())
    made.save_to_disk(str(out))


def _with_columns(dataset: Any, columns: Columns) -> Any:
    kept = dataset.remove_columns([name for name in columns if name in dataset.column_names])
    for name, values in columns.items():
        kept = kept.add_column(name, values)
    return kept


def _arrow(review: Reviewed) -> Any:
    """The table as Arrow, with the types of a Parquet file as they are."""
    arrow = need("pyarrow", "table", "a Parquet table")
    source = _source(review)
    if source is not None and source.suffix.lower() in PARQUET:
        table = need("pyarrow.parquet", "table", "a Parquet table").read_table(source)
        file = _file_column(review)
        files = table.column(file).to_pylist() if file else [""] * len(table)
        columns = _fitted(review, files, source)
        for name, values in columns.items():
            table = table.drop_columns([name]) if name in table.column_names else table
            table = table.append_column(name, arrow.array(values))
        return table
    return arrow.Table.from_pandas(_frame(review, as_text=False), preserve_index=False)


def _frame(review: Reviewed, as_text: bool) -> Any:
    """The table as a frame; `as_text` keeps the cells of a CSV exactly as they are written."""
    pandas = need("pandas", "table", "a table with the findings")
    source = _source(review)
    if source is None or not source.is_file() or source.suffix.lower() == ".npz":
        return pandas.DataFrame({**_names(review), **review.findings()})
    if source.suffix.lower() in PARQUET:
        return _arrow(review).to_pandas()
    frame = read_table(source, read_header(source) if as_text else ())
    file = _file_column(review)
    files = frame[file].tolist() if file else [""] * len(frame)
    return frame.assign(**_fitted(review, files, source))


def _file_column(review: Reviewed) -> str | None:
    """The column that names picture files, if there is one."""
    return ((review.record.get("data") or {}).get("columns") or {}).get("file")


def _fitted(review: Reviewed, files: Sequence[Any], source: Path) -> Columns:
    """The new columns, a cell for each row of the source; `files` says what each row is called."""
    places, _ = kept_rows(review, files, len(files), source)
    return spread(review.findings(), places, len(files))


def _names(review: Reviewed) -> dict[str, list[Any]]:
    """What examples are called where no table names them."""
    files = files_of(review.record, review.rows)
    if files is None:
        return {"id": list(review.ids())}
    paths = [files.path(index) for index in range(len(review.rows))]
    return {"image": [str(path.absolute()) if path else None for path in paths]}


def _source(review: Reviewed) -> Path | None:
    """The table or saved data set that the run read, if it was one."""
    data = review.record.get("data") or {}
    if review.record.get(WITHHELD):
        raise BadInput(
            "the data is not read, because somebody else made this run folder; name it with --data."
        )
    if data.get("source") not in ("csv", "parquet", "jsonl", "excel", "hugging face"):
        return None
    if "annotator" in (data.get("columns") or {}):
        return None  # a row is a vote, not an example
    path = Path(str(data.get("path", "")))
    if not path.exists():
        raise BadInput(f"the labels of this run came from {path}, which is not there; restore it.")
    return path


def _cell(value: Any) -> str:
    blank = value is None or value != value  # NaN is no word
    return "" if blank else safe(str(value))
