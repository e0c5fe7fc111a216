"""Columns of a table as numbers: what each column is, and the encoder that remembers it.

Numbers are standardised, a missing one becomes the median and, where training data had any
missing, sets an indicator of its own. Words become one column per frequent value and one for all
others, so a value never seen before has a place. Dates become days. Columns that say nothing (one
value) or name the row (almost as many values as rows) are left out, and `describe` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from labelproof.data.encoders.spellings import amount, day_first, iso_date
from labelproof.data.optional_packages import need
from labelproof.errors import BadInput

Kind = Literal["number", "date", "boolean", "category"]
Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]  # what a saved encoder may hold
Floats = npt.NDArray[np.float64]
Frame = Any  # a pandas DataFrame; pandas is an optional dependency
Series = Any
MOST_LEVELS = 50  # values of a column of words that get a column each
LARGEST = 1e30  # a larger number is a mistake, and its square would overflow
FAR = 1e6  # standardised values are cut off here
CELL = 24  # letters of a cell in a row's caption
GAPS = ("", "nan", "NaT", "None", "<NA>")  # how an empty cell reads
MOSTLY = 0.9  # share of a column of words that must be numbers for the rest to count as missing
ISO_DATE = r"\s*\d{4}-\d{1,2}-\d{1,2}([T ].*)?"


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of the table and how it is encoded."""

    name: str
    kind: Kind
    median: Finite
    mean: Finite
    std: Annotated[float, Meta(gt=0, le=1e300)]
    indicator: bool  # whether a column says that the value was missing
    levels: tuple[str, ...]
    day_first: bool | None = None  # of dates such as 3/4/2024; None where they are written ISO

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the numbers this column becomes."""
        if self.kind == "category":
            return (*(f"{self.name}={level}" for level in self.levels), f"{self.name}=(other)")
        return (self.name, f"{self.name} missing") if self.indicator else (self.name,)

    def encode(self, series: Series, what: str, first_row: int) -> npt.NDArray[np.float32]:
        """(N, len(outputs)) numbers."""
        if self.kind == "category":
            return _one_hot(as_words(series), self.levels)
        values = as_numbers(series, self.kind, self.day_first)
        _refuse_infinite(values, self.name, what, first_row)
        missing = np.isnan(values)
        with np.errstate(over="ignore"):  # a stranger to training data, which is cut off
            scaled = (np.where(missing, self.median, values) - self.mean) / self.std
        scaled = np.clip(scaled, -FAR, FAR)
        columns = [scaled, missing] if self.indicator else [scaled]
        return np.stack(columns, axis=1).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class TableEncoder:
    """How the rows of a table become vectors, fitted on training data."""

    columns: Annotated[tuple[Column, ...], Meta(min_length=1)]
    dropped: Mapping[str, str]  # column: why it was left out

    def describe(self) -> dict[str, Any]:
        """What was done to each column, for run.json."""
        return {
            "encoder": "table",
            "columns": [asdict(column) for column in self.columns],
            "dropped": dict(self.dropped),
            "features": sum(len(column.outputs) for column in self.columns),
        }

    def transform(self, frame: Frame, what: str, first_row: int = 0) -> npt.NDArray[np.float32]:
        """Vectors (N, D) of the rows of a frame that has all columns of the training data."""
        absent = [column.name for column in self.columns if column.name not in frame.columns]
        if absent:
            verb = "is" if len(absent) == 1 else "are"
            raise BadInput(
                f"expected the columns of the training data in {what}, but {', '.join(absent)} "
                f"{verb} not there; give a table with the same columns"
            )
        parts = [column.encode(frame[column.name], what, first_row) for column in self.columns]
        return np.concatenate(parts, axis=1)


def fit_table(frame: Frame, what: str, first_row: int = 0) -> TableEncoder:
    """Learn an encoder from the feature columns of a training table."""
    columns: list[Column] = []
    dropped: dict[str, str] = {}
    for name in frame.columns:
        found = _fit_column(str(name), frame[name], what, first_row)
        if isinstance(found, Column):
            columns.append(found)
        else:
            dropped[str(name)] = found
    if not columns:
        left = "; ".join(f"{name}: {why}" for name, why in dropped.items()) or "no other column"
        raise BadInput(
            f"expected feature columns in addition to the labels in {what}, but none can be used "
            f"({left}); name a column of texts with --text-column or of images with --file-column"
        )
    return TableEncoder(columns=tuple(columns), dropped=dropped)


def _fit_column(name: str, series: Series, what: str, first_row: int) -> Column | str:
    """The column's encoding, or why it is left out."""
    if series.nunique(dropna=False) < 2:
        return "one value only"
    kind = kind_of(series)
    if kind == "category":
        return _fit_category(name, as_words(series))
    values = as_numbers(series, kind)
    _refuse_infinite(values, name, what, first_row)
    if kind == "number" and _counts_rows(values):
        return "numbers the rows"
    found = _fit_number(name, kind, values)
    if kind != "date" or need("pandas", "table", "a table").api.types.is_datetime64_any_dtype(
        series
    ):
        return found
    return replace(found, day_first=day_first(series.dropna().astype(str)))


