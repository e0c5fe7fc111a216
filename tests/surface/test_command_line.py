"""The command line as a user meets it: exit codes, sentences, and the files a run leaves."""

from __future__ import annotations

import csv
import json
from itertools import pairwise
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

COLUMNS = "index,id,given,suggested,p_clean,p_suggested,margin,suspect"


@pytest.fixture
def vectors(tmp_path) -> Path:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    centres = 3 * np.eye(3, 8)
    x = (centres[y] + rng.normal(size=(300, 8))).astype("float32")
    noisy = np.where(rng.random(300) < 0.2, (y + 1) % 3, y)
    path = tmp_path / "blobs.npz"
    np.savez(path, x=x[:240], y=noisy[:240], clean=y[:240], x_test=x[240:], y_test=y[240:])
    return path


def test_a_budget_is_filled_up_and_said_to_be(labelproof, vectors):
    words = ("fit", vectors, "--method", "ce", "--epochs", 2, "--review-budget", 200)
    code, out, _ = labelproof(*words, "--out", "run")
    assert code == 0
    assert "200 of 240 labels are listed for review, as you asked" in out
    assert "200 of 240 labels look wrong" not in out


def test_fit_leaves_the_promised_folder(labelproof, vectors, tmp_path):
    short = ("--epochs", 6, "--set", "steps=40")
    words = ("fit", vectors, "--truth-key", "clean", *short, "--out", "run")
    code, out, _ = labelproof(*words)
    assert code == 0
    assert "labels look wrong" in out
    run = tmp_path / "run"
    record = json.loads((run / "run.json").read_text())
    assert {"method", "settings", "task", "seed", "versions", "command"} <= record.keys()
    assert record["settings"]["lr"] > 0
    lines = (run / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == record["settings"]["epochs"]
    rows = list(csv.DictReader((run / "labels.csv").open()))
    assert ",".join(rows[0]) == COLUMNS
    assert sorted(int(row["index"]) for row in rows) == list(range(240))
    clean = [float(row["p_clean"]) for row in rows]
    assert clean == sorted(clean)
    summary = json.loads((run / "summary.json").read_text())
    promised = {"accuracy", "ece", "error_auroc", "error_ap", "noise_rate_estimate", "seconds"}
    assert promised <= summary.keys()
    assert summary["accuracy"]["last"] > 0.85
    assert summary["error_auroc"] > 0.9
    assert (run / "model.safetensors").stat().st_size > 1000
    assert "<html" in (run / "report.html").read_text()


def test_a_run_says_what_it_does_and_is_never_overwritten(labelproof, vectors):
    words = ("fit", vectors, "--method", "ce", "--epochs", 2, "--out", "run")
    code, _, err = labelproof(*words)
    assert code == 0
    first = err.splitlines()
    assert first[0].startswith("Run:     take the vectors as they are")
    assert "; train ce (Cross-entropy) for 2 epochs; judge every label" in first[0]
    assert "Time:    about" in first[1]
    code, _, err = labelproof(*words)
    assert code == 2
    assert "--resume" in err
    code, _, err = labelproof(*words, "--resume")
    assert code == 0
    assert "Run:" not in err


def test_resume_refuses_another_run(labelproof, vectors):
    base = ("fit", vectors, "--method", "ce", "--calibrate", "off", "--out", "run")
    assert labelproof(*base, "--epochs", 2)[0] == 0
    for other, word in (
        (("--epochs", 3), "made with other settings (epochs 2 there, 3 here)"),
        (("--epochs", 2, "--label-key", "clean"), "other data or labels"),
        (("--epochs", 2, "--seed", 1), "seed"),
        (("--epochs", 2, "--precision", "fp32"), "made with precision auto, and it is fp32 here"),
        (("--epochs", 2, "--deterministic"), "made with deterministic False"),
    ):
        code, _, err = labelproof(*base, *other, "--resume")
        assert code == 2
        assert word in err
        assert err.count("\n") == 1
    code, _, err = labelproof("fit", vectors, "--epochs", 4, *base[4:], "--resume")
    assert code == 2
    assert "another method" in err


def test_resume_refuses_other_views(labelproof, tmp_path):
    base = ("fit", "digits", "--method", "ce", "--epochs", 1, "--calibrate", "off", "--out", "run")
    assert labelproof(*base)[0] == 0
    code, _, err = labelproof(*base, "--flip", "--resume")
    assert code == 2
    assert "other views" in err


def test_a_kill_before_the_first_file_was_whole_is_no_dead_end(labelproof, vectors, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".run.json.partial").write_text("{")
    words = ("fit", vectors, "--method", "ce", "--epochs", 1, "--calibrate", "off")
    assert labelproof(*words, "--out", "run", "--resume")[0] == 0


def test_a_network_that_learnt_nothing_says_so_first(labelproof, tmp_path):
    y = np.arange(90) % 3
    np.savez(tmp_path / "flat.npz", x=np.ones((90, 4), dtype="float32"), y=y)
    code, out, _ = labelproof("fit", "flat.npz", "--method", "ce", "--epochs", 1)
    assert code == 0
    assert out.startswith("These labels cannot be judged.")
    assert "always naming the largest class" in out


def test_the_ablation_without_large_margin_is_a_setting(labelproof, vectors):
    changes = ("criterion=loss", "selector=gmm", "start=warm-up", "steps=20")
    words = [word for change in changes for word in ("--set", change)]
    assert labelproof("fit", vectors, "--epochs", 3, *words, "--calibrate", "off")[0] == 0


def test_one_epoch_is_enough(labelproof, vectors):
    assert labelproof("fit", vectors, "--epochs", 1, "--set", "steps=20")[0] == 0


def test_without_out_runs_get_names_of_their_own(labelproof, vectors, tmp_path):
    for _ in range(2):
        words = ("fit", vectors, "--method", "ce", "--epochs", 1, "--calibrate", "off")
        assert labelproof(*words)[0] == 0
    assert {p.name for p in (tmp_path / "runs").iterdir()} == {"blobs-ce", "blobs-ce-2"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("fit", "nowhere.npz"), "no file or folder 'nowhere.npz'"),
        (("fit", "digits", "--method", "dcp"), "did you mean 'dpc'?"),
        (("fit", "digits", "--recipe", "cifar10-symetric-0.5"), "cifar10-symmetric-0.5"),
        (("fit", "digits", "--set", "lrr=1"), "no setting 'lrr'; did you mean 'lr'?"),
        (("fit", "digits", "--set", "lr=-1"), "lr must be a number above 0"),
        (("fit", "digits", "--set", "lr=fast"), "expected a number above 0, got 'fast'"),
        (("fit", "digits", "--set", "lr"), "--set expects name=value"),
        (("fit", "digits", "--epochs", "0"), "epochs must be a whole number at least 1"),
        (("fit", "digits", "--net", "mlp"), "'mlp'"),
        (("fit", "digits", "--net", "resnet35"), "resnet34"),
        (("fit", "digits", "--noise", "symetric:0.4"), "did you mean symmetric?"),
        (("fit", "digits", "--noise", "symmetric:1.4"), "1.4"),
        (("fit", "digits", "--device", "tpu"), "there is no device 'tpu' here"),
        (("fit", "digits", "--device", "cpu:x"), "there is no device 'cpu:x' here"),
        (("fit", "digits", "--set", "lr=1", "--set", "lr=2"), "--set lr was given twice"),
        (("fit", "digits", "--set", "epochs=3", "--epochs", 2), "epochs was given twice"),
        (("plan", "digits", "--set", "epochs=2", "--epochs", 2), "epochs was given twice"),
        (("fit", "digits", "--set", "criterion=loss"), "set selector='gmm'"),
        (("fit", "digits", "--set", "threshold=0.3"), "from 0.5 to 1"),
        (("fit", "digits", "--set", "epochs=²"), "expected a whole number"),
        (("fit",), "expected DATA"),
        (("fit", "--from", "none"), "cannot be read"),
        (("plan", "digits", "--method", "what"), "known: "),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(labelproof, tmp_path, words, says):
    code, out, err = labelproof(*words)
    assert code == 2
    assert says in err
    assert err.startswith("labelproof: ")
    assert err.count("\n") == 1
    assert not out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"y": np.array([0, 1, -1, 1])}, "negative"),
        ({"y": np.array([0, 1, np.nan, 1])}, "row"),
        ({"y": np.array([0, 1, 1])}, "3"),
        ({"y": np.array([1, 1, 1, 1])}, "class"),
        ({"x": np.array([[0.0, np.nan]] * 4, dtype="float32")}, "4"),
        ({"x": np.array([[0.0, 1], [np.inf, 1], [0, 1], [0, 1]], dtype="float32")}, "row 1"),
        ({"y": np.array([{}, {}, {}, {}])}, "pickle"),
    ],
)
def test_bad_arrays_are_refused(labelproof, tmp_path, arrays, says):
    good = {
        "x": np.random.default_rng(0).random((4, 2), dtype="float32"),
        "y": np.array([0, 1, 0, 1]),
    }
    np.savez(tmp_path / "bad.npz", **{**good, **arrays})
    code, _, err = labelproof("fit", "bad.npz")
    assert code == 2
    assert says in err
    assert [p.name for p in tmp_path.iterdir()] == ["bad.npz"]


