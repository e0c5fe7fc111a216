"""files.json: a hash of every file that a model consists of.

A folder that was copied in part, cut short or changed after the run is refused in one sentence.
"""

from __future__ import annotations

from pathlib import Path

from labelproof.errors import BadInput
from labelproof.files import file_hash, read_json, write_json
from labelproof.run_files import CALIBRATION, ENCODER, ENCODER_ARRAYS, MANIFEST, MODEL, READING, RUN
from labelproof.runs.schemas import ManifestRecord

MODEL_PARTS = (RUN, READING, ENCODER, ENCODER_ARRAYS, MODEL, CALIBRATION)


def write_manifest(folder: Path) -> None:
    """Hash the files of the model that lie in the folder."""
    there = [name for name in MODEL_PARTS if (folder / name).is_file()]
    write_json(folder / MANIFEST, {"sha256": {name: file_hash(folder / name) for name in there}})


def check_manifest(folder: Path) -> None:
    """Refuse a folder whose files are not those that were written; without files.json, accept."""
    path = folder / MANIFEST
    if not path.is_file():
        return
    hashes = read_json(path, ManifestRecord, "copy the run folder again")["sha256"]
    for name, expected in hashes.items():
        if name not in MODEL_PARTS:
            raise BadInput(f"{path} names {name!r}, which is no part of a model; restore the file.")
        _check_one(folder / name, expected)


def _check_one(path: Path, expected: str) -> None:
    if not path.is_file():
        raise BadInput(
            f"{path.parent} lacks {path.name}, so it was copied only in part; copy it again."
        )
    if file_hash(path) != expected:
        raise BadInput(
            f"{path} is not the file that the run wrote (cut short, or changed since); "
            "restore it or copy the run folder again."
        )
