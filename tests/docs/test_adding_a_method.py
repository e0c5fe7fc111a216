"""docs/adding-a-method.md followed to the letter, in a copy of the tree, with every command."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adding-a-method.md").read_text(encoding="utf-8")
BLOCK = re.compile(r'^```\w+ title="(.*?)"\n(.*?)^```', re.DOTALL | re.MULTILINE)
NAME = "symmetric"
IN_TURN = """
import json, os, pathlib, signal, sys, threading, time
import pytest
from labelproof.__main__ import main

def press_ctrl_c(file):
    while not file.exists():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` has it ignored
for words in json.loads(sys.argv[1]):
    stopped = words.pop() if words[-1].startswith("stopped-at=") else ""
    if stopped:
        file = pathlib.Path(stopped.split("=")[1])
        threading.Thread(target=press_ctrl_c, args=(file,), daemon=True).start()
    sys.argv[1:] = words
    try:
        sys.exit(pytest.main(words[1:])) if words[0] == "pytest" else main()
    except SystemExit as end:
        assert (end.code or 0) == (130 if stopped else 0), words
    print("~" * 9)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the repository with the page's files and lines."""
    tree = tmp_path / "tree"
    for part in ("src", "tests"):
        shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    blocks = dict(BLOCK.findall(PAGE))
    assert len(blocks) == 4
    for name, text in blocks.items():
        file = tree / name
        file.write_text(with_lines(file.read_text("utf-8"), text) if file.exists() else text)
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    np.savez(tree / "data.npz", x=4 * np.eye(3)[y] + rng.normal(size=(120, 3)), y=y)
    return tree


def with_lines(before: str, lines: str) -> str:
    """The import joins the others, the entry the table."""
    imported, entry = lines.split("\n\n")
    assert entry.count("\n") == 1  # one line, as the page promises
    first = "from labelproof.training.protocol"
    before = before.replace(first, "\n".join((imported, first)), 1)
    return re.sub(r"(: dict\[str, (?:type\[)?Method\]?\] = \{\n)", rf"\1{entry}", before, count=1)


def python(tree: Path, *words: str) -> str:
    """What a Python process printed; it must not fail."""
    env = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    process = subprocess.run(
        [sys.executable, *words], cwd=tree, env=env, capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def labelproof(tree: Path, *commands: str) -> list[str]:
    """What each command printed, all in one process: importing PyTorch takes seconds."""
    out = python(tree, "-c", IN_TURN, json.dumps([command.split() for command in commands]))
    return out.split("~" * 9 + "\n")[:-1]


def test_it_is_about_sixty_lines_of_code():
    (code,) = (text for name, text in BLOCK.findall(PAGE) if name.endswith(f"{NAME}.py"))
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) <= 65


@pytest.mark.slow
def test_every_command_and_the_contract_suite_work_with_it(tree):
    fit = f"fit data.npz --method {NAME} --out run --device cpu --calibrate quick --epochs 80"
    methods, plan, *_, tests = labelproof(
        tree,
        "methods --json",
        f"plan data.npz --method {NAME} --device cpu",
        f"{fit} stopped-at=run/checkpoint.pt",
        f"{fit} --resume",
        "predict run data.npz",
        "export run --format folder --out model",
        "report run",
        f"bench digits --scale tiny --methods {NAME} --epochs 1 --seeds 1 --jobs 1 --out b",
        f"pytest tests/contract -k {NAME} -p no:cacheprovider -v",
    )
    listed = {row["name"]: row for row in json.loads(methods)}
    assert listed[NAME]["recipes"] == ["cifar10-symmetric-0.4"]
    assert listed[NAME]["settings"]["log_zero"] == 4.0
    assert "epochs" in plan
    assert (tree / "predictions.csv").read_text().count("\n") == 121
    assert (tree / "model").is_dir()
    assert json.loads((tree / "run" / "summary.json").read_text())
    assert json.loads((tree / "run" / "run.json").read_text())["method"] == NAME
    assert NAME in (tree / "b" / "digits-tiny" / "table.md").read_text()
    assert int(re.search(r"(\d+) passed", tests)[1]) > 15
