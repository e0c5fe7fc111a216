"""Run folders of others: no file outside them is read unless the user names it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from labelproof.cli.app import app
from labelproof.errors import BadInput
from labelproof.runs.journal import locked
from labelproof.runs.ownership import is_own, sealed, visible


def invoke(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table and a run of it, made by this user."""
    root = tmp_path_factory.mktemp("seal")
    rng = np.random.default_rng(0)
    rows = "".join(f"{a:.3f},{b:.3f},{'xy'[int(a + b > 0)]}\n" for a, b in rng.normal(size=(60, 2)))
    (root / "t.csv").write_text(f"a,b,label\n{rows}")
    said = invoke("fit", root / "t.csv", "--out", root / "run", "--method", "ce", "--epochs", 1,
                  "--calibrate", "quick")  # fmt: skip
    assert said.exit_code == 0, said.output
    return root


def record_of(run: Path) -> dict:
    return json.loads((run / "run.json").read_bytes())


def tampered(made: Path, tmp_path: Path, data: str) -> Path:
    run = tmp_path / "run"
    shutil.copytree(made / "run", run)
    record = record_of(run)
    record["data"]["path"] = record["spec"]["data"] = data
    (run / "run.json").write_text(json.dumps(record))
    return run


def test_a_run_of_ones_own_is_read_wherever_it_was_moved(made, tmp_path):
    assert is_own(record_of(made / "run"))
    run = tmp_path / "elsewhere"
    shutil.copytree(made / "run", run)
    said = invoke("report", run)
    assert said.exit_code == 0
    assert "cannot be shown" not in said.stderr


def test_a_tampered_folder_cannot_name_files(made, tmp_path, monkeypatch):
    secret = tmp_path / "secret.csv"
    shutil.copy(made / "t.csv", secret)
    run = tampered(made, tmp_path, str(secret))
    opened = []
    monkeypatch.setattr("labelproof.runs.reread.load", lambda data, *_, **__: opened.append(data))
    for words in (["report", run], ["review", run, "--export", tmp_path / "new.csv"],
                  ["fit", "--from", run, "--out", tmp_path / "again"]):  # fmt: skip
        said = invoke(*words)
        told = said.output + str(said.exception or "")
        assert "--data" in told or "name the data yourself" in told
    assert opened == []


def test_naming_the_data_is_enough(made, tmp_path):
    run = tampered(made, tmp_path, "/nowhere/at/all.csv")
    said = invoke("report", run, "--data", made / "t.csv")
    assert said.exit_code == 0
    assert "cannot be shown" not in said.stderr
    said = invoke("review", run, "--data", made / "t.csv", "--export", tmp_path / "new.csv")
    assert said.exit_code == 0
    assert (tmp_path / "new.csv").read_text() == (made / "t.csv").read_text()


def test_without_a_place_for_the_key_nothing_is_sealed(monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/nowhere")
    record = sealed({"data": {"path": "x"}, "spec": {"data": "x"}})
    assert record["seal"] is None
    assert not is_own(record)
    shown = visible(record)
    assert (shown["data"], shown["spec"]["data"], shown["withheld"]) == ({}, None, True)


def test_only_one_process_works_in_a_run_folder(tmp_path):
    holder = (
        "import sys, time; from pathlib import Path; from labelproof.runs.journal import locked\n"
        "with locked(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", holder, str(tmp_path / "run")], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    with pytest.raises(BadInput, match="another process is using"), locked(tmp_path / "run"):
        pass
    child.kill()
    child.wait()
    with locked(tmp_path / "run"):  # dies with its owner
        assert list((tmp_path / "run").iterdir()) == []


def test_a_run_goes_on_with_the_threads_it_began_with(made, tmp_path):
    import torch

    from labelproof.pipeline import threads_of

    run = tmp_path / "run"
    shutil.copytree(made / "run", run)
    record = record_of(run)
    now = torch.get_num_threads()
    (run / "run.json").write_text(json.dumps(record | {"threads": now + 1}))
    with threads_of(run):
        assert torch.get_num_threads() == now + 1
    assert torch.get_num_threads() == now
