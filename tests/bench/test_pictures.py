"""The experiment pictures: its order and specs, its data, its curves and the split by epoch."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bench_cells import finished

from labelproof.bench.asked import experiment
from labelproof.bench.cell import Sources
from labelproof.bench.experiments import pictures
from labelproof.bench.prepared_data import pictures_file
from labelproof.errors import BadInput
from labelproof.recipes.recipe import chosen_method, chosen_net


@pytest.fixture
def sources(tmp_path, cifar_npz) -> Sources:
    """CIFAR-10 with human labels, of which every third `worst` one is wrong."""
    clean = np.load(cifar_npz)["train_labels"]
    worst = np.where(np.arange(len(clean)) % 3, clean, (clean + 1) % 10)
    np.savez(tmp_path / "human.npz", clean=clean, worst=worst, rand2=clean)
    return Sources(out=tmp_path / "b", data=cifar_npz, human_labels=tmp_path / "human.npz")


def test_the_comparison_comes_first_and_the_parts_last(sources):
    cells = experiment("pictures").cells("small", sources, 2)
    first = [(cell.row, cell.column) for cell in cells if cell.seed == 0]
    assert first[:4] == [
        *(("ce", "worst"), ("dpc", "worst")),
        *(("ce", "sym. 50%"), ("dpc", "sym. 50%")),
    ]
    assert first[4:8:2] == [("dividemix", "worst"), ("dpc*", "worst")]
    assert {row for row, _ in first[8:]} == {
        *("without L_edl", "without large margin", "without two heads", "kurtosis rule")
    }
    assert {cell.seed for cell in cells} == {0, 1}


@pytest.mark.parametrize("native", [True, False])
def test_every_run_has_the_recipe_fast(sources, monkeypatch, native):
    monkeypatch.setattr(pictures, "native_bf16", lambda: native)
    for cell in experiment("pictures").cells("small", sources, 1):
        spec, people = cell.spec, cell.column == "worst"
        method = chosen_method(spec.method, "images", spec.settings, spec.recipe)
        assert chosen_net(spec.net, spec.method, "images", spec.recipe) == "compact"
        assert (method.epochs, method.lr) == (18, 0.05)
        assert spec.precision == ("bf16" if native else "fp32")
        assert spec.noise == (None if people else "symmetric:0.5")
        if cell.row != "ce":
            assert method.confidence_penalty == people
        if cell.row == "dpc*":
            assert method.consistency == 1


def test_methods_and_labels_can_be_restricted(sources):
    asked = Sources(
        out=sources.out,
        data=sources.data,
        human_labels=sources.human_labels,
        methods=("dpc_star",),
        labels=("rand2",),
    )
    cells = experiment("pictures").cells("small", asked, 1)
    assert [(c.row, c.column) for c in cells] == [("dpc*", "rand2"), ("dpc*", "sym. 50%")]


def test_the_number_of_images_can_be_told(sources):
    asked = Sources(
        out=sources.out, data=sources.data, human_labels=sources.human_labels, images=20
    )
    cell = experiment("pictures").cells("small", asked, 1)[0]
    assert len(np.load(cell.spec.data)["x"]) == 20
    with pytest.raises(BadInput, match="leave --images out"):
        experiment("pictures").cells("tiny", asked, 1)


def test_images_are_a_drawn_part_as_they_are(sources):
    whole, part = np.load(sources.data), np.load(pictures_file(sources, ("worst",), 20))
    rows = np.sort(np.random.default_rng(0).permutation(60)[:20])
    assert np.array_equal(part["x"], whole["train_images"][rows])
    assert np.array_equal(part["x_test"], whole["test_images"])
    assert np.array_equal(part["clean"], whole["train_labels"][rows])
    assert (part["worst"] != part["clean"]).mean() == pytest.approx((rows % 3 == 0).mean())
    assert len(np.load(pictures_file(sources))["x"]) == 60
    with pytest.raises(BadInput, match="label set aggre needs --human-labels"):
        pictures_file(sources, ("aggre",), 20)


def test_curves_and_the_split_of_what_has_run(labelproof, tmp_path):
    cells = experiment("pictures").cells("tiny", Sources(out=tmp_path / "b"), 1)
    folder = tmp_path / "b" / "cells"
    summary = {"accuracy": {"last": 0.8, "last10": 0.7, "best": 0.9}, "ece": 0.1, "seconds": 3.0}
    for cell in cells:
        finished(cell, folder, summary)
        lines = [{"epoch": 1, "test_accuracy": 0.5}, {"epoch": 2, "test_accuracy": 0.75}]
        if cell.row == "dpc":
            lines[1] |= {"selected": 0.6, "kept_right": 0.9, "error_auroc": 0.95}
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / cell.name / "metrics.jsonl").write_text(text)
    code, out, err = labelproof("bench", "pictures", "--scale", "tiny", "--out", "b")
    assert code == 0, err
    made = tmp_path / "b" / "pictures-tiny"
    assert (made / "figure.png").exists()
    assert (made / "figure-2.svg").exists()
    assert (
        "| worst | dpc | 2 | 60.0 | 90.0 | 95.0 | 75.0 |" in (made / "table-split.md").read_text()
    )
    assert "| worst | ce |" in out
