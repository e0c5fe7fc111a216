"""Noise asked for in words, and transition matrices from files."""

import numpy as np
import pytest

from labelproof.errors import BadInput
from labelproof.noise import KINDS, NoiseSpec, apply_noise, parse_noise


def test_kind_and_rate_are_read():
    assert parse_noise("symmetric:0.4") == NoiseSpec(kind="symmetric", rate=0.4)
    assert parse_noise(" pair:.45 ") == NoiseSpec(kind="pair", rate=0.45)


def test_options_are_read():
    spec = parse_noise("symmetric-exclusive:0.2,exact=False")
    assert spec.options == {"exact": False}
    assert parse_noise("asymmetric-cifar10:0.4,select=global").options == {"select": "global"}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "matrix"])
def test_every_kind_is_known(kind):
    assert parse_noise(f"{kind}:0.25").kind == kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("symetric:0.4", "did you mean symmetric"),
        ("instanse:0.4", "did you mean instance"),
        ("", "kind of noise"),
        ("symmetric", "needs a rate"),
        ("symmetric:", "must be a number"),
        ("symmetric:half", "must be a number"),
        ("symmetric:nan", "must be a number"),
        ("symmetric:40", "for 40 per cent give 0.4"),
        ("symmetric:-0.1", "between 0 and 1"),
        ("pair:0.4,selct=global", "did you mean select"),
        ("pair:0.4,select=perclass", "did you mean per-class"),
        ("pmd-1:0.4,factor=2", "option of pmd-1 noise"),
        ("matrix", "needs its file"),
        ("matrix:", "needs its file"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text, message):
    with pytest.raises(BadInput, match=message) as caught:
        parse_noise(text)
    assert "\n" not in str(caught.value)


MATRIX = [[0.8, 0.2, 0.0], [0.1, 0.9, 0.0], [0.0, 0.0, 1.0]]


@pytest.mark.parametrize("form", ["comma", "semicolon", "npy"])
def test_matrix_is_read_from_a_file(tmp_path, form):
    path = tmp_path / ("t.npy" if form == "npy" else "t.csv")
    if form == "npy":
        np.save(path, np.array(MATRIX))
    else:
        mark = "," if form == "comma" else ";"
        lines = [mark.join(str(cell) for cell in row) for row in MATRIX]
        path.write_text("\ufeff" + "\r\n".join(lines) + "\r\n", encoding="utf-8")
    y = np.arange(30_000) % 3
    noise = apply_noise(parse_noise(f"matrix:{path}"), y, ("a", "b", "c"), None, 0)
    assert abs(noise.matrix - MATRIX).max() < 0.015
    assert noise.rate == pytest.approx(0.1)
    assert noise.kind == "matrix"
    assert noise.options == {"file": str(path)}


def test_bad_matrix_files_are_one_sentence(tmp_path):
    def refused(content: str, message: str) -> None:
        path = tmp_path / "t.csv"
        path.write_text(content)
        with pytest.raises(BadInput, match=message):
            apply_noise(parse_noise(f"matrix:{path}"), [0, 1], ("a", "b"), None, 0)

    refused("1,0\n0.5,0.6\n", "row 1 of 2")
    refused("1,0,0\n0,1,0\n0,0,1\n", "2 by 2")
    refused("1,0\n1\n", "cannot be read")
    refused("1,x\n0,1\n", "cannot be read")
    refused("", "2 by 2")
    with pytest.raises(BadInput, match="cannot be read"):
        apply_noise(parse_noise("matrix:nowhere.csv"), [0, 1], ("a", "b"), None, 0)


def test_pickled_matrix_is_not_executed(tmp_path):
    path = tmp_path / "t.npy"
    np.save(path, np.array([[object()]], dtype=object), allow_pickle=True)
    with pytest.raises(BadInput, match="cannot be read"):
        apply_noise(parse_noise(f"matrix:{path}"), [0, 1], ("a", "b"), None, 0)


def test_negative_seed_is_refused():
    with pytest.raises(BadInput, match="seed"):
        apply_noise(parse_noise("pair:0.5"), [0, 1], ("a", "b"), None, -1)