def test_rubbish_called_npz_is_said_to_be_unreadable(labelproof, tmp_path):
    (tmp_path / "x.npz").write_bytes(b"not a zip")
    code, _, err = labelproof("fit", "x.npz")
    assert code == 2
    assert "no zip archive" in err


def test_a_set_smaller_than_a_batch_trains(labelproof, tmp_path):
    x = np.random.default_rng(0).random((5, 3), dtype="float32")
    np.savez(tmp_path / "few.npz", x=x, y=np.array([0, 1, 0, 1, 2]))
    code, _, err = labelproof("fit", "few.npz", "--set", "steps=20", "--out", "run")
    assert code == 0
    assert "one example" in err  # a class with one example is a warning


def test_tensorboard_shows_every_epoch_once(labelproof, vectors, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    words = ("fit", vectors, "--method", "ce", "--epochs", 3, "--calibrate", "off", "--out", "run")
    assert labelproof(*words, "--tensorboard")[0] == 0
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("test_accuracy")] == [1, 2, 3]


def test_methods_lists_every_method(labelproof):
    from labelproof.methods import METHODS

    code, out, _ = labelproof("methods", "--json")
    assert code == 0
    listed = {row["name"]: row for row in json.loads(out)}
    assert listed.keys() == METHODS.keys()
    assert all(row["paper"] and row["cost"] and row["settings"] for row in listed.values())


