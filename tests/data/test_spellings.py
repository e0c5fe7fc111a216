"""Dates and amounts as people write them."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from labelproof.data.encoders.columns import as_numbers, fit_table, kind_of
from labelproof.data.encoders.spellings import amount, day_first, iso_date


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("€ 133.12", 133.12), ("$1,234.50", 1234.5), ("1.234,50 €", 1234.5), ("1,234", 1234),
        ("1,5", 1.5), ("-$5", -5), ("$-5", -5), ("12 %", 12), ("1 234 567", 1234567),
        ("USD 7", 7), ("0,125", 0.125), ("1'000", 1000), ("12.5", 12.5),
    ],
)  # fmt: skip
def test_amounts(text, number):
    assert amount(text) == number


@pytest.mark.parametrize("text", ["", "abc", "ABC 123", "1.2.3", "12-34", "€", "1/2", "1e5x", None])
def test_what_is_no_amount(text):
    assert math.isnan(amount(text))


def test_the_order_of_day_and_month_is_found_and_kept():
    assert day_first(["31/12/2024", "01/02/2024"]) is True
    assert day_first(["12/31/2024", "01/02/2024"]) is False
    assert day_first(["01/02/2024"]) is True
    assert day_first(["31/12/2024", "12/31/2024"]) is None
    assert day_first(["2024-12-31"]) is None
    assert iso_date("3.4.2024", True) == "2024-04-03"
    table = pd.DataFrame({"when": [f"{day}/12/2024" for day in range(1, 31)] * 2})
    column = fit_table(table, "t").columns[0]
    assert (column.kind, column.day_first) == ("date", True)
    days = as_numbers(pd.Series(["05/12/2024", None]), "date", column.day_first)
    assert days[0] == as_numbers(pd.Series(["2024-12-05"]), "date")[0]
    assert math.isnan(days[1])


def test_kinds_of_columns():
    assert kind_of(pd.Series(["€ 1.50", "€ 20", "€ 1,000.00"])) == "number"
    assert kind_of(pd.Series(["1/2/2020", "3/4/2021"])) == "date"
    assert kind_of(pd.Series(["A1", "B2"])) == "category"
