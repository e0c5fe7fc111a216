"""What a user can do wrong with a finished run: one sentence, exit code 2, nothing lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import labelproof
from labelproof.__main__ import main
from labelproof.cli.app import app

Shell = Callable[..., tuple[int, str]]
NAMES = np.array(["ant", "bee", "cow"])


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    def run(*words: object) -> tuple[int, str]:
        return ended(monkeypatch, *words), capsys.readouterr().err

    return run


def ended(patch: pytest.MonkeyPatch, *words: object) -> int:
    """The exit code of a command."""
    patch.setattr(sys, "argv", ["labelproof", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and a finished run of one epoch on it."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = (3 * np.eye(3, 5)[y] + rng.normal(size=(60, 5))).astype("float32")
    np.savez(folder / "data.npz", x=x, y=NAMES[y])
    np.savez(folder / "narrow.npz", x=x[:, :3])
    np.savez(folder / "strange.npz", x=x, y=np.where(y == 0, "owl", NAMES[y]))
    table = "\n".join(f"{a:.3f},{b:.3f},{NAMES[k]}" for (a, b), k in zip(x[:, :2], y, strict=True))
    (folder / "table.csv").write_text(f"width,height,label\n{table}\n")
    (folder / "other.csv").write_text("width,depth\n1,2\n")
    for data in ("data.npz", "table.csv"):
        words = ("--method", "ce", "--epochs", 1, "--calibrate", "quick")
        with pytest.MonkeyPatch.context() as patch:
            ended(patch, "fit", folder / data, *words, "--out", folder / Path(data).stem)
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy"


def refused(answer: tuple[int, str], *says: str) -> None:
    code, complaint = answer
    assert code == 2, complaint
    assert complaint.startswith("labelproof: ")
    assert complaint.count("\n") == 1
    for word in says:
        assert word in complaint


@pytest.mark.parametrize(
    ("run", "data", "says"),
    [
        ("data", "narrow.npz", "shape (5,)"),
        ("data", "strange.npz", "owl"),
        ("data", "table.csv", "table.csv"),
        ("table", "other.csv", "height"),
        ("table", "narrow.npz", ""),
        ("data", "nothing.npz", "no file or folder"),
    ],
)
def test_data_unlike_the_training_data(
    run: str, data: str, says: str, here: Path, shell: Shell
) -> None:
    out = here / "predictions.csv"
    refused(shell("predict", here / run, here / data, "--out", out), says)
    assert not out.exists()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


DAMAGE: dict[str, Callable[[Path], None]] = {
    "no record": lambda run: (run / "run.json").unlink(),
    "no model": lambda run: (run / "model.safetensors").unlink(),
    "no calibration": lambda run: (run / "calibration.json").unlink(),
    "no reading": lambda run: (run / "reading.json").unlink(),
    "cut record": lambda run: cut(run / "run.json"),
    "cut model": lambda run: cut(run / "model.safetensors"),
    "cut list of files": lambda run: cut(run / "files.json"),
    "other link": lambda run: edit(run / "calibration.json", '"scale": ', '"scale": 9'),
    "other classes": lambda run: edit(run / "run.json", '"ant"', '"gnu"'),
    "nothing": lambda run: shutil.rmtree(run),
}


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize("command", ["predict", "export"])
def test_a_model_copied_in_part_cut_short_or_changed(
    name: str, command: str, here: Path, shell: Shell
) -> None:
    DAMAGE[name](here / "data")
    out = here / "out"
    words = [here / "data.npz"] if command == "predict" else ["--format", "folder"]
    refused(shell(command, here / "data", *words, "--out", out))
    assert not out.exists()


LABELS: dict[str, Callable[[Path], None]] = {
    "no labels": lambda run: (run / "labels.csv").unlink(),
    "cut labels": lambda run: cut(run / "labels.csv"),
    "other labels": lambda run: edit(run / "labels.csv", "ant", "gnu"),
    "no record": lambda run: (run / "run.json").unlink(),
    "record of nothing": lambda run: (run / "run.json").write_text("{}"),
    "bytes": lambda run: (run / "labels.csv").write_bytes(b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("command", ["report", "review", "fit"])
def test_labels_copied_in_part_cut_short_or_changed(
    name: str, command: str, here: Path, shell: Shell
) -> None:
    LABELS[name](here / "data")
    words = {
        "report": ("report", here / "data"),
        "review": ("review", here / "data", "--export", here / "new.csv"),
        "fit": ("fit", here / "data.npz", "--reviewed", here / "data", "--out", here / "again"),
    }[command]
    refused(shell(*words))
    assert not (here / "new.csv").exists()
    assert not (here / "again").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("summary.json", b'{"suspects": 1'),
        ("summary.json", b"{}"),
        ("summary.json", b"[]"),
        ("metrics.jsonl", b'{"epoch": 1}\n{"ep'),
        ("metrics.jsonl", b"\xff\xfe\x00"),
        ("report.json", b"\xff"),
    ],
)
def test_a_report_of_damaged_files(name: str, content: bytes, here: Path, shell: Shell) -> None:
    before = (here / "data" / "report.html").read_bytes()
    (here / "data" / name).write_bytes(content)
    refused(shell("report", here / "data"), name)
    assert (here / "data" / "report.html").read_bytes() == before


def test_a_summary_cut_short_is_written_again_by_resuming(here: Path, shell: Shell) -> None:
    cut(here / "data" / "summary.json")
    words = ("--method", "ce", "--epochs", 1, "--calibrate", "quick", "--out", here / "data")
    assert shell("fit", here / "data.npz", *words, "--resume")[0] == 0
    assert json.loads((here / "data" / "summary.json").read_text())["calibration"] == "quick"


@pytest.mark.parametrize("line", ["no JSON", '{"step": 1}', '{"step": 1, "undo": 7}', "[]", "\xff"])
def test_decisions_edited_by_hand(line: str, here: Path, shell: Shell) -> None:
    path = here / "data" / "decisions.jsonl"
    path.write_bytes(line.encode("latin-1") + b"\n")
    before = path.read_bytes()
    refused(shell("review", here / "data", "--export", here / "new.csv"), "line 1 of")
    again = ("--reviewed", here / "data", "--out", here / "again")
    refused(shell("fit", here / "data.npz", *again), "line 1 of")
    refused(shell("review", here / "data", "--no-browser"), "line 1 of")
    assert path.read_bytes() == before
    assert not (here / "new.csv").exists()
    assert not (here / "again").exists()


def test_an_option_given_twice_is_refused_rather_than_halved():
    said = CliRunner().invoke(
        app, ["fit", "x.csv", "--label-column", "a", "--epochs=2", "--label-column", "b"]
    )
    assert said.exit_code == 2
    assert "--label-column was given 2 times" in said.stderr


@pytest.mark.parametrize("after", ["--label-column", "--no-flip", "--out=zz"])
def test_an_option_without_its_value_does_not_take_the_next_one(after):
    said = CliRunner().invoke(app, ["fit", "x.csv", "--multilabel", after, "tags"])
    assert said.exit_code == 2
    assert f"--multilabel needs a value, but {after.split('=')[0]} follows it" in said.stderr


def test_the_version_is_told():
    said = CliRunner().invoke(app, ["--version"])
    assert said.exit_code == 0
    assert said.stdout.strip() == f"labelproof {labelproof.__version__}"


def test_names_that_a_terminal_cannot_show_are_escaped(tmp_path):
    rows = "".join(f"{i % 7},{i % 5}.5,{'猫' if i % 2 else 'dog'}\n" for i in range(40))
    (tmp_path / "t.csv").write_text("a,b,label\n" + rows, encoding="utf-8")
    words = [sys.executable, "-m", "labelproof", "plan", str(tmp_path / "t.csv")]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    told = subprocess.run(words, env=ascii_only, capture_output=True, text=True, check=True)
    assert r"\u732b: 20" in told.stdout
