"""The Python of docs/data.md runs, in its order, and its tables name what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from labelproof.data.readers.published.named import NAMES
from labelproof.noise import KINDS, parse_noise

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


def test_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(BLOCKS) == 4
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(compile(block, "docs/data.md", "exec"), names)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_noise_is_in_the_table(kind):
    assert re.search(rf"^\|.*`{kind}[`:]", PAGE, flags=re.MULTILINE)


def test_kinds_with_options_are_read():
    shown = re.findall(r"^\| `([a-z-]+),([a-z]+=[a-z-]+)`", PAGE, flags=re.MULTILINE)
    assert len(shown) == 2
    for kind, option in shown:
        parse_noise(f"{kind}:0.4,{option}")


def test_every_benchmark_set_is_in_the_table():
    for name in NAMES:
        short = name.removeprefix("cifar10n") if name.startswith("cifar10n-r") else name
        short = "-worst" if name == "cifar10n-worst" else short
        assert f"`{short}`" in PAGE, name
