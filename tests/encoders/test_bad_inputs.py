"""Unusual pictures and texts before an encoder: each is encoded, or refused in a sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from photos import encoder_file, folder
from PIL import Image

from labelproof import BadInput, NoisyLabelClassifier
from labelproof.data.encoders.apply import encoded
from labelproof.data.encoders.texts import TextEncoder
from labelproof.data.readers import SourceOptions, load


def with_encoder(root: Path, tmp_path: Path, **options: object) -> np.ndarray:
    made = encoder_file(tmp_path / "mean.onnx")
    examples = load(root, SourceOptions(**options))
    found = encoded(examples, str(made), cache=tmp_path / "cache")
    vectors: np.ndarray = found.x.data.float().numpy()
    return vectors


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "1", "CMYK"])
def test_pictures_of_other_modes_are_encoded(tmp_path: Path, mode: str) -> None:
    root = folder(tmp_path / "photos")
    odd = Image.new("L", (40, 40), 128).convert(mode)
    name = "odd.tif" if mode == "CMYK" else "odd.png"
    odd.save(root / "red" / name)
    vectors = with_encoder(root, tmp_path)
    assert vectors.shape == (25, 3)
    assert np.isfinite(vectors).all()


def test_a_file_without_a_pixel_is_left_out_and_listed(tmp_path: Path) -> None:
    root = folder(tmp_path / "photos")
    (root / "red" / "empty.png").write_bytes(b"")
    (root / "red" / "none.ppm").write_bytes(b"P6 0 0 255\n")
    examples = load(root, SourceOptions(max_bad=0.2))
    assert len(examples) == 24
    listed = {row["path"] for row in examples.about["unreadable"]}
    assert listed == {"red/empty.png", "red/none.ppm"}
    with pytest.raises(BadInput, match="unreadable, but 2 are"):
        load(root)


def test_arrays_of_pictures_without_a_pixel_are_refused() -> None:
    with pytest.raises(BadInput, match="its shape is"):
        NoisyLabelClassifier("ce").fit(np.zeros((6, 0, 4, 3), np.uint8), [0, 1] * 3)


def test_a_picture_of_one_pixel_is_encoded(tmp_path: Path) -> None:
    root = folder(tmp_path / "photos", edge=1)
    assert with_encoder(root, tmp_path).shape == (24, 3)


def test_a_text_of_five_megabytes_and_an_empty_one_are_encoded(tmp_path: Path) -> None:
    words = ["good and nice", "bad and broken"]
    texts = [f"{words[i % 2]} number {i}" for i in range(20)]
    texts[3], texts[4] = "long " * 1_000_000, ""
    lines = "".join(f'"{text}",{i % 2}\n' for i, text in enumerate(texts))
    (tmp_path / "t.csv").write_text(f"text,label\n{lines}")
    examples = load(tmp_path / "t.csv", SourceOptions(text_column="text"))
    vectors = examples.x.data.numpy()
    assert np.isfinite(vectors).all()
    assert (vectors[4] == 0).all()
    assert examples.about["warnings"] == [
        "1 of 20 texts in column 'text' is blank",
        "1 of 20 texts in column 'text' is cut after 10,000 characters",
    ]
    assert isinstance(examples.encoder, TextEncoder)
    short = examples.encoder.transform(["long " * 2_000])
    np.testing.assert_allclose(vectors[3], short[0], atol=1e-6)


def test_words_after_all_that_is_read_are_refused(tmp_path: Path) -> None:
    lines = "".join(f"{' ' * 10_001}word{i},{i % 2}\n" for i in range(6))
    (tmp_path / "t.csv").write_text(f"text,label\n{lines}")
    with pytest.raises(BadInput, match="no words in them"):
        load(tmp_path / "t.csv", SourceOptions(text_column="text"))


def test_texts_that_are_all_empty_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text,label\n" + '"",a\n" ",b\n' * 5)
    with pytest.raises(BadInput, match="but all are blank"):
        load(tmp_path / "t.csv", SourceOptions(text_column="text"))


@pytest.mark.parametrize("name", ["minilm", "tf-idf"])
def test_an_encoder_of_texts_is_refused_for_pictures(tmp_path: Path, name: str) -> None:
    photos = load(folder(tmp_path / "photos"))
    with pytest.raises(BadInput, match=f"{name} is for texts"):
        encoded(photos, name, cache=tmp_path / "cache")


@pytest.mark.parametrize("name", ["efficientnet-lite0", "timm:resnet18", "my.onnx"])
def test_an_encoder_of_pictures_is_refused_for_texts(tmp_path: Path, name: str) -> None:
    (tmp_path / "t.csv").write_text("text,label\ngood one,a\nbad one,b\ngood two,a\nbad two,b\n")
    texts = load(tmp_path / "t.csv", SourceOptions(text_column="text"))
    with pytest.raises(BadInput, match=f"{name} is for pictures"):
        encoded(texts, name, cache=tmp_path / "cache")
