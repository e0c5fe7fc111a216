"""CSV and other tables: columns of features, of texts, or of paths to images."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
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
from labelproof.data.readers.delimited import is_number
from labelproof.data.readers.file_names import FileBlobs, outside, printable
from labelproof.data.readers.frames import WRITTEN, own_columns, own_note
from labelproof.data.readers.image_folder import check_files, labelled_images
from labelproof.data.readers.reading_options import (
    EncodedRows,
    Reading,
    SourceOptions,
    Told,
    as_groups,
)
from labelproof.data.readers.sampling import seen, spread
from labelproof.data.readers.table_files import EXCEL, LINES, read_header, read_table
from labelproof.data.readers.votes_beside import with_majority
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
    encoded: EncodedRows | None = None,
) -> Examples:
    """Examples of a frame in memory; `encoded` has the rows that it only says more about."""
    options, like, what = how.options, how.like, printable(Path(about["path"]).name)
    if not len(frame):
        raise BadInput(f"expected rows in {what}, but there is only a header; check the file")
    votes = None
    if like is None and (roles.annotators or roles.annotator or options.labels):
        frame, roles, found = with_majority(frame, roles, options, what, first_row)
        votes, names = found.votes, found.classes
    if roles.group is not None:
        as_groups(frame[roles.group], f"the column {roles.group!r} of {what}")
    if options.sample is not None and roles.file is None and len(frame) > options.sample:
        rows = spread(len(frame), options.sample)
        about = {**about, **seen(len(rows), len(frame))}
        frame, votes = frame.iloc[rows], votes.part(torch.from_numpy(rows)) if votes else None
    given = frame[roles.label].to_numpy(dtype=object) if roles.label else None
    used = used_columns(frame, roles, how, encoded)
    roles, features = used.roles, used.features
    about = {**about, "columns": roles.present(voted=bool(votes)), "left_out": used.left_out}
    beside = Told(
        given=given,
        truth=frame[roles.truth].to_numpy(dtype=object) if roles.truth else None,
        names=names,
        ids=read_ids(frame, roles.id, what, first_row),
        groups=[str(name) for name in frame[roles.group]] if roles.group else None,
        votes=votes,
        what=f"the label column {roles.label!r} of {what}",
        first_row=first_row,
    )
    if roles.file is not None:
        path = Path(about["path"])
        files = check_files(path.parent, [str(name) for name in frame[roles.file]], path)
        about = {**about, **outside(path.parent, files)}
        return labelled_images(FileBlobs(str(path.parent), files), beside, how, about)
    coded = beside.coded(len(frame), how)
    encoded = encoded or _encode(frame, features, roles, how, what, first_row)
    warnings = [
        *(votes.notes if votes else ()),
        *used.notes,
        *coded.warnings,
        *encoded.warnings,
        *(_giveaways(features, coded.labels) if like is None else ()),
    ]
    missing = about.get("missing", missing_cells(features))
    about = {**about, "missing": missing, "warnings": warnings}
    return beside.examples(encoded, coded, about)


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


def used_columns(
    frame: Frame, roles: Roles, how: Reading, encoded: EncodedRows | None = None
) -> _Used:
    """Roles and columns to learn from, without our own and those that nearly repeat the label."""
    given = frame[roles.label].to_numpy(dtype=object) if roles.label else None
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
    if encoded is not None:
        left_out, features = {**left_out, **encoded.left_out}, frame[[]]
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
