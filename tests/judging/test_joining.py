"""A regression and a forest joined to a network: shares, predictions, files."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from labelproof import load_model, pipeline
from labelproof.cli.fit import in_words
from labelproof.data.readers.arrays import as_inputs
from labelproof.functional.softmax_regression import CrossFit
from labelproof.judging.forest import grown
from labelproof.judging.joining import LEAST_SHARE, PREFERENCE, Join, join, with_forest
from labelproof.judging.link import Link, Partner
from labelproof.judging.verdict import Judged
from labelproof.run_files import CALIBRATION, REPORT, SUMMARY
from labelproof.runs.export import export_onnx
from labelproof.runs.spec import RunSpec

SIZE, CLASSES = 400, 4
SHORT = {"epochs": 2, "steps": 20}


def scored(right: float, seed: int, labels: torch.Tensor) -> torch.Tensor:
    """Log-probabilities that name the label for this share of the examples."""
    rng = torch.Generator().manual_seed(seed)
    hit = torch.rand(SIZE, generator=rng) < right
    named = torch.where(hit, labels, (labels + 1) % CLASSES)
    return (2.0 * torch.nn.functional.one_hot(named, CLASSES).float()).log_softmax(1)


def fitted(log_probs: torch.Tensor) -> CrossFit:
    return CrossFit(
        log_probs=log_probs,
        weight=torch.eye(CLASSES),
        bias=torch.zeros(CLASSES),
        penalty=1.0,
        likelihood=0.0,
    )


@pytest.fixture
def labels() -> torch.Tensor:
    return torch.arange(SIZE) % CLASSES


def test_two_that_are_level_share_by_preference(labels: torch.Tensor) -> None:
    same = scored(0.7, 0, labels)
    found = join(same.double(), fitted(same), labels)
    assert found.share == pytest.approx(1 / (1 + PREFERENCE))
    assert found.network == found.linear


def test_who_is_surely_behind_is_left_out(labels: torch.Tensor) -> None:
    good, bad = scored(0.95, 0, labels), scored(0.4, 1, labels)
    assert join(good.double(), fitted(bad), labels).partner is None
    assert join(bad.double(), fitted(good), labels).share > 1 - LEAST_SHARE


def test_who_is_always_right_is_surely_ahead_of_who_never_is(labels: torch.Tensor) -> None:
    right, wrong = named(slice(0, 0), labels, 2.0), named(slice(0, SIZE), labels, 2.0)
    odds = math.exp(12) / PREFERENCE  # no t is larger, although these differences do not vary
    assert join(wrong.double(), fitted(right), labels).share == pytest.approx(odds / (1 + odds))
    assert join(right.double(), fitted(wrong), labels).partner is None


def test_the_louder_one_does_not_decide(labels: torch.Tensor) -> None:
    quiet, other = scored(0.7, 0, labels), scored(0.7, 1, labels)
    plain = join(quiet.double(), fitted(other), labels)
    loud = join(100 * quiet.double(), fitted(other), labels)
    assert plain.share == pytest.approx(loud.share)
    assert plain.partner is not None
    assert loud.partner is not None
    x = torch.randn(5, CLASSES, generator=torch.Generator().manual_seed(0)).double()
    told = [plain.partner.joined(x, x), loud.partner.joined(100 * x, x)]
    assert torch.equal(told[0].argmax(1), told[1].argmax(1))


def test_network_and_regression_are_added_by_their_factors() -> None:
    weight, bias = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]]), torch.tensor([0.5, 0.0, 0.0])
    partner = Partner(weight=weight, bias=bias, network=2.0, linear=10.0)
    scores, x = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[1.0, 3.0]])
    expected = torch.tensor([[2 + 15.0, 4 + 30.0, 6 - 10.0]])
    assert torch.equal(partner.joined(scores, x), expected)
    assert torch.equal(Link(partner=partner).joined(scores, x), expected)
    assert Link().joined(scores, x) is scores


def a_forest(labels: torch.Tensor):
    x = labels[:, None].float() + torch.zeros(SIZE, 3)
    _, trees = grown(x, labels, CLASSES, torch.arange(SIZE))
    assert trees is not None
    return trees


def test_a_forest_joins_the_other_two_by_the_same_rule(labels: torch.Tensor) -> None:
    network, linear, trees = (scored(0.7, n, labels).double() for n in range(3))
    trees = 5 * trees  # louder
    first = join(network, fitted(linear), labels)
    assert first.partner is not None
    both = first.partner.network * network + first.partner.linear * linear
    found = with_forest(first, both, trees, fitted(linear), a_forest(labels), labels)
    again = join(both, fitted(trees), labels)  # the rule, for two
    assert found.forest_share == pytest.approx(again.share)
    assert found.share == pytest.approx(first.share * (1 - again.share))
    assert found.forest == again.linear
    assert found.partner is not None
    assert again.partner is not None
    assert found.partner.trees == pytest.approx(again.partner.linear)
    assert found.partner.network == pytest.approx(first.partner.network * again.partner.network)
    assert found.partner.linear == pytest.approx(first.partner.linear * again.partner.network)


def test_a_forest_that_is_surely_behind_is_left_out_and_one_ahead_decides(
    labels: torch.Tensor,
) -> None:
    good, bad = scored(0.95, 0, labels).double(), scored(0.4, 1, labels).double()
    alone = join(good, fitted(bad), labels)
    behind = with_forest(alone, good, bad, fitted(bad), a_forest(labels), labels)
    assert behind.partner is None
    assert behind.forest_share == 0
    assert "DPC predicts alone" in behind.sentence()
    assert "a random forest 39.2%." in behind.sentence()
    weak = join(bad, fitted(bad), labels)
    ahead = with_forest(weak, bad, good, fitted(bad), a_forest(labels), labels)
    assert ahead.forest_share > 1 - LEAST_SHARE
    assert "weights of less than 1%, less than 1% and 100%" in ahead.sentence(5)
    assert "networks trained without" not in ahead.sentence(5)


def test_the_sentence_says_why_one_with_fewer_hits_may_weigh_more() -> None:
    found = Join(partner=None, share=0.2, network=0.7, linear=0.9, forest_share=0.75, forest=0.85)
    assert found.sentence(5) == (
        "DPC, a softmax regression and a random forest predict together, with weights of 5%, 20% "
        "and 75%. On held-out examples, DPC predicted 70.0% of the given labels, a softmax "
        "regression 90.0% and a random forest 85.0%. In the weights, hits in rare classes count "
        "more. The networks trained without each of 5 folds predict too."
    )
    most = replace(found, share=0.1, forest_share=0.0, forest=None)  # the network weighs most
    assert "rare classes" not in most.sentence(5)


def test_trees_are_saved_loaded_and_exported(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(600, 4)).astype("float32")
    y = ((x[:, 0] > 0.6).astype(int) + 2 * (x[:, 1] > 0.3)).astype(int) % 3
    test = x[400:]
    np.savez(tmp_path / "table.npz", x=x[:400], y=y[:400], x_test=test, y_test=y[400:])
    spec = RunSpec(data=str(tmp_path / "table.npz"), settings=SHORT, out=tmp_path / "run")
    ended = pipeline.run(spec)
    assert ended.summary["joined"]["forest_share"] > 0.5
    assert ended.summary["accuracy"]["last"] > 0.95
    loaded = load_model(tmp_path / "run").model
    told = loaded.predict(as_inputs(test, what="x")).probabilities
    expected = ended.calibrated.test_probabilities
    assert expected is not None
    torch.testing.assert_close(told, expected.float(), rtol=1e-4, atol=1e-5)
    export_onnx(loaded, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (probs,) = session.run(["probabilities"], {"x": test})
    torch.testing.assert_close(torch.from_numpy(probs), told, rtol=1e-3, atol=1e-4)


def noisy_table(path: Path) -> None:
    """Two linear classes with a fifth of the labels wrong."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 6)).astype("float32")
    truth = (x[:, 0] + x[:, 1] > 0).astype(int)
    given = np.where(rng.random(240) < 0.2, 1 - truth, truth)
    np.savez(path, x=x[:160], y=given[:160], x_test=x[160:], y_test=truth[160:])


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Judged]:
    """A run on that table with ten folds, in `run` beside it."""
    folder = tmp_path_factory.mktemp("noisy")
    noisy_table(folder / "table.npz")
    spec = RunSpec(data=str(folder / "table.npz"), settings=SHORT, out=folder / "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labelproof.judging.crossfit.FEW", 500)
        return folder, pipeline.run(spec)


