"""lambda_u="auto" on the way through `fit`: chosen once, written down, the same after a stop."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fitting import fit
from labelproof.cli.fit import in_words
from labelproof.data.examples import Examples
from labelproof.errors import BadInput
from labelproof.judging import tune as choose
from labelproof.methods.dividemix import DivideMix
from labelproof.methods.dpc import DPC
from labelproof.sklearn.estimator import NoisyLabelClassifier
from labelproof.training.loop import Result
from tiny import Interrupting, blobs, same_bits

AUTO = DPC(epochs=4, warmup=1, batch=32, lr=0.05, ramp=2.0, lambda_u="auto")
TRIAL = 3  # epochs of a trial of AUTO


@pytest.fixture(autouse=True)
def small_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "FEWEST", {"vectors": 200, "images": 200})
    monkeypatch.setattr(choose, "LEAST", 80)
    monkeypatch.setattr(choose, "PER_CLASS", 1)


def examples() -> Examples:
    problem = blobs(240, noise=0.3)
    return Examples(x=problem.task.x, labels=problem.task.y.numpy(), classes=("a", "b", "c"))


def fitted(out: Path | None = None, method: DPC = AUTO, **options: Any) -> Result:
    return fit(examples(), method, name="dpc", out=out, how="off", **options)


def record_of(run: Path) -> Any:
    return json.loads((run / "run.json").read_text())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    run = tmp_path_factory.mktemp("auto") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose, "FEWEST", {"vectors": 200, "images": 200})
        patch.setattr(choose, "LEAST", 80)
        patch.setattr(choose, "PER_CLASS", 1)
        return run, fitted(run)


def test_the_choice_is_recorded_and_told(whole: tuple[Path, Result]) -> None:
    run, result = whole
    record, summary = record_of(run), json.loads((run / "summary.json").read_text())
    choice = record["chosen"]["lambda_u"]
    assert record["settings"]["lambda_u"] == choice["value"] == result.method.lambda_u  # type: ignore[attr-defined]
    assert choice["value"] in (0, 25, 50, 150)
    assert [trial["value"] for trial in choice["trials"]][:2] == [0.0, 25.0]
    assert summary["chosen"] == record["chosen"] == result.chosen
    assert summary["seconds"] > choice["seconds"] > 0
    assert choice["why"] not in in_words(run)  # the report has it, folded
    assert choice["why"] in (run / "report.html").read_text()
    assert not (run / "trials").exists()


def test_training_is_that_of_the_number_chosen(whole: tuple[Path, Result]) -> None:
    run, result = whole
    plain = fitted(method=replace(AUTO, lambda_u=record_of(run)["settings"]["lambda_u"]))
    assert plain.chosen == {}
    assert same_bits(plain, result)


@pytest.mark.parametrize("epochs", [1, TRIAL + 1, 2 * TRIAL + 2])
def test_stopped_anywhere_it_goes_on_to_the_same_end(
    tmp_path: Path, whole: tuple[Path, Result], epochs: int
) -> None:
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path / "run", reporter=Interrupting(after_epochs=epochs))
    again = fitted(tmp_path / "run", resume=True)
    assert same_bits(again, whole[1])
    choices = [record_of(run)["chosen"]["lambda_u"] for run in (tmp_path / "run", whole[0])]
    assert [{**choice, "seconds": 0} for choice in choices] == [{**choices[0], "seconds": 0}] * 2


def test_a_choice_once_made_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    made = choose.Choice(value=50.0, why="because")
    monkeypatch.setattr("labelproof.pipeline.choose_lambda_u", lambda *_, **__: made)
    with pytest.raises(KeyboardInterrupt):
        fitted(run, reporter=Interrupting(after_epochs=1))
    monkeypatch.setattr("labelproof.pipeline.choose_lambda_u", None)  # a second call would fail
    assert fitted(run, resume=True).method.lambda_u == 50.0  # type: ignore[attr-defined]
    with pytest.raises(BadInput, match=r"lambda_u 'auto' there, 25\.0 here"):
        fitted(run, replace(AUTO, lambda_u=25.0), resume=True)


def test_a_number_is_not_questioned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labelproof.pipeline.choose_lambda_u", None)
    assert fitted(method=replace(AUTO, lambda_u=25.0)).chosen == {}


def test_without_fit_an_open_weight_is_refused() -> None:
    with pytest.raises(BadInput, match=r"chosen by labelproof before training"):
        blobs(60).train(AUTO)


def test_dividemix_leaves_it_open_too() -> None:
    method = DivideMix(epochs=4, warmup=1, batch=32, lr=0.05, ramp=2.0, lambda_u="auto")
    result = fit(examples(), method, name="dividemix", how="off")
    assert result.method.lambda_u == result.chosen["lambda_u"]["value"]  # type: ignore[attr-defined]
    assert result.chosen["lambda_u"]["trials"]
    with pytest.raises(BadInput, match="DivideMix: lambda_u='auto' is chosen by"):
        blobs(60).train(method)


def test_labelled_rows_alone_leave_nothing_to_weight() -> None:
    result = fitted(method=replace(AUTO, rows="labelled"))
    assert result.method.lambda_u == 0.0  # type: ignore[attr-defined]
    assert result.chosen["lambda_u"]["trials"] == []


def test_the_estimator_tells_what_it_took() -> None:
    problem = blobs(240, noise=0.3)
    x, y = problem.task.x.take(torch.arange(240)).numpy(), problem.task.y.numpy()
    settings = {"lambda_u": "auto", "batch": 32, "steps": 30}
    model = NoisyLabelClassifier(epochs=4, settings=settings, calibrate=False).fit(x, y)
    assert model.method_.lambda_u == model.chosen_["lambda_u"]["value"]
    fixed = NoisyLabelClassifier(settings={**settings, "lambda_u": 25.0}, calibrate=False)
    assert fixed.set_params(epochs=2).fit(x, y).chosen_ == {}
