"""What a person sees of a run: lines in a pipe, a bar in a terminal."""

from __future__ import annotations

import io
import json
import re

import pytest
from rich.console import Console

from cases import CASES
from labelproof.training import log
from labelproof.training.log import Lines, Live, Parts, Reporter, describe, reporter_for
from labelproof.training.loop import append_metrics, rewrite_metrics
from tiny import Interrupting, blobs, interrupted


class Clock:
    """A clock the test moves."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(log, "time", clock)
    return clock


def plain_console() -> Console:
    return Console(file=io.StringIO(), width=60)


def text_of(console: Console) -> list[str]:
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def line(epoch: int, **more: float) -> dict[str, object]:
    return {"epoch": epoch, "phase": "warm-up", "loss": 0.5, "elapsed": 1.0, **more}


def test_a_phrase_of_what_is_known():
    assert describe(line(1)) == "loss 0.500"
    full = describe(line(1, selected=0.603, test_accuracy=0.8766))
    assert full == "loss 0.500, 60% of labels kept, test accuracy 87.7%"


def test_a_line_an_epoch_with_the_time_left(clock):
    console = plain_console()
    lines = Lines(console)
    lines.start("dpc", 4, 0)
    for epoch in range(1, 5):
        clock.now += 10  # every epoch takes ten seconds
        lines.step()
        lines.epoch(line(epoch))
    lines.close()
    assert text_of(console) == [
        "dpc: 4 epochs",
        "epoch 1/4 warm-up: loss 0.500, about 30 s left",
        "epoch 2/4 warm-up: loss 0.500, about 20 s left",
        "epoch 3/4 warm-up: loss 0.500, about 10 s left",
        "epoch 4/4 warm-up: loss 0.500, done",
    ]


def test_what_follows_the_training_counts_as_time_left_once(clock):
    console = plain_console()
    lines = Lines(console)
    lines.following(1.5)
    lines.start("dpc", 2, 0)
    for epoch in (1, 2):
        clock.now += 10
        lines.epoch(line(epoch))
    parts = Parts(lines, "judging", 3, begun=True)
    for number in range(3):
        clock.now += 20 * (number > 0)  # the first had ended before
        parts.start("training", 1, 0)
        parts.epoch(line(1))
        parts.close()
    assert text_of(console) == [
        "dpc: 2 epochs",
        "epoch 1/2 warm-up: loss 0.500, about 40 s left",
        "epoch 2/2 warm-up: loss 0.500, about 30 s left",
        "judging: 3 folds",
        "fold 1/3 judged: loss 0.500",
        "fold 2/3 judged: loss 0.500, about 10 s left",
        "fold 3/3 judged: loss 0.500, done",
    ]


def test_the_bar_counts_what_follows_as_time_left():
    live = Live(Console(file=io.StringIO(), force_terminal=True))
    live.following(2.0)
    live.start("dpc", 4, 0)
    (task,) = live._bar.tasks
    clock = iter(range(0, 1000, 10))
    live._bar.get_time = lambda: float(next(clock))  # type: ignore[method-assign]
    for epoch in (1, 2, 3, 4):
        live.epoch(line(epoch))
        assert "done" not in str(log._Left().render(task))
    live.close()


def test_a_resumed_run_says_so_and_times_its_own_epochs_alone(clock):
    console = plain_console()
    lines = Lines(console)
    lines.start("dpc", 10, 6)
    for epoch in (7, 8):
        clock.now += 5
        lines.epoch(line(epoch, selected=0.5, test_accuracy=0.9))
    first, *rest = text_of(console)
    assert first == "dpc: 10 epochs, 6 done before"
    kept = "loss 0.500, 50% of labels kept, test accuracy 90.0%"
    assert rest == [
        f"epoch 7/10 warm-up: {kept}, about 15 s left",
        f"epoch 8/10 warm-up: {kept}, about 10 s left",
    ]


def test_the_reporter_suits_where_it_writes():
    assert isinstance(reporter_for(plain_console()), Lines)
    terminal = Console(file=io.StringIO(), force_terminal=True)
    assert isinstance(reporter_for(terminal), Live)


def test_a_bar_names_epoch_phase_and_figures_and_gives_the_terminal_back():
    file = io.StringIO()
    live = Live(Console(file=file, force_terminal=True, width=160))
    blobs(size=40).train(CASES["dpc"], reporter=live, name="dpc")
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue())
    last = shown.strip().splitlines()[-1]
    assert "dpc [co-divide]" in last
    assert "6/6" in last
    assert "of labels kept, test accuracy" in last
    assert "done" in last
    assert "\x1b[?25h" in file.getvalue()  # the cursor is back


def test_the_bar_moves_within_epochs_and_ends_where_they_end():
    live = Live(Console(file=io.StringIO(), force_terminal=True))
    live.start("ce", 3, 0)
    (task,) = live._bar.tasks
    for _ in range(4):
        live.step()
    live.epoch(line(1))
    assert task.completed == 1
    live.step()
    assert task.completed == pytest.approx(1.25)
    for _ in range(9):  # more steps than the epoch before had
        live.step()
    assert task.completed < 2
    live.epoch(line(2))
    assert task.completed == 2
    live.close()


def test_every_step_and_epoch_reaches_the_reporter():
    class Counting(Reporter):
        steps, epochs, closed = 0, 0, False

        def step(self) -> None:
            self.steps += 1

        def epoch(self, line: object) -> None:
            self.epochs += 1

        def close(self) -> None:
            self.closed = True

    counting = Counting()
    blobs(size=64).train(CASES["ce"], reporter=counting)
    assert (counting.steps, counting.epochs, counting.closed) == (12, 6, True)


def test_metrics_are_a_line_an_epoch_that_json_can_read(tmp_path):
    append_metrics(tmp_path, {"epoch": 1, "loss": 0.5, "error_auroc": float("nan")})
    append_metrics(tmp_path, {"epoch": 2, "loss": 0.25})
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(text) for text in lines] == [
        {"epoch": 1, "loss": 0.5, "error_auroc": None},
        {"epoch": 2, "loss": 0.25},
    ]
    rewrite_metrics(tmp_path, [{"epoch": 1, "loss": 0.5}])
    assert (tmp_path / "metrics.jsonl").read_text() == '{"epoch": 1, "loss": 0.5}\n'


def test_metrics_are_those_of_the_checkpoint_after_resume(tmp_path):
    problem, method = blobs(size=40), CASES["dpc"]
    path = tmp_path / "metrics.jsonl"
    assert interrupted(problem, method, tmp_path, Interrupting(after_epochs=2, after_steps=1))
    with path.open("a") as file:  # killed between the line of epoch 3 and its checkpoint
        file.write('{"epoch": 3, "phase": "co-divide", "lo')
    result = problem.train(method, folder=tmp_path, resume=True)
    written = [json.loads(text) for text in path.read_text().splitlines()]
    assert [entry["epoch"] for entry in written] == [1, 2, 3, 4, 5, 6]
    assert written == result.history
    times = [entry["elapsed"] for entry in written]
    assert times == sorted(times)


def test_a_fresh_run_begins_its_metrics_anew(tmp_path):
    problem, method = blobs(size=40), CASES["ce"]
    for _ in range(2):
        problem.train(method, folder=tmp_path)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == method.epochs
