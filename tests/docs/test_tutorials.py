"""Every tutorial as its reader would follow it: each block in order, in an empty folder.

A `text` block shows what the block before it prints: the same words, and numbers near enough for
another processor. `python tests/docs/test_tutorials.py csv` writes those of docs/tutorials/csv.md
anew.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labelproof.__main__ import main

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
PAGES = sorted(TUTORIALS.glob("*.md"))
BLOCK = re.compile(r"^```(bash|python|text)\n(.*?)^```", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
FEWEST = 6  # blocks of a page, so that none is checked by finding nothing to run


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_runs_and_prints_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = [found.groups() for found in BLOCK.finditer(page.read_text(encoding="utf-8"))]
    assert len(blocks) >= FEWEST
    for shown, printed in shown_and_printed(blocks, page.name, monkeypatch):
        assert_alike(shown, printed)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_links_and_pictures_are_there(page: Path) -> None:
    for kind, name in re.findall(r"(!?)\[.*?\]\(([^)#:]+)", page.read_text(encoding="utf-8")):
        target = (page.parent / name).resolve()
        assert target.exists(), name
        assert not kind or target.stat().st_size <= 300_000


def shown_and_printed(
    blocks: list[tuple[str, ...]], page: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, str]]:
    """Run the blocks in order; each `text` block with what the block before it printed."""
    names: dict[str, Any] = {}
    printed = ""
    for language, code in blocks:
        if language == "text":
            yield code, printed
        elif language == "python":
            printed = run_python(code, names, page)
        else:
            printed = "".join(run_command(line, monkeypatch) for line in commands(code))


def commands(code: str) -> list[str]:
    """The lines of a bash block, continued ones as one."""
    return code.replace("\\\n", " ").splitlines()


def run_command(line: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a command prints, run in this process: importing PyTorch anew takes seconds."""
    words = shlex.split(line)
    assert words[0] == "labelproof", line
    monkeypatch.setattr(sys, "argv", words)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), pytest.raises(SystemExit) as end:
        main()
    assert end.value.code in (0, None), line
    return printed.getvalue()


def run_python(code: str, names: dict[str, Any], page: str) -> str:
    """What a block prints; the blocks of a page share their names."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, page, "exec"), names)
    return printed.getvalue()


def assert_alike(shown: str, printed: str) -> None:
    """The same words in the same order, numbers within a fifth or two; `...` skips the rest."""
    shown, *more = shown.split("...\n")
    there = printed.split()[: len(shown.split())] if more else printed.split()
    assert NUMBER.sub("#", " ".join(there)) == NUMBER.sub("#", " ".join(shown.split()))
    for mine, theirs in zip(NUMBER.findall(shown), NUMBER.findall(" ".join(there)), strict=True):
        assert abs(float(mine) - float(theirs)) <= 2 + 0.2 * abs(float(mine)), (mine, theirs)


def refresh(page: Path) -> None:
    """Write the `text` blocks of a page anew, but for those that are cut off by dots."""
    text = page.read_text(encoding="utf-8")
    blocks = [found.groups() for found in BLOCK.finditer(text)]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for shown, printed in shown_and_printed(blocks, page.name, patch):
            if "...\n" not in shown:
                text = text.replace(f"```text\n{shown}```", f"```text\n{printed.rstrip()}\n```", 1)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        refresh(TUTORIALS / f"{name}.md")
