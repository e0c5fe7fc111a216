"""The README's Python runs, and what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sklearn import datasets

from labelproof.recipes.recipe import recipes_of

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_python_blocks_run(tmp_path, monkeypatch):
    """On a few of the examples and in few steps, so that it takes seconds."""
    x, y = datasets.load_digits(return_X_y=True)
    monkeypatch.setattr(datasets, "load_digits", lambda return_X_y: (x[:200], y[:200]))
    monkeypatch.setitem(recipes_of("dpc").vectors, "steps", 20)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})


def test_links_and_pictures_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, flags=re.M):
        assert f"\n{target}:" in makefile
