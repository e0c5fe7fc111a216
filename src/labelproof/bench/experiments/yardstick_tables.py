"""Tables of the yardstick: every number, the default against the best rival, and the sets."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from labelproof.bench.results import (
    AUROC,
    LAST,
    Metric,
    Read,
    Record,
    Results,
    Summary,
    mean_spread,
    number,
    percent,
    total_seconds,
)
from labelproof.bench.tables import NONE, Table, closing, entry
from labelproof.data.readers.npz import read_arrays

DEFAULT, PLAIN = "auto", "ce"
ROWS = {  # what --methods takes, and the name of the row
    DEFAULT: DEFAULT,
    "dpc": "dpc",
    PLAIN: PLAIN,
    "linear": "linear",
    "logistic": "logistic regression",
    "pruned": "logistic + cleanlab",
    "neighbours": "30 neighbours",
}
RIVAL_ROWS = tuple(ROWS[name] for name in ("logistic", "pruned", "neighbours"))
POINTS, AREA = 0.5, 0.005  # behind by no more than this is not behind
SLACK = 0.05  # that a stated precision may be too high by


def _ece(summary: Summary) -> float | None:
    """After calibration where there is one."""
    calibrated = number("ece_calibrated")(summary)
    return number("ece")(summary) if calibrated is None else calibrated


ACCURACY = Metric(title="accuracy (%)", read=LAST.read, digits=2)
BALANCED = Metric(title="balanced (%)", read=percent("balanced_accuracy"), digits=2)
ECE = Metric(title="ECE", read=_ece, digits=3)
AREA_UNDER = Metric(title="AUROC", read=AUROC.read, digits=3)
SECONDS = Metric(title="seconds", read=total_seconds, digits=0)
NUMBERS = (ACCURACY, BALANCED, AREA_UNDER, ECE)
MEASURED = number("suspect_detection", "precision")
WORDS = (
    "`auto` is what `labelproof fit DATA` does without options. `dpc`, `ce` (plain training) and "
    "`linear` (a softmax regression with confident learning) are `--method NAME`, each alone.",
    "The last three rows are not ours. Logistic regression: scale of the inputs and penalty chosen "
    "by five folds on given labels. With cleanlab: its pruning by those folds, then the regression "
    "again. 30 neighbours: the share of them with another label; it predicts nothing.",
    "Accuracy and balanced accuracy (mean of the classes' recalls) are of right test labels. "
    "AUROC: how well wrong labels are ranked. ECE: calibrated for ours, as it is for rivals.",
    "Precision: share of the suspects that are really wrong, as stated without true labels (a "
    "number, an interval where no number is stated, or none) / as measured. For cleanlab: of the "
    "labels it prunes. Wrong labels: their share, as estimated / true. Seconds: everything.",
)


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The default and the best rival on one set, by one measure."""

    default: float
    rival: float
    name: str  # of the rival

    @property
    def value(self) -> float:
        """How far the default is ahead."""
        return self.default - self.rival


def everything(results: Results) -> Table:
    """A line for every set and row."""
    places = [(c, r) for c in results.columns for r in results.rows if results.at(r, c)]
    titles = (
        *(metric.title for metric in NUMBERS),
        "precision",
        "wrong labels",
        "seconds",
        "seeds",
    )
    return Table(
        title="Yardstick",
        header=("data", "row", *titles),
        rows=tuple((c, r, *_line(results.at(r, c))) for c, r in places),
        notes=(*WORDS, *closing(results)),
        words=2,
    )


def _line(records: Sequence[Record]) -> tuple[str, ...]:
    done = [record.summary for record in records if record.state == "done"]
    shown = [entry(metric, records) for metric in NUMBERS]
    return (*shown, precision(done), noise(done), entry(SECONDS, records), str(len(done)))


def precision(done: Sequence[Summary]) -> str:
    """Stated / measured, as means over seeds; empty where no label is called a suspect."""
    measured = _mean(MEASURED, done)
    if measured is None:
        return NONE
    return f"{_stated(done, 'suspect_precision')} / {measured:.2f}"


def noise(done: Sequence[Summary]) -> str:
    """Estimated / true share of wrong labels."""
    true = _mean(number("noise_rate_true"), done)
    return NONE if true is None else f"{_stated(done, 'noise_rate')} / {true:.2f}"


def _stated(done: Sequence[Summary], what: str) -> str:
    """A number if one is stated, else an interval, else none."""
    estimate = _mean(number(f"{what}_estimate"), done)
    if estimate is not None:
        return f"{estimate:.2f}"
    pairs = [summary.get(f"{what}_interval") for summary in done]
    ends = list(zip(*(pair for pair in pairs if pair), strict=True))
    return " to ".join(f"{statistics.mean(end):.2f}" for end in ends) if ends else "none"


def _mean(read: Read, done: Sequence[Summary]) -> float | None:
    found = mean_spread([value for value in map(read, done) if value is not None])
    return None if found is None else found[0]


