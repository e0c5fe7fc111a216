"""The estimator among scikit-learn's tools, and what it says of the labels."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from noisy_blobs import noisy_blobs
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from labelproof import DPC, BadInput, NoisyLabelClassifier
from labelproof.errors import Note
from labelproof.methods.ce import CrossEntropy
from labelproof.nets import MLP

quick = partial(NoisyLabelClassifier, "ce", calibrate="quick")


@pytest.fixture(scope="module")
def fitted() -> NoisyLabelClassifier:
    data = noisy_blobs(words=True)
    return NoisyLabelClassifier(settings={"steps": 60}).fit(data.X, data.y)


def test_dpc_finds_wrong_labels_and_learns_the_right_ones(fitted: NoisyLabelClassifier) -> None:
    data = noisy_blobs(words=True)
    assert fitted.score(data.X_test, data.y_test) > 0.9
    assert (fitted.suggested_labels_ == data.truth).mean() > 0.9
    assert (
        fitted.clean_proba_[data.wrong].mean() < 0.3 < 0.8 < fitted.clean_proba_[~data.wrong].mean()
    )
    low, high = fitted.noise_rate_interval_  # too few examples for a number
    assert low < data.wrong.mean() < high


def test_fitted_attributes(fitted: NoisyLabelClassifier) -> None:
    data = noisy_blobs(words=True)
    assert fitted.classes_.tolist() == ["ant", "bee", "cow"]
    assert fitted.n_features_in_ == 5
    assert fitted.clean_proba_.shape == fitted.suggested_labels_.shape == data.y.shape
    assert fitted.transition_matrix_.shape == (3, 3)
    np.testing.assert_allclose(fitted.transition_matrix_.sum(1), 1, atol=1e-5)
    counts = pd.crosstab(data.truth, data.y, normalize="index").to_numpy()
    assert np.abs(fitted.transition_matrix_ - counts).max() < 0.15
    assert len(fitted.history_) == fitted.n_iter_ == fitted.method_.epochs
    assert {"epoch", "loss"} <= set(fitted.history_[0])


def test_suspects_are_a_table_with_the_worst_first(fitted: NoisyLabelClassifier) -> None:
    data = noisy_blobs(words=True)
    table = fitted.suspects()
    assert table["p_clean"].is_monotonic_increasing
    assert (table["given"] == data.y[table["index"]]).all()
    assert (table["given"] != table["suggested"]).all()
    assert data.wrong[table["index"]].mean() >= 0.8  # the precision that is aimed at
    assert len(fitted.suspects(top=7)) == 7
    assert fitted.suspects(top=7)["index"].tolist()[:3] == table["index"].tolist()[:3]


def test_without_pandas_the_table_is_an_array_of_records(
    fitted: NoisyLabelClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    table = fitted.suspects(top=3)
    assert table.shape == (3,)
    assert table.dtype.names[:3] == ("index", "given", "suggested")


def test_gaps_and_another_order_of_columns_say_what_to_do() -> None:
    data = noisy_blobs()
    gaps = np.array(data.X)
    gaps[3, 0] = np.nan
    with pytest.raises(ValueError, match=r"(?s)contains NaN.*DataFrame.*SimpleImputer"):
        quick().fit(gaps, data.y)
    frame = pd.DataFrame(data.X).add_prefix("c")
    model = quick(epochs=1, calibrate=False).fit(frame, data.y)
    other = frame[frame.columns[::-1]]
    with pytest.raises(ValueError, match=r"(?s)same order.*feature_names_in_"):
        model.predict(other)
    again = model.predict(other[list(model.feature_names_in_)])
    assert (again == model.predict(frame)).all()


def test_probabilities_are_calibrated_unless_told_otherwise() -> None:
    data = noisy_blobs()
    raw = quick(calibrate=False, epochs=4).fit(data.X, data.y)
    calibrated = quick(calibrate="quick", epochs=4).fit(data.X, data.y)
    scale = calibrated.calibration_.link.scale
    expected = raw.predict_proba(data.X_test) ** scale
    expected /= expected.sum(1, keepdims=True)
    assert scale != 1
    np.testing.assert_allclose(calibrated.predict_proba(data.X_test), expected, rtol=1e-5)
    assert (raw.predict(data.X_test) == calibrated.predict(data.X_test)).all()


def test_pipeline_grid_search_and_cross_validation() -> None:
    data = noisy_blobs(words=True)
    pipe = make_pipeline(StandardScaler(), quick(epochs=4))
    grid = {"noisylabelclassifier__settings": [{"lr": 1e-7}, None]}
    search = GridSearchCV(pipe, grid, cv=2).fit(data.X, data.y)
    assert search.best_params_ == {"noisylabelclassifier__settings": None}
    assert search.best_estimator_.score(data.X_test, data.y_test) > 0.85
    folds = cross_val_predict(quick(epochs=4), data.X, data.y, method="predict_proba", cv=2)
    assert folds.shape == (len(data.y), 3)


def test_clone_is_unfitted_and_equal() -> None:
    first = NoisyLabelClassifier(DPC(lr=0.01), net=MLP(5, hidden=8), random_state=3)
    copy = clone(first)
    assert copy.get_params()["method"] == DPC(lr=0.01)
    assert not hasattr(copy, "classes_")


def test_a_pickled_model_predicts_the_same_and_holds_no_training_data(
    fitted: NoisyLabelClassifier,
) -> None:
    data = noisy_blobs(words=True)
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict_proba(data.X_test) == fitted.predict_proba(data.X_test)).all()
    some, many = noisy_blobs(600), noisy_blobs(2600)
    small, large = (quick(epochs=1).fit(b.X, b.y).model_ for b in (some, many))
    assert abs(len(pickle.dumps(large)) - len(pickle.dumps(small))) < 2000


def test_same_random_state_same_result_and_none_varies() -> None:
    data = noisy_blobs(120)
    fit = lambda state: quick(epochs=2, random_state=state).fit(data.X, data.y)  # noqa: E731
    first, second = fit(1).predict_proba(data.X), fit(1).predict_proba(data.X)
    assert (first == second).all()
    assert not np.allclose(first, fit(2).predict_proba(data.X))
    assert not np.allclose(
        fit(None).predict_proba(data.X), fit(None).predict_proba(data.X), atol=1e-6
    )


def test_frames_keep_their_names_and_words_are_encoded() -> None:
    data = noisy_blobs(words=True)
    frame = pd.DataFrame(data.X, columns=list("pqrst"))
    model = quick().fit(frame, pd.Series(data.y))
    assert model.feature_names_in_.tolist() == list("pqrst")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"p": "z"}))
    frame["colour"] = np.where(data.truth == "bee", "black", "white")
    frame.loc[3, "q"] = np.nan
    worded = quick().fit(frame, data.y)
    assert worded.feature_names_in_.tolist() == [*"pqrst", "colour"]
    assert worded.score(frame, data.truth) > 0.9
    assert worded.predict(frame.iloc[:2]).shape == (2,)


def test_images_in_any_usual_form() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    X = (rng.integers(0, 60, (30, 8, 8, 3)) + 150 * y[:, None, None, None]).astype(np.uint8)
    model = quick(epochs=4, settings={"batch": 8}).fit(X, y)
    assert model.n_features_in_ == 192
    assert model.score(X, y) == 1
    same = model.predict_proba((X / np.float32(255)).astype(np.float32))
    np.testing.assert_allclose(same, model.predict_proba(X), atol=1e-5)
    with pytest.raises(BadInput, match=r"shape \(8, 8, 3\)"):
        model.predict(X[:, :6])


def test_any_network_and_any_record() -> None:
    data = noisy_blobs()
    net = nn.Sequential(nn.Linear(5, 16), nn.Tanh())
    record = CrossEntropy(epochs=12, batch=16, lr=0.05)
    by_module = NoisyLabelClassifier(record, net=net, calibrate="quick").fit(data.X, data.y)
    assert by_module.method_ is record
    assert by_module.score(data.X_test, data.y_test) > 0.85
    made = NoisyLabelClassifier(record, net=lambda: MLP(5, hidden=16), calibrate="quick")
    made.fit(data.X, data.y)
    assert made.score(data.X_test, data.y_test) > 0.85
    assert all(torch.isfinite(p).all() for p in net.parameters())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "dcp"}, "did you mean 'dpc'"),
        ({"settings": {"leraning_rate": 1}}, "has no setting 'leraning_rate'"),
        ({"settings": {"lr": -1.0}}, "lr must be"),
        ({"method": CrossEntropy(epochs=2), "epochs": 3}, "dataclasses.replace"),
        ({"calibrate": "banana"}, """None, "folds", "quick" or "off", but it is 'banana'"""),
        ({"calibrate": 0.8}, "but it is 0.8"),
    ],
)
def test_bad_parameters_are_refused_when_fitting(options: dict, sentence: str) -> None:
    data = noisy_blobs(60)
    with pytest.raises(ValueError, match=sentence):
        NoisyLabelClassifier(**options).fit(data.X, data.y)


@pytest.mark.parametrize(
    ("given", "how"), [("off", "off"), (None, "off"), (np.False_, "off"), ("folds", "folds")]
)
def test_every_way_to_calibrate_has_a_name(given: object, how: str) -> None:
    data = noisy_blobs(60)
    model = NoisyLabelClassifier("ce", calibrate=given, epochs=1).fit(data.X, data.y)
    assert model.calibration_.how == how


def test_uncertainty_is_vacuity_for_dpc_and_entropy_elsewhere(
    fitted: NoisyLabelClassifier,
) -> None:
    data = noisy_blobs()
    for model in (fitted, quick(epochs=4).fit(data.X, data.y)):
        unsure = model.uncertainty(data.X_test)
        assert ((unsure >= 0) & (unsure <= 1)).all()
    probs = model.predict_proba(data.X_test)
    np.testing.assert_allclose(
        unsure, -(probs * np.log(probs)).sum(1) / np.log(3), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan, pd.NA, pd.NaT])
def test_a_missing_label_is_one_sentence(missing: object) -> None:
    y = ["ant", "bee", missing, "ant"]
    with pytest.raises(BadInput, match=r"a label for every example in y, but 1 is blank \(row 2, "):
        quick().fit(np.zeros((4, 2)), np.array(y, dtype=object))
    with pytest.raises(BadInput, match="but 1 is blank"):
        quick().fit(np.zeros((4, 2)), [0.0, 1.0, float("nan"), 1.0])


def test_labels_that_differ_in_capitals_and_blanks_are_merged_on_request() -> None:
    data = noisy_blobs(words=True)
    y = data.y.astype(object)
    ants = np.flatnonzero(y == "ant")
    y[ants[:5]], y[ants[5:8]] = "Ant", "ant "
    with pytest.warns(UserWarning, match="'Ant' and 'ant' and 'ant '.*merge_labels=True"):
        apart = quick(epochs=1, calibrate=False).fit(data.X, y)
    assert len(apart.classes_) == 5
    as_one = quick(epochs=1, calibrate=False, merge_labels=True).fit(data.X, y)
    assert as_one.classes_.tolist() == ["ant", "bee", "cow"]


def crowd(size: int = 40, people: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(size, 3))
    right = (x[:, 0] > 0).astype(int)
    said = np.stack([right] * people, 1)
    return x, np.where(rng.random(said.shape) < 0.1, 1 - said, said)


def test_notes_on_votes_are_warnings() -> None:
    x, votes = crowd()
    model = NoisyLabelClassifier(method="ce", epochs=1, calibrate="quick")
    with pytest.warns(Note, match="every vote is 0 or 1, and the columns count as annotators"):
        model.fit(x, votes)
    named = pd.DataFrame(np.array(["no", "yes"])[votes], columns=["a", "b", "B"])
    named.loc[1:, "a"] = None
    named.loc[0, "b"] = "No"
    with pytest.warns(Note) as told:
        model.fit(x, named)
    text = " | ".join(str(one.message) for one in told)
    assert "annotators with a single label, too few to tell how good they are (1): 'a'" in text
    assert "annotators differ only by case and count as different people: 'b', 'B'" in text
    assert "('No' and 'no'); merge_labels=True merges each pair" in text
    assert {one.filename for one in told if one.category is Note} == {__file__}


def test_columns_of_labels_that_an_example_can_have_at_once_are_refused() -> None:
    x, _ = crowd(200)
    tags = np.random.default_rng(1).integers(0, 2, (200, 3))
    model = NoisyLabelClassifier(method="ce", epochs=1, calibrate="quick")
    for y in (tags, tags.astype(bool), pd.DataFrame(tags, columns=["red", "big", "old"])):
        with pytest.raises(BadInput, match="3 columns of 0 and 1 that agree no more than by chan"):
            model.fit(x, y)
    assert len(model.fit(x, np.array(["no", "yes"])[tags]).annotators_) == 3


def test_a_blank_in_a_single_column_of_votes_is_no_class() -> None:
    x, _ = crowd()
    y = np.arange(40)[:, None] % 3 - 1
    with pytest.raises(BadInput, match=r"y of shape \(40, 1\) has -1 in 14 rows"):
        NoisyLabelClassifier(method="ce", epochs=1).fit(x, y)


@pytest.mark.filterwarnings("ignore::labelproof.errors.Note")
@pytest.mark.parametrize("names", [["01", "1"], ["1", "²"], [3, 7], [3.0, 7.0]])
def test_classes_are_what_annotators_wrote(names: list[object]) -> None:
    x, votes = crowd()
    table = pd.DataFrame(np.array(names, dtype=object)[votes])
    table.loc[0, 0] = None
    model = NoisyLabelClassifier(method="ce", epochs=1, calibrate=False).fit(x, table)
    assert model.classes_.tolist() == names
    assert {*model.predict(x).tolist()} <= {*names}


def test_an_example_without_votes_is_refused_in_the_words_of_python() -> None:
    x, votes = crowd()
    votes[3] = -1
    with pytest.raises(BadInput, match=r"1 has none \(row 3,.*or leave them out of X and y") as no:
        NoisyLabelClassifier(method="ce", epochs=1).fit(x, votes)
    assert "--" not in str(no.value)


def test_several_labels_in_one_cell_are_noted() -> None:
    x, votes = crowd()
    names = np.array(["a", "a|b"])[votes[:, 0]]
    names[:5] = "b|c"
    with pytest.warns(Note, match=r"most labels contain '\|', as 'a\|b' does.*multi-label"):
        NoisyLabelClassifier(method="ce", epochs=1, calibrate="quick").fit(x, names)
