"""Which column is the label, the id, an image, a text, or no feature: told or found out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import numpy.typing as npt

from labelproof.data.encoders.columns import Frame, as_words, kind_of
from labelproof.data.examples import Examples
from labelproof.data.labels import is_missing
from labelproof.data.readers.delimited import FILE_NAMES, LABEL_NAMES, is_number, pick, required
from labelproof.data.readers.file_names import is_image, printable
from labelproof.data.readers.reading_options import Reading, SourceOptions
from labelproof.data.readers.vote_table import matching, pick_annotators
from labelproof.errors import BadInput

TEXT_NAMES = ("text", "sentence", "review", "comment", "message", "content", "document", "title")
PEOPLE = ("annotator", "worker", "rater")
LONG = 20  # mean length from which words are texts rather than categories


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Which column of a table plays which part; None where no column does."""

    label: str | None
    truth: str | None
    id: str | None
    file: str | None
    text: str | None
    group: str | None = None
    annotators: tuple[str, ...] = ()  # a column a person
    annotator: str | None = None  # who voted, where a row is a vote

    @property
    def named(self) -> tuple[str, ...]:
        """Columns that are read as words and are no features."""
        parts = (self.label, self.truth, self.id, self.file, self.text, self.group, self.annotator)
        return (*(name for name in parts if name is not None), *self.annotators)

    def present(self, *, voted: bool = False) -> dict[str, str]:
        """Roles that a column plays, for run.json; a consensus of votes is no column of the file.

        `voted` says that there are votes, also where they came from another file.
        """
        several = bool(voted or self.annotators or self.annotator)
        parts = {role: name for role, name in asdict(self).items() if isinstance(name, str)}
        return {role: name for role, name in parts.items() if not (several and role == "label")}


def assign(header: Sequence[str], how: Reading, path: Path, otherwise: str | None = None) -> Roles:
    """The roles of columns, by options and by the usual names.

    `otherwise` is the column of labels where neither an option nor its name says which it is.
    """
    name, options = printable(path.name), how.options
    if how.like is not None:
        return _assign_like(header, options, how.like, otherwise)
    if options.labels is not None:
        return _assign_beside(header, options, path)
    several = _annotators(header, options, name)
    wanted = (header, options.label_column, LABEL_NAMES, path, "--label-column")
    label = None if several else pick(*wanted) or otherwise or required(*wanted, "labels")
    usual = () if options.annotator_column is None else ("id",)  # of rows that are votes
    return Roles(
        label=label,
        truth=pick(header, options.truth_name, (), path, "--truth-key"),
        id=pick(header, options.id_column, usual, path, "--id-column"),
        file=pick(header, options.file_column, (), path, "--file-column"),
        text=pick(header, options.text_column, (), path, "--text-column"),
        group=pick(header, options.group, (), path, "--group"),
        annotators=several,
        annotator=pick(header, options.annotator_column, (), path, "--annotator-column"),
    )


def _assign_beside(header: Sequence[str], options: SourceOptions, path: Path) -> Roles:
    """Roles where the labels are in a table of their own; this one may have votes too."""
    named = [pattern for pattern in options.annotators if matching(header, pattern)]
    dropped = options.drop_columns
    people = pick_annotators(header, named, printable(path.name), dropped) if named else ()
    key = options.id_column if options.id_column in header else None
    return Roles(
        label=None,
        truth=pick(header, options.truth_name, (), path, "--truth-key"),
        id=key or pick(header, None, ("id",), path, "--id-column"),
        file=pick(header, options.file_column, (), path, "--file-column"),
        text=pick(header, options.text_column, (), path, "--text-column"),
        group=pick(header, options.group, (), path, "--group"),
        annotators=people,
    )


def _annotators(header: Sequence[str], options: SourceOptions, name: str) -> tuple[str, ...]:
    """The columns of `--annotators`, which leave no room for another way to say labels."""
    if not options.annotators:
        return ()
    for other, option in (
        (options.label_column, "--label-column"),
        (options.annotator_column, "--annotator-column"),
    ):
        if other is not None:
            raise BadInput(
                f"expected the labels of {name} in one place, but both --annotators and {option} "
                "were given; give one of them"
            )
    return pick_annotators(header, options.annotators, name, options.drop_columns)


