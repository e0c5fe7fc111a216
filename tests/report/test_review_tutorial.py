"""The code of docs/tutorials/cleaning-with-review.md, block by block."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from labelproof.cli.app import app

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "cleaning-with-review.md"


@pytest.mark.slow
def test_every_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```(bash|python)\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 6
    monkeypatch.chdir(tmp_path)
    for language, code in blocks:
        if language == "python":
            exec(compile(code, PAGE.name, "exec"), {})
            continue
        for line in code.splitlines():
            words = shlex.split(line)
            assert words[0] == "labelproof"
            monkeypatch.setattr("sys.argv", words)
            answer = CliRunner().invoke(app, words[1:])
            assert answer.exit_code == 0, f"{line}\n{answer.output}\n{answer.exception}"
    assert (tmp_path / "runs" / "second" / "report.html").exists()
    assert (tmp_path / "label-studio.json").exists()


def test_its_pictures_are_there() -> None:
    for name in re.findall(r"!\[.*?\]\((.*?)\)", PAGE.read_text()):
        assert (PAGE.parent / name).resolve().stat().st_size <= 300_000
