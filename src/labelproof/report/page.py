"""report.html: one file that needs no network, made of facts, figures and pictures."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup, escape

from labelproof.judging import wording
from labelproof.report import plots as figures
from labelproof.report import sentences as words
from labelproof.report.example_view import Picture, Shown, shorten
from labelproof.report.facts import Facts, flow, health
from labelproof.report.health_view import health_view
from labelproof.report.people import people

GALLERY = 48  # suspects shown at once
MOST_SUSPECTS = 400  # in the file; more would make it slow to open
MOST_FILTERS = 200  # classes that the suspects can be filtered by
PAIRS = 15
EDGE = 160  # of pictures in the gallery
MOST_GROUPS = 20  # of duplicates
MOST_FILES = 50
MOST_LETTERS = 600  # of a text in the gallery
OPTION = re.compile(r"(--[a-z][a-z-]*(?: (?:quick|folds|off|[0-9.]+))?)")


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """One label of the gallery."""

    index: int
    id: str
    given: str
    suggested: str
    p_clean: float
    p_suggested: float
    picture: Picture | None
    text: str | None
    cells: list[tuple[str, str]] | None = None  # of a row of a table
    codes: str = ""  # of both classes, for the filter
    unclear: str = ""  # what to say instead of the suggestion, where that is less likely than given


@dataclass(frozen=True, kw_only=True)
class Pair:
    """How many suspects go from one class to another."""

    given: str
    suggested: str
    count: int


def render(facts: Facts, shown: Shown, note: str | None = None) -> str:
    """The report as HTML; `note` says why pictures are missing, if they are."""
    typed = facts.record.get("command") or ()
    values = {
        **styled(filter_rules(len(facts.classes))),
        "facts": facts,
        "classes": health(facts),
        "confusion": figures.confusion(flow(facts), facts.classes),
        "pairs": list(top_pairs(facts)),
        "gallery": list(gallery(facts, shown)),
        "filters": list(enumerate(facts.classes))[:MOST_FILTERS],
        "note": note,
        "conflicts": list(conflicts(facts, shown)),
        "people": people(facts),
        "health": health_view(facts, shown),
        "command": shlex.join(["labelproof", *map(str, typed[1:])]) if typed else "",
    }
    return environment().get_template("report.html").render(values)


def styled(rules: str = "") -> dict[str, str]:
    """The style of a page, with these rules too, and its hash, without which nothing is applied."""
    env = environment()
    style = env.get_template("style.css").render() + env.get_template("report.css").render() + rules
    digest = hashlib.sha256(style.encode()).digest()
    return {"style": style, "style_hash": base64.b64encode(digest).decode()}


@functools.cache  # compiling the templates takes longer than filling them
def environment() -> jinja2.Environment:
    """Templates of this package; everything put into them is escaped."""
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("labelproof.report"),
        autoescape=jinja2.select_autoescape(("html",)),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    env.globals.update(words=words, wording=wording, figures=figures, wrong_share=wrong_share)
    env.globals.update(at_once=GALLERY, most_files=MOST_FILES)
    env.filters["percent"] = percent
    env.filters["chance"] = chance
    env.filters["many"] = words.many
    env.filters["options"] = options
    env.filters["count"] = lambda value: f"{value:,}"
    return env


def options(sentence: str) -> Markup:
    """A sentence with the options in it as code, which no line breaks."""
    return Markup(OPTION.sub(r"<code>\1</code>", str(escape(sentence))))


def wrong_share(summary: Mapping[str, Any]) -> str:
    """The share of wrong labels as far as it is known: a number, a range, or a dash."""
    rate, interval = summary.get("noise_rate_estimate"), summary.get("noise_rate_interval")
    if wording.level(summary) == "none" or (rate is None and interval is None):
        return "–"
    if interval is not None and interval[1] >= 1:
        return f"at least {interval[0]:.0%}" if interval[0] else "–"
    if rate is None and interval is not None:
        return f"{interval[0]:.0%} to {interval[1]:.0%}"
    return percent(rate, 1)


def percent(value: float | None, digits: int = 0) -> str:
    """A share for a person; none and all are only said where they are meant."""
    if value is None:
        return "–"
    return f"{value:.{digits}%}" if value in (0, 1) else chance(value, digits)


def chance(value: float, digits: int = 0) -> str:
    """A probability for a person: never quite none, never quite certain."""
    least = 10.0 ** -(digits + 2)
    if value < least / 2:
        return f"<{least:.{digits}%}"
    return f">{1 - least:.{digits}%}" if value > 1 - least / 2 else f"{value:.{digits}%}"


def gallery(facts: Facts, shown: Shown) -> Iterator[Suspect]:
    """The worst suspects."""
    for row in facts.rows.suspects()[:MOST_SUSPECTS].tolist():
        yield _suspect(facts, shown, row)


def _suspect(facts: Facts, shown: Shown, row: int) -> Suspect:
    rows, index = facts.rows, int(facts.rows.index[row])
    text, clean = shown.text(index), float(facts.rows.p_clean[row])
    return Suspect(
        index=index,
        id=rows.ids[row],
        given=facts.classes[rows.given[row]],
        suggested=facts.classes[rows.suggested[row]],
        p_clean=clean,
        p_suggested=float(rows.p_suggested[row]),
        picture=shown.picture(index, EDGE),
        text=shorten(text, MOST_LETTERS) if text else None,
        cells=shown.cells(index),
        codes=f"c{rows.given[row]} c{rows.suggested[row]}",
        unclear=wording.no_suggestion(clean) if rows.unclear[row] else "",
    )


def filter_rules(classes: int) -> str:
    """Style rules by which the suspects of one class are shown: the page holds no script."""
    return "".join(
        f'#suspects:has(option[value="c{code}"]:checked) .one:not(.c{code}){{display:none}}'
        for code in range(min(classes, MOST_FILTERS))
    )


def conflicts(facts: Facts, shown: Shown) -> Iterator[list[Suspect]]:
    """Groups of equal inputs whose labels differ."""
    groups = (facts.measured.get("duplicates") or {}).get("rows", ())
    place = np.empty(len(facts.rows), dtype=np.int64)
    place[facts.rows.index] = np.arange(len(facts.rows))
    for group in groups[:MOST_GROUPS]:
        yield [_suspect(facts, shown, int(place[index])) for index in group[:10]]


def top_pairs(facts: Facts) -> Iterator[Pair]:
    """The most frequent ways in which labels look wrong."""
    moves, names = flow(facts), facts.classes
    order = np.argsort(-moves, axis=None, kind="stable")[:PAIRS]
    for given, suggested in zip(*np.unravel_index(order, moves.shape), strict=True):
        if moves[given, suggested]:
            count = int(moves[given, suggested])
            yield Pair(given=names[given], suggested=names[suggested], count=count)
