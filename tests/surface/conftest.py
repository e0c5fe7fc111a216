"""A command line to type into."""

from __future__ import annotations

import sys

import pytest

from labelproof.__main__ import main


@pytest.fixture
def labelproof(monkeypatch, capsys, tmp_path):
    """Runs a command in an empty folder; gives exit code, what was printed, what was complained."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["labelproof", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0
        out, err = capsys.readouterr()
        return code, out, err

    return run
