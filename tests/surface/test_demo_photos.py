"""The photos of `labelproof demo --photos`."""

from __future__ import annotations

import csv

import numpy as np
from PIL import Image

from labelproof.cli import demo
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


def test_the_demo_states_its_whole_time_and_names_the_review(labelproof, tmp_path, monkeypatch):
    found = {"suspects": 9, "suspect_detection": {"precision": 1.0, "recall": 0.5}}
    clock = iter((100.0, 190.0))
    monkeypatch.setattr(demo.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(demo, "make_photos", lambda folder, seed: folder / "labels.csv")
    monkeypatch.setattr(demo, "_train", lambda spec, console: None)
    monkeypatch.setattr(demo.runfolder, "read_summary", lambda folder: found)
    code, out, _ = labelproof("demo", "--photos", "--out", "here")
    assert code == 0
    assert "Encoding, training and judging took 1.5 minutes." in out
    assert "labelproof review here/dpc\n" in out
    monkeypatch.setattr(demo.runfolder, "finished", lambda spec: True)
    clock = iter((0.0,))
    assert "took" not in labelproof("demo", "--photos", "--out", "here")[1]
