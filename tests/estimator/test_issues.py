"""Label issues in cleanlab's form, fed to cleanlab itself."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from cleanlab import Datalab
from cleanlab.classification import CleanLearning
from cleanlab.datalab.internal.issue_manager import IssueManager
from noisy_blobs import NAMES, noisy_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

from labelproof import BadInput, NoisyLabelClassifier, find_label_issues, label_quality

DATA = noisy_blobs(300)
PROBS = cross_val_predict(
    LogisticRegression(), DATA.X, DATA.y, method="predict_proba", cv=5
)  # of another model, out of sample


def quick() -> NoisyLabelClassifier:
    return NoisyLabelClassifier("ce", epochs=6, calibrate="quick")


def test_a_mask_or_ranked_indices() -> None:
    mask = find_label_issues(DATA.X, DATA.y, classifier=quick())
    ranked = find_label_issues(
        DATA.X, DATA.y, classifier=quick(), return_indices_ranked_by="self_confidence"
    )
    quality = label_quality(DATA.X, DATA.y, classifier=quick())
    assert mask.dtype == bool
    assert set(ranked) == set(np.flatnonzero(mask))
    assert (np.diff(quality[ranked]) >= 0).all()
    assert DATA.wrong[mask].mean() > 0.85


def test_probabilities_of_another_model_are_judged() -> None:
    mask = find_label_issues(labels=DATA.y, pred_probs=PROBS)
    quality = label_quality(labels=DATA.y, pred_probs=PROBS)
    assert DATA.wrong[mask].mean() > 0.85
    assert mask[DATA.wrong].mean() > 0.6
    assert roc_auc_score(DATA.wrong, -quality) > 0.95
    assert abs((1 - quality).mean() - DATA.wrong.mean()) < 0.06
    words = find_label_issues(labels=NAMES[DATA.y], pred_probs=PROBS)
    assert (words == mask).all()


def test_cleanlab_takes_the_mask_as_it_is() -> None:
    mask = find_label_issues(labels=DATA.y, pred_probs=PROBS)
    learning = CleanLearning(LogisticRegression()).fit(DATA.X, DATA.y, label_issues=mask)
    assert learning.score(DATA.X_test, DATA.y_test) > 0.9


def test_datalab_takes_the_scores_as_they_are() -> None:
    class Labelproof(IssueManager):
        issue_name = "doubted"
        description = "labels that labelproof doubts"
        verbosity_levels: dict = {}  # noqa: RUF012

        def find_issues(self, quality, suspect, **_):  # type: ignore[no-untyped-def]
            self.issues = pd.DataFrame({"is_doubted_issue": suspect, self.issue_score_key: quality})
            self.summary = self.make_summary(score=float(quality.mean()))

    from cleanlab.datalab.internal.issue_manager_factory import register

    register(Labelproof, task="classification")
    quality = label_quality(labels=DATA.y, pred_probs=PROBS)
    suspect = find_label_issues(labels=DATA.y, pred_probs=PROBS)
    lab = Datalab({"y": DATA.y}, label_name="y", verbosity=0)
    lab.find_issues(issue_types={"doubted": {"quality": quality, "suspect": suspect}})
    found = lab.get_issues("doubted")
    assert (found["doubted_score"] == quality).all()
    assert found["is_doubted_issue"].sum() == suspect.sum()


def test_bad_calls_are_refused() -> None:
    with pytest.raises(BadInput, match="either inputs X or probabilities"):
        find_label_issues(labels=DATA.y)
    with pytest.raises(BadInput, match="ranked by"):
        find_label_issues(DATA.X, DATA.y, return_indices_ranked_by="mood")
    with pytest.raises(BadInput, match="shapes"):
        find_label_issues(labels=DATA.y[:5], pred_probs=PROBS)
    with pytest.raises(BadInput, match="number the classes from 0"):
        find_label_issues(labels=DATA.y + 1, pred_probs=PROBS[:, :2])


def test_labels_without_inputs_or_probabilities_are_refused() -> None:
    with pytest.raises(BadInput, match=r"beside the labels, but both .*\(4,\) and \(4,\)"):
        find_label_issues([0, 1, 0, 1], [0.1, 0.9, 0.2, 0.8])


def test_cleanlabs_order_of_arguments_is_understood() -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), 60)
    labels = np.where(rng.random(60) < 0.7, probs.argmax(1), rng.integers(0, 3, 60))
    named = find_label_issues(labels=labels, pred_probs=probs)
    assert np.array_equal(find_label_issues(labels, probs), named)
    assert np.array_equal(find_label_issues(labels.tolist(), probs.tolist()), named)


@pytest.mark.parametrize("bad", [np.nan, -1.0])
def test_cleanlabs_order_with_bad_probabilities_is_one_sentence(bad):
    probs = np.full((6, 2), 0.5)
    probs[0, 0] = bad
    with pytest.raises(BadInput, match="pred_probs"):
        find_label_issues([0, 1] * 3, probs)


def test_a_missing_label_among_names_in_a_list_is_refused():
    labels = [float("nan"), *["a", "b"] * 10]
    with pytest.raises(BadInput, match="row 0"):
        NoisyLabelClassifier().fit(np.zeros((21, 2)), labels)


@pytest.mark.parametrize("labels", [[0.0, 1.0, float("nan")] * 2, ["a", "b", None] * 2,
                                    ["a", "b", float("nan")] * 2])  # fmt: skip
def test_a_missing_label_beside_probabilities_is_named(labels):
    with pytest.raises(BadInput, match=r"2 are blank.*2, 5"):
        find_label_issues(labels=labels, pred_probs=np.full((6, 2), 0.5))