def against_rivals(results: Results) -> Table:
    """The default less the best rival on every set, and how often it is not behind."""
    measures = (ACCURACY, BALANCED, AREA_UNDER)
    gaps = [[gap(results, column, metric) for metric in measures] for column in results.columns]
    plain = [_to_plain(results, column) for column in results.columns]
    kept = [keeps(results, column) for column in results.columns]
    rows = [
        (column, *map(_shown, line, measures), _signed(less, 1), _yes(word))
        for column, line, less, word in zip(results.columns, gaps, plain, kept, strict=True)
    ]
    titles = ("accuracy (points)", "balanced (points)", "AUROC")
    words = [word for word in kept if word is not None]
    ends = [_ends([line[k] for line in gaps], metric) for k, metric in enumerate(measures)]
    less = [value for value in plain if value is not None]
    last = (*(end[0] for end in ends), _count(less, POINTS), f"{sum(words)} of {len(words)}")
    mean = (*(end[1] for end in ends), _signed(statistics.mean(less), 1) if less else NONE, NONE)
    return Table(
        title="The default less the best rival",
        header=("data", *titles, "accuracy less `ce` (points)", "stated precision kept"),
        rows=(*rows, ("**not behind**", *last), ("**mean**", *mean)),
        notes=(
            f"Positive: `auto` is ahead. The best rival is the best of {', '.join(RIVAL_ROWS)} on "
            "that set by that measure, so it is not one method; in brackets, which. Not behind: by "
            f"no more than {POINTS} points or {AREA}. Kept: in the mean over seeds the measured "
            f"precision is at most {SLACK} below the stated one, or the interval's lower end.",
            *closing(results),
        ),
    )


def gap(results: Results, column: str, metric: Metric) -> Gap | None:
    """The default and the best rival; None where one of them has no number."""
    means = {row: mean_spread(results.values(metric.read, row, column)) for row in results.rows}
    known = {row: pair[0] for row, pair in means.items() if pair is not None}
    rivals = [row for row in RIVAL_ROWS if row in known]
    if DEFAULT not in known or not rivals:
        return None
    best = max(rivals, key=lambda row: known[row])
    return Gap(default=known[DEFAULT], rival=known[best], name=best)


def keeps(results: Results, column: str) -> bool | None:
    """Whether the default's suspects are as often wrong as stated; None where nothing is."""
    done = [r.summary for r in results.at(DEFAULT, column) if r.state == "done"]
    measured, stated = _mean(MEASURED, done), _mean(_promised, done)
    return None if measured is None or stated is None else measured >= stated - SLACK


def _promised(summary: Summary) -> float | None:
    """The stated precision, or the lower end of the interval that is stated instead."""
    stated, interval = (summary.get(f"suspect_precision_{k}") for k in ("estimate", "interval"))
    if stated is None and interval:
        return float(interval[0])
    return None if stated is None else float(stated)


def _to_plain(results: Results, column: str) -> float | None:
    ours, plain = (
        mean_spread(results.values(ACCURACY.read, row, column)) for row in (DEFAULT, PLAIN)
    )
    return None if ours is None or plain is None else ours[0] - plain[0]


def _ends(gaps: Sequence[Gap | None], metric: Metric) -> tuple[str, str]:
    """How many gaps are not behind, and their mean."""
    values = [one.value for one in gaps if one is not None]
    slack = AREA if metric is AREA_UNDER else POINTS
    mean = _signed(statistics.mean(values), _digits(metric)) if values else NONE
    return _count(values, slack), mean


def _count(values: Sequence[float], slack: float) -> str:
    return f"{sum(value >= -slack for value in values)} of {len(values)}" if values else NONE


def _shown(one: Gap | None, metric: Metric) -> str:
    return NONE if one is None else f"{_signed(one.value, _digits(metric))} ({one.name})"


def _digits(metric: Metric) -> int:
    return 3 if metric is AREA_UNDER else 1


def _signed(value: float | None, digits: int) -> str:
    return NONE if value is None else f"{round(value, digits) + 0.0:+.{digits}f}"  # never -0.0


def _yes(kept: bool | None) -> str:
    return {None: "none stated", True: "yes", False: "no"}[kept]


def described(results: Results, about: Mapping[str, str]) -> Table:
    """Size of every set, and its share of wrong labels."""
    files = {record.cell.column: Path(str(record.cell.spec.data)) for record in results.records}
    return Table(
        title="Sets of the yardstick",
        header=("data", "what", "examples", "features", "classes", "wrong labels"),
        rows=tuple((name, about[name], *_size(path)) for name, path in files.items()),
        notes=("Sets and wrong labels are the same for all seeds.",),
        words=2,
    )


def _size(path: Path) -> tuple[str, ...]:
    found, _ = read_arrays(path, {"x", "y", "clean"})
    wrong = (found["y"] != found["clean"]).mean()
    size, features = found["x"].shape
    return (f"{size:,}", str(features), str(len(set(found["clean"].tolist()))), f"{wrong:.0%}")
