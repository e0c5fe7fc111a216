"""`labelproof --help`, `--version`, help of commands and `import labelproof` load no PyTorch."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module

import pytest

from labelproof.__main__ import BENCH
from labelproof.cli.app import FIRST, LAST

HOMES = {**FIRST, **BENCH, **LAST}
HEAVY = ("torch", "numpy", "scipy", "sklearn", "pandas", "PIL")
CHECK = f"assert not {{*sys.modules}} & {{*{HEAVY}}}, {{*sys.modules}} & {{*{HEAVY}}}"


@pytest.mark.parametrize(
    "start",
    [
        "import labelproof; labelproof.__version__; labelproof.BadInput",
        "sys.argv[1:] = ['--help']; from labelproof.__main__ import main; main()",
        "sys.argv[1:] = ['--version']; from labelproof.__main__ import main; main()",
        "sys.argv[1:] = ['no-such-command']; from labelproof.__main__ import main; main()",
    ],
)
def test_nothing_heavy_is_imported(start):
    code = f"import sys\ntry:\n    {start}\nexcept SystemExit:\n    pass\n{CHECK}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_help_imports_nothing_heavy():
    code = f"""
import sys
from labelproof.__main__ import main
for name in {[*HOMES]}:
    sys.argv[1:] = [name, "--help"]
    try:
        main()
    except SystemExit:
        pass
    {CHECK}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", HOMES)
def test_the_list_of_commands_says_what_each_command_says(name):
    module, sentence = HOMES[name]
    command = vars(import_module(module))[name]
    first = (inspect.getdoc(command) or "").split("\n\n")[0]
    assert " ".join(first.split()) == sentence


def test_every_command_of_the_package_is_listed(labelproof):
    code, out, _ = labelproof("--help")
    assert code == 0
    assert all(name in out for name in HOMES)
