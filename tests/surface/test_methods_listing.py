"""`labelproof methods` tells published recipes from ours, and `fit` refuses unknown ones."""

from __future__ import annotations

import json
from dataclasses import dataclass

from labelproof.methods import METHODS
from labelproof.methods.ce import CrossEntropy
from labelproof.recipes.recipe import is_ours, published_names
from labelproof.training.protocol import About


def test_json_marks_the_recipes_that_are_ours(labelproof):
    code, out, _ = labelproof("methods", "--json")
    assert code == 0
    rows = {row["name"]: row for row in json.loads(out)}
    for name in METHODS:
        assert rows[name]["recipes"] == published_names(name)
        ours = rows[name]["recipes_ours"]
        assert ours == [r for r in rows[name]["recipes"] if is_ours(name, r)]
    assert rows["edl"]["recipes_ours"] == ["cifar10", "cifar100"]
    assert rows["bootstrap"]["recipes_ours"] == rows["bootstrap"]["recipes"]
    assert "cifar10-pair-0.45" not in rows["coteaching"]["recipes_ours"]
    published = [r for r in rows["dpc"]["recipes"] if r not in rows["dpc"]["recipes_ours"]]
    assert {"cifar10n-worst", "webvision-star"} < set(published)
    assert "cifar10n-worst-star" not in published


def test_the_listing_for_people_says_whose_recipes_are_ours(labelproof):
    code, out, _ = labelproof("methods")
    assert code == 0
    words = " ".join(out.split())
    assert "coteaching 19 of 28" in words
    assert "bootstrap 14 of 14" in words
    assert "edl 2 of 3, mlnt 6 of 7" in words
    _, text, _ = labelproof("methods", "--help")
    assert "recipes_ours" in text


def test_the_listing_fits_a_narrow_terminal_and_one_method_tells_all(labelproof, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = labelproof("methods")
    lines = [line.split() for line in out.splitlines()]
    for name in METHODS:
        line = next(words for words in lines if words[:1] == [name])
        assert line[1].isdigit()
        assert len(line) > 2
    assert lines.index([]) == len(METHODS) + 1  # a line each
    _, out, _ = labelproof("methods", "dpc")
    words = " ".join(out.split())
    for part in ("AAAI 2024", "2401.07062", "36 X", "warmup=10", "fast (ours)", "--recipe paper"):
        assert part in words
    assert [row["name"] for row in json.loads(labelproof("methods", "dpc", "--json")[1])] == ["dpc"]
    code, _, err = labelproof("methods", "dcp")
    assert code == 2
    assert "did you mean 'dpc'?" in err


def test_what_a_method_does_not_state_is_left_out(labelproof, monkeypatch):
    @dataclass(frozen=True, kw_only=True)
    class Symmetric(CrossEntropy):
        about = About(title="Symmetric cross-entropy")

    monkeypatch.setitem(METHODS, "symmetric", Symmetric)
    _, listed, _ = labelproof("methods")
    line = next(line for line in listed.splitlines() if line.startswith("symmetric"))
    assert line.split() == ["symmetric", "Symmetric", "cross-entropy"]
    _, shown, _ = labelproof("methods", "symmetric")
    assert [line.split()[0] for line in shown.splitlines()[:2]] == ["Method", "Settings"]
    assert shown.splitlines()[0].split() == ["Method", "Symmetric", "cross-entropy"]


def test_a_recipe_that_is_not_published_is_refused_in_one_sentence(labelproof, tmp_path):
    words = ("fit", "digits", "--method", "mixup", "--recipe", "cifar10n-worst")
    code, _, err = labelproof(*words)
    assert code == 2
    assert err.count("\n") == 1
    assert "no settings are published for it; the most similar is 'cifar10-asymmetric-0.4'" in err
    assert list(tmp_path.iterdir()) == []
