"""Cells that a spreadsheet would run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelproof.csv_files import plain, safe
from labelproof.data.readers import load


@pytest.mark.parametrize(
    "text",
    ["=cmd|' /C calc'!A0", "@SUM(1)", "\t=1", "+1+cmd|'x'!A1", "-2+3+f(1)", "'=1", "=", "\n"],
)
def test_formulas_get_an_apostrophe(text):
    assert safe(text) == "'" + text
    assert plain(safe(text)) == text


@pytest.mark.parametrize("text", ["", "cat", "-1.5", "+3", "-foo.png", "a=b", "'quoted'", "1e-5"])
def test_other_cells_stay(text):
    assert safe(text) == text
    assert plain(text) == text


@given(st.text(alphabet="'=+-@a1(|\t\n", max_size=6))
def test_every_cell_comes_back(text):
    assert plain(safe(text)) == text


def test_a_table_that_was_made_safe_is_read_as_it_was(tmp_path):
    rows = [f"{i},{i % 3},{'=a|b' if i % 2 else 'plain'}" for i in range(20)]
    before, after = tmp_path / "before.csv", tmp_path / "after.csv"
    before.write_text("@size,other,label\n" + "\n".join(rows))
    cells = [line.split(",") for line in before.read_text().splitlines()]
    after.write_text("\n".join(",".join(safe(cell) for cell in row) for row in cells))
    assert after.read_text() != before.read_text()
    found = [load(path) for path in (before, after)]
    assert list(found[0].labels) == list(found[1].labels)
    assert found[0].encoder == found[1].encoder