def _assign_like(
    header: Sequence[str], options: SourceOptions, like: Examples, otherwise: str | None
) -> Roles:
    """The roles the training table had; labels, truth and ids may be absent."""
    had = like.about.get("columns", {})
    if like.kind == "images":  # a list of pictures need not be written like that of the training
        had = {role: name for role, name in had.items() if name in header}
    wanted = {
        "label": options.label_column or had.get("label"),
        "truth": options.truth_name or had.get("truth"),
        "id": options.id_column or had.get("id"),
        "file": options.file_column or had.get("file"),
        "text": options.text_column or had.get("text"),
    }
    if wanted["label"] is None:
        wanted["label"] = next((name for name in LABEL_NAMES if name in header), otherwise)
    if like.kind == "images" and wanted["file"] is None:
        wanted["file"] = next((name for name in FILE_NAMES if name in header), None)
    here = {role: name if name in header else None for role, name in wanted.items()}
    label, truth, key, file, text = here.values()
    return Roles(label=label, truth=truth, id=key, file=file, text=text)


def recognise(roles: Roles, features: Frame) -> tuple[Roles, Frame]:
    """Find ids, image paths and texts that no option named, by what the columns hold."""
    words = [name for name in features.columns if kind_of(features[name]) == "category"]
    found = {"id": roles.id, "file": roles.file, "text": roles.text}
    if roles.id is None:
        found["id"] = next((n for n in features.columns if _names_rows(n, features[n])), None)
    if roles.file is None and roles.text is None:
        found["file"] = next((n for n in words if _holds_paths(n, features[n])), None)
        others = [name for name in features.columns if name not in (found["id"], found["file"])]
        texts = [name for name in words if name in others and holds_texts(features[name])]
        if found["file"] is None and texts and (len(others) == 1 or others == texts):
            usual = [name for name in texts if name.lower() in TEXT_NAMES]
            found["text"] = (usual or texts)[0] if len(texts) == 1 or usual else None
    roles = replace(roles, id=found["id"], file=found["file"], text=found["text"])
    return roles, features.drop(columns=[n for n in found.values() if n in features.columns])


def _names_rows(name: str, series: Any) -> bool:
    return name.lower() == "id" and bool(series.notna().all() and series.is_unique)


def _holds_paths(name: str, series: Any) -> bool:
    present = series.dropna()
    return name.lower() in FILE_NAMES and all(is_image(str(value)) for value in present)


def holds_texts(series: Any) -> bool:
    """Whether a column of words holds sentences rather than categories."""
    lengths = series.dropna().astype(str).str.len()
    return bool(lengths.mean() >= LONG and series.nunique() > len(series) / 2)


def usual_ids(header: Sequence[str], roles: Roles, without: Sequence[str] = ()) -> list[str]:
    """Columns that are called id; none where an option says which column names the examples."""
    taken = (*roles.named, *without)
    return [n for n in header if roles.id is None and n.lower() == "id" and n not in taken]


def with_usual_id(roles: Roles, columns: Mapping[str, npt.NDArray[Any]]) -> Roles:
    """The roles with a column called id, if no option names another and each row has its own."""
    found = (n for n in usual_ids([*columns], roles) if _are_names(columns[n].tolist()))
    return replace(roles, id=roles.id or next(found, None))


def _are_names(values: list[Any]) -> bool:
    names = {str(value).strip() for value in values if not is_missing(value)}
    return len(names) == len(values) and "" not in names


def read_ids(values: Iterable[Any], column: str, what: str, first_row: int) -> list[str]:
    """The names of rows; each must have one, and no two the same."""
    ids = ["" if is_missing(value) else printable(str(value)) for value in values]
    blank = next((row for row, name in enumerate(ids) if not name.strip()), None)
    if blank is not None:
        raise BadInput(
            f"expected an id in every row of column {column!r} of {what}, but row "
            f"{blank + first_row} has none; fill it in or name another --id-column"
        )
    if len(set(ids)) < len(ids):
        name, _ = Counter(ids).most_common(1)[0]
        raise BadInput(
            f"expected every id once in column {column!r} of {what}, but "
            f"{len(ids) - len(set(ids))} repeat (such as {name!r}); make them distinct or name "
            "another --id-column"
        )
    return ids