def _fit_number(name: str, kind: Kind, values: Floats) -> Column:
    missing = np.isnan(values)
    median = float(np.median(values[~missing]))
    filled = np.where(missing, median, values)
    spread = float(filled.std())
    return Column(
        name=name,
        kind=kind,
        median=median,
        mean=float(filled.mean()),
        std=spread if spread > 0 else 1.0,
        indicator=bool(missing.any()),
        levels=(),
    )


def _fit_category(name: str, words: npt.NDArray[Any]) -> Column | str:
    levels, counts = np.unique(words, return_counts=True)
    if len(levels) > max(MOST_LEVELS, len(words) // 2):
        return f"{len(levels)} different values in {len(words)} rows, so these are names of rows"
    order = np.lexsort((levels, -counts))  # frequent first, ties by name
    least = max(2, len(words) // 1000)
    kept = [str(levels[place]) for place in order[:MOST_LEVELS] if counts[place] >= least]
    if not kept:
        return "only rare values"
    frequent = tuple(kept)
    return Column(
        name=name, kind="category", median=0.0, mean=0.0, std=1.0, indicator=False, levels=frequent
    )


def kind_of(series: Series) -> Kind:
    """What a column holds, by its type and, for words, by what they say."""
    types = need("pandas", "table", "a table").api.types
    if types.is_bool_dtype(series):
        return "boolean"
    if types.is_numeric_dtype(series):
        return "number"
    if types.is_datetime64_any_dtype(series):
        return "date"
    present = series.dropna()
    if np.isfinite(as_numbers(present, "number")).mean() >= MOSTLY:
        return "number"
    words = present.astype(str)
    dates = words.str.fullmatch(ISO_DATE).all() or day_first(words) is not None
    parsed = dates and np.isfinite(as_numbers(present, "date")).all()
    return "date" if parsed else "category"


def as_numbers(series: Series, kind: Kind, day_comes_first: bool | None = None) -> Floats:
    """float64, nan where there is no number; dates are days since 1970.

    `day_comes_first` says how 3/4/2024 was read in the training data; None finds out.
    """
    pandas = need("pandas", "table", "a table")
    if kind == "date":
        first = day_comes_first
        if first is None and not pandas.api.types.is_datetime64_any_dtype(series):
            first = day_first(series.dropna().astype(str))
        written = series.map(lambda value: iso_date(value, first))
        moments = pandas.to_datetime(written, errors="coerce", utc=True, format="ISO8601")
        nanoseconds = moments.dt.tz_localize(None).to_numpy("datetime64[ns]")
        days = nanoseconds.astype(np.int64) / 86_400e9
        return np.where(np.isnat(nanoseconds), np.nan, days)
    values = pandas.to_numeric(series, errors="coerce")
    if values.isna().any() and not pandas.api.types.is_numeric_dtype(series):
        values = values.where(values.notna() | series.isna(), series.map(amount))
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)


def as_words(series: Series) -> npt.NDArray[Any]:
    """Values as an object array of strings, `(missing)` where there is none."""
    missing = series.isna().to_numpy()
    words = np.array([str(value).strip() for value in series.to_numpy(dtype=object)], dtype=object)
    words[missing] = "(missing)"
    return words


def unparsed(frame: Frame, encoder: TableEncoder) -> dict[str, int]:
    """How many values of each number column are words, which count as missing."""
    counts = {}
    for column in encoder.columns:
        if column.kind in ("number", "date"):
            numbers = as_numbers(frame[column.name], column.kind)
            strange = np.isnan(numbers) & frame[column.name].notna().to_numpy()
            counts[column.name] = int(strange.sum())
    return {name: count for name, count in counts.items() if count}


def numbering(frame: Frame, encoder: TableEncoder) -> list[str]:
    """Warnings about columns with each number of a range once, in any order."""
    found = []
    for column in encoder.columns:
        if column.kind != "number" or column.indicator or len(frame) <= 10:
            continue
        values = np.sort(as_numbers(frame[column.name], "number"))
        if (np.diff(values) == 1).all():
            found.append(
                f"column {column.name!r} has each number from {values[0]:.0f} to {values[-1]:.0f} "
                "once, as identifiers do; if it names the rows, say so with --id-column, or leave "
                "it out with --drop-column"
            )
    return found


def giveaways(frame: Frame, labels: npt.NDArray[np.int64] | None) -> list[str]:
    """Warnings about columns that name the label in other words."""
    if labels is None or len(labels) < 20:
        return []
    classes = len(np.unique(labels))
    suspects = [name for name in frame.columns if frame[name].nunique() == classes]
    same = [
        n for n in suspects if len(set(zip(as_words(frame[n]), labels, strict=True))) == classes
    ]
    return [
        f"column {name!r} predicts the label exactly; if it was made from the label, leave it out "
        "with --drop-column"
        for name in same
    ]


def row_caption(columns: Mapping[str, npt.NDArray[Any]]) -> Callable[[int], str]:
    """A function that shows a row in short: `name=value, ...`."""

    def show(row: int) -> str:
        shown = {name: str(values[row]) for name, values in columns.items()}
        cells = (
            f"{name}={text if len(text) <= CELL else text[: CELL - 1].rstrip() + '…'}"
            for name, text in shown.items()
            if text not in GAPS
        )
        text = ", ".join(" ".join(cell.split()) for cell in cells)
        return text if len(text) <= 200 else text[:197] + "..."

    return show


def _one_hot(words: npt.NDArray[Any], levels: tuple[str, ...]) -> npt.NDArray[np.float32]:
    place = {level: position for position, level in enumerate(levels)}
    positions = np.array([place.get(word, len(levels)) for word in words], dtype=np.int64)
    return np.eye(len(levels) + 1, dtype=np.float32)[positions]


def _counts_rows(values: Floats) -> bool:
    """Whether a column is 0, 1, 2, ... or 1, 2, 3, ..., as exported row numbers are."""
    return bool(len(values) > 10 and values[0] in (0, 1) and (np.diff(values) == 1).all())


def _refuse_infinite(values: Floats, name: str, what: str, first_row: int) -> None:
    bad = np.flatnonzero(np.abs(values) > LARGEST)
    if len(bad):
        raise BadInput(
            f"expected finite numbers in column {name!r} of {what}, but {len(bad)} are infinite or "
            f"beyond {LARGEST:g}, the first in row {int(bad[0]) + first_row}; "
            "correct or empty these cells"
        )