def test_by_default_both_predict_and_the_files_say_so(noisy: tuple[Path, Judged]) -> None:
    tmp_path, ended = noisy
    test = np.load(tmp_path / "table.npz")["x_test"]
    partner = ended.calibration.link.partner
    assert partner is not None
    expected = ended.calibrated.test_probabilities
    assert expected is not None
    loaded = load_model(tmp_path / "run")
    told = loaded.model.predict(as_inputs(test, what="x")).probabilities
    torch.testing.assert_close(told, expected.float(), rtol=1e-4, atol=1e-5)
    summary = json.loads((tmp_path / "run" / SUMMARY).read_text())
    share = summary["joined"]["linear_share"]
    assert share == ended.summary["joined"]["linear_share"] > 0
    assert "softmax regression" in summary["joined"]["why"]
    assert "networks trained without each of 10 folds" in summary["joined"]["why"]
    assert "last is of the model that predicts" in summary["accuracy_note"]
    page = (tmp_path / "run" / REPORT).read_text()
    told = f"Test accuracy {summary['accuracy']['last']:.1%}"
    assert summary["joined"]["why"] in page
    assert f"<p>{told}. " in page
    assert f"{told}. Calibration error" in in_words(tmp_path / "run")
    assert summary["joined"]["why"] in in_words(tmp_path / "run")
    assert json.loads((tmp_path / "run" / CALIBRATION).read_text())["link"]["partner"]
    hits = expected.argmax(1).numpy() == np.load(tmp_path / "table.npz")["y_test"]
    assert summary["accuracy"]["last"] == pytest.approx(hits.mean())


