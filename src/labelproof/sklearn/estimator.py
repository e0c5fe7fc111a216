"""`NoisyLabelClassifier`: all of labelproof behind scikit-learn's interface.

Shapes: N training examples, M examples to predict, C classes, D features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, get_args
from warnings import warn

import numpy as np
import numpy.typing as npt
from rich.console import Console
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)
from torch import nn

from labelproof.data.encoders.apply import encoded
from labelproof.data.encoders.picture_encoding import AUTO, NONE, PictureEncoding, encode_like
from labelproof.data.examples import Examples
from labelproof.data.labels import refuse_missing, several_in_one
from labelproof.data.merged_names import alike, merged
from labelproof.data.readers.arrays import as_inputs
from labelproof.data.readers.frames import (
    are_pictures,
    are_texts,
    from_features,
    from_texts,
    needs_encoding,
    stacked,
    without_own,
)
from labelproof.data.readers.vote_remarks import refuse_blank_votes, refuse_multilabel
from labelproof.data.readers.vote_table import (
    annotator_names,
    encode_votes,
    is_blank,
    is_votes,
)
from labelproof.errors import BadInput, Note
from labelproof.judging import How
from labelproof.judging.agreement import label_quality
from labelproof.judging.label_table import LabelTable
from labelproof.judging.verdict import Judged
from labelproof.nets import VECTOR_NETS
from labelproof.pipeline import Given, run
from labelproof.runs.model import Prediction, in_double, model_of
from labelproof.runs.spec import RunSpec
from labelproof.sklearn.found_tables import annotator_table, as_table
from labelproof.sklearn.row_matching import hashes_of, index_of
from labelproof.training.log import reporter_for
from labelproof.training.protocol import Method

Array = npt.NDArray[Any]
ADVICE = {  # what to do, by a part of what scikit-learn's checks say
    "contains NaN": "Give X as a pandas DataFrame, whose gaps are filled in and marked; or fill "
    "them in yourself, for example with sklearn.impute.SimpleImputer.",
    "same order": "X[list(model.feature_names_in_)] has the columns in the order of fit.",
}
LARGEST_SEED = 2**31 - 1


class NoisyLabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier for labels that are partly wrong, which also says which ones those are.

    Inputs are vectors (N, D), images (N, H, W, 3) as bytes or floats in [0, 1], or a pandas frame,
    whose columns of words and gaps are encoded. Labels are numbers or strings.

    Args:
        method: a name (see `labelproof methods`), or a method's record, such as `DPC(lr=0.01)`,
            which is then used as it stands.
        net: a network's name, a module that maps inputs to features, or a function that makes one.
        encoder: what makes vectors of images and texts before training: `auto`, `none`, a name that
            `labelproof encoders` lists, `timm:NAME`, `hf:NAME` or the path of an ONNX file. `auto`
            is `none` with a network of your own.
        epochs: passes over the data; chosen by kind and size of the data where None.
        settings: other hyper-parameters of a method given by name, such as `{"lr": 0.01}`.
        calibrate: whether probabilities are calibrated; no true label is needed for it. With True
            or "folds", the method is trained again without each of two to ten folds, which
            multiplies the time. "quick" does without, for sets much larger than the network can
            memorise. False, None or "off": not calibrated.
        merge_labels: whether labels that differ in capitals or blanks alone (`OK`, `ok`, `ok `) are
            one class.
        precision: call as many labels suspects as are expected to be this precise, such as 0.8.
        review_budget: call this many labels suspects, the likeliest to be wrong.
        random_state: scikit-learn's: a number, a generator, or None for another result each time.
        device: `auto`, `cpu`, `cuda` or `mps`.
        verbose: whether progress is shown.

    Attributes:
        classes_: the labels, sorted, (C,).
        clean_proba_: probability that each given label is right, (N,).
        suggested_labels_: the label the model would give each training example, (N,).
        noise_rate_: estimated share of wrong labels; NaN where it cannot be stated.
        noise_rate_interval_: a 90% interval of it.
        trust_: whether these statements can be relied on: its `level` is good, caution or none,
            and `reasons` says why.
        transition_matrix_: estimated probability of each given label (column) for each true one
            (row), (C, C).
        calibration_: the fitted link and how it came about.
        label_table_: all that is known of every given label.
        history_: a dict per epoch.
        method_: the method's record that was used.
        chosen_: settings that had been left open ("auto"), each with its value and why.
        model_: the trained model, without the training data.
        consensus_labels_: where y holds several annotators' labels, what they and the model say
            together, (N,).
        vote_quality_: then also the probability that each single label is right, (N, A).
        annotators_: then also how often each annotator is right, with a 95% interval, whose ends
            are NaN where trust_ says that nothing can be relied on; and in the column `confusion`
            the probability of each vote (column) for each true class (row), (C, C).
        agreement_: then also Krippendorff's alpha: 1 is full agreement, 0 is chance.
        n_features_in_: D.
        feature_names_in_: names of the columns, where X was a frame.
        n_iter_: epochs that were trained.
        row_index_: the index of the frame X, by which `add_findings` matches rows; else None.
        row_hashes_: a number for each row of the frame X, to check that; else None.
    """

    def __init__(
        self,
        method: str | Method = "auto",
        *,
        net: str | nn.Module | Callable[[], nn.Module] = "auto",
        encoder: str = "auto",
        epochs: int | None = None,
        settings: Mapping[str, Any] | None = None,
        calibrate: bool | How | None = True,
        merge_labels: bool = False,
        precision: float | None = None,
        review_budget: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.net = net
        self.encoder = encoder
        self.epochs = epochs
        self.settings = settings
        self.calibrate = calibrate
        self.merge_labels = merge_labels
        self.precision = precision
        self.review_budget = review_budget
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> NoisyLabelClassifier:
        """Train on inputs X and their given labels y, which may be partly wrong.

        Args:
            X: vectors (N, D), images as an array or a list (of PIL too), texts or a frame.
            y: a label per example, (N,); or the labels of A annotators, (N, A), blank, NaN or -1
                where one gave none. The columns of a frame name the annotators.
        """
        how = self._how()
        examples = self._examples(X, y)
        spec = RunSpec(
            method=self.method if isinstance(self.method, str) else type(self.method).__name__,
            settings=self._settings(),
            calibrate=how,
            suspect_precision=self.precision,
            review_budget=self.review_budget,
            seed=int(check_random_state(self.random_state).randint(LARGEST_SEED)),
            device=self.device,
        )
        given = Given(
            data=examples,
            method=None if isinstance(self.method, str) else self.method,
            net=self.net,
        )
        reporter = reporter_for(Console(stderr=True)) if self.verbose else None
        self._encoding = examples if examples.encoder is not None else None
        self._keep(run(spec, given, reporter=reporter))
        self.row_index_, self.row_hashes_ = index_of(X), hashes_of(X)
        return self

    def predict(self, X: Any) -> Array:
        """The most probable label of each example, (M,)."""
        best = self.predict_proba(X).argmax(1)
        labels: Array = self.classes_[best]
        return labels

    def predict_proba(self, X: Any) -> Array:
        """Calibrated probabilities of the classes, (M, C)."""
        probs = self._predict(X).probabilities.double()
        return probs.div(probs.sum(1, keepdim=True)).numpy()

    def uncertainty(self, X: Any) -> Array:
        """How little the model knows of each example, 0 to 1, (M,).

        The vacuity of the Dirichlet where the method is trained as one, otherwise the entropy of
        the probabilities as a share of the largest possible one.
        """
        unsure: Array = self._predict(X).uncertainty.numpy()
        return unsure

    def suspects(self, top: int | None = None) -> Any:
        """The labels that look wrong, the worst first: a pandas frame, or an array of records.

        Args:
            top: this many of the least trusted labels, whether or not they are called suspects; all
                suspects where None.
        """
        check_is_fitted(self)
        table = self.label_table_
        order = table.worst_first().numpy()
        chosen = order[:top] if top is not None else order[table.suspect.numpy()[order]]
        columns = {
            "index": chosen,
            "given": self.classes_[table.given.numpy()[chosen]],
            "suggested": self.classes_[table.suggested.numpy()[chosen]],
            "p_clean": table.p_clean.numpy()[chosen],
            "p_suggested": table.p_suggested.numpy()[chosen],
            "margin": table.margin.numpy()[chosen],
            "suspect": table.suspect.numpy()[chosen],
        }
        return as_table(columns)

    # ---- what fit is made of ----

    def _examples(self, X: Any, y: Any) -> Examples:
        """Checked inputs, encoded, with the codes of the labels; sets `classes_`."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        inputs = self._inputs(X, reset=True)
        if is_votes(y):
            return self._encoded(self._voted(inputs, X, y))
        y = self._column(y)
        check_consistent_length(X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise BadInput(
                f"expected two classes or more, but there is one class, {self.classes_[0]}."
            )
        names = tuple(map(str, self.classes_))
        _tell(several_in_one(codes, names))
        return self._encoded(replace(inputs, labels=codes.astype(np.int64), classes=names))

    def _column(self, y: Any) -> Array:
        """One label per example, none missing; names alike are one class if that was asked for."""
        if isinstance(y, (list, tuple)):  # as text, a missing label among names looks like a name
            refuse_missing(np.array(y, dtype=object).ravel(), "y")
        column: Array = column_or_1d(y, warn=True)
        refuse_missing(column, "y")
        if np.asarray(y).ndim == 2:
            refuse_blank_votes(column)
        names = list(dict.fromkeys(column.tolist()))
        if not all(isinstance(name, str) for name in names):
            return column
        if self.merge_labels:
            stripped = np.array([name.strip() for name in column.tolist()], dtype=object)
            return merged([stripped])[0]
        _tell(_alike(names))
        return column

    def _voted(self, inputs: Examples, X: Any, y: Any) -> Examples:
        """Inputs with the labels of several annotators, (N, A); sets `classes_`."""
        check_consistent_length(X, y)
        coded = encode_votes(
            y,
            annotator_names(y),
            what="the votes y",
            merge=self.merge_labels,
            advice=", or leave them out of X and y",
        )
        refuse_multilabel(coded.votes, coded.classes, "y", "give class names in place of 0 and 1")
        _tell((*coded.votes.notes, *_alike(coded.classes)))
        self.classes_ = np.array(coded.classes, dtype=np.int64 if _are_numbers(y) else object)
        return replace(inputs, labels=coded.labels, classes=coded.classes, votes=coded.votes)

    def _encoded(self, examples: Examples) -> Examples:
        """Photos as vectors, where no network for pixels was asked for."""
        pixels = self.net not in ("auto", *VECTOR_NETS)
        return encoded(examples, NONE if pixels and self.encoder == AUTO else self.encoder)

    def _inputs(self, X: Any, *, reset: bool, like: Examples | None = None) -> Examples:
        """Vectors by scikit-learn's checks, frames and texts by their encoder, images by ours."""
        X, own = without_own(X)
        _tell(own if reset else ())
        if are_texts(X, like):
            return from_texts(X, like, "X").examples({"source": "texts"})
        if needs_encoding(X, like):
            self._checked(X, reset=reset, skip_check_array=True)
            return from_features(X, like, "X").examples({"source": "frame"})
        if are_pictures(X):
            X = stacked(X, None if reset else self._size)
        if getattr(X, "ndim", 2) > 2:
            inputs = as_inputs(X, what="X")
            if reset:
                self.n_features_in_ = math.prod(inputs.shape)
                self._size: tuple[int, int] = inputs.shape[0], inputs.shape[1]
            pictures = Examples(x=inputs, labels=None)
            seen = like is not None and isinstance(like.encoder, PictureEncoding)
            return encode_like(pictures, like) if like is not None and seen else pictures
        checked = self._checked(X, reset=reset, dtype=(np.float32, np.float64, np.float16))
        return Examples(x=as_inputs(np.array(checked), what="X"), labels=None)

    def _checked(self, X: Any, **how: Any) -> Any:
        """X by scikit-learn's checks, with what to do added to what they say."""
        try:
            return validate_data(self, X, **how)
        except ValueError as error:
            advice = next((text for part, text in ADVICE.items() if part in str(error)), None)
            if advice is None:
                raise
            raise ValueError(f"{error}\n{advice}") from None

    def _settings(self) -> dict[str, Any]:
        """Changes of the method's settings; a record has its own."""
        changes = dict(self.settings or {})
        if self.epochs is not None:
            changes["epochs"] = self.epochs
        if changes and not isinstance(self.method, str):
            raise BadInput(
                "settings and epochs need a method's name, but method is a record with its own; "
                "change it with dataclasses.replace."
            )
        return changes

    def _how(self) -> How:
        """How to calibrate."""
        if isinstance(self.calibrate, str) and self.calibrate in get_args(How):
            return self.calibrate
        if self.calibrate not in (True, False, None):
            raise BadInput(
                'expected calibrate to be True, False, None, "folds", "quick" or "off", but it is '
                f"{self.calibrate!r}."
            )
        return "folds" if self.calibrate else "off"

    def _keep(self, ended: Judged) -> None:
        """The fitted attributes."""
        result, found, table = ended.result, ended.calibration, ended.table
        self.label_table_: LabelTable = table
        self.method_ = result.method
        self.chosen_ = dict(result.chosen)
        model = model_of(result, ended.trunk, found.link, found.members)
        # Float32 sums depend on which other rows are predicted along with a row, if only by 1e-8.
        steady = isinstance(self.net, str) and result.task.kind == "vectors"
        self.model_ = in_double(model) if steady else model
        self.calibration_ = found
        self.clean_proba_ = table.p_clean.numpy()
        self.suggested_labels_ = self.classes_[table.suggested.numpy()]
        judge = found.judgement
        self.noise_rate_ = math.nan if found.noise_rate is None else found.noise_rate
        self.noise_rate_interval_ = judge.noise_interval if judge else (math.nan, math.nan)
        self.trust_ = found.trust
        self.transition_matrix_ = found.transition.numpy()
        self.history_ = result.history
        self.n_iter_ = len(result.history)
        votes = result.task.votes
        if votes is not None and found.crowd is not None and ended.people is not None:
            self.consensus_labels_ = self.classes_[found.crowd.consensus.numpy()]
            self.vote_quality_ = label_quality(votes, found.crowd).numpy()
            self.annotators_ = annotator_table(votes.annotators, ended.people, found.crowd)
            alpha = ended.summary["annotators"]["alpha"]
            self.agreement_ = math.nan if alpha is None else alpha

    def _predict(self, X: Any) -> Prediction:
        check_is_fitted(self)
        return self.model_.predict(self._inputs(X, reset=False, like=self._encoding).x)


def _are_numbers(votes: Any) -> bool:
    """Whether annotators gave whole numbers, which classes then are too; names stay names."""
    cells = [cell for cell in np.asarray(votes, dtype=object).ravel() if not is_blank(cell)]
    return all(isinstance(cell, int | float | np.number) for cell in cells) and not any(
        isinstance(cell, bool) for cell in cells
    )


def _alike(names: Iterable[str]) -> tuple[str, ...]:
    """A note on classes that differ in capitals or blanks alone."""
    same = alike(sorted(names))
    advice = "merge_labels=True merges each pair into one class"
    return (f"some classes differ only in capitals or blanks ({same}); {advice}",) if same else ()


def _tell(notes: Iterable[str]) -> None:
    """Notes as warnings, at the line that calls `fit`."""
    for note in notes:
        warn(note, Note, stacklevel=5)
