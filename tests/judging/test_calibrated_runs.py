"""Whole runs: link, label table and summary, and what true labels may not do."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from cases import CASES
from labelproof import metrics
from labelproof.data.task import Audit
from labelproof.judging import calibrate, calibrated
from labelproof.judging.calibration import uncalibrated
from labelproof.judging.crossfit import Retraining
from labelproof.judging.label_table import knowing_label, label_table
from labelproof.judging.link import Link, entropy, scores, vacuity
from labelproof.judging.summary import (
    on_test,
    recalls,
    summarise,
    transition_error,
    trial_seconds,
)
from labelproof.judging.suspects import Rule
from labelproof.judging.verdict import Judged, count_filled, judge
from labelproof.judging.wording import noise, of_labels
from labelproof.methods.ce import CrossEntropy
from labelproof.training.loop import Result
from tiny import CPU, Problem, blobs


def again(problem: Problem, name: str = "ce") -> Retraining:
    """How a method is trained again without each fold."""
    return Retraining(task=problem.task, method=CASES[name], trunk=problem.trunk, device=CPU)


@pytest.mark.parametrize("name", ["ce", "dpc", "edl", "elr_plus"])
def test_a_run_is_calibrated_and_its_accuracy_stays(name: str) -> None:
    problem = blobs(120, noise=0.3)
    result = problem.train(CASES[name])
    found = calibrate(result, again(problem, name))
    judged = calibrated(result, found, problem.audit)
    assert judged.test_probabilities is not None
    assert result.test_probabilities is not None
    same = judged.test_probabilities.argmax(1) == result.test_probabilities.argmax(1)
    assert same.all()
    assert torch.allclose(judged.probabilities.sum(1), torch.ones(120), atol=1e-5)
    assert found.link.of == ("logits" if name in ("dpc", "edl") else "log-probabilities")
    assert ((judged.clean >= 0) & (judged.clean <= 1)).all()
    assert found.folds == 5
    assert found.judgement is not None
    assert len(found.judgement.weights) == 4  # folds, regression, neighbours, forest


@pytest.fixture(scope="module")
def problem() -> Problem:
    return blobs(90, noise=0.3)


@pytest.fixture(scope="module")
def result(problem: Problem) -> Result:
    return problem.train(CASES["ce"])


@pytest.fixture(scope="module")
def ended(problem: Problem, result: Result) -> Judged:
    return judge(result, again(problem), problem.audit, "quick")


def test_true_labels_and_test_data_change_nothing(problem: Problem, ended: Judged) -> None:
    blind = judge(problem.train(CASES["ce"], audit=Audit()), again(problem), Audit(), "quick")
    assert torch.equal(blind.table.p_clean, ended.table.p_clean)
    assert blind.calibration.link == ended.calibration.link
    unknown = ("ece", "ece_calibrated", "error_auroc", "suspect_detection", "balanced_accuracy")
    assert [blind.summary[name] for name in unknown] == [None] * 5
    assert set(blind.summary["test"].values()) == {None}
    assert blind.summary["noise_rate_true"] is None


def test_the_summary_says_what_was_found(problem: Problem, ended: Judged) -> None:
    summary = json.loads(json.dumps(ended.summary))
    assert summary["trust"]["level"] in ("good", "caution", "none")
    assert len(summary["by_class"]) == 3
    assert sum(part["given"] for part in summary["by_class"]) == 90
    assert sum(part["suspects"] for part in summary["by_class"]) == summary["suspects"]
    assert {"nll", "brier", "mce", "adaptive_ece", "classwise_ece"} == summary["test"].keys()
    recall = list(summary["recall_by_class"].values())
    assert summary["balanced_accuracy"] == pytest.approx(np.mean(recall))
    low, high = summary["noise_rate_interval"]
    assert 0 <= low < high == 1  # networks that saw the labels may have learnt wrong ones by heart
    assert summary["trust"]["seen"] is True
    assert {part["noise_interval"] for part in summary["by_class"]} == {None}
    assert summary["noise_rate_estimate"] is None  # nor for one of the share of wrong labels
    assert summary["suspect_precision_estimate"] is None  # 90 examples are too few for a number
    wrong = problem.audit.truth != problem.task.y
    found = metrics.error_auroc(wrong, -ended.table.p_clean)
    assert summary["error_auroc"] == pytest.approx(found)
    assert summary["error_auroc_own"] == metrics.error_auroc(wrong, -ended.result.clean)


def test_quick_says_that_networks_had_seen_the_labels(ended: Judged) -> None:
    assert any("quick" in reason for reason in ended.summary["trust"]["reasons"])


def test_a_budget_is_met_and_every_suspect_has_another_suggestion(
    problem: Problem, result: Result
) -> None:
    rule = Rule(budget=25)
    table = judge(result, again(problem), problem.audit, "quick", rule=rule).table
    assert table.suspect.sum() == 25
    assert (table.suggested != table.given)[table.suspect].all()
    assert table.p_clean[table.suspect].max() <= table.p_clean[~table.suspect].min()


def test_off_leaves_the_methods_own_numbers(problem: Problem, result: Result) -> None:
    off = judge(result, again(problem), problem.audit, "off")
    assert torch.equal(off.table.p_clean, result.clean)
    assert torch.equal(off.table.suspect, result.clean < 0.5)
    assert off.summary["suspect_precision_estimate"] is None
    assert off.summary["noise_rate_estimate"] == pytest.approx(1 - result.clean.mean().item())
    assert off.summary["trust"]["level"] == "none"


def test_a_label_as_likely_right_as_wrong_is_no_suspect_and_keeps_its_name(result: Result) -> None:
    clean = torch.ones(90)
    clean[:2] = torch.tensor([0.25, 0.5])
    table = label_table(replace(result, clean=clean))
    assert table.suspect.nonzero().flatten().tolist() == [0]
    assert table.suggested[1] == table.given[1]
    assert table.suggested[0] != table.given[0]


def test_raw_and_calibrated_probabilities_are_measured_apart(
    problem: Problem, result: Result
) -> None:
    labels, raw = problem.audit.test_y, result.test_probabilities
    assert labels is not None
    assert raw is not None
    sure = torch.nn.functional.one_hot(labels, 3).float()
    told = on_test(result, replace(result, test_probabilities=sure), problem.audit)
    assert told["ece"] == metrics.ece(raw, labels) > 0
    assert told["ece_calibrated"] == told["test"]["nll"] == told["test"]["brier"] == 0
    assert told["balanced_accuracy"] == 1
    assert recalls(sure[labels == 0], labels[labels == 0]) == [1.0, None, None]


def test_what_trials_took_counts_where_it_is_known(result: Result) -> None:
    chosen = {"lambda_u": {"value": 25.0, "seconds": 3.5}, "of an older run": {"value": 1.0}}
    assert trial_seconds(replace(result, chosen=chosen)) == 3.5
    assert trial_seconds(result) == 0.0


def test_the_transition_error_by_hand(problem: Problem, result: Result) -> None:
    half = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
    labels = torch.tensor([0, 0, 1])
    assert transition_error(half, labels, labels) == pytest.approx(0.25)
    off = uncalibrated(result)
    blind = summarise(result, result, label_table(result), off, Audit())
    assert blind["transition_error"] is None


@pytest.mark.parametrize("bad", [{"scale": 0.0}, {"scale": float("inf")}, {"of": "odds"}])
def test_links_without_sense_are_refused(bad: dict) -> None:
    with pytest.raises(ValueError, match="a link"):
        Link(**bad)


def test_a_probability_of_nothing_has_a_score(monkeypatch: pytest.MonkeyPatch) -> None:
    sure, x = torch.tensor([[1.0, 0.0]]), torch.zeros(1, 2)
    monkeypatch.setattr(CrossEntropy, "predict", lambda *_: sure)
    found = scores(CASES["ce"], None, x, "log-probabilities")
    assert found.tolist() == [[0.0, pytest.approx(math.log(1e-12))]]


def test_missing_evidence_and_entropy_by_hand() -> None:
    evidence = torch.tensor([[0.0, 0.0, 0.0, 0.0], [math.log(9), 0.0, -1e9, -1e9]])
    assert vacuity(evidence).tolist() == pytest.approx([4 / 8, 4 / 14])
    probs = torch.tensor([[0.25] * 4, [0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    assert entropy(probs).tolist() == pytest.approx([1.0, 0.5, 0.0])


def test_the_given_label_has_its_clean_probability_and_the_others_share_the_rest() -> None:
    probs = torch.tensor([[0.7, 0.2, 0.1], [0.999, 0.0006, 0.0004], [1.0, 0.0, 0.0]]).double()
    clean = torch.tensor([0.4, 0.1, 1.0]).double()
    found = knowing_label(probs, torch.tensor([0, 0, 0]), clean)
    expected = torch.tensor([[0.4, 0.4, 0.2], [0.1, 0.54, 0.36], [1.0, 0.0, 0.0]]).double()
    assert torch.allclose(found, expected)
    sure = torch.tensor([[1.0, 0.0, 0.0]]).double()  # all others underflowed
    found = knowing_label(sure, torch.tensor([0]), torch.tensor([0.2]).double())
    assert torch.allclose(found, torch.tensor([[0.2, 0.4, 0.4]]).double())


SAID = {
    "suspects": 147,
    "doubts": [],
    "trust": {"level": "good", "reasons": [], "ambiguous": False},
    "suspect_precision_interval": (0.6, 0.8),
    "suspect_precision_estimate": 0.7,
    "noise_rate_estimate": 0.2,
    "noise_rate_interval": (0.12, 0.31),
    "by_class": [{"name": "fraud", "judged": False, "reason": "only 3 labels"}],
}


def test_sentences() -> None:
    text = "\n".join(of_labels(SAID, 1000))
    assert "Between 60% and 80% of these 147 labels are wrong, about 70%" in text
    assert "fraud (only 3 labels)" in text
    assert "20.0% (between 12% and 31%)" in text
    one = of_labels({**SAID, "suspects": 1}, 1000)
    assert "It is wrong with a probability between 60% and 80%." in one
    sure = {**SAID, "suspect_precision_interval": (0.998, 1.0)}  # no "between 100% and 100%"
    assert "Nearly all of these 147 labels are wrong." in of_labels(sure, 1000)
    assert "It is almost certainly wrong." in of_labels({**sure, "suspects": 1}, 1000)
    none = {"level": "none", "reasons": ["Why."], "ambiguous": False}
    unknown = {
        **SAID,
        "trust": none,
        "doubts": ["These labels cannot be judged. Why."],
        "suspect_precision_interval": None,
        "suspect_precision_estimate": None,
        "noise_rate_estimate": None,
        "noise_rate_interval": None,
    }
    lines = of_labels(unknown, 1000)
    assert lines[0] == "These labels cannot be judged. Why."
    assert not any("wrong, about" in line or "Between" in line for line in lines)
    torn = {**SAID, "trust": {"level": "caution", "reasons": ["Care."], "ambiguous": True}}
    lines = of_labels(torn, 1000)
    assert "do not show" in lines[1]
    assert lines[-1] == "Care."


def test_the_share_of_wrong_labels_in_words() -> None:
    told = {"noise_rate_estimate": None, "noise_rate_interval": (0.0, 0.004)}
    assert noise(told) == ["The share of wrong labels is below 1%."]
    known = {"noise_rate_estimate": 0.001, "noise_rate_interval": (0.0, 0.004)}
    assert noise(known) == noise(told)  # no "between 0% and 0%"
    told["noise_rate_interval"] = (0.0, 0.2)
    assert noise(told)[0].startswith("The share of wrong labels is between 0% and 20%")


def test_suspects_that_only_fill_the_list_are_counted(result: Result) -> None:
    clean = torch.ones(90)
    clean[:4] = torch.tensor([0.2, 0.5, 0.6, 0.4])
    suspect = torch.arange(90) < 3
    table = label_table(replace(result, clean=clean), suspect)
    assert count_filled(table, Rule(budget=3)) == count_filled(table, Rule(precision=0.1)) == 2
    assert count_filled(table, Rule()) == count_filled(table, None) == 0


def test_no_upper_bound_is_named_that_is_not_known() -> None:
    seen = {**SAID, "noise_rate_estimate": None, "noise_rate_interval": (0.12, 1.0)}
    assert noise(seen) == ["At least 12% of the labels are wrong."]
    seen["noise_rate_interval"] = (0.0, 1.0)
    assert noise(seen) == ["The share of wrong labels cannot be estimated."]


def test_labels_that_were_not_judged_have_no_share_of_wrong_ones() -> None:
    off = {
        **SAID,
        "trust": {"level": "none"},
        "suspect_precision_interval": None,
        "suspect_precision_estimate": None,
        "noise_rate_estimate": 0.781,
        "noise_rate_interval": None,
        "by_class": [],
    }
    doubted, share = of_labels(off, 1000)
    assert doubted == "The method itself doubts 147 of 1,000 labels."
    assert share.startswith("The labels were not judged (--calibrate off)")
    voted = of_labels({**off, "annotators": {"count": 3}}, 1000)  # votes say more
    assert voted[-1] == "The share of wrong labels is estimated at 78.1%."