def test_plan_says_what_was_understood(labelproof, vectors, tmp_path):
    code, out, _ = labelproof("plan", vectors, "--method", "ce", "--show-views", "views.png")
    assert code == 0
    assert "240 vectors of 8" in out
    assert "Time:    about" in out
    assert "lambda_u" not in out  # plain words first
    assert "momentum" not in out
    assert "momentum" in labelproof("plan", vectors, "--method", "ce", "--details")[1]
    assert (tmp_path / "views.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["blobs.npz", "views.png"]


def test_plan_counts_the_calibration(labelproof, vectors):
    words = ("plan", vectors, "--method", "ce")
    _, folds, _ = labelproof(*words)
    assert "training again without each of" in folds
    _, quick, _ = labelproof(*words, "--calibrate", "quick")
    assert "calibration  quick, which trains nothing" in quick
    _, recipe, _ = labelproof("plan", "digits", "-m", "ce", "--recipe", "cifar10-symmetric-0.5")
    assert "calibration  quick" in recipe  # as fit does it


def test_plan_and_fit_read_alike(labelproof, tmp_path):
    rows = "".join(f"{i},{i % 5},{'ab'[i % 2]},{'ba'[i % 2]}\n" for i in range(50))
    (tmp_path / "t.csv").write_text("name,size,mood,other\n" + rows)
    options = ("--label-column", "mood", "--id-column", "name", "--drop-column", "other")
    code, out, _ = labelproof("plan", "t.csv", "--method", "ce", *options)
    assert code == 0
    assert "50 vectors of 1" in out
    words = ("--method", "ce", "--epochs", 1, "--calibrate", "off", "--out", "run")
    assert labelproof("fit", "t.csv", *options, *words)[0] == 0
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["task"]["shape"] == [1]
    assert record["spec"]["reading"]["drop_columns"] == ["other"]
    assert record["spec"]["reading"]["id_column"] == "name"


def test_corrupt_writes_a_new_file(labelproof, tmp_path):
    old = "file,label\n" + "".join(f"{i}.png,{'ab'[i % 2]}\n" for i in range(100))
    (tmp_path / "labels.csv").write_text(old)
    code, out, _ = labelproof("corrupt", "labels.csv", "--rate", 0.4, "--out", "noisy.csv")
    assert code == 0
    assert "labels are wrong now" in out
    assert (tmp_path / "labels.csv").read_text() == old
    assert (tmp_path / "noisy.csv").read_text() != old


def test_corrupt_without_a_rate_names_its_own_option(labelproof, tmp_path):
    (tmp_path / "labels.csv").write_text("file,label\na,x\nb,y\n")
    code, _, err = labelproof("corrupt", "labels.csv", "--kind", "pair,select=global")
    assert code == 2
    assert "Noise of kind pair needs a rate from 0 to 1; add --rate 0.4." in err
    _, out, _ = labelproof("corrupt", "--help")
    assert "redraws" in out
    assert "Share of labels to change" not in out


def test_a_slip_in_the_noise_is_refused_before_data_is_read(labelproof, tmp_path):
    (tmp_path / "t.csv").write_text("no table at all")
    code, _, err = labelproof("fit", "t.csv", "--noise", "symetric:0.4")
    assert code == 2
    assert "did you mean symmetric?" in err


@pytest.mark.parametrize("labels", ["aba", "abcdef"])
def test_too_few_examples_are_refused_at_once(labelproof, tmp_path, labels):
    rows = "".join(f"{i},{i * i % 5},{label}\n" for i, label in enumerate(labels))
    (tmp_path / "tiny.csv").write_text("size,colour,label\n" + rows)
    code, _, err = labelproof("fit", "tiny.csv")
    assert code == 2
    assert f"tiny.csv has {len(labels)} in {len(set(labels))} classes" in err
    assert err.strip().splitlines()[-1].startswith("labelproof: expected at least 4 examples")
    assert not (tmp_path / "runs").exists()


def test_the_onnx_file_of_a_table_says_what_takes_raw_rows(labelproof, tmp_path):
    rows = "".join(f"{i},{i % 5},{'ab'[i % 2]}\n" for i in range(50))
    (tmp_path / "t.csv").write_text("size,colour,label\n" + rows)
    words = ("fit", "t.csv", "--method", "ce", "--epochs", 1, "--calibrate", "off", "--out", "run")
    assert labelproof(*words)[0] == 0
    code, _, err = labelproof("export", "run")
    assert code == 0
    assert "for raw rows, use --format folder" in err


def test_two_folders_for_one_are_refused_in_one_sentence(labelproof):
    code, _, err = labelproof("report", "a", "b")
    assert code == 2
    assert err.startswith("labelproof: report takes one RUN, but b came too;")
    assert err.count("\n") == 1


def test_help_flows_and_shows_no_type_of_flags(labelproof, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("fit", "predict", "export", "report", "review", "bench", "demo"):
        out = labelproof(command, "--help")[1]
        assert "<bool>" not in out
        text = out[: out.index("─ ")].splitlines()
        short = [
            line for line, after in pairwise(text) if len(line.strip()) < 50 and after.strip(" ╭─")
        ]
        assert not [line for line in short if line.strip()], command


def test_a_second_fit_says_where_it_goes(labelproof, tmp_path):
    rows = "".join(f"{i},{i % 5},{'ab'[i % 2]}\n" for i in range(50))
    (tmp_path / "t.csv").write_text("size,colour,label\n" + rows)
    words = ("fit", "t.csv", "--method", "ce", "--epochs", 1, "--calibrate", "off")
    assert "exists" not in labelproof(*words)[2]
    code, out, err = labelproof(*words)
    assert code == 0
    assert "runs/t-ce exists; writing runs/t-ce-2 instead.\n" in err
    assert "runs/t-ce-2/report.html" in out


def test_every_command_has_help_with_an_example_or_a_reason(labelproof):
    code, out, _ = labelproof("--help")
    assert code == 0
    for command in ("demo", "fit", "plan", "methods", "corrupt"):
        assert command in out
        code, text, _ = labelproof(command, "--help")
        assert code == 0
        assert "Usage: labelproof" in text


def test_resume_starts_goes_on_and_says_when_all_is_done(labelproof, tmp_path):
    words = ("fit", "t.csv", "--method", "ce", "--epochs", 1, "--calibrate", "off", "--out", "run")
    rows = "".join(f"{i},{i % 5},{'ab'[i % 2]}\n" for i in range(50))
    (tmp_path / "t.csv").write_text("size,colour,label\n" + rows)
    assert labelproof(*words, "--resume")[0] == 0
    code, out, _ = labelproof(*words, "--resume")
    assert code == 0
    assert "already finished" in out
    code, out, _ = labelproof("fit", "--out", "run", "--resume")
    assert code == 0
    assert "already finished" in out
    code, _, err = labelproof("fit", "--out", "none", "--resume")
    assert code == 2
    assert "expected DATA" in err
    assert labelproof("fit", "--from", "run", "--out", "again")[0] == 0
    first, second = ((tmp_path / run / "labels.csv").read_bytes() for run in ("run", "again"))
    assert first == second
    assert (
        labelproof("fit", "--from", "run", "--method", "gce", "--epochs", 1, "--out", "x")[0] == 0
    )
    changed = json.loads((tmp_path / "x" / "run.json").read_text())
    assert changed["method"] == "gce"
    assert changed["spec"]["calibrate"] == "off"


def test_labels_that_differ_in_capitals_are_merged_on_request(labelproof, tmp_path):
    import numpy as np

    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    np.savez(tmp_path / "mixed.npz", x=x, y=np.array(["ok", "OK", "bad", "bad"] * 10))
    _, out, err = labelproof("plan", "mixed.npz", "--method", "ce")
    assert "--merge-labels" in err
    assert "Classes: 3" in out
    _, out, err = labelproof("plan", "mixed.npz", "--method", "ce", "--merge-labels")
    assert "--merge-labels" not in err
    assert "Classes: 2" in out
    words = ("fit", "mixed.npz", "--method", "ce", "--epochs", 1, "--merge-labels", "--out", "run")
    assert labelproof(*words)[0] == 0
    assert '"merge_labels": true' in (tmp_path / "run" / "run.json").read_text()


def test_rows_without_a_label_are_left_out_on_request(labelproof, tmp_path):
    lines = "".join(f"{i},{i % 5},{'' if i % 9 == 4 else 'ab'[i % 2]}\n" for i in range(40))
    (tmp_path / "t.csv").write_text("u,v,label\n" + lines)
    words = ("fit", "t.csv", "--method", "ce", "--epochs", 1, "--calibrate", "off", "--out", "run")
    code, _, err = labelproof(*words)
    assert code == 2
    assert "--skip-unlabelled" in err
    code, _, err = labelproof(*words, "--skip-unlabelled")
    assert code == 0
    assert "note: 4 of 40 examples have no label and are left out (rows 6, 15, 24 and 1 more" in err
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["spec"]["reading"]["skip_unlabelled"] is True
    assert record["data"]["warnings"][0].startswith("4 of 40 examples have no label")
    assert record["task"]["size"] == 36


TABLE = """id,age,price,city,joined,note,clean,label
"""


def test_plan_says_what_becomes_of_each_column(labelproof, tmp_path):
    words = "the service was slow but the people were nice number"
    lines = [
        f"r{i},{'' if i % 10 == 0 else 20 + i % 7},€ {i}.50,{('Rome', 'Oslo')[i % 3 == 0]},"
        f"{1 + i % 28:02d}/01/2023,{words} {i},{'ab'[i % 2]},{'ab'[(i % 2) ^ (i % 9 == 0)]}"
        for i in range(60)
    ]
    (tmp_path / "t.csv").write_text(TABLE + "\n".join(lines) + "\n")
    code, out, err = labelproof("plan", "t.csv", "--method", "ce")
    assert code == 0
    rows = {line.split()[0]: line for line in out.splitlines() if line.startswith("  ")}
    assert "the given label" in rows["label"]
    assert "names the rows" in rows["id"]
    assert "number" in rows["age"]
    assert "6 (10%): the median, and marked" in rows["age"]
    assert "number" in rows["price"]
    assert "each of 2 values" in rows["city"]
    assert "day first" in rows["joined"]
    assert "use --text-column" in rows["note"]
    assert "nearly repeats the label" in rows["clean"]
    assert "--text-column note" in err


def test_plan_looks_at_a_few_of_many_rows(labelproof, tmp_path):
    lines = [f"{i % 13},{'ab'[i // 5000]}" for i in range(10000)]
    (tmp_path / "t.csv").write_text("size,label\n" + "\n".join(lines) + "\n")
    code, out, _ = labelproof("plan", "t.csv", "--method", "ce")
    assert code == 0
    assert "10000 vectors of 1, in memory; 4000 of them were read" in out
    assert "Classes: 2 (a: 5000, b: 5000)" in out


@pytest.mark.parametrize("rows", ["saved", "rows.parquet"])
def test_plan_says_which_vectors_stay_on_disk(labelproof, vectors, rows):
    found = np.load(vectors)
    columns = {"v": list(np.repeat(found["x"], 20, axis=0)), "label": np.repeat(found["y"], 20)}
    if rows == "saved":
        datasets.Dataset.from_dict(columns).save_to_disk(rows)
    else:
        pq.write_table(pa.table(columns), rows)
    for memory, held in ((1, "in memory"), (0.0001, "read from disk as needed")):
        code, out, _ = labelproof("plan", rows, "--method", "ce", "--memory-gb", memory)
        assert code == 0
        assert f"4800 vectors of 8, {held}; 4000 of them were read" in out


def test_a_folder_that_is_taken_is_refused_before_data_is_read(labelproof, tmp_path):
    for name, said in (("run.json", "already holds a run"), ("notes.txt", "is not a run folder")):
        folder = tmp_path / name.split(".")[0]
        folder.mkdir()
        (folder / name).write_text("{}")
        code, _, err = labelproof("fit", "no-such.csv", "--out", folder)
        assert code == 2
        assert said in err


def test_where_there_is_no_compiler_a_sentence_says_so(labelproof, vectors, monkeypatch):
    def broken(function, **_):
        raise RuntimeError("No working C++ compiler found in somewhere: (None, 'g++')")

    monkeypatch.setattr(torch, "compile", broken)
    short = ("--method", "ce", "--epochs", 1, "--calibrate", "off", "--out", "run")
    code, _, err = labelproof("fit", vectors, *short, "--compile")
    assert code == 0
    assert (
        "\nnote: torch.compile fails here, so the run continues without it: "
        "there is no C++ compiler; install one, or name it in the variable CXX.\n" in f"\n{err}"
    )
    assert ".py" not in err


def test_an_unknown_number_type_is_told_the_known_ones(labelproof, vectors):
    code, _, err = labelproof("fit", vectors, "--precision", "fp8")
    assert code == 2
    assert "expected --precision to be auto or fp32 or bf16" in err
    assert "but it is 'fp8'" in err
