"""Over-confidence: the paper's numbers, and measures that agree with what runs say themselves."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from fitting import fit
from labelproof import metrics
from labelproof.bench.cell import Cell, Sources
from labelproof.bench.experiments import overconfidence as experiment
from labelproof.bench.experiments import overconfidence_measure as measure
from labelproof.bench.experiments import overconfidence_tables as tables
from labelproof.bench.experiments import synthetic
from labelproof.bench.experiments.overconfidence_measure import Outputs, read_outputs
from labelproof.bench.results import Record, Results
from labelproof.data.readers import SourceOptions, load
from labelproof.errors import BadInput
from labelproof.judging.link import Link
from labelproof.methods.ce import CrossEntropy
from labelproof.methods.dividemix import DivideMix
from labelproof.methods.dpc import DPC
from labelproof.runs.load import load_model
from labelproof.runs.spec import RunSpec

SHORT = {"epochs": 3, "warmup": 2, "batch": 16, "lr": 0.05}
FIGURES = ("figure1", "figure2a-reliability", "figure2b-confidence", "figure2c-logit")
PICTURES = (*FIGURES, "figure2d-selection")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A short run of each method on the same noisy vectors."""
    folder = tmp_path_factory.mktemp("overconfidence")
    rng = np.random.default_rng(0)
    y = np.arange(150) % 3
    x = (2 * np.eye(3, 6)[y] + rng.normal(size=(150, 6))).astype(np.float32)
    np.savez(folder / "d.npz", x=x[:120], y=y[:120], x_test=x[120:], y_test=y[120:])
    data = str(folder / "d.npz")
    for name, method in (("dpc", DPC(**SHORT)), ("dividemix", DivideMix(**SHORT))):
        fit(
            load(data),
            method,
            name=name,
            noise="symmetric:0.4",
            device="cpu",
            out=folder / name,
            how="quick",
            reading={"data": data, "test": None, "options": vars(SourceOptions())},
        )
    return {"DivideMix": folder / "dividemix", "DPC": folder / "dpc"}


def made(scale: float, method: DPC | DivideMix, size: int = 400) -> Outputs:
    """Outputs whose logits are right for four in five examples, times `scale`."""
    rng = torch.Generator().manual_seed(0)
    truth = torch.randint(4, (size,), generator=rng)
    seen = torch.where(torch.rand(size, generator=rng) < 0.8, truth, (truth + 1) % 4)
    logits = torch.nn.functional.one_hot(seen, 4) + 0.1 * torch.rand(2, size, 4, generator=rng)
    given = torch.where(torch.rand(size, generator=rng) < 0.6, truth, (truth + 2) % 4)
    return Outputs(
        method=method,
        link=Link(of="logits", scale=2.0),
        train=scale * logits,
        test={"label": scale * logits},
        given=given,
        truth=truth,
        test_y=truth,
    )


def test_figure_1_gives_the_numbers_of_the_paper() -> None:
    e = math.exp
    assert measure.figure_1(0)[:, 1].tolist() == pytest.approx([e(2) / (e(2) + 3)] * 2)
    by_hand = [(e(2) + 1) / (e(2) + 7), 2 / (5 + 3 * e(-2))]
    assert measure.figure_1(1)[:, 1].tolist() == pytest.approx(by_hand)
    rows = [row[1:] for row in tables.figure_1().rows]
    assert rows == [
        ("0.711", "0.711", "0.71", "0.71"),
        ("0.583", "0.370", "0.58", "0.37"),
        ("0.485", "0.307", "", ""),
    ]


@pytest.mark.parametrize("name", ["DPC", "DivideMix"])
def test_a_run_folder_says_what_the_run_itself_measured(runs: dict[str, Path], name: str) -> None:
    run, folder = read_outputs(runs[name]), runs[name]
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    known = measure.variants(run)[measure.MEAN_LOGITS]
    before, after = (measure.honesty(p, run.test_y) for p in (known.before, known.after))
    assert before.ece == pytest.approx(summary["ece"], abs=1e-6)
    assert after.ece == pytest.approx(summary["ece_calibrated"], abs=1e-6)
    assert before.accuracy == pytest.approx(summary["accuracy"]["last"])
    assert run.wrong.float().mean().item() == pytest.approx(summary["noise_rate_true"])
    test = load(folder.parent / "d.npz").test
    assert test is not None
    said = load_model(folder, device="cpu").model.predict(test.x).probabilities
    torch.testing.assert_close(known.after[0], said, atol=1e-5, rtol=0)


