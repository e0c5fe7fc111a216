"""From a folder of photos to a run, new photos, one ONNX file, shards, and back."""

from __future__ import annotations

import csv
import json
import os
import shutil
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from photos import encoder_file, folder
from PIL import Image
from typer.testing import CliRunner

from labelproof.cli.app import app
from labelproof.data.readers import SourceOptions, load
from labelproof.data.readers.file_names import outside
from labelproof.data.readers.shards import parse_shard
from labelproof.errors import BadInput
from labelproof.report.example_view import FromFiles, shown_from
from labelproof.runs.labels_file import read_rows
from labelproof.runs.reread import read_again

QUICK = ("--method", "ce", "--epochs", "3", "--calibrate", "off")


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    photos = folder(root / "photos")
    encoder = encoder_file(root / "means.onnx")
    run(
        "fit",
        photos,
        "--encoder",
        encoder,
        "--cache",
        root / "cache",
        "--out",
        root / "run",
        *QUICK,
    )
    return root


def test_the_run_says_which_encoder_made_its_vectors(trained: Path) -> None:
    record = json.loads((trained / "run" / "run.json").read_text())
    assert record["task"]["kind"] == "vectors"
    assert record["data"]["encoding"]["encoder"].endswith("means.onnx")
    assert list((trained / "cache").rglob("*.npy"))


def shows_pictures(out: Path) -> bool:
    """Whether report and review find the picture of an example, given the folder of a run."""
    record = json.loads((out / "run.json").read_text())
    rows = read_rows(out, record["task"]["classes"], record["task"]["size"])
    return shown_from(record, rows, None).picture(0, 64) is not None


def test_a_line_says_that_encoding_begins_but_not_what_is_in_the_cache(
    trained: Path, tmp_path: Path
) -> None:
    encoder, cache = trained / "means.onnx", tmp_path / "cache"
    words = ("fit", trained / "photos", "--encoder", encoder, "--cache", cache, *QUICK, "--out")
    out = run(*words, tmp_path / "one")
    assert out.startswith(f"Encoding 24 pictures with {encoder} ...\n")
    assert "Encoding" not in run(*words, tmp_path / "two")


def test_the_report_shows_the_pictures(trained: Path) -> None:
    assert shows_pictures(trained / "run")


def test_new_photos_are_predicted(trained: Path, tmp_path: Path) -> None:
    new = folder(tmp_path / "new", each=2, edge=70)
    run("predict", trained / "run", new, "--out", tmp_path / "said.csv")
    rows = list(csv.DictReader((tmp_path / "said.csv").open()))
    assert [row["label"] for row in rows] == ["blue", "blue", "green", "green", "red", "red"]


