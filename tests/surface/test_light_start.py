"""`labelproof --help`, `--version`, help of commands and `import labelproof` load no PyTorch."""

from __future__ import annotations

import subprocess
import sys

import pytest

COMMANDS = (
    "demo", "fit", "report", "review", "predict", "export", "bench", "plan", "methods", "embed",
    "encoders", "corrupt",
)  # fmt: skip
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
for name in {COMMANDS}:
    sys.argv[1:] = [name, "--help"]
    try:
        main()
    except SystemExit:
        pass
    {CHECK}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_command_of_the_package_is_listed(labelproof):
    code, out, _ = labelproof("--help")
    assert code == 0
    assert all(name in out for name in COMMANDS)