def test_a_second_head_is_measured_where_there_is_one(runs: dict[str, Path]) -> None:
    assert measure.SECOND_HEAD in measure.variants(read_outputs(runs["DPC"]))
    assert measure.SECOND_HEAD not in measure.variants(read_outputs(runs["DivideMix"]))


def test_each_way_to_make_a_probability_is_the_one_it_is_named_after() -> None:
    run = made(3.0, DPC())
    o = run.classifier.double().numpy()

    def rho(logits: np.ndarray) -> np.ndarray:
        raised = np.exp(logits) + 10 / 4
        return raised / raised.sum(-1, keepdims=True)

    expected = {
        measure.ONE: (rho(o[0]), rho(o[1])),
        measure.MEAN_PROBABILITY: ((rho(o[0]) + rho(o[1])) / 2,),
        measure.MEAN_LOGITS: (rho(o.mean(0)),),
        measure.SUMMED_LOGITS: (rho(o.sum(0)),),
    }
    found = measure.variants(run)
    for name, probs in expected.items():
        for ours, theirs in zip(found[name].before, probs, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-6)
    mean, total = found[measure.MEAN_LOGITS], found[measure.SUMMED_LOGITS]
    torch.testing.assert_close(total.after[0], mean.after[0])
    torch.testing.assert_close(mean.after[0], (2 * run.classifier.mean(0)).softmax(1))


@pytest.mark.parametrize(("scale", "word"), [(0.5, "under"), (20.0, "over")])
def test_the_table_says_on_which_side_confidence_errs(scale: float, word: str) -> None:
    table = tables.calibration({"DivideMix": [made(scale, DivideMix())]}, "made", ["closing"])
    rows = {row[1]: row for row in table.rows}
    assert rows["mean logits"][4].endswith(word)
    probs = made(scale, DivideMix()).classifier.mean(0).softmax(1)
    gap = probs.amax(1).mean().item() - metrics.accuracy(probs, made(scale, DivideMix()).test_y)
    assert rows["mean logits"][4].startswith(f"{gap:+.3f}")
    assert table.rows[0][-2:] == ("94.4", "0.11")
    assert table.notes[-1] == "closing"


def test_spreads_over_seeds_are_shown() -> None:
    seeds = [made(1.0, DPC()), made(2.0, DPC())]
    row = tables.calibration({"DPC": seeds}, "made", []).rows[0]
    confidences = [
        100
        * np.mean(
            [run.method.objective.probability(o).amax(1).mean().item() for o in run.classifier]
        )
        for run in seeds
    ]
    assert row[3] == f"{np.mean(confidences):.1f} ± {np.std(confidences, ddof=1):.1f}"


def test_both_criteria_score_the_same_networks() -> None:
    run = made(1.0, DivideMix())
    o = run.train.double().numpy()
    given, wrong = run.given.numpy(), run.wrong.numpy()
    rows = np.arange(len(given))
    own = o[:, rows, given]
    loss = np.log(np.exp(o).sum(-1)) - own
    rest = o.copy()
    rest[:, rows, given] = -np.inf
    margin = own - rest.max(-1)
    found = measure.selection(run)
    by_loss, by_margin = (
        np.mean([roc_auc_score(wrong, s) for s in scores]) for scores in (loss, -margin)
    )
    assert found["small loss"] == pytest.approx(by_loss, abs=1e-4)  # ties of single precision
    assert found["large margin"] == pytest.approx(by_margin, abs=1e-4)


def results(runs: dict[str, Path], *failed: str) -> Results:
    records = [
        Record(
            cell=Cell(row=row, column="made vectors", spec=RunSpec(data="d.npz", method=row)),
            folder=folder,
            state="failed" if row in failed else "done",
        )
        for row, folder in runs.items()
    ]
    return Results(scale="tiny", records=tuple(records), command="labelproof bench")


