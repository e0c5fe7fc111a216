"""The review server: who may talk to it, and what it says."""

from __future__ import annotations

import io
import json
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import CLASSES, made_run, table
from rich.console import Console
from starlette.testclient import TestClient

from labelproof import pipeline
from labelproof.cli import start_review
from labelproof.data.readers import load
from labelproof.errors import BadInput
from labelproof.judging.label_table import LabelRows
from labelproof.report.example_view import FromExamples, Shown
from labelproof.report.facts import gather
from labelproof.report.sentences import next_steps
from labelproof.review import web_app
from labelproof.review.queue import decide_where
from labelproof.review.refit_job import Again
from labelproof.review.serve import bind
from labelproof.review.web_app import Desk, make_app
from labelproof.runs.next_checks import next_checks
from labelproof.runs.reviewed import Reviewed, open_review
from labelproof.runs.spec import RunSpec

TOKEN = "a-secret-token"
HOST = "http://127.0.0.1:4321"


def client_of(review: Reviewed, shown: Any = None) -> TestClient:
    desk = Desk(review, shown or Shown(), None, Again(review))
    return TestClient(make_app(desk, token=TOKEN, port=4321), base_url=HOST)


@pytest.fixture
def review(tmp_path: Path) -> Iterator[Reviewed]:
    opened = open_review(made_run(tmp_path / "run", size=200), write=True)
    yield opened
    opened.decisions.close()


@pytest.fixture
def client(review: Reviewed) -> TestClient:
    return client_of(review)


def decide(client: TestClient, **wish: Any) -> Any:
    return client.post(f"/{TOKEN}/api/decide", json={"decisions": [wish]})


def first(client: TestClient) -> dict[str, Any]:
    return client.get(f"/{TOKEN}/api/rows?limit=1").json()["rows"][0]


# --- who may talk to it


@pytest.mark.parametrize("path", ["/", "/x/", "/api/run", f"/{TOKEN}x/", f"/{TOKEN[:-1]}/", "//"])
def test_without_the_token_there_is_nothing(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert TOKEN not in answer.text


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:4321",
        "127.0.0.1",
        "127.0.0.1:80",
        "localhost.evil.example:4321",
        "0.0.0.0:4321",
    ],
)
def test_other_hosts_are_refused(client: TestClient, host: str) -> None:
    assert client.get(f"/{TOKEN}/", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:4321", "localhost:4321", "LOCALHOST:4321"])
def test_its_own_names_are_answered(client: TestClient, host: str) -> None:
    assert client.get(f"/{TOKEN}/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:80"},
        {"Origin": "https://127.0.0.1:4321"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
    ],
    ids=str,
)
@pytest.mark.parametrize("path", ["decide", "undo", "again"])
def test_posts_of_other_sites_change_nothing(
    client: TestClient, review: Reviewed, headers: dict[str, str], path: str
) -> None:
    row = first(client)
    content = json.dumps({"decisions": [{"index": row["index"], "decision": "skip"}]})
    sent = {"Content-Type": "application/json", **headers}
    answer = client.post(f"/{TOKEN}/api/{path}", content=content, headers=sent)
    assert answer.status_code == 403
    assert review.decisions.latest == {}
    assert (review.folder / "decisions.jsonl").read_bytes() == b""


def test_posts_of_the_page_itself_are_taken(client: TestClient) -> None:
    row = first(client)
    headers = {"Origin": HOST, "Sec-Fetch-Site": "same-origin"}
    body = {"decisions": [{"index": row["index"], "decision": "skip"}]}
    assert client.post(f"/{TOKEN}/api/decide", json=body, headers=headers).status_code == 200


def test_reading_never_changes_anything(client: TestClient, review: Reviewed) -> None:
    for path in ("decide", "undo"):
        assert client.get(f"/{TOKEN}/api/{path}").status_code == 405
    assert (review.folder / "decisions.jsonl").read_bytes() == b""


