"""labelproof with the interface of scikit-learn."""

from labelproof.sklearn.estimator import NoisyLabelClassifier
from labelproof.sklearn.issues import find_label_issues, label_quality

__all__ = ["NoisyLabelClassifier", "find_label_issues", "label_quality"]
