"""The yardstick: its sets and their noise, rivals against plain formulas, and its tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_score

from labelproof.bench import outside_rivals as rivals
from labelproof.bench import yardstick_sets as made
from labelproof.bench.asked import experiment
from labelproof.bench.cell import Cell, Sources
from labelproof.bench.experiments import yardstick_tables as tables
from labelproof.bench.results import Record, Results
from labelproof.bench.scales import array_spec
from labelproof.errors import BadInput
from labelproof.runs.spec import RunSpec


def test_labels_move_to_the_nearest_other_class_by_their_distance(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = rng.normal(size=(60, 4)) + y[:, None]
    z = (x - x.mean(0)) / x.std(0)
    means = [z[y == c].mean(0) for c in range(3)]
    nearest, d = [], []
    for row, label in zip(z, y, strict=True):
        others = {c: sum((row - means[c]) ** 2) for c in range(3) if c != label}
        nearest.append(min(others, key=others.get))
        d.append(min(others.values()))
    raw = np.exp(-np.array(d) / np.median(d))
    chance = np.minimum(raw * 0.25 / raw.mean(), 0.9)
    drawn = np.random.default_rng(5).random(60)
    expected = [n if u < p else c for n, u, p, c in zip(nearest, drawn, chance, y, strict=True)]
    found = made.near_other_class(x, y, 0.25, np.random.default_rng(5))
    assert found.tolist() == expected
    assert 0 < (found != y).sum() < 60


def test_each_kind_of_noise_has_the_share_it_is_told():
    rng = np.random.default_rng(0)
    y = rng.choice(3, 20_000, p=[0.8, 0.15, 0.05])
    assert (made.other_class(y, 0.4, 3, rng) != y).mean() == pytest.approx(0.4, abs=0.02)
    given = made.guessed(y, 0.3, rng)
    assert (given != y).mean() == pytest.approx(0.3 * (1 - 0.64 - 0.0225 - 0.0025), abs=0.02)
    assert np.bincount(given) / 20_000 == pytest.approx([0.8, 0.15, 0.05], abs=0.01)
    two = (y > 0).astype(int)
    given = made.missed(two, 0.3, 0.01, rng)
    assert given[two == 1].mean() == pytest.approx(0.7, abs=0.03)
    assert given[two == 0].mean() == pytest.approx(0.01, abs=0.005)


def test_sets_are_the_same_every_time_and_partly_wrong(tmp_path):
    for one in made.SETS:
        path = one.file(Sources(out=tmp_path / "a"))
        arrays = np.load(path)
        assert set(arrays) == {"x", "y", "clean", "x_test", "y_test"}
        assert len(arrays["x"]) == len(arrays["y"]) == len(arrays["clean"])
        assert np.isfinite(arrays["x"]).all()
        assert np.isfinite(arrays["x_test"]).all()
        assert 0.01 < (arrays["y"] != arrays["clean"]).mean() < 0.45
        assert set(arrays["y"]) == set(arrays["clean"]) == set(arrays["y_test"])
        assert one.file(Sources(out=tmp_path / "b")).read_bytes() == path.read_bytes()


def test_a_part_of_cifar_keeps_labels_with_their_vectors(tmp_path, vectors_npz):
    whole = np.load(vectors_npz)
    arrays = {**whole, "worst": (whole["clean"] + 1) % 10}
    np.savez(vectors_npz, **arrays)
    sources = Sources(out=tmp_path, data=vectors_npz)
    part = np.load(made._part_of_cifar("worst", 25).file(sources))
    assert part["x"].shape == (25, 4)
    assert part["y"].tolist() == ((part["clean"] + 1) % 10).tolist()
    for row, label in zip(part["x"], part["clean"], strict=True):
        assert arrays["clean"][(arrays["x"].astype(np.float32) == row).all(1)] == label


def test_human_labels_join_where_they_are_named(tmp_path, vectors_npz):
    ours = experiment("yardstick")
    alone, named = Sources(out=tmp_path), Sources(out=tmp_path, data=vectors_npz)
    columns = [
        {cell.column for cell in ours.cells(scale, sources, 1)}
        for scale, sources in (("small", alone), ("small", named), ("paper", named))
    ]
    assert [len(names) for names in columns] == [8, 11, 12]
    assert columns[2] - columns[1] == {"CIFAR-10N worst 10000"}


def toy(rng, size=100):
    y = np.arange(size) % 3
    return rng.normal(size=(size, 5)) * [1, 1, 1, 1, 50] + 2 * np.eye(3, 5)[y], y


def test_scale_and_penalty_are_those_of_the_highest_likelihood():
    x, y = toy(np.random.default_rng(0))
    folds = StratifiedKFold(5, shuffle=True, random_state=3)
    scaled = {"columns": (x - x.mean(0)) / x.std(0), "common": (x - x.mean(0)) / x.std()}
    likelihood = {
        (name, c): cross_val_score(
            LogisticRegression(C=c, max_iter=300), z, y, cv=folds, scoring="neg_log_loss"
        ).mean()
        for name, z in scaled.items()
        for c in rivals.PENALTIES
    }
    choice = rivals.chosen(x, y, 3, 3)
    assert (choice.scale, choice.penalty) == max(likelihood, key=likelihood.get)
    own = choice.probs[np.arange(100), y]
    assert np.log(own).mean() == pytest.approx(max(likelihood.values()))


@pytest.fixture
def toy_spec(tmp_path):
    rng = np.random.default_rng(0)
    (x, clean), (x_test, y_test) = toy(rng, 100), toy(rng, 60)
    y = made.other_class(clean, 0.2, 3, rng)
    path = tmp_path / "toy-vectors.npz"
    np.savez(path, x=x, y=y, clean=clean, x_test=x_test, y_test=y_test)
    return replace(array_spec(path, "y", "clean"), method="linear", seed=1, out=tmp_path / "run")


def summary_of(spec: RunSpec, maker: str):
    rivals.run(spec, maker)
    assert json.loads((spec.out / "run.json").read_text())["method"] == maker
    return json.loads((spec.out / "summary.json").read_text())


def test_the_regression_is_measured_by_right_labels(toy_spec):
    arrays = np.load(toy_spec.data)
    x, y = arrays["x"].astype(np.float32), arrays["y"]
    choice = rivals.chosen(x, y, 3, 1)
    scale = rivals.scales(x)[choice.scale]
    model = LogisticRegression(C=choice.penalty, max_iter=300).fit(scale(x), y)
    told = model.predict(scale(arrays["x_test"].astype(np.float32)))
    found = summary_of(toy_spec, "logistic")
    assert found["accuracy"]["last"] == pytest.approx((told == arrays["y_test"]).mean())
    assert found["balanced_accuracy"] == pytest.approx(
        balanced_accuracy_score(arrays["y_test"], told)
    )
    auroc = roc_auc_score(y != arrays["clean"], -choice.probs[np.arange(100), y])
    assert found["error_auroc"] == pytest.approx(auroc)
    assert found["suspect_detection"] is None


def test_cleanlab_prunes_and_the_neighbours_only_judge(toy_spec):
    pytest.importorskip("cleanlab")
    pruned = summary_of(toy_spec, "pruned")
    assert pruned["noise_rate_estimate"] == pytest.approx(pruned["suspects"] / 100)
    assert 0.5 < pruned["suspect_detection"]["precision"] <= 1
    assert pruned["accuracy"]["last"] > 0.6
    near = summary_of(toy_spec, "neighbours")
    assert near["accuracy"] is near["ece"] is near["suspect_detection"] is None
    assert near["error_auroc"] == pytest.approx(by_hand(np.load(toy_spec.data)))


def test_cleanlab_around_a_network_leaves_the_numbers_of_a_run(toy_spec):
    pytest.importorskip("cleanlab")
    found = summary_of(replace(toy_spec, method="ce", settings={"epochs": 3}), "cleanlab")
    assert found["noise_rate_estimate"] == pytest.approx(found["suspects"] / 100)
    assert found["error_ap_own"] == found["error_ap"]
    assert found["accuracy"]["best"] >= found["accuracy"]["last"]
    assert json.loads((toy_spec.out / "run.json").read_text())["settings"]["epochs"] == 3


def by_hand(arrays) -> float:
    """AUROC of the share of the 30 nearest by cosine with another label, on the better scale."""
    x, y, best = arrays["x"], arrays["y"], (-1.0, 0.0)
    for z in ((x - x.mean(0)) / x.std(0), (x - x.mean(0)) / x.std()):
        unit = z / np.linalg.norm(z, axis=1, keepdims=True)
        cosine = unit @ unit.T
        np.fill_diagonal(cosine, -2)
        near = y[np.argsort(-cosine, axis=1)[:, :30]]
        majority = [np.bincount(row, minlength=3).argmax() for row in near]
        score = (near != y[:, None]).mean(1)
        best = max(best, ((majority == y).mean(), roc_auc_score(y != arrays["clean"], score)))
    return best[1]


def test_a_rival_refuses_data_without_test_labels(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", x=rng.normal(size=(30, 4)), y=np.arange(30) % 3)
    spec = replace(array_spec(tmp_path / "mine.npz"), method="linear", out=tmp_path / "run")
    with pytest.raises(BadInput, match="needs vectors with test data"):
        rivals.run(spec, "logistic")


def results(**rows: dict[str, object]) -> Results:
    records = [
        Record(
            cell=Cell(row=tables.ROWS[row], column="wine", spec=RunSpec()),
            folder=Path(),
            state="done",
            summary=summary,
        )
        for row, summary in rows.items()
    ]
    return Results(scale="tiny", records=tuple(records))


def summary(accuracy, auroc, **more):
    return {"accuracy": accuracy and {"last": accuracy}, "error_auroc": auroc, **more}


def test_the_default_is_set_against_the_best_rival_by_each_measure():
    found = results(
        auto=summary(0.80, 0.90),
        ce=summary(0.81, 0.99),
        logistic=summary(0.78, 0.89),
        pruned=summary(0.804, 0.88),
        neighbours=summary(None, 0.91),
    )
    text = tables.against_rivals(found).markdown()
    line, counts, means = (row.split(" | ") for row in text.splitlines()[4:7])
    assert line[1:] == [
        "-0.4 (logistic + cleanlab)",
        "",
        "-0.010 (30 neighbours)",
        "-1.0",
        "none stated |",
    ]
    assert counts[1:5] == ["1 of 1", "", "0 of 1", "0 of 1"]
    assert means[1:5] == ["-0.4", "", "-0.010", "-1.0"]


@pytest.mark.parametrize(
    ("stated", "interval", "measured", "kept", "said"),
    [
        (0.80, None, 0.76, True, "0.80 / 0.76"),
        (0.80, [0.5, 0.9], 0.74, False, "0.80 / 0.74"),
        (None, [0.5, 0.9], 0.46, True, "0.50 to 0.90 / 0.46"),
        (None, [0.5, 0.9], 0.44, False, "0.50 to 0.90 / 0.44"),
        (None, None, 0.1, None, "none / 0.10"),
        (0.80, None, None, None, ""),
    ],
)
def test_a_stated_precision_is_kept_or_not(stated, interval, measured, kept, said):
    one = summary(
        0.8,
        0.9,
        suspect_precision_estimate=stated,
        suspect_precision_interval=interval,
        suspect_detection=measured and {"precision": measured},
    )
    assert tables.keeps(results(auto=one), "wine") is kept
    assert tables.precision([one]) == said


def test_the_seconds_are_those_of_training_and_of_calibration():
    one = summary(0.8, 0.9, seconds=20.0, seconds_calibration=13.0)
    shown = tables.everything(results(auto=one, logistic=summary(0.7, 0.8, seconds=2.0)))
    place = shown.header.index("seconds")
    assert [row[place] for row in shown.rows] == ["33", "2"]


def test_an_empty_grid_still_has_its_tables(tmp_path):
    cells = experiment("yardstick").cells("tiny", Sources(out=tmp_path), 1)
    records = tuple(Record(cell=cell, folder=tmp_path) for cell in cells)
    files = experiment("yardstick").finish(Results(scale="tiny", records=records), tmp_path)
    assert {path.name for path in files if path.suffix == ".md"} == {
        "table.md",
        "table-rivals.md",
        "table-sets.md",
    }
    assert (
        "| wine | scikit-learn's table of wines | 106 | 13 | 3 | 25% |"
        in (tmp_path / "table-sets.md").read_text()
    )
