"""The source itself: short functions, short files, no two modules of one name."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "labelproof"
FILES = sorted(SOURCE.rglob("*.py"))
LONGEST_FUNCTION, LONGEST_FILE = 60, 400  # lines


def test_no_function_is_long() -> None:
    long = [
        f"{path.relative_to(SOURCE)}: {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= LONGEST_FUNCTION
    ]
    assert not long


def test_no_file_is_long() -> None:
    counts = {path.relative_to(SOURCE): len(path.read_text("utf-8").splitlines()) for path in FILES}
    assert not {path: lines for path, lines in counts.items() if lines > LONGEST_FILE}


def test_no_two_modules_share_a_name() -> None:
    names: dict[str, list[str]] = {}
    for path in FILES:
        module = path.parent if path.name == "__init__.py" else path.with_suffix("")
        names.setdefault(module.name, []).append(str(path.relative_to(SOURCE)))
    assert not {name: places for name, places in names.items() if len(places) > 1}
