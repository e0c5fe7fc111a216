"""Change one line at a time, run tests, and list the changes that no test noticed.

    make mutants MODULE=functional/select.py TESTS="tests/functional tests/parity"

The changes are those of cosmic-ray (another operator, comparison or number, a condition turned
round, a loop left out), and every statement that is only a call is taken out once. All happens in a
copy of src/ and tests/. Each change is tried in a fork of one process that has imported torch, so
that it costs the tests and not the imports. Read every survivor: it is either a missing test or a
change that makes no difference.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parents[1]
BINARY = ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "Pow_Mul", "BitAnd_BitOr", "BitOr_BitAnd")
UNARY = ("Delete_USub", "Delete_Not", "Delete_Invert")
COMPARISON = (
    *("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Lt_Gt", "Gt_Lt", "Eq_NotEq", "NotEq_Eq"),
    *("Is_IsNot", "IsNot_Is", "In_NotIn", "NotIn_In"),
)
OTHERS = (
    *("NumberReplacer", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr"),
    *("ReplaceOrWithAnd", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "AddNot"),
    *("ZeroIterationForLoop", "ExceptionReplacer"),
)


def main() -> None:
    """Try every change of one module, or of all modules of a package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", help="below src/labelproof, such as functional/select.py")
    parser.add_argument("tests", nargs="+", help="folders or files, such as tests/functional")
    args = parser.parse_args()
    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory() as folder:
        for name in ("src", "tests", "docs", "pyproject.toml"):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, Path(folder, name))
        os.chdir(folder)
        sys.path[:0] = ["src", "tests"]
        import_heavy_packages()
        whole = Path("src/labelproof", args.module)
        modules = sorted(whole.rglob("*.py")) if whole.is_dir() else [whole]
        survivors = sum(try_module(module, args.tests) for module in modules)
    sys.exit(1 if survivors else 0)


def import_heavy_packages() -> None:
    """What every fork would otherwise import for itself; nothing of labelproof."""
    import hypothesis  # noqa: F401
    import pytest  # noqa: F401
    import sklearn  # noqa: F401
    import torch  # noqa: F401


def try_module(module: Path, tests: list[str]) -> int:
    """Print the survivors of one module, and return how many there are."""
    source = module.read_text(encoding="utf-8")
    started = time.monotonic()
    if not passes(tests, limit=3600):
        sys.exit(f"the tests fail before anything is changed: {' '.join(tests)}")
    limit = 10 + 5 * (time.monotonic() - started)
    tried = survived = 0
    for changed in changes(source):
        module.write_text(changed, encoding="utf-8")
        tried += 1
        if passes(tests, limit):
            survived += 1
            lines = (source.splitlines(), changed.splitlines())
            print("\n".join(list(difflib.unified_diff(*lines, str(module), lineterm="", n=1))[2:]))
            sys.stdout.flush()
    module.write_text(source, encoding="utf-8")
    print(f"{module}: {tried} changes, {survived} survived", flush=True)
    return survived


def changes(source: str) -> Iterator[str]:
    """Every changed form of the source that differs and is still Python."""
    seen = {source}
    for changed in (*by_operator(source), *without_calls(source)):
        if changed not in seen:
            seen.add(changed)
            with contextlib.suppress(SyntaxError):
                ast.parse(changed)
                yield changed


def by_operator(source: str) -> Iterator[str]:
    """One change by cosmic-ray at a time; annotations such as `int | None` are left alone."""
    nodes = list(ast_nodes(get_ast(source)))
    hinted = hint_positions(source)
    for name in filter(wanted, operator_names()):
        operator = get_operator(name)()
        positions = [place for node in nodes for place in operator.mutation_positions(node)]
        for occurrence, (start, _) in enumerate(positions):
            if not any(low <= start < high for low, high in hinted):
                yield mutate_code(source, operator, occurrence) or source


def wanted(name: str) -> bool:
    """Whether an operator is among those that make one plausible mistake."""
    kind, _, which = name.removeprefix("core/").partition("_")
    chosen = {
        "ReplaceBinaryOperator": BINARY,
        "ReplaceUnaryOperator": UNARY,
        "ReplaceComparisonOperator": COMPARISON,
    }
    return which in chosen[kind] if kind in chosen else kind in OTHERS


def hint_positions(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where type hints stand, from and to, as (line, column)."""
    found = []
    for node in ast.walk(ast.parse(source)):
        hints: list[ast.expr | None] = []
        if isinstance(node, ast.arg | ast.AnnAssign):
            hints.append(node.annotation)
        if isinstance(node, ast.FunctionDef):
            hints.append(node.returns)
        for hint in filter(None, hints):
            end = (hint.end_lineno or hint.lineno, hint.end_col_offset or 0)
            found.append(((hint.lineno, hint.col_offset), end))
    return found


def without_calls(source: str) -> Iterator[str]:
    """The source without one statement that is only a call, such as `net.eval()`."""
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            first, last = node.lineno - 1, node.end_lineno or node.lineno
            head = " " * node.col_offset + "pass\n"
            yield "".join([*lines[:first], head, *lines[last:]])


def passes(tests: list[str], limit: float) -> bool:
    """Whether the tests pass in a fork; a fork that takes too long has noticed the change."""
    child = os.fork()
    if child == 0:
        os.setsid()
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        import pytest

        os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])))
    until = time.monotonic() + limit
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


if __name__ == "__main__":
    main()
