"""Published numbers against the tables in the DPC paper's LaTeX source, where that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from labelproof.bench import published_numbers as ours

ROOT = Path(__file__).parents[2]
SOURCES = [folder / "shared" / "paper.tex" for folder in (ROOT.parent, ROOT.parents[1])]
ROWS = {
    "Cross-Entropy": "ce",
    "Mixup": "mixup",
    "PENCIL": "pencil",
    "JPL": "jpl",
    "DivideMix": "dividemix",
    "PES": "pes",
    "ELR+": "elr_plus",
    "MOIT+": "moit",
    "DPC": "dpc",
    "UniCon": "unicon",
    "DPC*": "dpc*",
    "GCE": "gce",
    "Co-teaching": "coteaching",
    "SOP": "sop_plus",  # as the authors of CIFAR-N call it
    "D2L": "d2l",
    "MentorNet": "mentornet",
    "ICV": "incv",
    "DPC w/o L_edl": "without L_edl",
    "DPC w/o LM": "without large margin",
    "DPC w/o TH": "without two heads",
    "UniCon w L_edl": "unicon with L_edl",
}


@pytest.fixture(scope="module")
def paper() -> str:
    for path in SOURCES:
        if path.is_file():
            return path.read_text(encoding="utf-8")
    pytest.skip("the paper's LaTeX source is not beside this checkout")


def table(paper: str, label: str) -> dict[str, list[str]]:
    """Cells by row of the tabular whose caption has this label."""
    end = paper.index(rf"\label{{{label}}}")
    body = paper[paper.rindex(r"\begin{tabular}", 0, end) : paper.rindex(r"\end{tabular}", 0, end)]
    rows = {}
    for line in body.split(r"\\"):
        name, *cells = (plain(cell) for cell in line.split("&"))
        if cells and all(re.fullmatch(r"-|\d[\d.±]*", cell) for cell in cells):
            rows[name] = cells
    return rows


def plain(cell: str) -> str:
    """A cell without markup: macros, citations and rules."""
    cell = re.sub(r"~?\s*\\cite[pt]?\{[^}]*\}|\\rowcolor\{[^}]*\}", "", cell)
    cell = re.sub(r"\\c?midrule\S*", "", cell)
    cell = re.sub(r"\\textbf\{([^{}]*)\}", r"\1", cell).replace(r"$\pm$", "±")
    return cell.replace(r"$\mathcal{L}_{edl}$", "L_edl").strip()


def without_marks(line: str) -> list[str]:
    return line.replace("†", "").split()


def test_synthetic_noise(paper):
    theirs = table(paper, "tab2")
    assert len(theirs) == 11
    for name, cells in theirs.items():
        assert without_marks(ours.SYNTHETIC_ROWS[ROWS[name]]) == cells, name
    from_elsewhere = {row for row, line in ours.SYNTHETIC_ROWS.items() if "‡" in line}
    assert {ROWS[name] for name in theirs} | from_elsewhere == set(ours.SYNTHETIC_ROWS)
    for row in ("ce", "mixup"):  # † marks exactly the symmetric columns that repeat the others
        for half in (slice(0, 6), slice(6, 12)):
            cells = ours.SYNTHETIC_ROWS[row].split()[half]
            repeats = [cell.rstrip("†") for cell in cells[:3]] == cells[3:]
            assert all(cell.endswith("†") == repeats for cell in cells[:3])


def test_labels_of_people(paper):
    theirs = table(paper, "tab3")
    assert len(theirs) == 9
    star, cores = (ours.HUMAN_ROWS[row].split() for row in ("cores*", "cores"))
    assert [*star[:5], cores[5]] == theirs.pop("CORES")
    assert (star[5], set(cores[:5])) == ("-", {"-"})
    for name, cells in theirs.items():
        assert ours.HUMAN_ROWS[ROWS[name]].split() == cells, name


def test_webvision(paper):
    theirs = table(paper, "tab4")
    assert len(theirs) == 9
    for name, cells in theirs.items():
        assert ours.WEB_ROWS[ROWS[name]].split() == cells, name
    assert set(ours.WEB_ROWS) - {ROWS[name] for name in theirs} == {"ssr"}


def test_ablation(paper):
    theirs = table(paper, "tab5")
    assert len(theirs) == 6
    for name, cells in theirs.items():
        row = "DPC" if name == "DPC" else ROWS[name]
        assert ours.ABLATION_BEST[row].split() == cells[::2], name
        assert ours.ABLATION_LAST[row].split() == cells[1::2], name
    assert len(ours.ABLATION_BEST) == len(ours.ABLATION_LAST) == 6
