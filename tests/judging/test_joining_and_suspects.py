"""How two views of a label are joined, and where exactly the line of the suspects runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from cases import CASES
from labelproof import metrics
from labelproof.data.task import Audit
from labelproof.judging.calibration import Calibration, joined, transition_matrix, uncalibrated
from labelproof.judging.label_table import label_table
from labelproof.judging.suspects import found, found_alone, suspect_table, suspect_threshold
from labelproof.training.loop import Result
from tiny import Problem, blobs


def views(size: int = 4000, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Which labels are wrong, and two views of that which err independently of each other."""
    rng = torch.Generator().manual_seed(seed)
    wrong = torch.rand(size, generator=rng) < 0.3
    signal = 1.0 - 2.0 * wrong.double()
    own, right = (
        (signal + 1.2 * torch.randn(size, generator=rng).double()).sigmoid() for _ in range(2)
    )
    return wrong, own, right


def test_joining_finds_more_than_either_view_alone() -> None:
    wrong, own, right = views()
    both = metrics.error_auroc(wrong, -joined(own, right))
    assert both > metrics.error_auroc(wrong, -own) + 0.03
    assert both > metrics.error_auroc(wrong, -right) + 0.03


def test_labels_that_the_noise_model_finds_alike_are_ordered_by_the_method() -> None:
    own = torch.tensor([0.9, 0.1, 0.5, 0.3, 0.7, 0.2])
    right = torch.tensor([0.6, 0.6, 0.6, 0.2, 0.2, 0.9]).double()
    both = joined(own, right)
    assert both[0] > both[2] > both[1]
    assert both[4] > both[3]


@pytest.fixture(scope="module")
def problem() -> Problem:
    return blobs(60, noise=0.3)


@pytest.fixture(scope="module")
def result(problem: Problem) -> Result:
    return problem.train(CASES["ce"])


def judged(result: Result, *clean: float) -> Result:
    """The result with these clean probabilities first, and sure ones behind."""
    values = torch.ones(result.task.size)
    values[: len(clean)] = torch.tensor(clean)
    return replace(result, clean=values)


def test_a_label_on_the_threshold_is_no_suspect(result: Result) -> None:
    table = label_table(judged(result, 0.1, 0.25, 0.3), threshold=0.25)
    assert table.suspect.nonzero().flatten().tolist() == [0]


def test_a_label_as_likely_right_as_wrong_is_no_suspect_and_keeps_its_name(result: Result) -> None:
    table = label_table(judged(result, 0.25, 0.5), threshold=0.9)
    assert table.suspect.nonzero().flatten().tolist() == [0]
    assert table.suggested[1] == table.given[1]
    assert table.suggested[0] != table.given[0]


def test_one_half_is_never_below_the_threshold() -> None:
    # 0.5 itself would lower the precision of the list from 0.9 to 0.7
    assert suspect_threshold(torch.tensor([0.1, 0.5]), 0.8) == 0.5
    assert suspect_threshold(torch.tensor([0.1, 0.9]), 0.8) == 0.5


def test_four_of_five_suspects_are_wrong_unless_told() -> None:
    clean = torch.tensor([0.125, 0.25, 0.375]).double()  # means of 1 - clean: .875, .8125, .75
    assert suspect_threshold(clean) == 0.375


def test_a_list_that_meets_the_precision_exactly_is_kept() -> None:
    clean = torch.tensor([0.125, 0.375, 0.4375]).double()  # 1 - clean: 7/8, 5/8, 9/16
    assert suspect_threshold(clean, 0.75) == 0.4375  # (7/8 + 5/8) / 2 is 3/4
    assert suspect_threshold(clean, 0.6875) == 0.5  # the mean of all three is 11/16


def test_suspects_are_those_below_the_threshold_of_the_precision(result: Result) -> None:
    table = suspect_table(judged(result, 0.125, 0.375, 0.4375), 0.75)
    assert table.suspect.nonzero().flatten().tolist() == [0, 1]
    assert (1 - table.p_clean[table.suspect]).mean() == 0.75


def test_the_methods_own_detection_is_measured_by_its_own_score(result: Result) -> None:
    truth = result.task.y.clone()
    truth[:2] = (truth[:2] + 1) % result.task.num_classes
    found = found_alone(judged(result, 0.1, 0.2), truth)
    assert found == {"error_auroc_own": 1.0, "error_ap_own": 1.0}
    assert found_alone(result, None) == {"error_auroc_own": None, "error_ap_own": None}


def calibration_of(result: Result) -> Calibration:
    return replace(uncalibrated(result), noise_rate=0.25)


def test_the_summary_measures_raw_and_calibrated_probabilities_apart(
    problem: Problem, result: Result
) -> None:
    raw, labels, truth = result.test_probabilities, problem.audit.test_y, problem.audit.truth
    assert raw is not None
    assert labels is not None
    assert truth is not None
    sure = torch.nn.functional.one_hot(labels, result.task.num_classes).float()
    after = replace(judged(result, 0.125, 0.375), test_probabilities=sure)
    table = suspect_table(after, 0.75)
    summary = found(result, after, table, calibration_of(result), problem.audit)
    assert summary["ece"] == metrics.ece(raw, labels) > 0
    assert summary["ece_calibrated"] == 0
    assert summary["suspect_precision_estimate"] == 0.75
    assert summary["noise_rate_estimate"] == 0.25
    exact = replace(
        calibration_of(result),
        transition=transition_matrix(
            torch.nn.functional.one_hot(truth, result.task.num_classes).double(), result.task.y
        ),
    )
    told = found(result, after, table, exact, problem.audit)
    assert told["transition_error"] == 0 < summary["transition_error"]


def test_the_summary_leaves_out_what_cannot_be_known(result: Result) -> None:
    after = judged(result)
    summary = found(result, after, suspect_table(after), calibration_of(result), Audit())
    unknown = ("ece", "ece_calibrated", "suspect_precision_estimate", "transition_error")
    assert [summary[name] for name in unknown] == [None] * 4
    assert summary["error_auroc_own"] is None
    blind = replace(after, test_probabilities=None)
    told = found(blind, blind, suspect_table(after), calibration_of(result), Audit())
    assert told["ece"] is None
