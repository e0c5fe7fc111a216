"""Cells of CSV files that a spreadsheet would run as formulas, and how they are written instead.

A cell that begins with `=`, `@`, a tab or a line break, or with `+` or `-` before something that is
no number but could be a call, gets an apostrophe in front: spreadsheets then show it as text.
`plain` takes the apostrophe away again, so files that this package reads back are unchanged.
"""

from __future__ import annotations

import re

MARK = "'"
RISKY = re.compile(r"[=@\t\r\n]|[+-](?=.*[(|!=])", re.DOTALL)
NUMBER = re.compile(r"[+-]?[0-9.,]+(e[+-]?[0-9]+)?", re.IGNORECASE)


def safe(text: str) -> str:
    """The text as a cell that no spreadsheet runs."""
    bare = text.lstrip(MARK)
    return MARK + text if RISKY.match(bare) and not NUMBER.fullmatch(text) else text


def plain(cell: str) -> str:
    """The text that `safe` was given."""
    return cell[1:] if cell.startswith(MARK) and RISKY.match(cell.lstrip(MARK)) else cell
