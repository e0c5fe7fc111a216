"""CSV and other tables: columns of features, of texts, or of paths to images."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from labelproof.data.encoders.columns import (
    Frame,
    TableEncoder,
    fit_table,
    giveaways,
    numbering,
    row_caption,
    unparsed,
)
from labelproof.data.encoders.texts import (
    LONGEST,
    AnyTexts,
    TransformerEncoder,
    as_text,
    fit_texts,
    use_transformer,
)
from labelproof.data.examples import Captions, Examples, in_memory
from labelproof.data.readers.column_roles import (
    Roles,
    assign,
    copies,
    like_votes,
    read_ids,
    recognise,
    unused_texts,
    votes_unnamed,
)
from labelproof.data.readers.delimited import LABEL_NAMES, is_number
from labelproof.data.readers.file_names import FileBlobs, outside, printable
from labelproof.data.readers.frames import WRITTEN, own_columns, own_note
from labelproof.data.readers.image_folder import check_files, labelled_images
from labelproof.data.readers.reading_options import (
    EncodedRows,
    Reading,
    SourceOptions,
    Told,
)
from labelproof.data.readers.row_facts import columns_of, tell, with_inputs
from labelproof.data.readers.sampling import seen, spread
from labelproof.data.readers.table_files import EXCEL, LINES, read_header, read_table
from labelproof.errors import BadInput

COPY = "nearly repeats the label"
TEXT = "looks like text: use --text-column"
BESIDE = "not used beside texts"
FEW_TEXTS, FEW_LETTERS = 1000, 200  # that a plan learns TF-IDF from, and reads of each
MOST_SHOWN = 12  # columns in the caption of a row


def load_table(path: Path, how: Reading) -> Examples:
    """Examples of a CSV, JSON lines or Excel file; options say what its columns are, or they do."""
    roles = assign(read_header(path), how, path)
    suffix = path.suffix.lower()
    source = "jsonl" if suffix in LINES else "excel" if suffix in EXCEL else "csv"
    about, first_row = {"source": source, "path": str(path)}, 1 if suffix in LINES else 2
    return from_frame(read_table(path, roles.named), roles, how, about, first_row)


def from_frame(
    frame: Frame,
    roles: Roles,
    how: Reading,
    about: dict[str, Any],
    first_row: int,
    names: Sequence[str] | None = None,
) -> Examples:
    """Examples of a frame in memory: rows of features, texts, or pictures that it lists."""
    what = printable(Path(about["path"]).name)
    if not len(frame):
        raise BadInput(f"expected rows in {what}, but there is only a header; check the file")
    told = _told(frame, roles, how, what, first_row, names)
    frame = frame if told.rows is None else frame.iloc[told.rows].reset_index(drop=True)
    frame, notes = without_labels(frame, roles, how)
    most = how.options.sample
    if most is not None and roles.file is None and len(frame) > most:
        rows = spread(len(frame), most)
        about = {**about, **seen(len(rows), len(frame))}
        frame, told = frame.iloc[rows], told.part(rows)
    used = used_columns(frame, roles, how, told.given)
    if used.roles.id is not None and roles.id is None:
        told = replace(told, ids=read_ids(frame[used.roles.id], used.roles.id, what, first_row))
    if used.roles.file is not None:
        present = used.roles.present(voted=bool(told.votes))
        about = {**about, "columns": present, "left_out": used.left_out}
        return _listed(frame[used.roles.file], told, how, about)
    rows_read = _encode(frame, used.features, used.roles, how, what, first_row)
    rows_read = replace(
        rows_read, left_out=used.left_out, warnings=(*notes, *used.notes, *rows_read.warnings)
    )
    about = {**about, "missing": missing_cells(used.features)}
    examples = with_inputs(rows_read, told, used.roles, how, about)
    return examples if how.like else examples.noted(_giveaways(used.features, examples.labels))


def _told(
    frame: Frame,
    roles: Roles,
    how: Reading,
    what: str,
    first_row: int,
    names: Sequence[str] | None,
) -> Told:
    every = [name for name in frame.columns if name not in how.options.drop_columns]
    columns = columns_of(frame, every if roles.annotator else roles.named)
    return tell(columns, roles, how, what, size=len(frame), first_row=first_row, names=names)


def _listed(files: Any, told: Told, how: Reading, about: dict[str, Any]) -> Examples:
    """Pictures that a column of a table names, relative to its folder."""
    path = Path(about["path"])
    found = check_files(path.parent, [str(name) for name in files], path)
    about = {**about, **outside(path.parent, found)}
    return labelled_images(FileBlobs(str(path.parent), found), told, how, about)


def without_labels(frame: Frame, roles: Roles, how: Reading) -> tuple[Frame, tuple[str, ...]]:
    """The frame without a column that is called label, where several people gave the labels."""
    if how.like is not None or not (roles.annotators or how.options.labels):
        return frame, ()
    others = [name for name in frame.columns if name not in roles.named]
    found = [name for name in others if str(name).lower() in LABEL_NAMES]
    notes = (f"column {name!r} is left out: labels come from the annotators" for name in found)
    return frame.drop(columns=found), tuple(notes)


def _giveaways(features: Frame, labels: Any) -> list[str]:
    """Warnings about columns that tell the label, by the rows that have one."""
    if labels is None or not len(features.columns):
        return []
    known = labels >= 0
    return giveaways(features[known], labels[known])


@dataclass(frozen=True, kw_only=True)
class _Used:
    """The columns that are features, and why others are not."""

    roles: Roles
    features: Frame
    left_out: dict[str, str]
    notes: tuple[str, ...]


def used_columns(frame: Frame, roles: Roles, how: Reading, given: Any) -> _Used:
    """Roles and columns to learn from, without our own and those that nearly repeat the labels."""
    features = frame.drop(columns=[*roles.named, *how.options.drop_columns], errors="ignore")
    if how.like is not None:
        return _Used(roles=roles, features=features, left_out={}, notes=())
    own = own_columns(features.columns)
    features = features.drop(columns=own)
    voted = bool(roles.annotator or roles.annotators or how.options.labels)
    copied = copies(features, given, voted)
    roles, features = recognise(roles, features.drop(columns=list(copied)))
    alone = roles.text is not None
    texts = {} if alone or roles.file is not None else unused_texts(features)
    left_out = {
        **dict.fromkeys(own, WRITTEN),
        **dict.fromkeys(map(str, copied), COPY),
        **dict.fromkeys(texts, TEXT),
    }
    if alone:
        left_out |= dict.fromkeys(map(str, features.columns), BESIDE)
    notes = (*own_note(own), *copied.values(), *texts.values())
    if not alone and roles.file is None:
        notes = (*notes, *like_votes(features, given, voted))
    if not voted:
        notes = (*notes, *votes_unnamed(features))
    return _Used(roles=roles, features=features, left_out=left_out, notes=notes)


def missing_cells(features: Frame) -> dict[str, int]:
    """How many cells are empty, by column; full columns are left out."""
    counts = features.isna().sum()
    return {str(name): int(count) for name, count in counts.items() if count}


def _encode(
    frame: Frame, features: Frame, roles: Roles, how: Reading, what: str, first_row: int
) -> EncodedRows:
    encoder = how.like.encoder if how.like is not None else None
    if roles.text is not None and not isinstance(encoder, TableEncoder):
        return _encode_texts(frame[roles.text], roles.text, how.options, encoder, what)
    if encoder is None and how.like is None:
        encoder = fit_table(features, what, first_row)
    if not isinstance(encoder, TableEncoder):
        raise BadInput(
            f"expected data like the training data's ({_kind_of_training(encoder)}), but {what} "
            "is a table without it; give data of the same kind"
        )
    vectors = encoder.transform(features, what, first_row)
    names = [column.name for column in encoder.columns[:MOST_SHOWN]]
    shown = {name: frame[name].to_numpy(dtype=object) for name in names}
    return EncodedRows(
        inputs=in_memory(vectors),
        encoder=encoder,
        captions=Captions(frame, row_caption(shown), without=roles.named),
        warnings=(*not_numbers(features, encoder), *numbering(features, encoder)),
        gaps=torch.from_numpy(features.isna().to_numpy().mean(axis=1)),
    )


def not_numbers(features: Frame, encoder: TableEncoder) -> tuple[str, ...]:
    """Warnings about words in columns of numbers."""
    return tuple(
        f"{count} values of column {name!r} are not numbers and count as missing"
        for name, count in unparsed(features, encoder).items()
    )


def _kind_of_training(encoder: Any) -> str:
    if isinstance(encoder, AnyTexts):
        return f"a column {encoder.column!r} of texts"
    return "arrays or images"


def _encode_texts(
    column: Any, name: str, options: SourceOptions, encoder: Any, what: str
) -> EncodedRows:
    missing = column.isna().to_numpy()
    texts = ["" if gone else as_text(text) for text, gone in zip(column, missing, strict=True)]
    if not any(text.strip() for text in texts):
        raise BadInput(
            f"expected texts in column {name!r} of {what}, but all are blank; "
            "name another column with --text-column"
        )
    vectors = None
    if encoder is None and options.text_model is not None:
        encoder = use_transformer(options.text_model, name)
    elif encoder is None and options.sample is not None:
        short = [text.lstrip()[:FEW_LETTERS] for text in texts]
        some = [text for text in short if re.search(r"\w", text)]
        encoder, _ = fit_texts(some[:: 1 + len(some) // FEW_TEXTS], name, what)
        vectors = encoder.transform(short)
    elif encoder is None:
        encoder, vectors = fit_texts(texts, name, what)
    return EncodedRows(
        inputs=in_memory(encoder.transform(texts) if vectors is None else vectors),
        encoder=encoder,
        captions=texts,
        warnings=_odd_texts(texts, name, encoder),
        gaps=torch.tensor([float(not text.strip()) for text in texts]),
    )


def _odd_texts(texts: list[str], name: str, encoder: AnyTexts) -> tuple[str, ...]:
    """What to say of texts that are blank, numbers, or too long to be read whole."""
    counts = {"blank": sum(not text.strip() for text in texts)}
    numbers = sum(map(is_number, texts))
    if 2 * numbers > len(texts):
        counts["numbers"] = numbers
    if not isinstance(encoder, TransformerEncoder):  # whose tokenizer cuts, far earlier
        cut = sum(len(text) > LONGEST for text in texts)
        counts[f"cut after {LONGEST:,} characters"] = cut
    return tuple(
        f"{count} of {len(texts)} texts in column {name!r} {'is' if count == 1 else 'are'} {what}"
        for what, count in counts.items()
        if count
    )
