"""`labelproof predict`: what it writes, and what it refuses."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from saved_runs import images, vectors
from typer.testing import CliRunner

from fitting import fit
from labelproof import load_model
from labelproof.cli.app import app
from labelproof.cli.predict import header, write_predictions
from labelproof.data.examples import Resident
from labelproof.data.readers import load
from labelproof.data.readers.arrays import from_arrays
from labelproof.errors import BadInput
from labelproof.methods.ce import CrossEntropy


def predict(*words: Any) -> str:
    """The command's answer; a refusal surfaces as it is."""
    found = CliRunner().invoke(app, ["predict", *map(str, words)])
    if found.exception and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == 0, found.output
    return found.output


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_row_for_each_example_in_order(run: Path, tmp_path: Path) -> None:
    X, _ = vectors(50, seed=3)
    np.savez(tmp_path / "new.npz", x=X)
    predict(run, tmp_path / "new.npz", "--out", tmp_path / "p.csv")
    found = rows(tmp_path / "p.csv")
    said = load_model(run).model.predict(Resident(torch.from_numpy(X)))
    columns = ["id", "label", "confidence", "uncertainty", "p_ant", "p_bee", "p_cow"]
    assert list(found[0]) == columns
    assert [row["id"] for row in found] == [str(i) for i in range(50)]
    classes = ("ant", "bee", "cow")
    assert [row["label"] for row in found] == [classes[k] for k in said.label]
    numbers = torch.tensor([[float(row[f"p_{name}"]) for name in classes] for row in found])
    assert torch.allclose(numbers, said.probabilities, atol=1e-6)
    assert [float(row["confidence"]) for row in found] == [
        max(float(row[f"p_{name}"]) for name in classes) for row in found
    ]
    unsure = torch.tensor([float(row["uncertainty"]) for row in found])
    assert torch.allclose(unsure, said.uncertainty, atol=1e-6)


def test_labels_that_come_along_are_compared(run: Path, tmp_path: Path) -> None:
    X, y = vectors(60, seed=4)
    np.savez(tmp_path / "new.npz", x=X, y=np.array(["ant", "bee", "cow"])[y])
    told = predict(run, tmp_path / "new.npz", "--out", tmp_path / "p.csv")
    agree = np.mean(
        [r["label"] for r in rows(tmp_path / "p.csv")] == np.array(["ant", "bee", "cow"])[y]
    )
    assert f"{agree:.1%} of the labels" in told


def test_a_table_is_encoded_as_in_training_and_keeps_its_ids(tmp_path: Path) -> None:
    lines = [f"r{i},{i % 7},{'red' if i % 2 else 'blue'},{'ab'[i % 2]}" for i in range(40)]
    (tmp_path / "train.csv").write_text("id,size,colour,label\n" + "\n".join(lines) + "\n")
    method = CrossEntropy(epochs=20, batch=8, lr=0.05)
    fit(load(tmp_path / "train.csv"), method, name="ce", out=tmp_path / "run", how="quick")
    (tmp_path / "new.csv").write_text("colour,id,size\nblue,x,3\nred,y,\n")
    predict(tmp_path / "run", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert [(r["id"], r["label"]) for r in rows(tmp_path / "p.csv")] == [("x", "a"), ("y", "b")]
    (tmp_path / "other.csv").write_text("id,size\nx,3\n")
    with pytest.raises(BadInput, match="colour"):
        predict(tmp_path / "run", tmp_path / "other.csv", "--out", tmp_path / "q.csv")
    assert not (tmp_path / "q.csv").exists()


def test_other_shapes_and_classes_are_refused(run: Path, image_run: Path, tmp_path: Path) -> None:
    X, y = vectors(10)
    np.savez(tmp_path / "narrow.npz", x=X[:, :4])
    np.savez(tmp_path / "named.npz", x=X, y=np.array(["ant", "bee", "owl"])[y])
    np.savez(tmp_path / "pictures.npz", x=images()[0][:, :6])
    for folder, name, sentence in (
        (run, "narrow", r"shape \(6,\)"),
        (run, "named", "owl"),
        (run, "pictures", "shape"),
        (image_run, "pictures", "shape"),
    ):
        with pytest.raises(BadInput, match=sentence) as error:
            predict(folder, tmp_path / f"{name}.npz", "--out", tmp_path / "p.csv")
        assert "\n" not in str(error.value)
    assert not (tmp_path / "p.csv").exists()


def test_the_data_is_never_written_over(run: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "new.npz", x=vectors(5)[0])
    before = (tmp_path / "new.npz").read_bytes()
    with pytest.raises(BadInput, match="the data itself"):
        predict(run, tmp_path / "new.npz", "--out", tmp_path / "new.npz")
    with pytest.raises(BadInput, match="folder does not exist"):
        predict(run, tmp_path / "new.npz", "--out", tmp_path / "no" / "p.csv")
    assert (tmp_path / "new.npz").read_bytes() == before


def test_a_failure_half_way_leaves_the_old_file(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.csv"
    old = ",".join(header(["a", "b"])) + "\n"  # earlier predictions
    out.write_text(old)

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_predictions(load_model(run).model, from_arrays(*vectors(20)), out, stop)
    assert out.read_text() == old
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]


def test_batches_are_held_one_at_a_time(run: Path) -> None:
    X, _ = vectors(9000)
    sizes = [
        len(part.label) for part in load_model(run).model.batches(Resident(torch.from_numpy(X)))
    ]
    assert sum(sizes) == 9000
    assert max(sizes) <= 4096


def test_earlier_predictions_are_replaced_and_other_files_left_alone(
    run: Path, tmp_path: Path
) -> None:
    X, _ = vectors(5, seed=3)
    np.savez(tmp_path / "new.npz", x=X)
    out = tmp_path / "p.csv"
    out.touch()
    assert "replaced" not in predict(run, tmp_path / "new.npz", "--out", out)
    assert "replaced" in predict(run, tmp_path / "new.npz", "--out", out)
    assert len(rows(out)) == 5
    mine = tmp_path / "mine.csv"
    mine.write_text("id,label\na,ant\n")
    with pytest.raises(BadInput, match=r"mine\.csv exists and is not a file of predictions"):
        predict(run, tmp_path / "new.npz", "--out", mine)
    assert mine.read_text() == "id,label\na,ant\n"
