"""What reading.json and encoder.json must hold for the code that reads them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]
Edge = Annotated[int, Meta(ge=1, le=2**24)]


class ReadingRecord(Struct):
    """reading.json: what other data must agree with."""

    shape: Annotated[list[Edge], Meta(min_length=1, max_length=4)]
    classes: list[str]
    columns: dict[str, str]
    encoder: bool
    normalise: Annotated[list[list[Finite]], Meta(min_length=2, max_length=2)] | None = None


class ColumnRecord(Struct):
    """encoder.json: a column of a table."""

    name: str
    kind: Literal["number", "date", "boolean", "category"]
    median: Finite
    mean: Finite
    std: Annotated[float, Meta(gt=0, le=1e300)]
    indicator: bool
    levels: list[str]
    day_first: bool | None = None


class TableRecord(Struct, tag="table", tag_field="kind"):
    """encoder.json of a table."""

    columns: Annotated[list[ColumnRecord], Meta(min_length=1)]
    dropped: dict[str, str]


class TextRecord(Struct, tag="text", tag_field="kind"):
    """encoder.json of texts."""

    column: str
    analyzer: Literal["char_wb", "word", "char"]
    vocabulary: Annotated[list[str], Meta(min_length=1)]


class TransformerRecord(Struct, tag="transformer", tag_field="kind"):
    """encoder.json of a transformer."""

    column: str
    model: str
    fingerprint: str
    length: Annotated[int, Meta(ge=1, le=10**6)] = 256
    batch: Annotated[int, Meta(ge=1, le=10**6)] = 32


class JoinedRecord(Struct, tag="joined", tag_field="kind"):
    """encoder.json of texts that are encoded twice, side by side."""

    words: TextRecord
    sentences: TransformerRecord


class PicturesRecord(Struct, tag="pictures", tag_field="kind"):
    """encoder.json of pictures."""

    name: str
    digest: str
    rule: str
    shape: Annotated[list[Edge], Meta(min_length=1, max_length=4)]
    features: Edge
