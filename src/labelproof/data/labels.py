"""Labels at the edge: checked once, then integer codes 0..C-1 with a name for each.

Integers keep their meaning where they look like codes: if all are in 0..9999 and at least half of
the range up to the largest occurs, class k is named "k" and gaps stay as empty classes (labels 0,
1, 3 make four classes). Otherwise the distinct values are the classes, numbers in numeric and
words in alphabetic order. True labels share the classes of the given ones. Labels of a test set
are looked up among the classes of training.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from labelproof.data.merged_names import alike, merged, merged_names
from labelproof.errors import BadInput
from labelproof.messages import cut_short

Codes = npt.NDArray[np.int64]
NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?")  # "7" and "7.0", but not "007"
NO_LABEL = ("nan", "na", "n/a", "null", "none", "?", "<na>")  # in small letters
LARGEST_CODE = 10_000  # integers beyond this are taken for identifiers, not for codes


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Labels as codes, the names of the codes, and what a person should be told."""

    labels: Codes | None
    truth: Codes | None
    classes: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()  # the warning about examples without a label, where left out


SEPARATORS = ("|", ";", ",")  # of several labels in one cell
UNLABELLED = -1  # the code of an example that is going to be left out
SKIP = ", or leave them out with --skip-unlabelled"


def encode_labels(
    given: Any,
    *,
    size: int,
    truth: Any = None,
    names: Sequence[str] | None = None,
    known: tuple[str, ...] | None = None,
    what: str = "the labels",
    first_row: int = 0,
    merge: bool = False,
    skip: bool = False,
) -> Encoded:
    """Check given and true labels and turn both into codes.

    Args:
        given: One label per example (array, tensor, list, pandas column); None for prediction.
        size: The number of examples.
        truth: True labels in the same form, where known.
        names: Names of classes 0..C-1, for integer labels.
        known: Classes of the training data; no other may occur, and one class alone is fine.
        what: How sentences call the labels, such as "the label column 'kind' of birds.csv".
        first_row: Number of the first row as the user counts: 0 in arrays, 2 under a header.
        merge: Whether names that differ in capitals or blanks alone are one class.
        skip: Whether a blank label of training data becomes the code -1 instead of a refusal.
    """
    if skip and known is None and given is not None:
        column = _as_column(given, what)
        blank = np.array([_word(value) == "" for value in column.astype(object)], dtype=bool)
        if blank.any() and len(column) == size:
            more = {"names": names, "what": f"{what} (unlabelled rows aside)", "merge": merge}
            return _of_labelled(column, truth, blank, first_row, more)
    row = {"size": size, "first_row": first_row}
    advice = SKIP if known is None else ""
    columns = [
        check_labels(values, what=name, advice=hint, **row)
        for values, name, hint in (
            (given, what, advice),
            (truth, f"the true labels beside {what}", ""),
        )
        if values is not None
    ]
    if merge and names is not None and known is None:
        columns, names = merged_names(columns, names)
    elif merge:
        columns = merged(columns, known)
    classes = known or (_distinct(names, what) if names is not None else None)
    if classes is None:
        check_same_kind(columns, what)
        classes = vocabulary(columns)
    codes = [encode(column, classes, what=what, first_row=first_row) for column in columns]
    labels = codes[0] if given is not None else None
    if known is None:
        _check_spread(codes[0], classes, what)
    return Encoded(
        labels=labels,
        truth=codes[-1] if truth is not None else None,
        classes=classes,
        warnings=label_notes(labels, classes) if labels is not None and known is None else (),
    )


def _of_labelled(
    column: npt.NDArray[Any],
    truth: Any,
    blank: npt.NDArray[np.bool_],
    first_row: int,
    more: dict[str, Any],
) -> Encoded:
    """As `encode_labels`, where some labels are blank: their code is -1."""
    known = None if truth is None else _as_column(truth, "the true labels")[~blank]
    found = encode_labels(column[~blank], size=int((~blank).sum()), truth=known, **more)
    note = (
        f"{int(blank.sum())} of {len(blank)} examples have no label and are left out "
        f"({places(np.flatnonzero(blank), first_row)})"
    )
    codes = np.full((2, len(blank)), UNLABELLED, dtype=np.int64)
    for place, values in enumerate((found.labels, found.truth)):
        codes[place, ~blank] = UNLABELLED if values is None else values
    return Encoded(
        labels=codes[0],
        truth=codes[1] if found.truth is not None else None,
        classes=found.classes,
        warnings=(note, *found.warnings),
        skipped=(note,),
    )


