"""The review page's server: pages of suspects, pictures on demand, decisions, exports."""

from __future__ import annotations

import functools
import json
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from labelproof.errors import BadInput
from labelproof.judging import wording
from labelproof.judging.label_table import Codes, LabelRows
from labelproof.report.end_of_run import read_beside
from labelproof.report.example_view import Shown
from labelproof.review.corrected import export, in_words, usual_suffix
from labelproof.review.guard import Guard
from labelproof.review.queue import (
    LARGEST_PAGE,
    Queue,
    open_places,
    parse_query,
    read_wish,
    wishes_for,
)
from labelproof.review.refit_job import Again
from labelproof.runs.decisions import NotSaved
from labelproof.runs.next_checks import as_before, gain_order, judged_again
from labelproof.runs.reviewed import Reviewed
from labelproof.runs.votes_file import read_votes
from labelproof.runs.whom_to_ask import advisers

EDGES = (160, 480)  # of pictures: in the grid, and alone
KEPT_PICTURES = 2000
LARGEST_BODY = 1_000_000
MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
DOWNLOADS = {
    ".csv": "text/csv; charset=utf-8",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".npy": "application/octet-stream",
    ".parquet": "application/octet-stream",
}
Handler = Callable[[Request], Awaitable[Response]]


class Desk:
    """What the requests work on: the run, its queue, and a way to show examples."""

    def __init__(self, review: Reviewed, shown: Shown, note: str | None, again: Again) -> None:
        self.review = review
        self.rows = review.rows
        self._told: dict[int, int] = {}  # decided classes that the rows were judged with
        self._changing = threading.Lock()  # of the rows
        self.queue = self._queue(review.rows)
        self.shown = shown
        self.note = note
        self.people = advisers(review.folder, review.classes, len(review.rows))
        self.again = again
        classes, size = len(review.classes), len(review.rows)
        people = self.people  # a folder that was copied in part may have votes alone
        self.votes = people.said if people else read_votes(review.folder, review.classes, size)
        self.beside = read_beside(review.folder, classes, size)
        first = review.rows.index[:5].tolist()
        self.pictures = any(shown.picture(index, EDGES[0]) is not None for index in first)
        self.picture = functools.lru_cache(KEPT_PICTURES)(shown.picture)

    def row(self, place: int) -> dict[str, Any]:
        """One label as the page needs it."""
        rows, classes = self.rows, self.review.classes
        index, clean = int(rows.index[place]), float(rows.p_clean[place])
        decision = self.review.decisions.latest.get(index)
        number, of = self.queue.rank(place)
        beside = self.beside.get(index, {})
        return {
            "place": place,
            "at": self.queue.at(place),
            "votes": self._votes(place),
            "ask": self.people and vars(self.people.about(rows, place)),
            "rank": number,
            "of": of,
            "index": index,
            "id": rows.ids[place],
            "given": classes[rows.given[place]],
            "suggested": classes[rows.suggested[place]],
            "p_clean": clean,
            "p_suggested": float(rows.p_suggested[place]),
            "suspect": bool(rows.suspect[place]),
            "unclear": wording.no_suggestion(clean) if rows.unclear[place] else "",
            "text": self.shown.text(index),
            "cells": self.shown.cells(index),
            "likeliest": self._likeliest(place, beside.get("likeliest", ())),
            "decision": decision
            and {"kind": decision.decision, "label": decision.label, "note": decision.note},
        }

    def _votes(self, place: int) -> Sequence[tuple[str, str, float | None]] | None:
        """Who said what, and how likely it is; None for a class of which only the run knew it."""
        rows, before, classes = self.rows, self.review.rows, self.review.classes
        said = self.votes.get(int(rows.index[place]))
        same = all(
            getattr(rows, name)[place] == getattr(before, name)[place]
            for name in ("suggested", "p_clean", "p_suggested")
        )
        if said is None or same:
            return said
        now = {
            classes[rows.given[place]]: float(rows.p_clean[place]),
            classes[rows.suggested[place]]: float(rows.p_suggested[place]),
        }
        return [(who, label, now.get(label)) for who, label, _ in said]

    def _likeliest(self, place: int, pairs: Sequence[tuple[int, float]]) -> list[tuple[str, float]]:
        """The likeliest classes; given and suggested one have the numbers that stand elsewhere."""
        rows = self.rows
        told = {
            int(rows.given[place]): float(rows.p_clean[place]),
            int(rows.suggested[place]): float(rows.p_suggested[place]),
        }
        rest = max(0.0, 1 - sum(told.values()))
        found = [(code, told.get(code, min(sure, rest))) for code, sure in pairs]
        found.sort(key=lambda pair: -pair[1])
        return [(self.review.classes[code], sure) for code, sure in found]

    def judge_again(self) -> dict[str, Any]:
        """Fit the noise model to the decisions and put the list in a new order."""
        told = self.review.decided()
        rows = judged_again(self.review, told)
        late = np.isin(rows.index, list(self.review.decided())) & self.rows.suspect
        rows = replace(rows, suspect=rows.suspect | late)  # decided while the model was fitted
        queue = self._queue(rows, np.argsort(rows.p_clean, kind="stable"))
        with self._changing:
            self.rows, self.queue, self._told = rows, queue, told
            for index, decision in self.review.decisions.standing().items():
                self.queue.mark(index, decision)  # some may have come while the model was fitted
        self._reopen(told)
        return {"progress": self.queue.progress()}

    def _reopen(self, indices: Iterable[int]) -> None:
        """Rows that were judged by a decision which no longer stands are as before any."""
        stands = self.review.decided()
        with self._changing:
            gone = [i for i in indices if i in self._told and stands.get(i) != self._told[i]]
            if gone:
                places = np.array([self.queue.place(index) for index in gone])
                self.rows = self.queue.rows = as_before(self.rows, self.review.rows, places)
                self._told = {i: code for i, code in self._told.items() if i not in set(gone)}

    def undo(self) -> dict[str, Any]:
        """Take back the last step."""
        return self.touched(self.review.decisions.undo())

    def _queue(self, rows: LabelRows, by_suspicion: Codes | None = None) -> Queue:
        order = gain_order(self.review, rows)
        return Queue(rows, self.review.decisions.standing(), order, by_suspicion)

    def similar(self, index: int) -> list[dict[str, Any]]:
        """The examples most like one, as the page needs them."""
        near = self.beside.get(index, {}).get("similar", ())
        return [self.row(self.queue.place(place)) for place in near]

    def touched(self, indices: list[int]) -> dict[str, Any]:
        """What changed by a decision: rows and progress."""
        for index in indices:
            self.queue.mark(index, self.review.decisions.latest.get(index))
        self._reopen(indices)
        return {
            "count": len(indices),
            "rows": [self.row(self.queue.place(index)) for index in indices[:LARGEST_PAGE]],
            "progress": self.queue.progress(),
        }

    def decide_all(self, body: dict[str, Any]) -> dict[str, Any]:
        """Decide all open labels that a filter lets through, and judge the rest again."""
        values, act, label, count = read_wish(body)
        query = parse_query(values, self.review.codes())
        places = open_places(self.queue, query)
        wishes = wishes_for(self.rows, self.review.classes, places, act, label)
        if len(wishes) != count:
            raise BadInput(
                f"the filter now shows {len(wishes)} open labels, not {count}; look at them again."
            )
        self.review.decisions.decide(wishes)
        return {"count": len(wishes), **self.judge_again()}


