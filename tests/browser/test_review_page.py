"""The review page in Chromium, on a real run: see, decide, reload, export, fit again, kill."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import Page, Server

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from made_runs import made_run, table

from labelproof import pipeline
from labelproof.report import write as write_report
from labelproof.runs.ownership import sealed
from labelproof.runs.spec import RunSpec

Serve = Callable[[Path], Server]
Served = Callable[[Path], str]


@pytest.fixture
def page(browser: Any) -> Page:
    return Page(browser)


def decisions(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "decisions.jsonl").read_text().splitlines()]


def suspects(run: Path) -> list[dict[str, str]]:
    return [row for row in table(run) if row["suspect"] == "1"]


@pytest.mark.slow
def test_see_decide_reload_export_and_fit_again(page: Page, served: Served, run: Path) -> None:
    worst = suspects(run)
    address = served(run)
    page.open(address).ready().worst_first()

    # see
    assert worst[0]["id"] in page.text("card")
    assert page.text("keep-name") == worst[0]["given"]
    assert page.text("accept-name") == worst[0]["suggested"]

    # decide by keys: accept, keep, skip, a digit, another class by name
    for key in "aks":
        page.press(key)
    page.until_count("2 of")
    page.until(lambda: worst[3]["id"] in page.text("card"))
    other = next(d for d in "0123456789" if d not in (worst[3]["given"], worst[3]["suggested"]))
    page.press(other)
    page.until_count("3 of")
    page.press("c")
    page.until(lambda: page.js("document.getElementById('choose').open"))
    page.press(worst[4]["given"])
    page.press("\ue007")
    page.until_count("4 of")
    wanted = [
        (worst[0]["id"], "accept", worst[0]["suggested"]),
        (worst[1]["id"], "keep", worst[1]["given"]),
        (worst[2]["id"], "skip", None),
        (worst[3]["id"], "change", other),
        (worst[4]["id"], "keep", worst[4]["given"]),
    ]
    assert [(d["id"], d["decision"], d["label"]) for d in decisions(run)] == wanted

    # reload: everything is still there, and the next open one is shown
    page.open(address).ready().worst_first()
    page.until_count(f"4 of {len(worst):,} decided, 1 skipped")
    assert worst[5]["id"] in page.text("card")

    # undo, also after reloading
    page.press("u")
    page.until_count("3 of")
    assert worst[4]["id"] in page.text("card")
    assert decisions(run)[-1]["undo"] == 5

    # export
    got = page.browser.execute_async_script(
        "const done = arguments[0];"
        "fetch(document.getElementById('export-own').href).then(a => a.text()).then(done)"
    )
    labels = {row[0]: row[1] for row in csv.reader(got.splitlines()[1:])}
    changed = {worst[0]["id"]: worst[0]["suggested"], worst[3]["id"]: other}
    assert labels == {row["id"]: changed.get(row["id"], row["given"]) for row in table(run)}

    # fit again
    page.click("#again-open")
    page.until(lambda: "--reviewed" in page.text("command"))
    page.click("#start")
    page.until(lambda: page.text("again-state").startswith("Done"))
    again = run.with_name("run-reviewed")
    with (again / "reviewed.csv").open(newline="") as file:
        held = {row["id"]: row["label"] for row in csv.DictReader(file)}
    assert held == {**changed, worst[1]["id"]: worst[1]["given"]}
    fresh = {row["id"]: row for row in table(again)}
    assert all(fresh[name]["given"] == label for name, label in held.items())
    assert all(fresh[name]["suspect"] == "0" for name in held)
    assert (again / "report.html").exists()
    assert page.complaints() == []


def test_a_kill_loses_nothing_that_was_decided(
    page: Page, serve: Serve, served: Served, run: Path
) -> None:
    server = serve(run)
    page.open(server.address).ready().worst_first()
    for key in "aak":
        page.press(key)
    page.until_count("3 of")
    server.process.kill()
    server.process.wait()
    kept = decisions(run)
    assert [d["decision"] for d in kept] == ["accept", "accept", "keep"]
    page.press("a")
    page.until(lambda: "does not answer" in page.text("error"))
    (run / "decisions.jsonl").open("a").write('{"step": 4, "ind')  # as a kill amid a write would
    page.open(served(run)).ready().worst_first()
    page.until_count("3 of")
    page.press("k")
    page.until_count("4 of")
    assert decisions(run)[:3] == kept
    assert len(decisions(run)) == 4


def test_the_grid_works_by_keyboard_alone(page: Page, served: Served, run: Path) -> None:
    worst = suspects(run)
    page.open(served(run)).ready().worst_first()
    page.press("g")
    page.until(lambda: page.js("document.activeElement.closest('#cards > li') !== null"))
    page.press("k")
    page.until_count("1 of")
    page.press("\ue014")  # right
    page.press("a")
    page.until_count("2 of")
    made = decisions(run)
    assert [d["id"] for d in made] == [worst[0]["id"], worst[2]["id"]]
    assert [d["decision"] for d in made] == ["keep", "accept"]
    page.click("#all-accept")
    page.until_count("48 of")
    page.press("u")
    page.until_count("2 of")
    page.click("#page-forth")
    page.until(lambda: worst[48]["id"] in page.text("cards"))
    assert worst[0]["id"] not in page.text("cards")
    assert page.complaints() == []


def test_all_labels_of_a_class_are_decided_at_once(page: Page, served: Served, run: Path) -> None:
    page.open(served(run)).ready().worst_first()
    first = suspects(run)[0]
    mine = [
        row
        for row in suspects(run)
        if (row["given"], row["suggested"]) == (first["given"], first["suggested"])
    ]
    fill = (
        "(form => {{ form.elements.given.value = '{}'; form.elements.suggested.value = '{}';"
        " form.dispatchEvent(new Event('change')) }})(document.getElementById('filter'))"
    )
    page.js(fill.format(first["given"], first["suggested"]))
    page.press("g")
    page.until(lambda: page.text("by-class-count") == str(len(mine)))
    assert page.js("document.getElementById('by-class-label').value").endswith(first["suggested"])
    page.click("#by-class button")
    page.until(lambda: page.js("document.getElementById('sure').open"))
    assert first["suggested"] in page.text("sure-title")
    assert not (run / "decisions.jsonl").exists() or not decisions(run)
    page.click("#sure-yes")
    page.until_count(f"{len(mine)} of")
    made = decisions(run)
    assert {d["id"] for d in made} == {row["id"] for row in mine}
    assert {(d["decision"], d["label"]) for d in made} == {("accept", first["suggested"])}
    page.press("u")
    page.until_count("0 of")
    assert page.complaints() == []


def test_the_rest_is_judged_again_after_a_batch(page: Page, served: Served, run: Path) -> None:
    page.open(served(run)).ready()  # in the order of gain
    for _ in range(20):
        page.press("k")
    page.until(lambda: len(decisions(run)) == 20)
    page.until(lambda: page.js("state.stale") is True)  # judged, and not yet fetched anew
    seen = {d["id"] for d in decisions(run)}
    page.press("k")
    page.until(lambda: len(decisions(run)) == 21)
    page.until(lambda: page.js("state.stale") is False)
    page.press("k")
    page.until(lambda: len(decisions(run)) == 22)
    made = [d["id"] for d in decisions(run)]
    assert len(set(made)) == 22
    assert seen < set(made)
    assert page.complaints() == []


def test_accepting_a_page_leaves_unclear_suggestions_open(
    page: Page, served: Served, tmp_path: Path
) -> None:
    run = made_run(tmp_path / "made", size=60)
    unclear = [r["id"] for r in suspects(run) if float(r["p_suggested"]) < float(r["p_clean"])]
    clear = [r["id"] for r in suspects(run) if r["id"] not in unclear]
    assert unclear
    page.open(served(run)).worst_first()
    page.press("g")
    page.until(lambda: "no clear suggestion" in page.text("cards"))
    page.click("#all-accept")
    page.until_count(f"{len(clear)} of")
    assert sorted(made["id"] for made in decisions(run)) == sorted(clear)
    assert page.complaints() == []


def test_the_order_is_shown_and_can_be_changed(page: Page, shared: str, trained_run: Path) -> None:
    from selenium.webdriver.support.ui import Select

    page.open(shared).ready()
    chosen = Select(page.browser.find_element("css selector", "select[name=order]"))
    assert chosen.first_selected_option.text == "most useful first"
    assert page.browser.find_element("id", "order-why").is_displayed()
    assert "best guess is most likely wrong" in page.text("order-why")
    chosen.select_by_visible_text("most suspicious first")  # a change that is seen, not sent
    page.until(lambda: suspects(trained_run)[0]["id"] in page.text("card"))
    assert "given label is least likely right" in page.text("order-why")


def test_votes_and_whom_to_ask_are_shown(page: Page, served: Served, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(300) % 3
    x = rng.normal(size=(300, 4)).astype(np.float32) + 3 * np.eye(3, 4, dtype=np.float32)[truth]
    wrong = rng.random((300, 3)) < [0.05, 0.2, 0.35]
    votes = np.where(wrong, (truth[:, None] + rng.integers(1, 3, (300, 3))) % 3, truth[:, None])
    votes[rng.random(300) < 0.3, 0] = -1
    people = np.array(["Ann", "Bob", "Cy"])
    np.savez(tmp_path / "d.npz", x=x, votes=votes, annotators=people)
    run = tmp_path / "run"
    settings = {"epochs": 3}
    pipeline.run(RunSpec(data=str(tmp_path / "d.npz"), method="ce", settings=settings, out=run))
    page.open(served(run)).until(lambda: page.js("document.querySelector('#card-title') !== null"))
    shown = page.text("card")
    assert "Who said what, and how likely it is right: " in shown
    row = page.js("state.queue[state.at]")
    said = dict(zip(people, votes[row["index"]], strict=True))
    assert {(who, int(label)) for who, label, _ in row["votes"]} == {
        (who, int(label)) for who, label in said.items() if label >= 0
    }
    assert f"If in doubt, ask {row['ask']['who']}: " in shown
    assert row["ask"]["who"] in people
    assert page.complaints() == []


def test_filters_show_what_they_say(page: Page, shared: str, trained_run: Path) -> None:
    page.open(shared).ready().worst_first()
    page.click("#filters summary")
    fill = "(form => {{ form.elements.given.value = '3'; form.elements.least.value = '{}'; form.dispatchEvent(new Event('change')) }})(document.getElementById('filter'))"  # noqa: E501
    sure = sorted(float(r["p_suggested"]) for r in suspects(trained_run) if r["given"] == "3")
    least = int(100 * sure[len(sure) // 2])
    page.js(fill.format(least))
    wanted = [
        row
        for row in suspects(trained_run)
        if row["given"] == "3" and float(row["p_suggested"]) >= least / 100
    ]
    page.until(lambda: page.text("keep-name") == "3" and wanted[0]["id"] in page.text("card"))
    page.press("g")
    page.until(lambda: page.text("grid-count") == f"{len(wanted)} labels")


def test_it_fits_a_phone_in_the_dark(page: Page, shared: str) -> None:
    page.open(shared, width=360, height=740, dark=True).ready().worst_first()
    assert page.js("document.documentElement.scrollWidth") <= 360
    small = page.js(
        "[...document.querySelectorAll('#actions button')].filter(b => b.offsetHeight < 40).length"
    )
    assert small == 0
    dark = page.js("getComputedStyle(document.body).backgroundColor")
    page.click("#view-grid")
    page.until(lambda: page.js("document.querySelectorAll('#cards > li').length > 10"))
    assert page.js("document.documentElement.scrollWidth") <= 360
    page.open(shared).ready().worst_first()
    assert page.js("getComputedStyle(document.body).backgroundColor") != dark


def test_everything_that_can_be_pressed_has_a_name(page: Page, shared: str) -> None:
    page.open(shared).ready().worst_first()
    page.press("g")
    page.until(lambda: page.js("document.querySelectorAll('#cards > li').length > 10"))
    tree = page.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    roles = ("button", "link", "combobox", "spinbutton", "searchbox", "image", "progressbar")
    nameless = [
        node["role"]["value"]
        for node in tree
        if not node.get("ignored")
        and node["role"]["value"] in roles
        and not node.get("name", {}).get("value")
    ]
    assert nameless == []


def test_a_hundred_thousand_suspects_stay_a_small_page(
    page: Page, served: Served, tmp_path: Path
) -> None:
    run = made_run(tmp_path / "large", size=100_000)
    lines = (run / "labels.csv").read_text().splitlines()
    (run / "labels.csv").write_text("\n".join([lines[0], *(f"{x[:-1]}1" for x in lines[1:])]))
    page.open(served(run))
    page.worst_first()
    page.until_count("0 of 100,000 decided")
    page.press("a")
    page.until_count("1 of")
    page.press("g")
    page.until(lambda: page.js("document.querySelectorAll('#cards > li').length") == 48)
    ids = [row["id"] for row in suspects(run)]
    for number in (49, 97, 145):  # the first label was decided and is no longer open
        page.click("#page-forth")
        page.until(lambda name=ids[number]: page.text("cards").find(f"{name}") >= 0)
    assert page.js("document.querySelectorAll('*').length") < 1500


def test_names_cannot_put_anything_into_the_page(
    page: Page, served: Served, tmp_path: Path
) -> None:
    names = ("<img src=x onerror=document.title='pwned'>", "</script><b>", "&lt;i&gt;")
    ids = [f"<b onclick=1>{i}</b>" for i in range(60)]
    run = made_run(tmp_path / "run", classes=names, ids=ids)
    page.open(served(run))
    page.worst_first()
    worst = suspects(run)[0]
    assert worst["given"] in page.text("verdict")
    assert worst["id"] in page.text("card")
    assert page.js("document.querySelector('#card img, #card b, #verdict b')") is None
    assert page.js("document.title") == "Review labels"


def test_the_report_needs_no_network_and_fits_a_phone(page: Page, run: Path) -> None:
    address = (run / "report.html").as_uri()
    page.open(address, width=360, height=740)
    assert page.js("document.documentElement.scrollWidth") <= 360
    assert page.js("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    assert page.js("document.images.length") > 48
    assert (
        page.js(
            "[...document.querySelectorAll('#suspects img')].filter(i => i.offsetHeight > 0).length"
        )
        == 48
    )
    asked = page.js("performance.getEntriesByType('resource').map(e => e.name)")
    assert [name for name in asked if not name.startswith("data:")] == []
    light = page.js("getComputedStyle(document.body).backgroundColor")
    assert page.complaints() == []
    page.open(address, dark=True)
    assert page.js("getComputedStyle(document.body).backgroundColor") != light
    record = json.loads((run / "run.json").read_text())
    record["command"] = ["labelproof", "fit", "data.csv", *["--drop-column", "of-no-use"] * 9]
    (run / "run.json").write_text(json.dumps(sealed(record)))
    page.open(write_report(run).as_uri(), width=360, height=740)
    assert "of-no-use" in page.js("document.querySelector('footer').textContent")
    assert page.js("document.documentElement.scrollWidth") <= 360  # a long command is broken