def label_notes(labels: Codes, classes: tuple[str, ...]) -> tuple[str, ...]:
    """What a person should know of the classes."""
    notes = []
    if shown := alike(classes):
        notes.append(
            f"some classes differ only in capitals or blanks ({shown}); add --merge-labels to "
            "merge each pair into one class"
        )
    for code, name in enumerate(classes):
        if name.casefold() in NO_LABEL and (count := int((labels == code).sum())):
            notes.append(
                f"{name!r} is taken as a class, with {count} example{'s' * (count > 1)}; if it "
                "means that a label is missing, remove these rows"
            )
    return (*notes, *several_in_one(labels, classes), *rare_classes(labels, classes))


def several_in_one(labels: Codes, classes: tuple[str, ...]) -> tuple[str, ...]:
    """A note where most labels seem to be several in one cell, such as `a|b` beside `a`."""
    for mark in SEPARATORS:
        joined = [code for code, name in enumerate(classes) if mark in name]
        parts = Counter(part.strip() for name in classes for part in set(name.split(mark)))
        again = sum(count > 1 for count in parts.values())
        if 2 * np.isin(labels, joined).sum() >= len(labels) > 0 and 2 * again >= len(parts):
            return (
                f"most labels contain {mark!r}, as {classes[joined[0]]!r} does, and each such "
                "combination is a class of its own; if an example can have several labels "
                "(multi-label), make a column of 0 and 1 for each label (fit --multilabel)",
            )
    return ()


def refuse_missing(values: npt.NDArray[Any], what: str) -> None:
    """Refuse labels of which some are None or not a number; others are not looked at."""
    if values.dtype.kind == "f":
        missing = np.isnan(values)
    elif values.dtype.kind == "O":
        missing = np.array([is_missing(value) for value in values], dtype=bool)
    else:
        return
    _refuse_blanks(missing, what, 0)


def _distinct(names: Sequence[str], what: str) -> tuple[str, ...]:
    """Names of classes as given, each once."""
    found = tuple(str(name).strip() for name in names)
    twice = sorted({name for name in found if found.count(name) > 1})
    if twice or "" in found:
        problem = f"{twice[0]!r} comes twice" if twice and twice[0] else "one is blank"
        raise BadInput(
            f"expected a distinct name for each class of {what}, but {problem}; rename it, or "
            "give both classes one number"
        )
    return found


def check_labels(
    values: Any, *, size: int, what: str = "the labels", first_row: int = 0, advice: str = ""
) -> npt.NDArray[Any]:
    """One label per example and none blank, as int64 or as an object array of strings.

    `advice` is what else to do about blank labels.
    """
    column = _as_column(values, what)
    if len(column) != size:
        raise BadInput(
            f"expected one label for each of the {size} examples, but {what} hold {len(column)}; "
            "give inputs and labels of the same length"
        )
    if column.dtype.kind == "f":
        column = _whole(column, what, first_row, advice)
    if column.dtype.kind == "O":
        column = _words(column, what, first_row, advice)
    if column.dtype.kind == "i" and size and column.min() < 0:
        bad = np.flatnonzero(column < 0)
        raise BadInput(
            f"expected class numbers of 0 and above in {what}, but there are negative ones such "
            f"as {column[bad[0]]} ({places(bad, first_row)}); leave these examples out or label "
            "them, or write words instead of numbers if a negative number is a class"
        )
    return column


def vocabulary(columns: Sequence[npt.NDArray[Any]]) -> tuple[str, ...]:
    """Names of the classes that occur in checked columns, in the order of their codes."""
    if all(column.dtype.kind == "i" for column in columns):
        values = np.unique(np.concatenate(columns))
        top = int(values[-1]) + 1 if len(values) else 0
        codes = len(values) > 0 and values[0] == 0  # numbers from 1 on name as many classes
        if codes and top <= LARGEST_CODE and 2 * len(values) >= top:
            return tuple(str(code) for code in range(top))
        return tuple(str(value) for value in values)
    return tuple(sorted({str(value) for column in columns for value in column}))


def encode(
    column: npt.NDArray[Any], classes: tuple[str, ...], *, what: str, first_row: int = 0
) -> Codes:
    """Codes of a checked column: by name, or by number where class names are words."""
    distinct, inverse = np.unique(column, return_inverse=True)
    values = [str(value) for value in distinct]
    index = {name: code for code, name in enumerate(classes)}
    unknown = [value for value in values if value not in index]
    if unknown and column.dtype.kind == "i" and not any(name.isdigit() for name in classes):
        index = {str(code): code for code in range(len(classes))}
        unknown = [value for value in values if value not in index]
    if unknown:
        strange = np.array([value not in index for value in values])
        rows = np.flatnonzero(strange[inverse])
        verb = "occurs" if len(unknown) == 1 else "occur"
        raise BadInput(
            f"expected only the {len(classes)} known classes ({_listed(classes)}) in {what}, but "
            f"{_listed(unknown)} {verb} too ({places(rows, first_row)}); "
            "correct these labels, or leave these examples out"
        )
    return np.array([index[value] for value in values], dtype=np.int64)[inverse]


