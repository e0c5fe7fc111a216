"""Cells that a spreadsheet would run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelproof.csv_cells import plain, safe


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
