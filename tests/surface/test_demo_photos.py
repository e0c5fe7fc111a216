"""The photos of `labelproof demo --photos`."""

from __future__ import annotations

import csv

import numpy as np
from PIL import Image

from labelproof.cli.demo import CLASSES, EACH, EDGE, make_photos


def rows(table):
    with table.open(newline="") as file:
        return list(csv.DictReader(file))


def test_photos_are_drawn_once_with_a_fifth_of_the_labels_wrong(tmp_path):
    table = make_photos(tmp_path / "photos", seed=0)
    found = rows(table)
    assert len(found) == EACH * len(CLASSES)
    wrong = [row for row in found if row["label"] != row["truth"]]
    assert len(wrong) == 36
    assert {row["truth"] for row in found} == {row["label"] for row in found} == set(CLASSES)
    with Image.open(tmp_path / "photos" / found[0]["file"]) as picture:
        assert picture.size == (EDGE, EDGE)
        assert np.asarray(picture).std() > 5
    before = table.stat().st_mtime_ns
    assert make_photos(tmp_path / "photos", seed=0).stat().st_mtime_ns == before
    again = make_photos(tmp_path / "again", seed=0)
    assert rows(again) == found