def make_app(desk: Desk, *, token: str, port: int) -> Starlette:
    """The application; every address starts with the token."""

    def route(path: str, handler: Handler, method: str = "GET") -> Route:
        return Route(f"/{token}{path}", handler, methods=[method])

    return Starlette(
        routes=[
            route("/", _file("index.html")),
            route("/show.js", _file("show.js")),
            route("/review.js", _file("review.js")),
            route("/review.css", _file("review.css")),
            route("/icon.svg", _file("icon.svg")),
            route("/api/run", _json(lambda request: _run(desk))),
            route("/api/rows", _json(lambda request: _rows(desk, request))),
            route(
                "/api/similar/{index:int}",
                _json(lambda request: {"rows": desk.similar(request.path_params["index"])}),
            ),
            route("/api/again", _json(lambda request: desk.again.status())),
            route("/picture/{index:int}/{edge:int}", functools.partial(_picture, desk)),
            route("/export/{suffix}", functools.partial(_download, desk)),
            route("/api/decide", _posted(lambda body: _decide(desk, body)), "POST"),
            route("/api/decide-all", _posted(desk.decide_all), "POST"),
            route("/api/judge", _posted(lambda body: desk.judge_again()), "POST"),
            route("/api/undo", _posted(lambda body: desk.undo()), "POST"),
            route("/api/again", _posted(lambda body: _start(desk)), "POST"),
        ],
        middleware=[Middleware(Guard, token=token, port=port)],
        exception_handlers={
            BadInput: _bad_input,
            OSError: _failed,
            ClientDisconnect: _bad_input,  # nobody hears it
        },
    )


