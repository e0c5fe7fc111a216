"""report.html: self-contained, complete, safe against hostile names, and readable by everyone."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import itertools
import json
import re
import shutil
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_runs import CLASSES, HEADER, made_run, picture_folder, table, trained
from PIL import Image
from typer.testing import CliRunner

from labelproof.cli.app import app
from labelproof.errors import BadInput
from labelproof.report import write
from labelproof.runs.ownership import sealed


class Page(HTMLParser):
    """Tags with their attributes, in order, and the text below each kind of tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in ("meta", "img", "br", "link"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open and data.strip():
            self.words.append((self._open[-1], data.strip()))

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def text(self) -> str:
        return " ".join(words for tag, words in self.words if tag != "style")


def page_of(folder: Path) -> Page:
    return Page(write(folder).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def pictured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run on a folder of pictures."""
    root = tmp_path_factory.mktemp("pictured")
    return trained(picture_folder(root / "pictures"), root / "run", max_bad=0.2)


def test_a_finished_run_has_a_report_with_pictures(pictured: Path) -> None:
    page = Page((pictured / "report.html").read_text(encoding="utf-8"))
    suspects = [row for row in table(pictured) if row["suspect"] == "1"]
    images = page.all("img")
    assert len(images) >= min(len(suspects), 48) > 0
    first = images[0]
    head, _, data = first["src"].partition(",")
    assert head == "data:image/png;base64"
    picture = Image.open(io.BytesIO(base64.b64decode(data)))
    assert picture.size == (16, 12)  # whole, not cut to a square
    assert suspects[0]["id"] in first["alt"]


def test_the_page_needs_nothing_from_elsewhere(pictured: Path) -> None:
    text = (pictured / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert not [name for name, _ in page.tags if name in ("script", "link", "iframe", "object")]
    for _, attributes in page.tags:
        for name in ("src", "href", "xlink:href", "action", "data"):
            assert attributes.get(name, "#").startswith(("#", "data:image/"))
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
    assert not re.search(r"url\(|@import|https?://", text)


def test_the_policy_of_the_page_forbids_the_network(pictured: Path) -> None:
    text = (pictured / "report.html").read_text(encoding="utf-8")
    policy = next(
        meta["content"]
        for meta in Page(text).all("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    )
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    rules = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["style-src"] == f"'sha256-{digest}'"
    assert "script-src" not in rules
    assert "connect-src" not in rules


def test_equal_inputs_with_different_labels_and_unreadable_files_are_listed(pictured: Path) -> None:
    text = Page((pictured / "report.html").read_text(encoding="utf-8")).text()
    assert "1 input is identical to an earlier one" in text
    assert "blue/3.png: labelled blue" in " ".join(text.split())
    assert "red/twin.png: labelled red" in " ".join(text.split())
    assert "red/broken.png" in text
    assert "not a picture in a known format" in text


def test_without_the_data_the_report_says_that_pictures_are_missing(
    pictured: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(pictured, run)
    record = (run / "run.json").read_text().replace(str(pictured.parent), str(tmp_path / "gone"))
    (run / "run.json").write_text(record)
    answer = CliRunner().invoke(app, ["report", str(run)])
    assert answer.exit_code == 0
    text = Page((run / "report.html").read_text(encoding="utf-8")).text()
    assert "The examples themselves cannot be shown" in text
    assert not Page((run / "report.html").read_text(encoding="utf-8")).all("img")


def test_the_most_frequent_confusions_come_first(tmp_path: Path) -> None:
    moves = {("owl", "cat"): 2, ("cat", "dog"): 1, ("dog", "owl"): 4}
    run = made_run(tmp_path / "run", size=12)
    suspects = [pair for pair, count in moves.items() for _ in range(count)]
    rows = [
        (i, f"row {i}", given, suggested, 0.1, 0.9, -1.0, 1)
        for i, (given, suggested) in enumerate(suspects)
    ]
    rows += [(i, f"row {i}", "cat", "cat", 0.9, 0.9, 1.0, 0) for i in range(len(rows), 12)]
    with (run / "labels.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])
    text = page_of(run).text()
    shown = text[text.index("The most frequent confusions") :]
    places = [
        shown.index(f"{given} {suggested} {count}")
        for (given, suggested), count in sorted(moves.items(), key=lambda move: -move[1])
    ]
    assert places == sorted(places)
    assert shown.count("dog owl") == 1


def test_changed_data_is_not_shown_as_that_of_the_run(tmp_path: Path) -> None:
    data = tmp_path / "things.csv"
    lines = [f"{i / 10},{i % 3},{'ab'[i % 2]}" for i in range(20)]
    data.write_text("length,width,label\n" + "\n".join(lines) + "\n")
    run = trained(data, tmp_path / "run")
    assert "length" in (run / "report.html").read_text()
    data.write_text(data.read_text().replace("0.1,", "0.7,"))
    answer = CliRunner().invoke(app, ["report", str(run)])
    assert answer.exit_code == 0
    assert "has changed since the run" in (run / "report.html").read_text()


def test_rows_and_texts_are_shown_where_there_is_no_picture(tmp_path: Path) -> None:
    data = tmp_path / "things.csv"
    lines = [f"{i / 10},{i % 3},{'ab'[i % 2]}" for i in range(20)]
    data.write_text("length,width,label\n" + "\n".join(lines) + "\n")
    run = trained(data, tmp_path / "run")
    worst = next(row for row in table(run) if row["suspect"] == "1")
    length, width, _ = lines[int(worst["index"])].split(",")
    page = Page((run / "report.html").read_text())
    heads = [words for tag, words in page.words if tag == "th"]
    assert {"length", "width"} <= set(heads)  # a table, with all columns
    assert f"{float(length):g} {width}" in " ".join(page.text().split())


HOSTILE = ('<script>alert("x")</script>', "'\"><img src=x onerror=alert(1)>", "a & b <b>")


def test_names_cannot_put_anything_into_the_page(tmp_path: Path) -> None:
    ids = [f'"><svg onload=alert({i})>.png' for i in range(60)]
    run = made_run(tmp_path / "run", classes=HOSTILE, ids=ids)
    (run / "unreadable.csv").write_text('path,reason\n"<script>1</script>","</table><script>2"\n')
    page = page_of(run)
    assert not page.all("script")
    assert not page.all("b")
    assert not [a for _, a in page.tags if any(name.startswith("on") for name in a)]
    for name in HOSTILE:
        assert name in page.text()
    assert ids[0] in page.text()
    assert "</table><script>2" in page.text()


def test_the_gallery_shows_the_worst_first(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", size=200)
    rows = [row for row in table(run) if row["suspect"] == "1"]
    page = page_of(run)
    shown = [words for tag, words in page.words if tag in ("del", "ins")]
    assert len(rows) > 48
    unclear = [row for row in rows if float(row["p_suggested"]) < float(row["p_clean"])]
    keys = {row["id"]: ("given",) if row in unclear else ("given", "suggested") for row in rows}
    assert shown == [row[key] for row in rows for key in keys[row["id"]]]
    assert 0 < len(unclear) == page.text().count("probably wrong, no clear suggestion")
    names = [words for tag, words in page.words if tag == "option"]
    assert names == ["all classes", "cat", "dog", "owl"]  # to filter by


def test_class_by_class_health_counts_what_labels_csv_says(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", size=200)
    rows = table(run)
    given = Counter(row["given"] for row in rows)
    bad = Counter(row["given"] for row in rows if row["suspect"] == "1")
    joining = Counter(row["suggested"] for row in rows if row["suspect"] == "1")
    text = write(run).read_text(encoding="utf-8")
    body = text.split('aria-label="Table of classes"')[1].split("</table>")[0]
    for name in CLASSES:
        cells = re.search(rf'<th scope="row">{name}</th>(.*?)</tr>', body)
        assert cells
        values = re.findall(r"<td[^>]*>(.*?)</td>", cells[1])
        clean = [float(row["p_clean"]) for row in rows if row["given"] == name]
        assert values[0] == str(given[name])
        assert values[1] == str(bad[name])
        assert values[3] == f"{sum(clean) / len(clean):.0%}"
        assert values[5] == str(joining[name])


@pytest.mark.parametrize(("rate", "interval"), [(None, [0.1, 0.3]), (0.2, [0.1, 1.0])])
def test_classes_have_no_number_where_the_summary_has_none(
    tmp_path: Path, rate: float | None, interval: list[float]
) -> None:
    run = made_run(tmp_path / "run", size=200)
    summary = json.loads((run / "summary.json").read_text())
    summary |= {"noise_rate_estimate": rate, "noise_rate_interval": interval}
    (run / "summary.json").write_text(json.dumps(summary))
    text = write(run).read_text(encoding="utf-8")
    body = text.split('aria-label="Table of classes"')[1].split("</table>")[0]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in body.split("<tr>")[2:]]
    assert [row[3] for row in cells] == ["–"] * 3
    assert "it is left open here, because a single number would not be reliable" in text


def test_the_table_of_classes_says_what_is_counted(tmp_path: Path) -> None:
    page = page_of(made_run(tmp_path / "run"))
    heads = [words for tag, words in page.words if tag == "th"]
    assert "Suspects from other classes" in heads
    assert "Most often suggested" in heads


def test_a_run_without_suspects_says_so(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run")
    lines = (run / "labels.csv").read_text().splitlines()
    quiet = [lines[0], *(line[:-1] + "0" for line in lines[1:])]
    (run / "labels.csv").write_text("\n".join(quiet) + "\n")
    text = page_of(run).text()
    assert "0 of 60 labels look wrong" in text
    assert "use the model as it is" in text
    told = json.loads((run / "summary.json").read_text())
    told["trust"] = {"level": "none", "reasons": ["60 examples are too few."]}
    (run / "summary.json").write_text(json.dumps(told))
    text = page_of(run).text()
    assert "because these labels cannot be judged" in text
    assert "use the model as it is" not in text
    assert "no label has another class that is more likely" not in text


def test_the_command_begins_as_a_person_types_it(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", command=["/somewhere/labelproof/__main__.py", "fit", "d.npz"])
    record = sealed(json.loads((run / "run.json").read_text()))
    (run / "run.json").write_text(json.dumps(record))
    assert "labelproof fit d.npz" in page_of(run).text()


def test_a_list_that_is_filled_up_does_not_say_that_all_of_it_looks_wrong(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run")
    summary = json.loads((run / "summary.json").read_text())
    listed = sum(line.endswith(",1") for line in (run / "labels.csv").read_text().splitlines())
    (run / "summary.json").write_text(json.dumps({**summary, "suspects_filled": listed - 2}))
    text = page_of(run).text()
    assert f"{listed} of 60 labels are listed for review, as you asked: 2 look wrong" in text
    assert "Labels to review" in text
    assert "Labels that look wrong" not in text


def test_headings_images_tables_and_drawings_can_be_read_aloud(pictured: Path) -> None:
    page = Page((pictured / "report.html").read_text(encoding="utf-8"))
    assert page.all("html")[0]["lang"] == "en"
    levels = [int(name[1]) for name, _ in page.tags if re.fullmatch(r"h[1-6]", name)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert all(image.get("alt") for image in page.all("img"))
    assert all(head.get("scope") in ("row", "col") for head in page.all("th"))
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    for drawing in page.all("svg"):
        assert drawing["role"] == "img"
        assert all(name in ids for name in drawing["aria-labelledby"].split())
    for link in page.all("a"):
        assert link["href"][1:] in ids


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_have_enough_contrast(scheme: int, tmp_path: Path) -> None:
    text = write(made_run(tmp_path / "run")).read_text(encoding="utf-8")
    block = re.findall(r":root \{(.*?)\}", text, re.DOTALL)[scheme]
    colours = dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})", block))
    for ink in ("ink", "quiet", "a", "b", "good"):
        for ground in ("page", "card"):
            light, dark = sorted((_luminance(colours[ink]), _luminance(colours[ground])))[::-1]
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, ground)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _replace(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new, 1))


DAMAGES = {
    "no labels.csv": lambda run: (run / "labels.csv").unlink(),
    "no summary": lambda run: (run / "summary.json").unlink(),
    "no run.json": lambda run: (run / "run.json").unlink(),
    "labels.csv cut": lambda run: _cut(run / "labels.csv"),
    "summary cut": lambda run: _cut(run / "summary.json"),
    "run.json cut": lambda run: _cut(run / "run.json"),
    "summary is a list": lambda run: (run / "summary.json").write_text("[]"),
    "an unknown class": lambda run: _replace(run / "labels.csv", ",cat,", ",cow,"),
    "no number": lambda run: _replace(run / "labels.csv", "\n", "\nx,y,cat,cat,a,b,c,0\n"),
    "another column": lambda run: _replace(run / "labels.csv", "p_clean", "p_dirty"),
    "a label twice": lambda run: _replace(
        run / "labels.csv", "\n", "\n0,row 0,cat,dog,0.1,0.2,0.3,1\n"
    ),
    "no task": lambda run: _replace(run / "run.json", '"task"', '"tusk"'),
    **{
        f"{name}: {text}": lambda run, name=name, text=text: (run / name).write_text(text)
        for name, texts in {
            "report.json": (
                "[]",
                '{"duplicates": 3}',
                '{"reliability": {"confidence": 1}}',
                '{"duplicates": {"rows": [[0, -1]]}}',
            ),
            "health.json": (
                "{}",
                '{"findings": 1}',
                '{"findings": [{}]}',
                '{"findings": [{"entries": [{"index": -1}]}]}',
                '{"findings": [{"entries": [{"index": "0"}]}]}',
                '{"findings": [{"entries": [{"index": 0}]}]}',
                '{"findings": [], "groups": [{"name": "a"}]}',
            ),
        }.items()
        for text in texts
    },
    "metrics garbled": lambda run: (run / "metrics.jsonl").write_text("{\n"),
}


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_a_damaged_run_folder_is_refused_in_a_sentence(damage: str, tmp_path: Path) -> None:
    run = made_run(tmp_path / "run")
    write(run)
    before = (run / "report.html").read_bytes()
    DAMAGES[damage](run)
    with pytest.raises(BadInput) as refusal:
        write(run)
    assert "\n" not in str(refusal.value)
    assert (run / "report.html").read_bytes() == before


def test_the_report_tells_what_was_reviewed(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", reviewed={"run": "runs/x", "count": 17, "removed": [4]})
    assert "1 example removed by a person was left out" in page_of(run).text()
    assert (
        "17 labels had been confirmed or corrected by a person and stayed fixed"
        in page_of(run).text()
    )
