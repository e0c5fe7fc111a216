"""Tables with several labels an example: a column a person, or a row a vote."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from labelproof.data.encoders.columns import Frame
from labelproof.data.readers.column_roles import Roles
from labelproof.data.readers.delimited import LABEL_NAMES
from labelproof.data.readers.reading_options import SourceOptions
from labelproof.data.readers.vote_table import EncodedVotes, encode_votes, widen
from labelproof.data.readers.votes_beside import Beside, together, votes_beside
from labelproof.errors import BadInput

CONSENSUS = "labelproof: majority of the annotators"


def with_majority(
    frame: Frame, roles: Roles, options: SourceOptions, what: str, first_row: int
) -> tuple[Frame, Roles, EncodedVotes]:
    """A frame of one row an example with the majority as its label column, and the votes."""
    notes: tuple[str, ...] = ()
    if roles.annotator is not None:
        frame, people, cells, notes = _from_long(frame, roles, what, first_row)
    else:
        people, cells = roles.annotators, frame[list(roles.annotators)].to_numpy(dtype=object)
        others = [name for name in frame.columns if name not in roles.named]
        beside = [name for name in others if str(name).lower() in LABEL_NAMES]
        notes = tuple(f"column {n!r} is left out: the annotators have the labels" for n in beside)
        frame = frame.drop(columns=beside)
    if options.labels is not None:
        both = _with_beside(frame, roles, options, people, cells)
        people, cells, notes = both.annotators, both.cells, (*notes, *both.notes)
    coded = encode_votes(
        cells,
        people,
        truth=frame[roles.truth].to_numpy(dtype=object) if roles.truth else None,
        what=f"the votes of {what}",
        first_row=first_row,
        notes=notes,
        merge=options.merge_labels,
    )
    names = np.array(coded.classes, dtype=object)[coded.labels]
    used = [name for name in (*roles.annotators, roles.annotator) if name is not None]
    frame = frame.drop(columns=used).assign(**{CONSENSUS: names})
    return frame, replace(roles, label=CONSENSUS), coded


def _with_beside(
    frame: Frame, roles: Roles, options: SourceOptions, people: tuple[str, ...], cells: Any
) -> Beside:
    """The votes of a table of their own, and those of this one where it has some."""
    assert options.labels is not None
    numbers = range(len(frame))
    ids = [str(name).strip() for name in (frame[roles.id] if roles.id else numbers)]
    other = votes_beside(options.labels, options, ids)
    if not people:
        return other
    return together(Beside(annotators=people, cells=cells, notes=()), other, ids)


def _from_long(
    frame: Frame, roles: Roles, what: str, first_row: int
) -> tuple[Frame, tuple[str, ...], Any, tuple[str, ...]]:
    """One row an example; its features must be the same in all of its rows."""
    if roles.id is None:
        raise BadInput(
            f"expected a column that says which rows of {what} are votes on the same example, "
            "but none was named; name it with --id-column"
        )
    parts = (roles.id, roles.annotator, roles.label)
    columns = [frame[name].to_numpy(dtype=object) for name in parts]
    wide = widen(*columns, what=what, first_row=first_row)
    own = {roles.annotator, roles.label}
    rest = [name for name in frame.columns if name not in own and name != roles.id]
    differing = frame.groupby(roles.id, sort=False)[rest].nunique(dropna=False) if rest else None
    if differing is not None and (differing > 1).any(axis=None):
        column = next(name for name in rest if (differing[name] > 1).any())
        example = differing.index[differing[column] > 1][0]
        raise BadInput(
            f"expected the same values in all rows of one example in {what}, but {example!r} has "
            f"different ones in column {column!r}; correct it, or leave it out with --drop-column"
        )
    single = frame.iloc[wide.first].reset_index(drop=True).drop(columns=[str(roles.label)])
    return single, wide.annotators, wide.cells, wide.notes