def test_the_experiment_ends_in_all_its_figures_and_tables(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    files = experiment.finish(results(runs), tmp_path)
    expected = {f"{stem}.{end}" for stem in PICTURES for end in ("png", "svg")}
    stems = ("figure1", "calibration", "selection")
    expected |= {f"{stem}.{end}" for stem in stems for end in ("md", "tex")}
    assert {path.name for path in files} == {p.name for p in tmp_path.iterdir()} == expected
    svg = (tmp_path / "figure2a-reliability.svg").read_text(encoding="utf-8")
    assert svg.count("ECE 0.") == 8
    assert "n = 30" in svg
    assert "AUROC" in (tmp_path / "figure2d-selection.svg").read_text(encoding="utf-8")
    assert "seed 0" in svg


def test_a_failed_run_takes_only_itself_out(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment.drawn, "figure_2", lambda folder, *more: [])  # slow to draw
    experiment.finish(results(runs, "DivideMix"), tmp_path)
    text = (tmp_path / "calibration.md").read_text(encoding="utf-8")
    assert "| DPC |" in text
    assert "| DivideMix |" not in text
    files = experiment.finish(results(runs, "DivideMix", "DPC"), tmp_path / "none")
    assert {path.stem for path in files} == {"figure1"}


def test_other_methods_and_changed_data_are_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    data = str(runs["DPC"].parent / "d.npz")
    reading = {"data": data, "test": None, "options": vars(SourceOptions())}
    method = CrossEntropy(epochs=1)
    fit(load(data), method, name="ce", out=tmp_path / "ce", how="off", reading=reading)
    with pytest.raises(BadInput, match="expected dpc or dividemix"):
        read_outputs(tmp_path / "ce")


def test_tiny_cells_share_data_and_noise_and_differ_in_the_method(tmp_path: Path) -> None:
    first, second = experiment.cells("tiny", Sources(out=tmp_path), 1)
    assert (first.row, second.row) == ("DivideMix", "DPC")
    assert (first.spec.data, first.spec.noise) == ("digits", "symmetric:0.4")
    assert (first.spec.method, second.spec.method) == ("dividemix", "dpc")
    assert replace(first.spec, method="dpc") == second.spec


def test_vectors_are_accepted_at_small_scale(tmp_path: Path) -> None:
    arrays = {name: np.zeros(3, np.int64) for name in ("clean", "worst", "y_test")}
    np.savez(tmp_path / "v.npz", x=np.zeros((3, 2)), x_test=np.zeros((3, 2)), **arrays)
    sources = Sources(out=tmp_path, data=tmp_path / "v.npz")
    found = experiment.cells("small", sources, 2)
    assert [(cell.row, cell.column, cell.seed) for cell in found] == [
        (row, "vectors worst", seed) for row in ("DivideMix", "DPC") for seed in (0, 1)
    ]
    assert found[2].spec.recipe == "paper-vectors"
    with pytest.raises(BadInput, match="rand1"):
        experiment.cells("small", replace(sources, labels=("rand1",)), 1)


def test_images_are_those_of_the_other_experiments(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 255, (2, 20, 32, 32, 3), np.uint8)
    labels = {f"{part}_labels": np.arange(20) % 10 for part in ("train", "test")}
    np.savez(tmp_path / "c.npz", train_images=pictures[0], test_images=pictures[1], **labels)
    sources = Sources(out=tmp_path, data=tmp_path / "c.npz")
    for scale in ("small", "paper"):
        shared = {cell.name for cell in synthetic.cells(scale, sources, 1)}
        assert {cell.name for cell in experiment.cells(scale, sources, 1)} < shared
    with pytest.raises(BadInput, match="--data"):
        experiment.cells("small", Sources(out=tmp_path), 1)


def test_own_epochs_leave_warm_up_and_ramp_to_fit(tmp_path: Path) -> None:
    cell = experiment.cells("tiny", Sources(out=tmp_path, epochs=2), 1)[0]
    assert cell.spec.settings == {"epochs": 2}
