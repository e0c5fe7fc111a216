"""Texts exported as a folder: tokenizer and ONNX file give what `predict` gives."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from labelproof import load_model
from labelproof.cli.app import app
from labelproof.data.encoders.texts import minilm_folder
from labelproof.pipeline import run as carry_out
from labelproof.runs.spec import RunSpec

GOOD, BAD = "a good and useful thing, I like it", "broken and bad, das war schlecht"
NEW = ["good and useful", "schlecht und broken", "", "never seen words", "Broken! GOOD? café"]

pytest.importorskip("onnxscript")


def trained(folder: Path, encoder: str) -> Path:
    lines = [f"{(GOOD, BAD)[i % 2]} no. {i}|{('yes', 'no')[i % 2]}" for i in range(40)]
    (folder / "texts.csv").write_text("text|label\n" + "\n".join(lines) + "\n")
    spec = RunSpec(
        data=str(folder / "texts.csv"),
        method="ce",
        settings={"epochs": 2},
        encoder=encoder,
        calibrate="quick",
        device="cpu",
        out=folder / "run",
    )
    carry_out(spec)
    return folder / "run"


def exported(run: Path, out: Path | None = None) -> Path:
    words = ["export", str(run), *(["--out", str(out)] if out else [])]
    app(words, prog_name="labelproof", standalone_mode=False)
    return out or run / "model-onnx"


def from_readme(folder: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Probabilities by the lines that the README of an exported folder shows."""
    (code,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(folder)
    names: dict[str, object] = {}
    exec(code.replace('["a text"]', repr(texts)), names)
    found = names["probabilities"]
    assert isinstance(found, np.ndarray)
    return found


@pytest.mark.parametrize("encoder", ["tf-idf", "tf-idf+minilm"])
def test_the_folder_equals_predict(
    tmp_path: Path, encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "minilm" in encoder and minilm_folder() is None:
        pytest.skip("the sentence encoder is not installed")
    run = trained(tmp_path, encoder)
    folder = exported(run)
    loaded = load_model(run, device="cpu")
    vectors = loaded.like.encoder.transform(NEW)
    if "minilm" in encoder:
        vectors = vectors.astype(np.float16).astype(np.float32)
    import torch

    from labelproof.data.examples import Resident

    wanted = loaded.model.predict(Resident(torch.from_numpy(vectors))).probabilities.numpy()
    found = from_readme(folder, NEW, monkeypatch)
    np.testing.assert_allclose(found, wanted, atol=1e-3)
    assert json.loads((folder / "about.json").read_text())["classes"] == ["no", "yes"]
    assert (folder / "terms.json").exists()
    assert (folder / "tokenizer.json").exists() == ("minilm" in encoder)


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    run = trained(tmp_path, "tf-idf")
    (tmp_path / "there").mkdir()
    with pytest.raises(Exception, match="exists already"):
        exported(run, tmp_path / "there")
    assert not list((tmp_path / "there").iterdir())
    single = exported(run, tmp_path / "vectors.onnx")
    assert single.is_file()