def _file(name: str) -> Handler:
    folder = resources.files("labelproof.review") / "static"
    content = (folder / name).read_bytes()
    if name.endswith(".css"):
        shared = resources.files("labelproof.report") / "templates" / "style.css"
        content = shared.read_bytes() + content
    kind = MEDIA[Path(name).suffix]

    async def send(request: Request) -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    return send


def _json(work: Callable[[Request], Any]) -> Handler:
    async def send(request: Request) -> Response:
        answer = await run_in_threadpool(work, request)
        return JSONResponse(answer, headers={"Cache-Control": "no-store"})

    return send


def _posted(work: Callable[[dict[str, Any]], Any]) -> Handler:
    async def send(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(work, await _body(request)))

    return send


def _run(desk: Desk) -> dict[str, Any]:
    return {
        "folder": str(desk.review.folder),
        "size": len(desk.review.rows),
        "kind": "images" if desk.pictures else "vectors",
        "classes": desk.review.classes,
        "note": desk.note,
        "export": usual_suffix(desk.review),
        "progress": desk.queue.progress(),
        "command": desk.again.command(),
    }


def _rows(desk: Desk, request: Request) -> dict[str, Any]:
    query = parse_query(dict(request.query_params), desk.review.codes())
    places, total = desk.queue.page(query)
    whole = open_places(desk.queue, query)
    accept = (desk.rows.suggested != desk.rows.given) & ~desk.rows.unclear
    return {
        "total": total,
        "open": len(whole),  # that one click could decide
        "changed": int(accept[whole].sum()),  # of these, with another suggestion that is clear
        "query": asdict(query),
        "rows": [desk.row(place) for place in places],
    }


async def _picture(desk: Desk, request: Request) -> Response:
    index, edge = request.path_params["index"], request.path_params["edge"]
    if edge not in EDGES or index >= len(desk.review.rows):
        raise HTTPException(404)
    picture = await run_in_threadpool(desk.picture, index, edge)
    if picture is None:
        raise HTTPException(404)
    headers = {"Cache-Control": "private, max-age=3600"}
    return Response(picture.data, media_type=picture.kind, headers=headers)


def _decide(desk: Desk, body: dict[str, Any]) -> dict[str, Any]:
    wishes = body.get("decisions")
    if not isinstance(wishes, list) or not all(isinstance(wish, dict) for wish in wishes):
        raise BadInput("expected a list of decisions.")
    return desk.touched(desk.review.decisions.decide(wishes))


def _start(desk: Desk) -> dict[str, Any]:
    if not desk.review.decisions.labels():
        raise BadInput("decide about at least one label first.")
    desk.again.start()
    return desk.again.status()


async def _download(desk: Desk, request: Request) -> Response:
    suffix = f".{request.path_params['suffix']}"
    if suffix not in DOWNLOADS:
        raise HTTPException(404)
    content = await run_in_threadpool(_exported, desk, suffix)
    name = f"label-studio{suffix}" if suffix == ".json" else f"corrected{suffix}"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Cache-Control": "no-store",
        "X-Labels": in_words(desk.review),
    }
    return Response(content, media_type=DOWNLOADS[suffix], headers=headers)


def _exported(desk: Desk, suffix: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / f"corrected{suffix}"
        export(desk.review, out, desk.shown)
        return out.read_bytes()


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object that came, if it is one and not too long."""
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > LARGEST_BODY:
            raise HTTPException(413)
    try:
        body = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise BadInput("expected a JSON object.")
    return body


async def _bad_input(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)


async def _failed(request: Request, error: Exception) -> Response:
    why = (error.strerror if isinstance(error, OSError) else None) or error
    what = "The decision was not saved" if isinstance(error, NotSaved) else "This did not work"
    return JSONResponse({"error": f"{what}: {why}."}, 500)
