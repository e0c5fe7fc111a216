"""What `--dry-run` says of a cell: measured on its data, or known from cells that ran."""

from __future__ import annotations

import json
from dataclasses import replace

import torch
from bench_cells import QUICK, finished

from labelproof.bench import duration
from labelproof.bench.cell import Cell
from labelproof.bench.duration import Reader, finish_time, guess_all
from labelproof.bench.scales import array_spec
from labelproof.files import write_json
from labelproof.runs.forecast import Forecast
from labelproof.training.estimate import Estimate

MEASURED = Estimate(phases={}, parameters=0, data_bytes=0)


def vectors_cell(file, **changes) -> Cell:
    spec = replace(array_spec(file, "worst"), method="ce", **changes)
    return Cell(row="ce", column="worst", spec=spec)


def test_calibration_lasts_as_long_as_there_are_folds(vectors_npz, monkeypatch):
    """Training takes a second for each of 60 examples, and then five times for four fifths."""

    def in_seconds_of_its_size(task, *_):
        return Estimate(phases={"train": (1, float(task.size))}, parameters=0, data_bytes=0)

    monkeypatch.setattr("labelproof.runs.forecast.estimate", in_seconds_of_its_size)
    guess = Reader().measure(vectors_cell(vectors_npz, calibrate="folds"))
    assert guess == duration.Guess(seconds=60 + 5 * 48, how="measured epoch")
    guess = Reader().measure(vectors_cell(vectors_npz, calibrate="quick"))
    assert guess.seconds == 60


def test_a_finished_cell_tells_all_its_seconds(tmp_path):
    cells = [Cell(row="ce", column="digits", spec=replace(QUICK, seed=seed)) for seed in (0, 1)]
    finished(cells[0], tmp_path, {"seconds": 20.0, "seconds_calibration": 100.0})
    guesses = guess_all(cells, tmp_path)
    assert guesses[cells[0].name] == duration.Guess(seconds=120.0, how="done")
    assert guesses[cells[1].name] == duration.Guess(seconds=120.0, how="other cells")


def test_first_epochs_tell_the_training_of_a_cell_that_was_begun(tmp_path, monkeypatch):
    coming = Forecast(training=5.0, calibration=30.0, measured=MEASURED)
    monkeypatch.setattr(duration, "forecast", lambda parts, patience: coming)
    cell = Cell(row="ce", column="digits", spec=QUICK)
    folder = finished(cell, tmp_path, {})
    (folder / "summary.json").unlink()
    write_json(folder / "run.json", {"settings": {"epochs": 10}})
    lines = [{"epoch": epoch, "phase": "train", "elapsed": 4.0 * epoch} for epoch in (1, 2)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    guess = guess_all([cell], tmp_path)[cell.name]
    assert guess == duration.Guess(seconds=40.0 + 30.0, how="first epochs")


def test_labels_do_not_change_the_time_so_one_measurement_is_enough(monkeypatch):
    asked = []
    monkeypatch.setattr(
        duration, "forecast", lambda *given, **how: asked.append(1) or Forecast(training=60.0)
    )
    reader = Reader()
    for rate in ("0.2", "0.4"):
        cell = Cell(row="ce", column=rate, spec=replace(QUICK, noise=f"symmetric:{rate}"))
        assert reader.measure(cell).how == "more: not measured in 60 s"
    assert len(asked) == 1
    reader.measure(Cell(row="ce", column="", spec=replace(QUICK, settings={"epochs": 2})))
    assert len(asked) == 2


def test_cells_are_measured_with_the_threads_that_they_will_have(monkeypatch):
    monkeypatch.setattr(duration, "threads", lambda jobs: 12 // jobs)
    before = torch.get_num_threads()
    with duration.threads_of(4):
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == before


def test_cells_begin_as_soon_as_a_process_is_free():
    assert finish_time([4, 3, 2, 1], 2) == 5
    assert finish_time([], 2) == 0
