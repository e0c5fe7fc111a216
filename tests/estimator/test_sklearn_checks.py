"""scikit-learn's own suite for estimators."""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from labelproof.estimator import NoisyLabelClassifier


@parametrize_with_checks([NoisyLabelClassifier(), NoisyLabelClassifier("ce")])
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)