@pytest.mark.parametrize("path", ["/", "/review.js", "/api/run", "/nothing"])
def test_every_answer_forbids_foreign_content_and_framing(client: TestClient, path: str) -> None:
    headers = client.get(f"/{TOKEN}{path}").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_the_page_asks_for_nothing_from_elsewhere(client: TestClient) -> None:
    for path in ("/", "/show.js", "/review.js", "/review.css"):
        text = client.get(f"/{TOKEN}{path}").text
        assert "http://" not in text.replace("http://www.w3.org", "")
        assert "https://" not in text
        assert "innerHTML" not in text


# --- what it says


def walk(client: TestClient, **filters: Any) -> list[dict[str, Any]]:
    """All rows, page by page."""
    found: list[dict[str, Any]] = []
    start = 0
    while True:
        answer = client.get(f"/{TOKEN}/api/rows", params={**filters, "start": start, "limit": 7})
        rows = answer.json()["rows"]
        if not rows:
            return found
        found += rows
        start = rows[-1]["place"] + 1


FILTERS: list[dict[str, Any]] = [
    {},
    {"scope": "all"},
    {"given": "cat"},
    {"suggested": "owl", "least": 0.5},
    {"scope": "all", "given": "dog", "most": 0.8, "least": 0.4},
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_pages_hold_what_the_filter_says_in_order(
    client: TestClient, review: Reviewed, filters: dict[str, Any]
) -> None:
    expected = [
        row["id"]
        for row in table(review.folder)
        if (row["suspect"] == "1" or filters.get("scope") == "all")
        and row["given"] == filters.get("given", row["given"])
        and row["suggested"] == filters.get("suggested", row["suggested"])
        and filters.get("least", 0) <= float(row["p_suggested"]) <= filters.get("most", 1)
    ]
    assert [row["id"] for row in walk(client, **filters)] == expected
    assert len(expected) > 3
    total = client.get(f"/{TOKEN}/api/rows", params=filters).json()["total"]
    assert total == len(expected)


def test_deciding_while_paging_neither_skips_nor_repeats(client: TestClient) -> None:
    everything = [row["index"] for row in walk(client)]
    seen: list[int] = []
    start = 0
    while True:
        params = {"status": "open", "start": start, "limit": 5}
        rows = client.get(f"/{TOKEN}/api/rows", params=params).json()["rows"]
        if not rows:
            break
        for row in rows:
            seen.append(row["index"])
            assert decide(client, index=row["index"], decision="skip").status_code == 200
        start = rows[-1]["place"] + 1
    assert seen == everything
    assert client.get(f"/{TOKEN}/api/rows?status=open").json()["total"] == 0
    assert client.get(f"/{TOKEN}/api/rows?status=skipped").json()["total"] == len(everything)


def test_pages_go_backwards_too(client: TestClient) -> None:
    places = [row["place"] for row in walk(client)]
    params = {"before": places[20], "limit": 6}
    rows = client.get(f"/{TOKEN}/api/rows", params=params).json()["rows"]
    assert [row["place"] for row in rows] == places[14:20]


@pytest.mark.parametrize(
    "query", ["scope=x", "status=x", "given=cow", "least=a", "start=a", "before=x", "limit=1e9"]
)
def test_a_filter_that_makes_no_sense_is_refused(client: TestClient, query: str) -> None:
    answer = client.get(f"/{TOKEN}/api/rows?{query}")
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_progress_counts_decided_and_skipped_suspects(client: TestClient) -> None:
    rows = walk(client)
    decide(client, index=rows[0]["index"], decision="keep", label=rows[0]["given"])
    decide(client, index=rows[1]["index"], decision="accept", label=rows[1]["suggested"])
    answer = decide(client, index=rows[2]["index"], decision="skip").json()
    expected = {"suspects": len(rows), "decided": 2, "skipped": 1, "reviewed": 2}
    assert answer["progress"] == expected
    undone = client.post(f"/{TOKEN}/api/undo", json={}).json()
    assert undone["progress"] == {**expected, "skipped": 0}
    assert undone["rows"][0]["index"] == rows[2]["index"]
    assert undone["rows"][0]["decision"] is None


@pytest.mark.parametrize(
    "content",
    [b"", b"x", b"[]", b'{"decisions": 3}', b'{"decisions": [3]}', b"[" * 5000, b'"\xff"',
     b'{"decisions": [{"index": 99999, "decision": "skip"}]}'],
)  # fmt: skip
def test_a_body_that_makes_no_sense_is_refused(
    client: TestClient, review: Reviewed, content: bytes
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = client.post(f"/{TOKEN}/api/decide", content=content, headers=headers)
    assert answer.status_code == 400
    assert (review.folder / "decisions.jsonl").read_bytes() == b""


def test_a_full_disk_is_named_without_its_number(
    client: TestClient, review: Reviewed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("labelproof.runs.journal._write", full)
    wish = {"index": first(client)["index"], "decision": "skip"}
    client = TestClient(client.app, base_url=HOST, raise_server_exceptions=False)
    answer = decide(client, **wish)
    assert answer.status_code == 500
    assert answer.json()["error"] == "The decision was not saved: No space left on device."
    assert review.decisions.latest == {}


def test_a_download_that_fails_is_no_decision_that_was_not_saved(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("labelproof.review.web_app.export", full)
    client = TestClient(client.app, base_url=HOST, raise_server_exceptions=False)
    answer = client.get(f"/{TOKEN}/export/csv")
    assert answer.status_code == 500
    assert answer.json()["error"] == "This did not work: No space left on device."


def test_a_body_that_is_too_long_is_refused(client: TestClient) -> None:
    headers = {"Content-Type": "application/json"}
    answer = client.post(f"/{TOKEN}/api/decide", content=b" " * 1_100_000, headers=headers)
    assert answer.status_code == 413


def test_pictures_are_made_on_demand(tmp_path: Path) -> None:
    digits = load("digits")
    ids = list(digits.ids or ())
    task = {"digest": "", "size": len(ids), "kind": "images", "shape": [8, 8, 3]}
    names = [str(i) for i in range(10)]
    run = made_run(
        tmp_path / "run", size=len(ids), classes=names, ids=ids, task={**task, "classes": names}
    )
    opened = open_review(run, write=True)
    client = client_of(opened, FromExamples(digits))
    answer = client.get(f"/{TOKEN}/picture/17/160")
    assert answer.headers["content-type"] == "image/png"
    assert answer.content[:4] == b"\x89PNG"
    for path in ("picture/17/99999", f"picture/{len(ids)}/160", "picture/-1/160"):
        assert client.get(f"/{TOKEN}/{path}").status_code == 404
    opened.decisions.close()


def test_exports_can_be_downloaded(client: TestClient) -> None:
    row = first(client)
    decide(client, index=row["index"], decision="change", label="owl")
    lines = client.get(f"/{TOKEN}/export/jsonl").text.splitlines()
    assert len(lines) == 200
    assert json.loads(lines[row["index"]])["label"] == "owl"
    answer = client.get(f"/{TOKEN}/export/csv")
    assert "attachment" in answer.headers["content-disposition"]
    assert answer.text.splitlines()[1 + row["index"]] == f"{row['id']},owl"
    assert client.get(f"/{TOKEN}/export/exe").status_code == 404


def test_fitting_again_needs_a_decision(client: TestClient) -> None:
    answer = client.post(f"/{TOKEN}/api/again", json={})
    assert answer.status_code == 400
    assert client.get(f"/{TOKEN}/api/again").json()["state"] == "idle"


def test_the_command_to_fit_again_repeats_the_first_one(
    client: TestClient, review: Reviewed
) -> None:
    said = client.get(f"/{TOKEN}/api/run").json()["command"]
    run = review.folder
    assert said == f"labelproof fit --from {run} --reviewed {run} --out {run}-reviewed"
    assert said in [step.command for step in next_steps(gather(run), [])]


def test_examples_can_be_removed_with_a_note(client: TestClient, review: Reviewed) -> None:
    row = first(client)
    answer = decide(client, index=row["index"], decision="remove", note="a blurred picture")
    assert answer.json()["rows"][0]["decision"] == {
        "kind": "remove",
        "label": None,
        "note": "a blurred picture",
    }
    assert review.decisions.removed() == [row["index"]]
    lines = client.get(f"/{TOKEN}/export/jsonl").text.splitlines()
    assert len(lines) == 199
    client.post(f"/{TOKEN}/api/undo", json={})
    assert review.decisions.removed() == []
    assert decide(client, index=row["index"], decision="skip", note="x" * 3000).status_code == 400


def test_likeliest_classes_and_similar_examples_come_along(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", size=20)
    beside = {"index": [3], "likeliest": [[[0, 0.7], [2, 0.2]]], "similar": [[5, 6]]}
    (run / "review.json").write_text(json.dumps(beside))
    opened = open_review(run)
    client = client_of(opened)
    rows = client.get(f"/{TOKEN}/api/rows?scope=all").json()["rows"]
    row = next(row for row in rows if row["index"] == 3)
    told = {row["given"]: row["p_clean"], row["suggested"]: row["p_suggested"]}
    assert row["likeliest"] == [["cat", told["cat"]], ["owl", told.get("owl", 0.2)]]
    assert sum(sure for _, sure in row["likeliest"]) <= 1
    near = client.get(f"/{TOKEN}/api/similar/3").json()["rows"]
    assert [one["index"] for one in near] == [5, 6]
    assert client.get(f"/{TOKEN}/api/similar/999").json() == {"rows": []}
    (run / "review.json").write_text(json.dumps({**beside, "similar": [[99]]}))
    with pytest.raises(BadInput, match="of another run"):
        client_of(opened)


def test_the_likeliest_other_class_is_the_suggested_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(400) % 8
    x = rng.normal(size=(400, 8)).astype(np.float32) + 2 * np.eye(8, dtype=np.float32)[truth]
    wrong = rng.random(400) < 0.3
    y = np.where(wrong, rng.integers(0, 8, 400), truth)
    np.savez(tmp_path / "d.npz", x=x, y=y)
    spec = RunSpec(data=str(tmp_path / "d.npz"), method="ce", settings={"epochs": 3})
    pipeline.run(replace(spec, out=tmp_path / "run"))
    beside = json.loads((tmp_path / "run" / "review.json").read_text())
    likeliest = dict(zip(beside["index"], beside["likeliest"], strict=True))
    rows = [row for row in table(tmp_path / "run") if row["suspect"] == "1"]
    assert len(rows) > 20
    for row in rows:
        others = [pair for pair in likeliest[int(row["index"])] if str(pair[0]) != row["given"]]
        assert str(others[0][0]) == row["suggested"]
        assert others[0][1] == pytest.approx(float(row["p_suggested"]), abs=1e-3)


# --- running it


def test_a_port_in_use_is_said_in_a_sentence(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match=f"port {port} is in use"):
            bind(port)
        words = ["review", str(run), "--port", str(port), "--no-browser"]
        done = subprocess.run(
            [sys.executable, "-m", "labelproof", *words],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    said = "leave out --port to take a free one, or name another."
    assert done.stderr == f"labelproof: port {port} is in use; {said}\n"
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize("port", [70000, -1])
def test_a_port_that_cannot_be_is_refused(port: int) -> None:
    with pytest.raises(BadInput, match="cannot be used"):
        bind(port)


def test_the_server_listens_on_this_computer_alone() -> None:
    with bind(None) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "query", ["least=nan", "most=inf", "least=2", "start=-1", "start=1" + "0" * 30, "before=x"]
)
def test_filters_that_make_no_sense_are_refused(client, query: str) -> None:
    answer = client.get(f"/{TOKEN}/api/rows?{query}")
    assert answer.status_code == 400
    assert "filter cannot be read" in answer.json()["error"]


def decide_all(client: TestClient, **wish: Any) -> Any:
    return client.post(f"/{TOKEN}/api/decide-all", json=wish)


def test_all_labels_of_a_filter_are_decided_as_one_step(
    client: TestClient, review: Reviewed
) -> None:
    wanted = {"scope": "suspects", "given": "dog", "suggested": "owl"}
    found = client.get(f"/{TOKEN}/api/rows", params={**wanted, "limit": 3}).json()
    mine = [row for row in table(review.folder) if row["suspect"] == "1" and row["given"] == "dog"]
    assert found["open"] == found["changed"] == len(mine) > 3
    answer = decide_all(client, filter=wanted, act="change", label="owl", count=len(mine))
    assert answer.json()["count"] == len(mine)
    assert review.decisions.labels() == {int(row["index"]): "owl" for row in mine}
    assert {d.decision for d in review.decisions.latest.values()} == {"accept"}
    assert client.get(f"/{TOKEN}/api/rows", params=wanted).json()["open"] == 0
    client.post(f"/{TOKEN}/api/undo", json={})
    assert review.decisions.labels() == {}


def test_what_a_person_did_not_see_is_not_decided(client: TestClient, review: Reviewed) -> None:
    wanted = {"scope": "suspects", "given": "dog"}
    many = client.get(f"/{TOKEN}/api/rows", params=wanted).json()["open"]
    for wish in (
        {"filter": wanted, "act": "keep", "count": many + 1},
        {"filter": wanted, "act": "change", "label": "wolf", "count": many},
        {"filter": wanted, "act": "burn", "count": many},
        {"filter": {"given": 3}, "act": "keep", "count": many},
        {"filter": wanted, "act": "keep"},
    ):
        assert decide_all(client, **wish).status_code == 400
    assert review.decisions.latest == {}


def test_decided_labels_keep_their_decision(client: TestClient, review: Reviewed) -> None:
    row = first(client)
    decide(client, index=row["index"], decision="skip")
    decide(client, index=row["index"], decision="keep", label=row["given"])
    count = client.get(f"/{TOKEN}/api/rows").json()["changed"]
    assert decide_all(client, filter={}, act="accept", count=count).json()["count"] == count
    assert review.decisions.labels()[row["index"]] == row["given"]


def test_unclear_suggestions_are_not_accepted_with_the_others(
    client: TestClient, review: Reviewed
) -> None:
    sure = {int(row["index"]): row for row in table(review.folder) if row["suspect"] == "1"}
    unclear = {i for i, row in sure.items() if float(row["p_suggested"]) < float(row["p_clean"])}
    found = client.get(f"/{TOKEN}/api/rows?limit=200").json()
    told = {row["index"] for row in found["rows"] if row["unclear"]}
    assert told == unclear
    assert "probably wrong, no clear suggestion" in {row["unclear"] for row in found["rows"]}
    assert found["open"] == len(sure)
    assert 0 < found["changed"] == len(sure) - len(unclear) < len(sure)
    decide_all(client, filter={}, act="accept", count=found["changed"])
    assert set(review.decisions.labels()) == set(sure) - unclear


def test_all_of_a_kind_are_decided_from_python(review: Reviewed) -> None:
    mine = [row for row in table(review.folder) if row["suspect"] == "1" and row["given"] == "cat"]
    assert decide_where(review, given="cat", label="owl") == len(mine)
    assert set(review.decisions.labels().values()) == {"owl"}
    assert decide_where(review, given="cat", label="owl") == 0
    with pytest.raises(BadInput, match="wolf"):
        decide_where(review, given="dog", label="wolf")


def test_judging_again_orders_by_what_is_now_suspected(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", size=200)
    rng = np.random.default_rng(0)
    given = {int(row["index"]): CLASSES.index(row["given"]) for row in table(run)}
    scores = rng.normal(size=(200, 3))
    scores[np.arange(200), [given[i] for i in range(200)]] += np.where(rng.random(200) < 0.8, 4, -4)
    np.save(run / "scores.npy", scores.astype(np.float32))
    opened = open_review(run, write=True)
    client = client_of(opened)
    row = first(client)
    decide(client, index=row["index"], decision="keep", label=row["given"])
    assert client.post(f"/{TOKEN}/api/judge", json={}).status_code == 200
    found = client.get(f"/{TOKEN}/api/rows?scope=all&limit=200").json()["rows"]
    clean = [one["p_clean"] for one in found]
    assert clean == sorted(clean)
    assert next(one for one in found if one["index"] == row["index"])["p_clean"] == 1
    before = sum(int(line["suspect"]) for line in table(run))
    progress = client.get(f"/{TOKEN}/api/run").json()["progress"]
    assert progress["suspects"] >= before  # no label is lost from sight
    assert progress["decided"] == 1
    assert all(one["suggested"] != one["given"] for one in found if one["suspect"] and one["at"])
    gain = client.get(f"/{TOKEN}/api/rows?scope=all&limit=200&order=gain").json()["rows"]
    assert gain[-1]["index"] == row["index"]  # what is decided comes last
    opened.decisions.close()


def test_what_is_decided_while_judging_stays_on_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made_run(tmp_path / "run", size=200)
    opened = open_review(run, write=True)
    desk = Desk(opened, Shown(), None, Again(opened))
    row = int(opened.rows.index[opened.rows.suspects()[0]])
    given = opened.classes[opened.rows.labels()[row]]

    def judged(review: Reviewed, _: object) -> LabelRows:
        review.decisions.decide([{"index": row, "decision": "keep", "label": given}])
        return replace(review.rows, suspect=np.zeros_like(review.rows.suspect))

    monkeypatch.setattr(web_app, "judged_again", judged)
    desk.judge_again()
    assert desk.queue.progress()["decided"] == 1
    opened.decisions.close()


@pytest.mark.parametrize("late", [False, True])
def test_a_label_reopened_after_judging_again_is_as_before(tmp_path: Path, late: bool) -> None:
    run = made_run(tmp_path / "run", size=200)
    scores = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    np.save(run / "scores.npy", scores)
    review = open_review(run, write=True)
    client = client_of(review)
    before = first(client)
    decide(client, index=before["index"], decision="keep", label=before["given"])
    client.post(f"/{TOKEN}/api/judge", json={})
    if late:  # another decision instead of an undone one
        other = next(name for name in CLASSES if name != before["given"])
        row = decide(client, index=before["index"], decision="change", label=other).json()["rows"][
            0
        ]
    else:
        row = client.post(f"/{TOKEN}/api/undo", json={}).json()["rows"][0]
        assert row["decision"] is None
    for name in ("p_clean", "p_suggested", "suggested", "suspect"):
        assert row[name] == before[name]
    rows = client.get(f"/{TOKEN}/api/rows?scope=all&limit=200").json()["rows"]
    assert next(one for one in rows if one["index"] == row["index"])["p_clean"] == before["p_clean"]
    review.decisions.close()


def test_a_decision_undone_while_judging_is_not_judged_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    review = open_review(made_run(tmp_path / "run", size=200), write=True)
    desk = Desk(review, Shown(), None, Again(review))
    place = int(review.rows.suspects()[0])
    index, given = int(review.rows.index[place]), CLASSES[review.rows.given[place]]
    review.decisions.decide([{"index": index, "decision": "keep", "label": given}])

    def judged(review: Reviewed, told: dict[int, int]) -> LabelRows:
        assert list(told) == [index]
        review.decisions.undo()
        return replace(review.rows, p_clean=np.ones(200))

    monkeypatch.setattr(web_app, "judged_again", judged)
    desk.judge_again()
    assert desk.row(place)["p_clean"] == review.rows.p_clean[place]
    assert desk.row(place + 1)["p_clean"] == 1
    review.decisions.close()


def test_votes_say_what_the_label_says_after_judging_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made_run(tmp_path / "run", size=200)
    row = open_review(run).rows
    index, given, suggested = int(row.index[0]), row.given[0], row.suggested[0]
    names = [CLASSES[given], CLASSES[suggested], CLASSES[3 - given - suggested]]
    said = "".join(f"{index},p{n},{name},0.{56 - n}\n" for n, name in enumerate(names))
    (run / "votes.csv").write_text("index,annotator,label,p_right\n" + said)
    review = open_review(run, write=True)
    desk = Desk(review, Shown(), None, Again(review))
    assert [sure for *_, sure in desk.row(0)["votes"]] == [0.56, 0.55, 0.54]
    clean, sure = np.full(200, 0.37), np.full(200, 0.4)
    again = replace(review.rows, p_clean=clean, p_suggested=sure)
    monkeypatch.setattr(web_app, "judged_again", lambda *_: again)
    desk.judge_again()
    shown = desk.row(0)
    assert [sure for *_, sure in shown["votes"]] == [shown["p_clean"], shown["p_suggested"], None]
    review.decisions.close()


def test_decisions_are_read_between_those_of_other_threads(review: Reviewed) -> None:
    decisions, found = review.decisions, list[object]()
    decisions.decide([{"index": 7, "decision": "remove"}])
    for read in (decisions.labels, decisions.removed, decisions.standing):
        with decisions._lock:
            reading = threading.Thread(target=lambda read=read: found.append(read()))
            reading.start()
            reading.join(0.05)
            assert reading.is_alive()
        reading.join()
    assert found == [{}, [7], decisions.latest]
    assert found[2] is not decisions.latest


def test_the_printed_command_fits_into_a_free_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    review, said = open_review(made_run(tmp_path / "run", size=60), write=True), io.StringIO()

    def fitting(desk: Desk, *_: object) -> None:
        started = shlex.split(desk.again.command())[-1]
        Path(started).mkdir()

    monkeypatch.setattr("labelproof.review.serve.serve", fitting)
    start_review._serve(review, None, True, Console(file=said, soft_wrap=True))
    out = Path(shlex.split(said.getvalue().splitlines()[-1])[-1])
    assert out.parent == tmp_path
    assert not out.exists()


def test_near_duplicates_are_put_off(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", size=200)
    review = open_review(run)
    before = [one.index for one in next_checks(review, 200)]
    given = {int(row["index"]): row["given"] for row in table(run)}
    first, second = next(
        (a, b)
        for at, a in enumerate(before)
        for b in before[at + 1 : at + 20]
        if given[a] == given[b]
    )
    rows = f"near-duplicates,{first},a,{second},0.01\noutliers,{before[0]},a,,3\n"
    (run / "health.csv").write_text(f"kind,index,id,other,score\n{rows}")
    after = [one.index for one in next_checks(review, 200)]
    assert [row for row in after if row != second] == [row for row in before if row != second]
    assert after.index(second) > before.index(second) + 20
    (run / "health.csv").write_text("kind,index,id,other,score\nnear-duplicates,1,a,200,0\n")
    with pytest.raises(BadInput, match="is of another run"):
        next_checks(review, 5)


def test_numbers_without_end_and_half_letters_are_refused(review: Reviewed) -> None:
    client = client_of(review)
    for path in ("picture/{}/160", "api/similar/{}"):
        assert client.get(f"/{TOKEN}/{path.format('9' * 5000)}").status_code == 414
    wish = '{"decisions": [{"index": 0, "decision": "skip", "note": "half \\ud800"}]}'
    kind = {"Content-Type": "application/json"}
    answer = client.post(f"/{TOKEN}/api/decide", content=wish, headers=kind)
    assert (answer.status_code, review.decisions.latest) == (400, {})