def test_networks_trained_without_a_fold_predict_too(noisy: tuple[Path, Judged]) -> None:
    tmp_path, ended = noisy
    test = np.load(tmp_path / "table.npz")["x_test"]
    model = load_model(tmp_path / "run").model
    assert len(model.states) == 1 + len(ended.calibration.members) == 11
    x = model.task.views.plain(torch.from_numpy(test))
    with torch.no_grad():
        logits = [learner.net(x) for state in model.states for learner in state.learners]
    first, *others = (a + b for a, b in zip(logits[::2], logits[1::2], strict=True))
    assert all(not torch.allclose(first, other, atol=0.01) for other in others)
    link, partner = model.link, model.link.partner
    assert partner is not None
    scores = partner.network * torch.stack(logits).mean(0)
    scores = scores + partner.linear * (x @ partner.weight + partner.bias)
    if partner.forest is not None:
        scores = scores + partner.trees * partner.forest(x)
    told = model.predict(as_inputs(test, what="x")).probabilities
    torch.testing.assert_close(told, (link.scale * scores).softmax(1), rtol=1e-4, atol=1e-5)


def test_networks_trained_on_half_of_the_data_do_not_predict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noisy_table(tmp_path / "table.npz")
    monkeypatch.setattr("labelproof.judging.crossfit.MANY", 100)
    ended = pipeline.run(RunSpec(data=str(tmp_path / "table.npz"), settings=SHORT))
    assert ended.calibration.folds == 2
    assert ended.calibration.members == ()


def test_a_model_of_one_state_is_read_as_before(tmp_path: Path) -> None:
    noisy_table(tmp_path / "table.npz")
    spec = RunSpec(data=str(tmp_path / "table.npz"), method="dpc", settings=SHORT)
    pipeline.run(replace(spec, out=tmp_path / "run"))
    assert len(load_model(tmp_path / "run").model.states) == 1


def test_a_named_method_predicts_alone(tmp_path: Path) -> None:
    noisy_table(tmp_path / "table.npz")
    spec = RunSpec(data=str(tmp_path / "table.npz"), method="dpc", settings=SHORT)
    ended = pipeline.run(replace(spec, out=tmp_path / "run"))
    assert ended.calibration.link.partner is None
    assert ended.calibration.members == ()
    assert ended.summary["joined"] is None
    assert "method's own network" in ended.summary["accuracy_note"]
    page = (tmp_path / "run" / REPORT).read_text()
    assert "The method dpc predicts alone." in page
    for text in (page, in_words(tmp_path / "run")):
        assert "after the last epoch (best " in text  # of two epochs: there is no mean of ten


def named(missed: slice, labels: torch.Tensor, size: float) -> torch.Tensor:
    """Logits that name every label but some, by this margin."""
    said = labels.clone()
    said[missed] = (labels[missed] + 1) % CLASSES
    return size * torch.nn.functional.one_hot(said, CLASSES).float()


def test_shares_and_factors_by_hand(labels: torch.Tensor) -> None:
    network, linear = named(slice(0, 20), labels, 0.2), named(slice(20, 30), labels, 0.3)
    found = join(network.double(), fitted(linear), labels)
    # ahead on twenty, behind on ten of 400: a mean of 0.025, a variance of 0.074375
    odds = math.exp(0.025 / math.sqrt(0.074375 / 400)) / PREFERENCE
    share = odds / (1 + odds)
    assert found.share == pytest.approx(share)
    assert (found.network, found.linear) == (pytest.approx(0.95), pytest.approx(0.975))
    assert found.partner is not None
    # both are as loud together as each by its share
    loud = (1 - share) * 0.2 + share * 0.3
    assert found.partner.network == pytest.approx(loud * (1 - share) / 0.2)
    assert found.partner.linear == pytest.approx(loud * share / 0.3)
    assert "with weights of 24% and 76%" in found.sentence()
    assert "predicted 95.0% of the given labels and a softmax regression 97.5%" in found.sentence()
    assert found.describe(5)["fold_networks"] == 5


def test_examples_of_rare_classes_count_more() -> None:
    labels = torch.tensor([0] * 360 + [1] * 40)
    common, rare = named(slice(0, 10), labels, 2.0), named(slice(390, 400), labels, 2.0)
    level = 1 / (1 + PREFERENCE)
    assert join(common.double(), fitted(rare), labels).share < level
    assert join(rare.double(), fitted(common), labels).share > level
