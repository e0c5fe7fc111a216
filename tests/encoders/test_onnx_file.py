"""Any ONNX file as an encoder: what is found in it, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from photos import encoder_file

from labelproof.data.encoders.onnx_graphs import session
from labelproof.data.encoders.picture_encoding import picture_encoder
from labelproof.errors import BadInput

PICTURES = np.random.default_rng(0).integers(0, 256, (3, 12, 16, 3), dtype=np.uint8)


@pytest.mark.parametrize("rank", [2, 4])
def test_a_file_gives_features_of_normalised_pictures(rank: int, tmp_path: Path) -> None:
    encoder = picture_encoder(str(encoder_file(tmp_path / "means.onnx", rank=rank)))
    assert encoder.rule.size == 8
    vectors = encoder.open()(PICTURES)
    grey = np.full((1, 8, 8, 3), 124, np.uint8)  # about ImageNet's mean of red
    assert vectors.shape == (3, 3)
    assert abs(encoder.open()(grey)[0, 0]) < 0.01


@pytest.mark.parametrize("rank", [2, 4])
def test_its_graph_with_the_pixels_in_front_gives_the_same(rank: int, tmp_path: Path) -> None:
    encoder = picture_encoder(str(encoder_file(tmp_path / "means.onnx", rank=rank)))
    whole = encoder.graph(PICTURES.shape[1:]).SerializeToString()
    (there,) = session(whole, "graph").run(["vectors"], {"x": PICTURES})
    np.testing.assert_allclose(there, encoder.open()(PICTURES), atol=1e-4)


def test_open_sides_take_the_size_of_the_metadata(tmp_path: Path) -> None:
    path = encoder_file(tmp_path / "means.onnx", sides=("h", "w"))
    assert picture_encoder(str(path)).rule.size == 224
    model = onnx.load(path)
    onnx.helper.set_model_props(model, {"size": "32", "mean": "0.5,0.5,0.5", "std": "0.5,0.5,0.5"})
    onnx.save(model, path)
    assert picture_encoder(str(path)).rule.size == 32
    assert picture_encoder(str(path)).rule.mean == (127.5, 127.5, 127.5)
    onnx.helper.set_model_props(model, {"size": "large"})
    onnx.save(model, path)
    with pytest.raises(BadInput, match="expected numbers as size, mean and std"):
        picture_encoder(str(path))


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        ({"inputs": 2}, "expected one input"),
        ({"sides": (8, 9)}, "expected square pictures"),
    ],
)
def test_nonsense_is_refused(made: dict[str, object], sentence: str, tmp_path: Path) -> None:
    path = encoder_file(tmp_path / "odd.onnx", **made)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=sentence):
        picture_encoder(str(path))


def test_a_missing_or_damaged_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="expected an ONNX file at"):
        picture_encoder(str(tmp_path / "none.onnx"))
    (tmp_path / "bad.onnx").write_bytes(b"nonsense")
    with pytest.raises(BadInput, match="cannot be opened"):
        picture_encoder(str(tmp_path / "bad.onnx"))


def test_weights_that_lie_elsewhere_and_are_missing_are_refused(tmp_path: Path) -> None:
    path = encoder_file(tmp_path / "far.onnx")
    model = onnx.load(path)
    weight = onnx.numpy_helper.from_array(np.ones((3,), np.float32), "w")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.ClearField("raw_data")
    weight.external_data.add(key="location", value="gone.bin")
    model.graph.initializer.append(weight)
    model.graph.node.append(onnx.helper.make_node("Mul", ["flat", "w"], ["times"]))
    model.graph.output[0].name = "times"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(BadInput, match=r"the weights of far.onnx in gone.bin beside it, but it is"):
        picture_encoder(str(path))


def test_weights_that_lie_beside_the_file_are_part_of_its_digest(tmp_path: Path) -> None:
    path = encoder_file(tmp_path / "near.onnx")
    model = onnx.load(path)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(3, np.float32), "w"))
    model.graph.node.append(onnx.helper.make_node("Mul", ["flat", "w"], ["times"]))
    model.graph.output[0].name = "times"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    first = picture_encoder(str(path))
    vectors = first.open()(PICTURES)
    assert first.graph(PICTURES.shape[1:]).ByteSize() > 0
    weights = np.frombuffer((tmp_path / "w.bin").read_bytes(), np.float32)
    (tmp_path / "w.bin").write_bytes((2 * weights).tobytes())
    second = picture_encoder(str(path))
    np.testing.assert_allclose(second.open()(PICTURES), 2 * vectors, rtol=1e-5)
    assert second.digest != first.digest
