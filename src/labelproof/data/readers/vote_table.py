"""Votes as people hold them, checked once: a column a person, a row a vote, or an array.

Shapes: N examples, A annotators, V votes.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from labelproof.data.examples import Examples
from labelproof.data.labels import (
    SKIP,
    UNLABELLED,
    Codes,
    check_labels,
    check_same_kind,
    encode,
    places,
    vocabulary,
)
from labelproof.data.merged_names import merged
from labelproof.data.readers.frames import own_columns
from labelproof.data.readers.vote_remarks import (
    listed_names,
    maybe_multilabel,
    series_in_short,
    vote_notes,
)
from labelproof.data.votes import BLANK, Votes, majority
from labelproof.errors import BadInput

Cells = npt.NDArray[Any]
ALWAYS = 10  # rows in which two annotators of 0 and 1 do not differ every time
BLANKS = ("", "nan", "none", "null", "<na>", "nat", "n/a")


@dataclass(frozen=True, kw_only=True)
class EncodedVotes:
    """Votes as codes, their majority, and true labels where known."""

    votes: Votes
    labels: Codes  # (N,) majority; -1 where nobody voted
    truth: Codes | None
    classes: tuple[str, ...]

    def names(self) -> Cells:
        """(N,) majority by name; None where nobody voted."""
        return np.array([*self.classes, None], dtype=object)[self.labels]


def encode_votes(
    cells: Any,
    annotators: Sequence[str],
    *,
    truth: Any = None,
    names: Sequence[str] | None = None,
    what: str = "the votes",
    first_row: int = 0,
    notes: Sequence[str] = (),
    merge: bool = False,
    skip: bool = False,
    advice: str = SKIP,
) -> EncodedVotes:
    """Check a table of votes (N, A) and turn it into codes.

    Args:
        cells: Numbers or names; blank, NaN or -1 where somebody did not vote.
        annotators: A names.
        truth: As for `encode_labels`, like names, what, first_row and merge.
        notes: What is known already that a person should be told.
        skip: Whether an example without a vote gets the code -1 instead of a refusal.
        advice: What else to do about examples without a vote, for the end of a sentence.
    """
    table = as_cells(cells, what)
    blank = _blanks(table)
    _refuse_numbers(table, blank, what, first_row)
    some: npt.NDArray[np.bool_] = np.ones(len(table), dtype=bool)
    if skip:
        some = np.any(~blank, axis=1)
    _check_everyone(blank[some], annotators, what, first_row, advice)
    given = check_labels(_plain(table[~blank]), size=int((~blank).sum()), what=what)
    columns = [given]
    if truth is not None:
        known = np.array(truth, dtype=object)[some] if skip else truth
        beside = f"the true labels beside {what}"
        columns.append(check_labels(known, size=int(some.sum()), what=beside))
    if merge:
        columns = merged(columns, names)
        given = columns[0]
    if names is None:
        check_same_kind(columns, what)
    classes = tuple(str(name) for name in names) if names is not None else vocabulary(columns)
    codes = np.full(table.shape, BLANK, dtype=np.int64)
    codes[~blank] = encode(given, classes, what=what)
    if len(np.unique(codes[~blank])) < 2:
        raise BadInput(
            f"expected at least two classes in {what}, but everybody says {str(given[0])!r}; "
            "give examples of another class"
        )
    votes = Votes(table=torch.from_numpy(codes), annotators=tuple(map(str, annotators)))
    found = votes.part(torch.from_numpy(some))
    told = (*notes, *vote_notes(found, classes), *maybe_multilabel(found, classes))
    labels = np.where(some, majority(votes, len(classes)).numpy(), UNLABELLED)
    known = _spread(encode(columns[1], classes, what=what), some) if truth is not None else None
    return EncodedVotes(
        votes=replace(votes, notes=told), labels=labels, truth=known, classes=classes
    )


def _spread(codes: Codes, some: npt.NDArray[np.bool_]) -> Codes:
    """Codes of some examples among all; -1 for the others."""
    every = np.full(len(some), UNLABELLED, dtype=np.int64)
    every[some] = codes
    return every


def as_cells(cells: Any, what: str) -> Cells:
    """An array (N, A); soft targets and one-hot rows are refused."""
    if isinstance(cells, Tensor):
        cells = cells.detach().cpu().numpy()
    table = np.asarray(cells)
    if table.ndim != 2:
        raise BadInput(
            f"expected {what} as one column per annotator, but the shape is {table.shape}; give "
            "an array of shape (examples, annotators)"
        )
    if table.dtype.kind in "iufb" and table.shape[1] > 1:
        _refuse_targets(table.astype(float), what)
    return table


def is_votes(labels: Any) -> bool:
    """Whether labels are a table of several annotators: two dimensions, two columns or more.

    Raises:
        BadInput: If every example has a collection of labels of its own length (multi-label).
    """
    _refuse_collections(labels)
    shape = np.asarray(labels).shape
    return len(shape) == 2 and shape[1] > 1


def _refuse_collections(labels: Any) -> None:
    """Say what to do with a list or set of labels for each example."""
    values = labels.tolist() if isinstance(labels, np.ndarray) else labels
    if not isinstance(values, list | tuple):
        return
    sizes = {len(value) for value in values if isinstance(value, list | tuple)}
    sets = any(isinstance(value, set | frozenset | dict) for value in values)
    if len(sizes) > 1 or sets:
        kind = "a set of labels each" if sets else "lists of labels of different lengths"
        raise BadInput(
            "expected one label per example, or one column per annotator, but examples have "
            f"{kind} (multi-label); make a column of 0 and 1 for each label and fit one column "
            "at a time (for a table, fit --multilabel does that)"
        )


def annotator_names(table: Any) -> tuple[str, ...]:
    """The columns of a pandas frame, or numbers from 1."""
    if hasattr(table, "columns"):
        return tuple(str(name) for name in table.columns)
    return tuple(f"annotator {number}" for number in range(1, np.shape(table)[1] + 1))


def voted(examples: Examples, coded: EncodedVotes) -> Examples:
    """Examples that were read with the majority as their labels, together with the votes."""
    return replace(examples.noted(coded.votes.notes, last=False), votes=coded.votes)


def _refuse_targets(table: npt.NDArray[np.float64], what: str) -> None:
    """Say what to do with probabilities or one-hot rows, which look like votes."""
    known = np.nan_to_num(table, nan=0.0)
    if (known != np.round(known)).any():
        raise BadInput(
            f"expected one class number per annotator in {what}, but there are fractions such as "
            f"{known[known != np.round(known)][0]:g}, as in soft targets; give the most likely "
            "class of each row (argmax), or the votes themselves"
        )
    hot = np.isin(table, (0, 1)).all() and (table.sum(1) == 1).all()
    if hot and (table.shape[1] > 2 or len(table) >= ALWAYS):
        raise BadInput(
            f"expected one class number per annotator in {what}, but every row has a single 1, as "
            "in one-hot rows; give the position of the 1 (argmax)"
        )


def matching(header: Sequence[str], pattern: str) -> list[str]:
    """The columns that a name or a pattern such as `rater_*` means, whatever their capitals.

    A name that is spelled like a column means this one alone.
    """
    if pattern in header:
        return [pattern]
    return [name for name in header if fnmatchcase(name.casefold(), pattern.casefold())]


def pick_annotators(
    header: Sequence[str], wanted: Sequence[str], where: str, without: Sequence[str] = ()
) -> tuple[str, ...]:
    """The columns that names and patterns mean, in the order of the table."""
    own = [name for name in own_columns(header) if name not in wanted]
    header = [name for name in header if name not in (*without, *own)]
    meant: set[str] = set()
    for pattern in wanted:
        some = matching(header, pattern)
        meant.update(some)
        if not some:
            raise BadInput(
                f"expected a column {pattern!r} in {where}, but it has {series_in_short(header)}; "
                "correct --annotators"
            )
    found = tuple(name for name in header if name in meant)
    if len(found) < 2:
        raise BadInput(
            f"expected two annotators or more for --annotators in {where}, but only {found[0]!r} "
            "matches; use --label-column for a single column"
        )
    return found


@dataclass(frozen=True, kw_only=True)
class VoteRows:
    """Votes (N, A) with one row an example."""

    annotators: tuple[str, ...]
    cells: Cells  # None where somebody did not vote
    notes: tuple[str, ...] = ()
    keys: Sequence[str] = ()  # what the table calls each example
    example: npt.NDArray[np.int64] | None = None  # (V,) that each row of a long table is of

    @property
    def first(self) -> npt.NDArray[np.int64] | None:
        """(N,) row of a long table that names each example first; None of a wide one."""
        return None if self.example is None else np.unique(self.example, return_index=True)[1]


def widen(ids: Cells, who: Cells, labels: Cells, *, what: str, first_row: int = 0) -> VoteRows:
    """One row an example from one row a vote; the last of several answers of a person counts."""
    names = [_name(value) for value in ids]
    people = [_name(value) for value in who]
    for column, values in (("id", names), ("annotator", people)):
        if "" in values:
            raise BadInput(
                f"expected an {column} in every row of {what}, but row "
                f"{values.index('') + first_row} has none; fill it in or remove the row"
            )
    rows = {name: place for place, name in enumerate(dict.fromkeys(names))}
    annotators = {name: place for place, name in enumerate(sorted(set(people)))}
    cells = np.full((len(rows), len(annotators)), None, dtype=object)
    repeated: dict[bool, list[str]] = defaultdict(list)
    for name, person, label in zip(names, people, labels, strict=True):
        cell = rows[name], annotators[person]
        if cells[cell] is not None:
            repeated[_name(cells[cell]) == _name(label)].append(f"{person} on {name}")
        cells[cell] = label
    return VoteRows(
        keys=tuple(rows),
        example=np.array([rows[name] for name in names], dtype=np.int64),
        annotators=tuple(annotators),
        cells=cells,
        notes=_repeats(repeated),
    )


def _check_names(annotators: Sequence[str], what: str) -> None:
    """Refuse two annotators of one name, who could not be told apart in any table."""
    twice = [name for name, count in Counter(map(str, annotators)).items() if count > 1]
    if twice:
        raise BadInput(
            f"expected a name of its own for every annotator in {what}, but {twice[0]!r} comes "
            "twice; rename one"
        )


def _refuse_numbers(table: Cells, blank: npt.NDArray[np.bool_], what: str, first_row: int) -> None:
    """Refuse numbers that are no class in cells that are not blank, by the row of the table."""
    numbers = int, float, np.integer, np.floating
    kinds = [(isinstance(v, numbers) and v < 0, isinstance(v, numbers) and v != _rounded(v))
             for v in table[~blank]]  # fmt: skip
    bad, odd = np.zeros(table.shape, dtype=bool), np.zeros(table.shape, dtype=bool)
    if kinds:
        bad[~blank], odd[~blank] = np.array(kinds).T
    rows = np.flatnonzero(odd.any(axis=1))
    if len(rows):
        raise BadInput(
            f"expected class numbers in {what}, but there are others such as {table[odd][0]:g} "
            f"({places(rows, first_row)}); give whole numbers, or names of classes"
        )
    rows = np.flatnonzero(bad.any(axis=1))
    if len(rows):
        raise BadInput(
            f"expected class numbers of 0 and above in {what}, or -1 where somebody did not vote, "
            f"but there are others such as {table[bad][0]:g} ({places(rows, first_row)}); write -1 "
            "or a blank for no vote"
        )


def _rounded(value: Any) -> int | None:
    """The whole number nearest to a value; None of one that has none."""
    return round(value) if math.isfinite(value) else None


def _check_everyone(
    blank: npt.NDArray[np.bool_],
    annotators: Sequence[str],
    what: str,
    first_row: int,
    advice: str,
) -> None:
    _check_names(annotators, what)
    if blank.shape[1] != len(annotators):
        raise BadInput(
            f"expected a name for each of {blank.shape[1]} annotators in {what}, but got "
            f"{len(annotators)}"
        )
    nobody = np.flatnonzero(blank.all(1))
    if len(nobody):
        raise BadInput(
            f"expected at least one vote for every example in {what}, but {len(nobody)} "
            f"{'has' if len(nobody) == 1 else 'have'} none ({places(nobody, first_row)}); have "
            f"them labelled{advice}"
        )
    silent = [
        str(name)
        for name, none in zip(annotators, np.all(blank, axis=0).tolist(), strict=True)
        if none
    ]
    if silent:
        raise BadInput(
            f"expected votes of every annotator in {what}, but {listed_names(silent)} gave none; "
            "leave them out (columns of a table with --drop-column)"
        )


def _repeats(repeated: dict[bool, list[str]]) -> tuple[str, ...]:
    forms = {
        True: "votes that were given twice; they count once",
        False: "two different answers of one person for one example; the last one counts",
    }
    notes = []
    for same, form in forms.items():
        names = list(dict.fromkeys(repeated[same]))  # somebody may have answered three times
        if names:
            notes.append(f"{form} ({len(names)}): {listed_names(names)}")
    return tuple(notes)


def _plain(values: Cells) -> Any:
    """Numbers as a number array, so that 1.0 beside blanks is class 1."""
    if values.dtype.kind in "OUS" and all(
        isinstance(value, int | float | np.integer | np.floating) for value in values
    ):
        return values.astype(float)
    return values


def _blanks(table: Cells) -> npt.NDArray[np.bool_]:
    """(N, A) bool: where nobody voted."""
    if table.dtype.kind in "iufb":
        nothing: npt.NDArray[np.bool_] = np.isnan(table.astype(float)) | (table == BLANK)
        return nothing
    nobody = np.array(None, dtype=object)  # nearly all cells of a sparse table
    blank: npt.NDArray[np.bool_] = np.equal(table.astype(object, copy=False), nobody).astype(bool)
    blank[~blank] = [is_blank(value) for value in table[~blank]]
    return blank


def is_blank(value: Any) -> bool:
    """Whether a cell says that somebody did not vote."""
    if isinstance(value, int | float | np.integer | np.floating):
        return bool(value != value or value == BLANK)
    return _name(value).lower() in BLANKS


def _name(value: Any) -> str:
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return str(value).strip()
