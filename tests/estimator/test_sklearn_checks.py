"""scikit-learn's own suite for estimators; no check is excused."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from labelproof.sklearn.estimator import NoisyLabelClassifier


@parametrize_with_checks([NoisyLabelClassifier("ce", epochs=15, calibrate="quick")])
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
# the default in everything but the number of steps, which makes it slow
@parametrize_with_checks([NoisyLabelClassifier(epochs=2, settings={"steps": 10})])
def test_scikit_learn_check_of_dpc(estimator: Any, check: Any) -> None:
    check(estimator)
