"""Change one line at a time, run tests, and list the changes that no test noticed.

    make mutants MODULE=functional/select.py TESTS="tests/functional tests/parity"
    make mutants MODULE=functional TESTS=tests/functional SAMPLE=150

The changes are those of cosmic-ray (another operator, comparison or number, a condition turned
round, a loop left out), and every statement that is only a call is taken out once. All happens in a
copy of src/ and tests/. The tests run once as they are, which tells what functions each of them
enters. A change is then tried on the tests that enter the changed function, in a fork of one
process that has imported torch. Read every survivor: it is either a missing test or a change that
makes no difference.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
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


class Change(NamedTuple):
    """A module, its source, and what makes the changed source."""

    module: Path
    source: str
    make: Callable[[], str | None]


def main() -> None:
    """Try the changes of one module or of all modules of a package, or a random sample of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", help="below src/labelproof, such as functional/select.py")
    parser.add_argument("tests", nargs="+", help="folders or files, such as tests/functional")
    parser.add_argument("--sample", type=int, help="how many changes to try; all without it")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("src", "tests", "docs", "pyproject.toml"):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, Path(folder, name))
        os.chdir(folder)
        here = Path.cwd()
        sys.path[:0] = [str(here / "src"), str(here / "tests")]
        whole = here / "src/labelproof" / args.module
        modules = sorted(whole.rglob("*.py")) if whole.is_dir() else [whole]
        found = [change for module in modules for change in changes(module)]
        if args.sample is not None:
            random.Random(args.seed).shuffle(found)
        counts = try_changes(found, args.tests, args.sample)
    print(", ".join(f"{kind}: {count}" for kind, count in sorted(counts.items())))
    sys.exit(1 if counts["survived"] else 0)


def try_changes(found: list[Change], tests: list[str], most: int | None) -> Counter[str]:
    """Print every change that survives, and count what came of them all."""
    import_heavy_packages()
    entered = functions_entered(tests)
    sys.dont_write_bytecode = True  # a change may keep the size and the second of its file
    for module in {change.module for change in found}:
        for compiled in module.parent.glob(f"__pycache__/{module.stem}.*"):
            compiled.unlink()
    counts: Counter[str] = Counter()
    seen: set[tuple[Path, str]] = set()
    for module, source, make in found:
        if counts.total() == most:
            break
        changed = make() or source
        if changed == source or (module, changed) in seen:
            continue
        seen.add((module, changed))
        with contextlib.suppress(SyntaxError):
            ast.parse(changed)
            module.write_text(changed, encoding="utf-8")
            counts[outcome := tried(module, source, changed, entered)] += 1
            module.write_text(source, encoding="utf-8")
            if outcome != "noticed":
                print(outcome, difference(module, source, changed), sep="\n", flush=True)
    return counts


def import_heavy_packages() -> None:
    """What every fork would otherwise import for itself; nothing of labelproof."""
    import hypothesis  # noqa: F401
    import sklearn.linear_model
    import sklearn.mixture  # noqa: F401
    import torch  # noqa: F401