def test_one_file_takes_raw_photos(trained: Path, tmp_path: Path) -> None:
    run("export", trained / "run", "--out", tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert session.get_inputs()[0].type == "tensor(uint8)"
    photos = load(trained / "photos")
    pictures = photos.x.data.numpy()
    (there,) = session.run(["probabilities"], {"x": pictures})
    run("predict", trained / "run", trained / "photos", "--out", tmp_path / "said.csv")
    rows = list(csv.DictReader((tmp_path / "said.csv").open()))
    here = np.array([[float(row[f"p_{name}"]) for name in photos.classes] for row in rows])
    np.testing.assert_allclose(there, here, atol=1e-3)


def test_a_run_is_read_again_without_encoding(trained: Path) -> None:
    out = trained / "run"
    record = json.loads((out / "run.json").read_text())
    rows = read_rows(out, record["task"]["classes"], record["task"]["size"])
    assert read_again(out, record, rows).raw is not None


def test_shards_are_one_set(trained: Path, tmp_path: Path) -> None:
    encoder, out = trained / "means.onnx", tmp_path / "vectors"
    for part in ("1/3", "3/3"):
        run("embed", trained / "photos", "--encoder", encoder, "--shard", part, "--out", out)
    with pytest.raises(BadInput, match=r"shard-00002-of-00003\.npz"):
        load(out)
    elsewhere = shutil.copytree(trained / "photos", tmp_path / "machine" / "photos")
    run("embed", elsewhere, "--encoder", encoder, "--shard", "2/3", "--out", out)
    shutil.rmtree(elsewhere)
    whole, photos = load(out), load(trained / "photos")
    assert list(whole.ids or ()) == list(photos.ids or ())
    assert whole.labels is not None
    assert whole.labels.tolist() == list(photos.labels)
    run("fit", out, "--out", tmp_path / "run", *QUICK)
    assert shows_pictures(tmp_path / "run")
    run("predict", tmp_path / "run", trained / "photos", "--out", tmp_path / "said.csv")


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0"])
def test_a_shard_has_a_number(text: str) -> None:
    with pytest.raises(BadInput, match="expected a shard such as"):
        parse_shard(text)


def test_vectors_of_ones_own_keep_their_pictures(trained: Path, tmp_path: Path) -> None:
    photos = load(trained / "photos")
    names = [str(name) for name in photos.ids or ()]
    vectors = photos.x.data.float().mean((1, 2)).numpy()
    np.savez(tmp_path / "own.npz", x=vectors, y=np.asarray(photos.labels))
    listed = trained / "photos" / "list.csv"
    listed.write_text("file\n" + "\n".join(names) + "\n")
    run("fit", tmp_path / "own.npz", "--files", listed, "--out", tmp_path / "run", *QUICK)
    assert shows_pictures(tmp_path / "run")
    listed.write_text("file\n" + "\n".join(names[:-1]) + "\n")
    with pytest.raises(BadInput, match="expected a file for each of the 24 vectors"):
        load(tmp_path / "own.npz", SourceOptions(files=listed))
    listed.unlink()
    within = trained / "photos" / "own.npz"
    np.savez(within, x=vectors, y=np.asarray(photos.labels), files=names)
    assert load(within).ids == names
    within.unlink()


@pytest.mark.parametrize("absolute", [True, False])
def test_pictures_outside_the_folder_of_their_list_are_shown(
    trained: Path, tmp_path: Path, absolute: bool
) -> None:
    photos = load(trained / "photos")
    place = trained / "photos" if absolute else Path(os.path.relpath(trained / "photos", tmp_path))
    listed = "".join(f"{place / name}\n" for name in photos.ids or ())
    vectors = photos.x.data.float().mean((1, 2)).numpy()
    np.savez(tmp_path / "own.npz", x=vectors, y=np.asarray(photos.labels))
    (tmp_path / "list.csv").write_text("file\n" + listed)
    words = ("--files", tmp_path / "list.csv")
    run("fit", tmp_path / "own.npz", *words, "--out", tmp_path / "run", *QUICK)
    assert shows_pictures(tmp_path / "run")
    stranger = tmp_path / "stranger.png"
    Image.new("RGB", (8, 8)).save(stranger)
    for name in (str(stranger), os.path.relpath(stranger, tmp_path)):
        shown = FromFiles(tmp_path, [name], [str(trained / "photos")])
        assert shown.picture(0, 64) is None


def test_pictures_in_two_places_open_no_third(tmp_path: Path) -> None:
    lists = [str(tmp_path / "a.png"), "/elsewhere/of/b.png", "/elsewhere/c.png"]
    places = outside(tmp_path / "lists", lists)["below"]
    assert places == sorted(["/elsewhere", str(tmp_path)])
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    shown = FromFiles(tmp_path / "lists", [lists[0], "/etc/c.png"], places)
    assert shown.picture(0, 64) is not None
    assert shown.path(1) is None
    assert FromFiles(tmp_path, [lists[0]], ["/"]).path(0) is None  # a run of old


def test_a_table_may_name_its_pictures_absolutely(trained: Path, tmp_path: Path) -> None:
    photos = load(trained / "photos")
    names = [f"{trained / 'photos' / name},{name[:3]}" for name in photos.ids or ()]
    (tmp_path / "t.csv").write_text("file,label\n" + "\n".join(names) + "\n")
    few = ("--image-size", "32", "--net", "lenet")  # what is shown does not depend on training
    run("fit", tmp_path / "t.csv", "--encoder", "none", "--out", tmp_path / "run", *few, *QUICK)
    assert shows_pictures(tmp_path / "run")


def test_vectors_with_texts_show_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    texts = np.array([f"sentence number {k}" for k in range(40)])
    np.savez(tmp_path / "t.npz", x=rng.normal(size=(40, 4)), y=np.arange(40) % 2, text=texts)
    run("fit", tmp_path / "t.npz", "--out", tmp_path / "run", *QUICK)
    assert (load(tmp_path / "t.npz").captions or ())[7] == "sentence number 7"
    np.savez(tmp_path / "b.npz", x=rng.normal(size=(40, 4)), y=np.arange(40) % 2, text=texts[:9])
    with pytest.raises(BadInput, match=r"expected an array 'text' of shape \(40,\)"):
        load(tmp_path / "b.npz")


def test_an_encoder_for_another_kind_of_data_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", x=np.eye(40), y=np.arange(40) % 2)
    with pytest.raises(BadInput, match="the data is numeric already; leave out --encoder"):
        run("fit", tmp_path / "t.npz", "--encoder", "efficientnet-lite0", "--out", tmp_path / "r")
