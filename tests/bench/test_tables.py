"""Tables against numbers computed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from labelproof.bench.cell import Cell
from labelproof.bench.published_numbers import (
    ABLATION_BEST,
    ABLATION_COLUMNS,
    ABLATION_LAST,
    HUMAN_COLUMNS,
    HUMAN_ROWS,
    SYNTHETIC_COLUMNS,
    SYNTHETIC_ROWS,
    WEB_COLUMNS,
    WEB_ROWS,
    numbers,
)
from labelproof.bench.results import ECE, LAST, SECONDS, Record, Results, mean_spread
from labelproof.bench.tables import grid, listing
from labelproof.runs.spec import RunSpec


def record(row: str, seed: int, last: float | None, state: str = "done", column: str = "50%"):
    cell = Cell(row=row, column=column, spec=RunSpec(data="digits", seed=seed))
    summary = {} if last is None else {"accuracy": {"last": last}, "ece": 0.1, "seconds": 7.4}
    return Record(cell=cell, folder=Path("x"), state=state, summary=summary, error="")


@pytest.fixture
def results() -> Results:
    return Results(
        scale="small",
        command="labelproof bench trial",
        records=(
            record("dpc", 0, 0.80),
            record("dpc", 1, 0.82),
            record("dpc", 2, 0.87),
            record("a_b", 0, 0.5),
            record("a_b", 1, None, "failed"),
            record("none", 0, None, "failed"),
            record("later", 0, None, "missing"),
        ),
    )


def test_mean_and_standard_deviation_by_hand(results):
    # mean (80 + 82 + 87) / 3 = 83; deviations -3, -1, 4; sqrt((9 + 1 + 16) / 2) = sqrt 13
    assert mean_spread(results.values(LAST.read, "dpc", "50%")) == pytest.approx((83, 13**0.5))
    assert mean_spread([5.0]) == (5.0, 0.0)
    assert mean_spread([]) is None


def test_markdown(results):
    known = {("dpc", "50%"): "95.2", ("a_b", "50%"): "88.8†"}
    text = grid(results, LAST, title="Trial", published=known, notes=("Mind †.",)).markdown()
    lines = text.splitlines()
    assert lines[0] == "**Trial: accuracy, last (%)**"
    assert lines[2] == "|  | 50% | published: 50% |"
    assert lines[3] == "|---|---:|---:|"
    assert lines[4] == "| dpc | 83.00 ± 3.61 | 95.2 |"
    assert lines[5] == "| a_b | 50.00 (1 failed) | 88.8† |"
    assert lines[6] == "| none | failed |  |"
    assert lines[7] == "| later |  |  |"
    assert "Mind †." in text
    assert "over 0 to 3 seeds; scale small." in text
    assert "`labelproof bench trial`" in text


def test_latex(results):
    text = grid(results, LAST, title="Trial 100%", published={("dpc", "50%"): "95.2"}).latex()
    assert r"\begin{tabular}{lrr}" in text
    assert r" & 50\% & published: 50\% \\" in text
    assert r"dpc & 83.00 $\pm$ 3.61 & 95.2 \\" in text
    assert r"a\_b & 50.00 (1 failed) &  \\" in text
    assert r"\caption{Trial 100\%: accuracy, last (\%)." in text
    assert "`" not in text


def test_a_line_for_every_method(results):
    table = listing(results, (LAST, ECE, SECONDS), title="Trial")
    assert table.header == ("data", "method", LAST.title, "ECE", "seconds", "seeds")
    assert table.rows[0] == ("50%", "dpc", "83.00 ± 3.61", "0.1000 ± 0.0000", "7 ± 0", "3")
    assert table.rows[2] == ("50%", "none", "failed", "failed", "failed", "0")


def test_files_are_written_in_both_forms(results, tmp_path):
    paths = grid(results, LAST, title="Trial").write(tmp_path)
    assert [path.name for path in paths] == ["table.md", "table.tex"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["table.md", "table.tex"]


def test_published_numbers_mark_the_copying_errors():
    known = numbers(SYNTHETIC_ROWS, SYNTHETIC_COLUMNS)
    assert known["dpc", "CIFAR-100 asym. 40%"] == "74.1"
    assert known["ce", "CIFAR-10 sym. 50%"] == "81.7†"
    assert known["ce", "CIFAR-10 asym. 30%"] == "81.7"
    assert ("pes", "CIFAR-10 asym. 10%") not in known


def test_unicon_was_run_again_for_the_ablation():
    synthetic, web = numbers(SYNTHETIC_ROWS, SYNTHETIC_COLUMNS), numbers(WEB_ROWS, WEB_COLUMNS)
    last = numbers(ABLATION_LAST, ABLATION_COLUMNS)
    best = numbers(ABLATION_BEST, ABLATION_COLUMNS)
    assert synthetic["unicon", "CIFAR-10 sym. 20%"] == "96.0"
    assert best["unicon", "CIFAR-10 sym. 20%"] == "94.2"
    assert web["unicon", "ILSVRC12 top-5"] == "93.7"
    for row in ("unicon", "unicon with L_edl"):
        places = [(row, column) for column in ABLATION_COLUMNS]
        assert all(float(last[place]) < float(best[place]) for place in places)


def test_gains_by_l_edl_are_those_of_the_appendix():
    known = numbers(HUMAN_ROWS, HUMAN_COLUMNS)
    gains = [
        round(float(known["mlnt with L_edl", c]) - float(known["mlnt", c]), 2)
        for c in HUMAN_COLUMNS
    ]
    assert gains == [0.08, 0.72, 0.02, 0.37, -0.16, 2.11]
