"""Every experiment: its grid, specs that a run can be made of, tables and figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
from bench_cells import finished

from labelproof.bench import duration
from labelproof.bench.asked import NAMES, experiment
from labelproof.bench.cell import Sources
from labelproof.bench.experiments.lambda_u import SETS
from labelproof.bench.scales import nearest_recipe
from labelproof.data.readers.published.webvision_files import WEBVISION
from labelproof.errors import BadInput
from labelproof.methods import METHODS
from labelproof.recipes.recipe import chosen_method, published_names
from labelproof.runs.forecast import Forecast
from labelproof.runs.spec import read_spec
from labelproof.views.defaults import Trial

OWN = [name for name in NAMES if name not in ("overconfidence", "webvision")]
FIGURES = {"beta", "gamma"}


def summary(number: int) -> dict[str, object]:
    accuracy = {"last": 0.8 + number / 100, "last10": 0.7 + number / 100, "best": 0.9}
    return {"accuracy": accuracy, "ece": 0.1, "error_auroc": 0.95, "seconds": 3.0}


def method_of(cell, kind="images"):
    spec = cell.spec
    return chosen_method(spec.trained, kind, spec.settings, spec.recipe)


@pytest.mark.parametrize("name", OWN)
def test_a_finished_grid_gives_its_table_and_figures(labelproof, tmp_path, name):
    sources = Sources(out=tmp_path / "b")
    cells = experiment(name).cells("tiny", sources, 1)
    for number, cell in enumerate({cell.name: cell for cell in cells}.values()):
        finished(cell, tmp_path / "b" / "cells", summary(number))
    code, out, err = labelproof("bench", name, "--scale", "tiny", "--out", "b")
    assert code == 0, err
    folder = tmp_path / "b" / f"{name}-tiny"
    text = (folder / "table.md").read_text()
    assert text in out
    assert all(f"| {cell.row} |" in text for cell in cells)
    assert "80.00" in text
    assert (folder / "table.tex").read_text().count(r"\\") >= len({c.row for c in cells})
    assert len((folder / "results.jsonl").read_text().splitlines()) == len(cells)
    assert (name in FIGURES) == (folder / "figure.png").exists() == (folder / "figure.svg").exists()
    with_recipe = {cell.row for cell in cells if cell.spec.recipe}
    assert (folder / "settings.md").exists() == (folder / "settings.tex").exists()
    told = (folder / "settings.md").read_text() if with_recipe else ""
    assert all(f"| {row} |" in told for row in with_recipe)
    assert (folder / "settings.md").exists() == bool(with_recipe)


@pytest.mark.parametrize("name", OWN)
def test_a_method_takes_every_spec(tmp_path, name):
    for cell in experiment(name).cells("tiny", Sources(out=tmp_path), 2):
        kind = "vectors" if "vectors" in str(cell.spec.data) else "images"
        assert method_of(cell, kind).plan()
        assert read_spec(cell.spec.describe(), tmp_path) == cell.spec


def test_the_ablation_plugs_l_edl_into_every_method_that_takes_it(tmp_path, cifar_folder):
    takers = [
        name for name, method in METHODS.items() if "edl" in str(get_type_hints(method).get("loss"))
    ]
    cells = experiment("ablation").cells("paper", Sources(out=tmp_path, data=cifar_folder), 1)
    rows = {cell.row for cell in cells}
    assert {f"{name} with L_edl" for name in takers if name != "dpc"} == {
        row for row in rows if row.endswith(" with L_edl")
    }
    assert rows >= set(takers) - {"dpc"}


def test_cleanlab_is_a_row_of_the_images_too(tmp_path, cifar_npz):
    cells = experiment("images").cells("small", Sources(out=tmp_path, data=cifar_npz), 1)
    (cell,) = [cell for cell in cells if cell.row == "cleanlab"]
    spec = cell.spec
    assert (cell.maker, spec.method) == ("cleanlab", "ce")
    assert (spec.noise, spec.net, spec.settings) == ("symmetric:0.5", "cnn", {"epochs": 24})


def test_other_forms_of_methods_are_rows_of_the_vectors(tmp_path, vectors_npz):
    sources = Sources(out=tmp_path, data=vectors_npz, labels=("worst",))
    forms = {
        c.row: method_of(c, "vectors")
        for c in experiment("vectors").cells("small", sources, 1)
        if c.maker == "fit"
    }
    assert (forms["gce_truncated"].truncate, forms["gce"].truncate) == (True, False)
    assert (forms["bootstrap_soft"].target, forms["bootstrap"].target) == ("soft", "hard")
    assert (forms["cores_star"].consistency, forms["cores"].consistency) == (10, 0)


def test_lambda_u_has_images_enough_to_choose_on(tmp_path, cifar_npz):
    cells = experiment("lambda_u").cells("small", Sources(out=tmp_path, data=cifar_npz), 1)
    many = [cell for cell in cells if cell.column == "20000 images sym. 50%"]
    assert [cell.row for cell in many] == ["0", "25", "50", "150", "auto"]
    assert all(method_of(cell).epochs == 12 for cell in many)


def test_lambda_u_makes_data_where_none_is_named(tmp_path):
    cells = experiment("lambda_u").cells("small", Sources(out=tmp_path), 1)
    assert len(cells) == 5 * len(SETS)
    for made, cell in zip(SETS, cells[::5], strict=True):
        arrays = np.load(cell.spec.data)
        assert (len(arrays["x"]), arrays["x"].shape[1]) == (made.size, made.features)
        assert len(set(arrays["y"])) == made.classes
        assert cell.spec.noise == made.noise
        assert cell.column == made.column


def test_lambda_u_takes_other_vectors_with_right_labels_to_test_by(tmp_path):
    x, y = np.zeros((30, 4), np.float32), np.arange(30) % 3
    np.savez(tmp_path / "mine.npz", x=x, y=y, x_test=x, y_test=y)
    sources = Sources(out=tmp_path, data=tmp_path / "mine.npz")
    cells = experiment("lambda_u").cells("small", sources, 1)
    assert [(c.row, c.column) for c in cells] == [
        (v, "given labels") for v in ("0", "25", "50", "150", "auto")
    ]
    for data in (sources.data, None):
        wrong = replace(sources, data=data, labels=("worst",))
        with pytest.raises(BadInput, match="--labels worst needs --data with arrays of these"):
            experiment("lambda_u").cells("small", wrong, 1)
    np.savez(tmp_path / "half.npz", x=x, y=y, x_test=x)
    with pytest.raises(BadInput, match=r"the arrays y_test in half\.npz, but it holds"):
        experiment("lambda_u").cells("small", replace(sources, data=tmp_path / "half.npz"), 1)


def test_methods_are_compared_on_vectors_of_the_users_own(tmp_path):
    x, y = np.zeros((30, 4), np.float32), np.arange(30) % 3
    arrays = {"x": x, "y": y, "x_test": x, "y_test": y}
    np.savez(tmp_path / "mine.npz", **arrays)
    sources = Sources(out=tmp_path, data=tmp_path / "mine.npz", methods=("ce", "dpc"))
    cells = experiment("vectors").cells("small", sources, 2)
    assert [(c.row, c.column, c.seed) for c in cells] == [
        (row, "given labels", seed) for row in ("ce", "dpc") for seed in (0, 1)
    ]
    assert {(c.spec.reading.label_key, c.spec.reading.truth_key) for c in cells} == {("y", None)}
    np.savez(tmp_path / "known.npz", **arrays, clean=y)
    known = experiment("vectors").cells("small", replace(sources, data=tmp_path / "known.npz"), 1)
    assert {(c.spec.reading.label_key, c.spec.reading.truth_key) for c in known} == {("y", "clean")}
    with pytest.raises(BadInput, match="expected the arrays clean, worst in"):
        experiment("vectors").cells("small", replace(sources, labels=("worst",)), 1)


@pytest.mark.parametrize("name", ["synthetic", "cifarn", "ablation", "beta", "gamma"])
def test_the_paper_scale_is_the_published_recipe(tmp_path, cifar_folder, name):
    labels = ("aggre", "worst") if name == "cifarn" else None
    sources = Sources(out=tmp_path, data=cifar_folder, labels=labels)
    cells = experiment(name).cells("paper", sources, 3)
    assert {cell.seed for cell in cells} == {0, 1, 2}
    for cell in cells[::3]:
        assert "epochs" not in cell.spec.settings
        assert cell.spec.net == ("resnet34" if name == "cifarn" else "preact18")
        assert method_of(cell).plan()
    dpc = [cell for cell in cells if cell.row in ("dpc", "DPC", "β = 0.5", "γ C = 10")]
    assert {method_of(cell).epochs for cell in dpc} == {300}
    assert {method_of(cell).selector for cell in dpc} == {"gmm"}


@pytest.mark.parametrize("name", ["synthetic", "cifarn", "ablation", "beta", "gamma"])
def test_vectors_are_selected_and_weighed_as_published(tmp_path, vectors_npz, name):
    sources = Sources(out=tmp_path / "b", data=vectors_npz)
    cells = experiment(name).cells("small", sources, 1)
    assert all(cell.column.startswith("vectors ") for cell in cells)
    found = {c.column: method_of(c, "vectors") for c in cells if c.spec.method == "dpc"}
    assert found
    for column, method in found.items():
        light = any(word in column for word in ("asym", "aggre", "rand1"))
        assert method.lambda_u == (0.0 if light else 25.0)
        assert (method.selector, method.batch) == ("gmm", 128)


@pytest.mark.parametrize("name", ["synthetic", "cifarn", "ablation", "beta", "gamma", "lambda_u"])
def test_a_finished_grid_on_vectors_gives_its_table(labelproof, tmp_path, vectors_npz, name):
    cells = experiment(name).cells("small", Sources(out=tmp_path / "b", data=vectors_npz), 1)
    for number, cell in enumerate({cell.name: cell for cell in cells}.values()):
        finished(cell, tmp_path / "b" / "cells", summary(number))
    code, _, err = labelproof("bench", name, "--data", vectors_npz, "--seeds", "1", "--out", "b")
    assert code == 0, err
    text = (tmp_path / "b" / f"{name}-small" / "table.md").read_text()
    assert all(f"| {cell.row} |" in text for cell in cells)
    column = {"cifarn": "worst", "lambda_u": None}.get(name, "CIFAR-10 sym. 50%")
    assert ("ublished" in text) == (column is not None)
    assert column is None or (f"published: {column} |" in text and "ours are vectors" in text)
    if name == "cifarn":
        again = (tmp_path / "b" / "cifarn-small" / "table-replicated.md").read_text()
        assert "| replicated: worst |" in again
        assert "| 93.10 |" in again
        assert "Vovk" in again


def test_co_teaching_is_told_the_share_of_wrong_labels(tmp_path, vectors_npz):
    sources = Sources(out=tmp_path / "b", data=vectors_npz, methods=("coteaching",))
    cells = experiment("synthetic").cells("small", sources, 1)
    rates = [method_of(cell, "vectors").noise_rate for cell in cells]
    assert rates == pytest.approx([0.45, 0.72, 0.2])


def test_synthetic_has_every_cell_of_the_table(tmp_path, cifar_folder):
    cells = experiment("synthetic").cells("paper", Sources(out=tmp_path, data=cifar_folder), 1)
    assert len({cell.column for cell in cells}) == 12
    assert {cell.row for cell in cells} == {*METHODS, "dpc*"}
    star = next(c for c in cells if (c.row, c.column) == ("dpc*", "CIFAR-100 asym. 40%"))
    assert method_of(star).consistency == 3
    assert method_of(star).lambda_u == 150
    assert star.spec.noise == "asymmetric-cifar100:0.4"


def test_human_labels_have_the_rows_of_the_appendix(tmp_path, cifar_folder):
    sources = Sources(out=tmp_path, data=cifar_folder, labels=("worst",))
    rows = {cell.row: method_of(cell) for cell in experiment("cifarn").cells("paper", sources, 1)}
    longer = {"dpc*", "cores*", "sop_plus with L_edl", "mlnt with L_edl"}
    assert set(rows) == {*METHODS, *longer}
    assert (rows["cores*"].consistency, rows["cores"].consistency) == (1600, 0)
    for name in ("sop_plus", "mlnt"):
        assert rows[f"{name} with L_edl"] == replace(rows[name], loss="edl")


def test_experiments_share_the_run_they_have_in_common(tmp_path):
    sources = Sources(out=tmp_path)
    names = [
        {cell.name for cell in experiment(name).cells("tiny", sources, 1)}
        for name in ("synthetic", "ablation", "beta", "gamma")
    ]
    assert len(set.intersection(*names)) == 1


def test_a_published_setting_or_the_most_similar_one():
    assert nearest_recipe("dpc", "cifar10-symmetric-0.5") == "cifar10-symmetric-0.5"
    assert nearest_recipe("dividemix", "cifar10-asymmetric-0.1") == "cifar10-asymmetric-0.4"
    assert nearest_recipe("pes", "cifar100-symmetric-0.5").startswith("cifar100")
    assert nearest_recipe("coteaching", "cifar100n") in published_names("coteaching")


def test_a_cell_of_the_paper_scale_starts(labelproof, tmp_path, cifar_folder):
    words = ("--scale", "paper", "--data", cifar_folder, "--methods", "ce", "--epochs", 1)
    code, out, err = labelproof(
        "bench", "synthetic", *words, "--only", "CIFAR-10 sym. 50%, seed 0", "--out", "b"
    )
    assert code == 0, err
    assert "published: CIFAR-10 sym. 50%" in out
    assert "copying error" in out


def test_webvision_measures_top_1_and_top_5(labelproof, tmp_path):
    words = ("--scale", "tiny", "--methods", "coteaching", "--epochs", 1, "--out", "b")
    code, out, err = labelproof("bench", "webvision", *words)
    assert code == 0, err
    assert "| digits top-1 | digits top-5 |" in out
    row = next(line for line in out.splitlines() if line.startswith("| coteaching"))
    one, five = (float(word) for word in row.strip("| ").split(" | ")[1:])
    assert 0 < one <= five <= 100


def test_a_dry_run_trains_nothing_and_counts_what_is_done(labelproof, tmp_path):
    cells = experiment("beta").cells("tiny", Sources(out=tmp_path / "b"), 1)
    finished(cells[0], tmp_path / "b" / "cells", summary(0))
    code, out, _ = labelproof("bench", "beta", "--scale", "tiny", "--out", "b", "--dry-run")
    assert code == 0
    assert "3 cells, 1 of them done" in out
    assert out.count("measured epoch") == 2
    assert not list(tmp_path.glob("b/*/*/run.json"))


def test_a_dry_run_of_the_paper_scale(labelproof, tmp_path, cifar_folder):
    words = ("--scale", "paper", "--data", cifar_folder, "--methods", "ce", "--seeds", 2)
    code, out, _ = labelproof("bench", "synthetic", *words, "--dry-run", "--out", "b")
    assert code == 0
    assert "24 cells, 0 of them done" in out
    assert out.count("measured epoch") == 24


def in_seconds_of_its_size(parts, patience):
    return Forecast(training=parts.prepared.task.size)


def test_a_dry_run_of_the_paper_scale_needs_no_data(labelproof, tmp_path, monkeypatch):
    monkeypatch.setattr(duration, "forecast", in_seconds_of_its_size)
    words = ("--scale", "paper", "--labels", "worst,noisy100", "--methods", "ce", "--seeds", 1)
    code, out, err = labelproof("bench", "cifarn", *words, "--dry-run", "--out", "b")
    assert code == 0, err
    assert out.count("14 hours  more") == 2  # 50,000 seconds
    assert "black pictures stood in" in out
    code, _, err = labelproof("bench", "cifarn", *words, "--out", "b")
    assert code == 2
    assert "--human-labels" in err
    stand_ins = Sources(out=tmp_path / "b", stand_ins=True)
    for name in set(NAMES) - {"vectors", "yardstick", "digits"}:  # which are of no published set
        found = experiment(name).cells("paper", stand_ins, 1)
        assert {str(cell.spec.data).split("n-")[0] for cell in found} <= {
            *("cifar10", "cifar100", "cifar100n", "webvision")
        }
        assert all(cell.spec.reading.data_dir is None for cell in found)


def webvision_files(folder):
    for file in WEBVISION.files:
        (folder / "files" / WEBVISION.folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / "files" / WEBVISION.folder / file).touch()
    return folder / "files"


def test_elr_plus_crops_webvisions_pictures_at_their_published_size(tmp_path):
    sources = Sources(out=tmp_path / "b", data=webvision_files(tmp_path))
    cells = experiment("webvision").cells("paper", sources, 1)
    sizes = {cell.row: cell.spec.reading.image_size for cell in cells}
    assert sizes.pop("elr_plus") == 256
    assert set(sizes.values()) == {None}


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_has_a_dry_run_of_the_paper_scale(
    labelproof, tmp_path, monkeypatch, cifar_folder, vectors_npz, name
):
    monkeypatch.setattr(duration, "forecast", in_seconds_of_its_size)
    monkeypatch.setattr(Trial, "of", lambda train, labels: None)  # views are chosen elsewhere
    data = vectors_npz if name in ("vectors", "yardstick") else cifar_folder
    data = webvision_files(tmp_path) if name == "webvision" else data
    few = ["--methods", "dpc"] if "methods" in experiment(name).takes else []
    few += ["--labels", "worst"] if name == "cifarn" else []
    words = ("--scale", "paper", "--data", data, "--seeds", 1, "--dry-run", *few)
    code, out, err = labelproof("bench", name, *words)
    assert code == 0, err
    assert "will fail" not in out
    assert "Nothing was run." in out
    assert "not measured in 60 s" in out
    assert not list(tmp_path.glob("runs/bench/cells/*"))


def test_experiments_are_listed(labelproof):
    code, out, _ = labelproof("bench")
    assert code == 0
    assert all(name in out for name in NAMES)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ablatoin",), "did you mean 'ablation'"),
        (("beta", "--scale", "large"), "no scale 'large'"),
        (("beta",), "needs CIFAR-10"),
        (("beta", "--data", "nowhere"), "nothing is there"),
        (("cifarn", "--scale", "paper", "--data", "nowhere"), "CIFAR at nowhere, which does not"),
        (("cifarn", "--scale", "small", "--data", "nowhere"), "CIFAR at nowhere, which does not"),
        (("vectors",), "needs --data FILE.npz"),
        (("vectors", "--data", "nowhere.npz"), "no file is there"),
        (("vectors", "--scale", "tiny", "--methods", "dcp"), "did you mean 'dpc'"),
        (("vectors", "--scale", "tiny", "--labels", "wurst"), "did you mean 'worst'"),
        (("beta", "--scale", "tiny", "--only", "zzz"), "no cell contains 'zzz'"),
        (("beta", "--scale", "tiny", "--methods", "ce"), "does not take --methods"),
        (("synthetic", "--scale", "tiny", "--labels", "worst"), "does not take --labels"),
        (("overconfidence", "--scale", "tiny", "--labels", "worst"), "on vectors alone"),
        (("synthetic", "--scale", "tiny", "--methods", ","), "expected names such as ce,dpc"),
        (("synthetic", "--scale", "paper"), "needs --data DIR"),
        (("synthetic", "--scale", "paper", "--data", "."), "cifar-10-batches-py"),
        (("webvision", "--scale", "paper"), "needs --data DIR"),
        (("images", "--scale", "paper"), "needs --data DIR"),
        (("lambda_u", "--scale", "paper"), "needs --data DIR"),
        (("pictures",), "needs CIFAR-10"),
        (("yardstick", "--scale", "tiny", "--methods", "logistik"), "did you mean 'logistic'"),
        (("yardstick", "--data", "nowhere.npz"), "no file is there"),
        (("beta", "--scale", "tiny", "--out", "file"), "is a file"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(labelproof, tmp_path, words, said):
    (tmp_path / "file").touch()
    code, _, err = labelproof("bench", *words)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists() or not list(Path("runs").glob("*/cells"))


def test_blocks_of_consecutive_labels_are_one_option_away(tmp_path, cifar_folder):
    sources = Sources(out=tmp_path, data=cifar_folder, methods=("ce",), blocks=True)
    cells = experiment("synthetic").cells("paper", sources, 1)
    noises = {cell.column: cell.spec.noise for cell in cells}
    assert noises["CIFAR-100 asym. 40%"] == "asymmetric-cifar100-blocks:0.4"
    assert noises["CIFAR-10 asym. 40%"] == "asymmetric-cifar10:0.4"