class Entered:
    """Notes the lines at which each test enters functions, and the seconds it takes."""

    def __init__(self) -> None:
        """Begin with no test."""
        self.tests: dict[str, tuple[float, list[tuple[str, int]]]] = {}
        self.shared: dict[str, set[tuple[str, int]]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        """A fixture may serve every test of its file."""
        yield from noting(self.shared.setdefault(item.nodeid.partition("::")[0], set()))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """What the test itself enters."""
        own: set[tuple[str, int]] = set()
        started = time.process_time()
        yield from noting(own)
        self.tests[item.nodeid] = (time.process_time() - started, sorted(own))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The first failure ends the session."""
        if report.failed:
            Path("failed.txt").write_text(report.nodeid, encoding="utf-8")

    def pytest_sessionfinish(self) -> None:
        """Hand everything to the process that forked this one."""
        both = {
            name: (took, [*own, *self.shared[name.partition("::")[0]]])
            for name, (took, own) in self.tests.items()
        }
        Path("entered.json").write_text(json.dumps(both), encoding="utf-8")


def noting(places: set[tuple[str, int]]) -> Iterator[None]:
    """Add the file and first line of every function that is entered meanwhile."""

    def enter(frame: Any, *_: object) -> None:
        places.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


def functions_entered(tests: list[str]) -> dict[str, Any]:
    """By test: the seconds it takes, and the lines at which it enters functions."""
    if run(tests, limit=7200, plugins=[Entered()]) != 0:
        failed = Path("failed.txt")
        which = failed.read_text(encoding="utf-8") if failed.exists() else " ".join(tests)
        sys.exit(f"the tests fail before anything is changed: {which}")
    found: dict[str, Any] = json.loads(Path("entered.json").read_text(encoding="utf-8"))
    return found


def tried(module: Path, source: str, changed: str, entered: dict[str, Any]) -> str:
    """What the tests that enter the changed function say: noticed, survived or took too long."""
    first, last = around(source, changed)
    by_file: dict[str, list[str]] = {}
    seconds: Counter[str] = Counter()
    for name, (took, places) in entered.items():
        if any(file == str(module) and first <= line <= last for file, line in places):
            by_file.setdefault(name.partition("::")[0], []).append(name)
            seconds[name.partition("::")[0]] += took
    chosen = [name for file in sorted(by_file, key=seconds.__getitem__) for name in by_file[file]]
    if not chosen:
        return "survived"  # no test comes here
    status = run(chosen, limit=10 + 5 * int(seconds.total()))
    if status in (-signal.SIGXCPU, -signal.SIGALRM):
        return "took too long"
    return "noticed" if status else "survived"


def around(source: str, changed: str) -> tuple[int, int]:
    """The first and last line of the outermost function that was changed, or of the module."""
    pairs = zip(source.splitlines(), changed.splitlines(), strict=False)
    line = next(at for at, (old, new) in enumerate(pairs, start=1) if old != new)
    for node in ast.walk(ast.parse(source)):  # outer before inner
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            if first <= line <= (node.end_lineno or first):
                return first, node.end_lineno or first
    return 1, len(source.splitlines())


def difference(module: Path, source: str, changed: str) -> str:
    """The changed lines, below the name of their file."""
    lines = (source.splitlines(), changed.splitlines())
    shown = list(difflib.unified_diff(*lines, lineterm="", n=1))[2:]
    return "\n".join([str(module.relative_to(Path.cwd())), *shown])


def changes(module: Path) -> Iterator[Change]:
    """One change by cosmic-ray at a time, and every statement that is only a call left out."""
    source = module.read_text(encoding="utf-8")
    nodes = list(ast_nodes(get_ast(source)))
    hinted = hint_positions(source)
    for name in filter(wanted, operator_names()):
        operator = get_operator(name)()
        positions = [place for node in nodes for place in operator.mutation_positions(node)]
        for occurrence, (start, _) in enumerate(positions):
            if not any(low <= start < high for low, high in hinted):  # such as `int | None`
                yield Change(module, source, partial(mutate_code, source, operator, occurrence))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield Change(module, source, partial(without, source, node))


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


def without(source: str, call: ast.Expr) -> str:
    """The source without one statement that is only a call, such as `net.eval()`."""
    lines = source.splitlines(keepends=True)
    head = " " * call.col_offset + "pass\n"
    return "".join([*lines[: call.lineno - 1], head, *lines[call.end_lineno or call.lineno :]])


def run(tests: list[str], limit: int, plugins: list[object] | None = None) -> int:
    """How the tests end in a fork that may take so many seconds; 0 if they pass."""
    child = os.fork()
    if child == 0:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        signal.alarm(20 * limit)  # for a fork that waits for ever
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        options = ["-x", "-q", "-p", "no:cacheprovider"]
        os._exit(int(pytest.main([*options, *tests], plugins=plugins)))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return status


if __name__ == "__main__":
    main()
