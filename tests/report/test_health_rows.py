"""What health.json says of pictures and of rows with blank cells, from whole runs."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from labelproof.cli.app import app


def _fitted(source: Path, run: Path, *words: str) -> dict[str, dict[str, Any]]:
    told = CliRunner().invoke(
        app, ["fit", str(source), "--method", "ce", "--epochs", "1", *words, "--out", str(run)]
    )
    assert told.exit_code == 0, told.output
    found = json.loads((run / "health.json").read_text())["findings"]
    return {one["kind"]: one for one in found}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bright cats and dark dogs; some are odd."""
    folder, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for name, least in (("cat", 120), ("dog", 0)):
        (folder / "data" / name).mkdir(parents=True)
        for place in range(40):
            height, width = {3: (200, 190), 5: (16, 60)}.get(place, (20, 24))
            pixels = rng.integers(least, least + 130, (height, width, 3), np.uint8)
            if place == 7:
                pixels[:] = pixels[:, :, :1]  # grey, saved in colour
            if place == 9:
                pixels[:] = np.where(pixels[:, :, :1] > least + 60, 200, 20)  # two tones
            Image.fromarray(pixels).save(folder / "data" / name / f"{place:02}.png")
    return folder


def test_odd_pictures_are_listed_by_name(pictures: Path) -> None:
    found = _fitted(pictures / "data", pictures / "run", "--encoder", "none")
    assert found["pictures of odd size"]["count"] == 4  # all others have one size
    with (pictures / "run" / "health.csv").open(newline="") as file:
        rows = [(row["kind"], row["id"]) for row in csv.DictReader(file)]
    for kind, place in {
        "pictures of odd size": "03",
        "pictures of odd shape": "05",
        "grey pictures": "07",
        "plain pictures": "09",
    }.items():
        assert {name for one, name in rows if one == kind} >= {f"cat/{place}.png"}, kind
        assert found[kind]["low"] < found[kind]["share"] < found[kind]["high"]
        assert found[kind]["advice"]
    page = (pictures / "run" / "report.html").read_text()
    assert "Very narrow pictures" in page
    assert "as large as a square of 195 pixels" in page


def test_a_class_of_bright_pictures_is_told(pictures: Path) -> None:
    found = _fitted(pictures / "data", pictures / "other", "--encoder", "none")
    entries = found["property of a class"]["entries"]
    told = {(one["class"], one["other"]): one for one in entries}
    assert ("cat", "brighter") in told
    assert ("dog", "darker") in told
    one = told["cat", "brighter"]
    assert one["low"] < one["score"] <= one["high"]
    assert len(one["examples"]) == 3
    assert not {words for _, words in told} & {"larger", "smaller", "wider", "taller"}
    assert "cat: brighter" in (pictures / "other" / "report.html").read_text()


def test_rows_with_blank_cells_are_listed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = np.array(["no", "yes"])[np.arange(60) % 2]
    cells = rng.normal(size=(60, 4)).round(3).astype(str).astype(object)
    cells[11] = ""
    cells[22, :2] = ""
    cells[33, 0] = ""
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["a", "b", "c", "d", "label"]])
        csv.writer(file).writerows([*row, name] for row, name in zip(cells, names, strict=True))
    missing = _fitted(tmp_path / "t.csv", tmp_path / "run")["missing values"]
    assert [(one["index"], one["score"]) for one in missing["entries"]] == [(11, 1.0), (22, 0.5)]
    assert missing["count"] == 2
    assert "100% of it is blank" in (tmp_path / "run" / "report.html").read_text()


def test_blank_texts_are_listed(tmp_path: Path) -> None:
    words = {"good": "fine lovely great", "bad": "awful poor sad"}
    names = ["good", "bad"] * 30
    rows = [[f"{words[name]} thing number {place}", name] for place, name in enumerate(names)]
    rows[8][0] = "  "
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["text", "label"], *rows])
    missing = _fitted(tmp_path / "t.csv", tmp_path / "run", "--text-column", "text")
    assert [one["index"] for one in missing["missing values"]["entries"]] == [8]
