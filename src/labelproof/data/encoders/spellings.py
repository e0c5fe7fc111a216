"""Dates and amounts as people write them in tables: 31/12/2024, € 1.234,50, 12 %."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

DATE = re.compile(r"\s*(\d{1,2})([./-])(\d{1,2})\2(\d{4})([T ]\d.*)?")
UNIT = r"(?:[$€£¥₹₽%]|USD|EUR|GBP|JPY|CHF|CNY|INR|CAD|AUD)"
AMOUNT = re.compile(
    rf"\s*(?P<sign>[+-]?)\s*{UNIT}?\s*(?P<sign2>[+-]?)"
    r"(?P<number>\d{1,3}(?:[ ',.\u00a0]\d{3})+(?:[.,]\d{1,2})?|\d+(?:[.,]\d+)?)"
    rf"\s*{UNIT}?\s*"
)


def day_first(words: Iterable[str]) -> bool | None:
    """Whether dates such as 31/12/2024 put the day first; None where these are no such dates.

    Where no number tells (all are 12 or less), the day is taken to come first with points and
    slashes alike, as in most of the world.
    """
    found = [DATE.fullmatch(word) for word in words]
    if not found or not all(found):
        return None
    first, second = (max(int(match[place]) for match in found if match) for place in (1, 3))
    if first > 12 and second > 12:
        return None
    return not second > 12


def iso_date(value: Any, day_comes_first: bool | None) -> Any:
    """A date such as 31/12/2024 as 2024-12-31; anything else as it is."""
    if day_comes_first is None:
        return value
    match = DATE.fullmatch(str(value))
    if match is None:
        return value
    day, month = (match[1], match[3]) if day_comes_first else (match[3], match[1])
    return f"{match[4]}-{int(month):02d}-{int(day):02d}{match[5] or ''}"


def amount(value: Any) -> float:
    """A number with a sign of money or per cent, or with marks between thousands; nan for others.

    The last point or comma is the decimal mark, unless exactly three digits follow the only one
    of its kind beside others: 1,234.50 and 1.234,50 are one number, 1,234 is 1234.
    """
    match = AMOUNT.fullmatch(str(value))
    if match is None:
        return float("nan")
    text = re.sub(r"[ '\u00a0]", "", match["number"])
    place = max(text.rfind("."), text.rfind(","))
    if place >= 0 and (len(text) - place - 1 != 3 or text[:place].lstrip("0") == ""):
        text = re.sub(r"[.,]", "", text[:place]) + "." + text[place + 1 :]
    else:
        text = re.sub(r"[.,]", "", text)
    number = float(text)
    return -number if "-" in (match["sign"], match["sign2"]) else number