LABEL_LIKE = ("label", "class", "target", "clean", "true", "truth", "gold", "correct", "given")
LEAST_ROWS = 20  # of fewer, agreement says little
NEARLY = 0.95  # share of equal rows from which a column of two values is a copy
ANNOTATOR = "; if it holds the labels of an annotator, add --annotators {}"
HALF = 0.5  # the same for three classes and more, or for a column with a telling name


def copies(features: Frame, given: npt.NDArray[Any] | None, voted: bool = False) -> dict[str, str]:
    """Columns that nearly repeat the label, as a column of true labels does, each with a note.

    They are left out of the features: the labels would be judged by a copy of themselves.
    """
    if given is None or len(given) < LEAST_ROWS or not len(features.columns):
        return {}
    labels = _folded(given)
    classes = set(labels)
    found: dict[str, str] = {}
    for name in features.columns:
        share = _agreement(features[name], labels, classes)
        if share >= (HALF if len(classes) > 2 or _telling(str(name)) else NEARLY):
            found[name] = (
                f"the column {str(name)!r} equals the label in {share:.0%} of the rows and is left "
                f"out; if it holds true labels, add --truth-key {quote(str(name))} "
                f"to measure against them{ANNOTATOR.format(quote(str(name))) if voted else ''}"
            )
    return found


def unused_texts(features: Frame) -> dict[str, str]:
    """Columns of free text, which a table of features does not use, each with a note."""
    return {
        str(name): f"the column {str(name)!r} looks like text and is not used; to use it, add "
        f"--text-column {quote(str(name))}"
        for name in features.columns
        if kind_of(features[name]) == "category" and holds_texts(features[name])
    }


def like_votes(
    features: Frame, given: npt.NDArray[Any] | None, voted: bool = False
) -> tuple[str, ...]:
    """A note where columns of features speak of the classes, as the labels of annotators do.

    Where nobody said that there are annotators, two classes such as yes and no are too common.
    """
    classes = set() if given is None else set(_folded(given)) - {"none"}
    numbers = all(is_number(name) for name in classes)
    if numbers or len(classes) < (2 if voted else 3):
        return ()
    names = [str(name) for name in features.columns if _holds_classes(features[name], classes)]
    if not names:
        return ()
    shown = ", ".join(map(repr, names))
    several = len(names) > 1
    return (
        f"{'the columns' if several else 'the column'} {shown} {'hold' if several else 'holds'} "
        f"class names and {'are' if several else 'is'} used as "
        f"{'features' if several else 'a feature'}; if these are labels of annotators, name all of "
        "them with --annotators, or leave them out with --drop-column",
    )


def _holds_classes(series: Any, classes: set[str]) -> bool:
    """Whether nearly all cells that are not blank name a class, and not always the same."""
    if series.nunique() > len(classes) + 1:  # one more may stand for a gap
        return False
    words = [word for word in _folded(as_words(series.dropna())) if word]
    known = [word for word in words if word in classes]
    return bool(known) and len(known) >= NEARLY * len(words) and len(set(known)) > 1


def votes_unnamed(features: Frame) -> tuple[str, ...]:
    """A note where a column seems to say who gave the label of a row."""
    names = [str(name) for name in features.columns if str(name).lower() in PEOPLE]
    return tuple(
        f"the column {name!r} seems to name annotators; if several people labelled an example, "
        f"add --annotator-column {quote(name)}"
        for name in names
    )


def _agreement(series: Any, labels: npt.NDArray[Any], classes: set[str]) -> float:
    """Share of rows in which a column says what the label says, if it speaks of classes at all."""
    if series.nunique() > len(classes) + 1:  # one more may stand for a gap
        return 0.0
    words = _folded(as_words(series))
    known = np.array([word in classes for word in words])
    if known.mean() < HALF or len(set(words[known])) < 2:
        return 0.0
    return float((words == labels)[known].mean())


def _folded(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Words in small letters; a whole number loses the point that a gap in its column gave it."""
    words = [str(value).strip().casefold() for value in values]
    return np.array([word.removesuffix(".0") for word in words], dtype=object)


def _telling(name: str) -> bool:
    return any(part in name.casefold() for part in LABEL_LIKE)