def rare_classes(labels: Codes, classes: tuple[str, ...]) -> tuple[str, ...]:
    """Warnings about classes that no method can learn from these labels."""
    counts = np.bincount(labels, minlength=len(classes))
    warnings = []
    for number, words in ((0, "no example"), (1, "only one example")):
        rare = [name for name, count in zip(classes, counts, strict=True) if count == number]
        if rare:
            plural = "classes have" if len(rare) > 1 else "class has"
            warnings.append(f"{len(rare)} {plural} {words}: {_listed(rare)}")
    return tuple(warnings)


def _as_column(values: Any, what: str) -> npt.NDArray[Any]:
    """A 1-D array of int64, float64 or object, from whatever holds labels."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    array = np.asarray(values)
    if array.dtype.kind == "U" and isinstance(values, (list, tuple)):
        array = np.array(values, dtype=object)  # NaN among names stays what it is
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise BadInput(
            f"expected {what} as one label per example, but their shape is {array.shape}; give "
            "class numbers or names (for one-hot rows, the position of the 1)"
        )
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    if array.dtype.kind in "OUSb":
        return array.astype(object)
    raise BadInput(
        f"expected {what} to be integers or strings, but they are {array.dtype}; "
        "give a class number or name per example"
    )


def _whole(
    column: npt.NDArray[Any], what: str, first_row: int, advice: str = ""
) -> npt.NDArray[Any]:
    """Floats that are whole numbers, as int64."""
    _refuse_blanks(np.isnan(column), what, first_row, advice)
    bad = np.flatnonzero((column != np.round(column)) | (np.abs(column) > 2**53))
    if len(bad):
        raise BadInput(
            f"expected classes in {what}, but there are fractions such as {column[bad[0]]:g} "
            f"({places(bad, first_row)}); name the column or array that holds classes"
        )
    return column.astype(np.int64)


def _words(
    column: npt.NDArray[Any], what: str, first_row: int, advice: str = ""
) -> npt.NDArray[Any]:
    """Strings without outer white space; numbers written as text become int64."""
    words = np.array([_word(value) for value in column], dtype=object)
    _refuse_blanks(np.array([word == "" for word in words], dtype=bool), what, first_row, advice)
    if len(words) and all(NUMBER.fullmatch(word) for word in words):
        return _whole(words.astype(np.float64), what, first_row)
    return words


def _word(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace").strip()
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    text = str(value).strip()
    return "" if text in ("<NA>", "NaT") and not isinstance(value, str) else text


def is_missing(value: Any) -> bool:
    """Whether a value of Python, NumPy or pandas stands for none."""
    return value is None or (not isinstance(value, str) and str(value) in ("nan", "<NA>", "NaT"))


def _refuse_blanks(
    blank: npt.NDArray[np.bool_], what: str, first_row: int, advice: str = ""
) -> None:
    if blank.any():
        count = int(blank.sum())
        raise BadInput(
            f"expected a label for every example in {what}, but {count} "
            f"{'is' if count == 1 else 'are'} blank ({places(np.flatnonzero(blank), first_row)}); "
            f"fill in or remove these examples{advice}"
        )


def check_same_kind(columns: Sequence[npt.NDArray[Any]], what: str) -> None:
    """Refuse given labels in numbers beside true ones in words, or the reverse."""
    if len({column.dtype.kind for column in columns}) > 1:
        raise BadInput(
            f"expected {what} and the true labels to use the same class names, but one holds "
            f"numbers ({_example(columns, 'i')}) and the other words ({_example(columns, 'O')}); "
            "write both as numbers or both as words"
        )


def _example(columns: Sequence[npt.NDArray[Any]], kind: str) -> str:
    return repr(next(str(column[0]) for column in columns if column.dtype.kind == kind))


def _check_spread(labels: Codes, classes: tuple[str, ...], what: str) -> None:
    """At least two classes, and not a class of its own for every example."""
    distinct = len(np.unique(labels))
    if distinct < 2:
        only = f"only {classes[labels[0]]!r} occurs" if len(labels) else "there are no examples"
        raise BadInput(
            f"expected at least two classes in {what}, but {only}; give examples of another "
            "class, or name another array or column of labels"
        )
    if distinct == len(labels) > 10:
        raise BadInput(
            f"expected classes in {what}, but each of the {len(labels)} values occurs only once, "
            "like a name of a row; name the array or column that holds classes"
        )


def places(rows: npt.NDArray[Any], first_row: int) -> str:
    """The first few rows as the user counts them."""
    shown = cut_short([str(int(row) + first_row) for row in rows[:3]], len(rows))
    counting = "from 0" if first_row == 0 else "the header as row 1"
    return f"row{'s' if len(rows) > 1 else ''} {shown}, counting {counting}"


def _listed(names: Sequence[str], most: int = 5) -> str:
    return cut_short([repr(str(name)) for name in names[:most]], len(names))
