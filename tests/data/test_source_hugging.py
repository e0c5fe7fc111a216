"""Saved Hugging Face data sets, and texts through a local transformer."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from source_files import picture

from labelproof.data.readers import SourceOptions, load, load_like, save_like
from labelproof.errors import BadInput

datasets = pytest.importorskip("datasets", reason="the extra hf is not installed")


@pytest.fixture(autouse=True)
def quiet():
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def taken(examples):
    return examples.x.take(torch.arange(len(examples))).numpy()


def pictures(count=6):
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["zebra", "ant"])}
    )
    columns = {"image": [picture(k) for k in range(count)], "label": [k % 2 for k in range(count)]}
    return datasets.Dataset.from_dict(columns, features=features)


@pytest.mark.parametrize("memory_gb", [0, 2])
def test_images_with_class_names_and_a_test_part(tmp_path, memory_gb):
    saved = datasets.DatasetDict(train=pictures(), test=pictures(2))
    saved.save_to_disk(tmp_path / "d")
    examples = load(tmp_path / "d", SourceOptions(memory_gb=memory_gb))
    assert examples.classes == ("zebra", "ant")  # in the order of the data set
    assert examples.labels.tolist() == [0, 1] * 3
    assert len(examples.test) == 2
    assert np.array_equal(taken(examples)[4], np.asarray(picture(4)))
    assert len(load(tmp_path / "d", like=examples)) == 2


def test_a_column_of_file_names_beside_the_images_of_a_test_set(tmp_path):
    parts = {name: pictures(4) for name in ("train", "test")}
    named = {name: part.add_column("file_name", list("abcd")) for name, part in parts.items()}
    datasets.DatasetDict(named).save_to_disk(tmp_path / "d")
    examples = load(tmp_path / "d")
    assert len(examples.test) == 4
    from_a_folder = replace(examples, about={"source": "folder"})
    assert len(load(tmp_path / "d" / "test", like=from_a_folder)) == 4
    with pytest.raises(BadInput, match="images in the column 'file_name'"):
        load(tmp_path / "d", SourceOptions(file_column="file_name"))


def test_vectors(tmp_path):
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    data = datasets.Dataset.from_dict({"embedding": x.tolist(), "label": ["p", "q"] * 3})
    data.save_to_disk(tmp_path / "d")
    examples = load(tmp_path / "d")
    assert np.allclose(taken(examples), x)
    assert examples.classes == ("p", "q")


def test_texts_and_columns(tmp_path):
    texts = [f"a rather long sentence about subject {k} and no other" for k in range(6)]
    kind = datasets.ClassLabel(names=["x", "b"])
    columns = {"text": texts, "kind": [0, 1] * 3, "size": [1.0, 2, 3, 4, 5, 7]}
    features = datasets.Features(
        {"text": datasets.Value("string"), "kind": kind, "size": datasets.Value("float32")}
    )
    data = datasets.Dataset.from_dict(columns, features=features)
    data.save_to_disk(tmp_path / "d")
    words = load(tmp_path / "d", SourceOptions(text_column="text"))
    assert (list(words.captions), words.classes) == (texts, ("x", "b"))
    numbers = load(tmp_path / "d")
    assert numbers.x.shape == (1,)
    assert numbers.labels.tolist() == [0, 1] * 3


def test_damaged_and_missing(tmp_path, monkeypatch):
    pictures().save_to_disk(tmp_path / "d")
    next((tmp_path / "d").glob("*.arrow")).write_bytes(b"nothing")
    with pytest.raises(BadInput, match="save it again"):
        load(tmp_path / "d")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BadInput, match=r'pip install "labelproof\[hf\]"'):
        load(tmp_path / "d")


class Tokens(dict):
    pass


def fake_transformers(monkeypatch):
    """Stands in for the package: a token is a letter, a hidden state its one-hot code."""

    def tokenize(texts, padding, truncation, max_length, return_tensors):
        cut = [text[:max_length] for text in texts]
        width = max(len(text) for text in cut)
        ids = torch.tensor([[ord(c) % 26 for c in text.ljust(width, "a")] for text in cut])
        mask = torch.tensor([[1] * len(text) + [0] * (width - len(text)) for text in cut])
        return Tokens(input_ids=ids, attention_mask=mask)

    class Model:
        def eval(self):
            return self

        def __call__(self, input_ids, attention_mask):
            hidden = torch.nn.functional.one_hot(input_ids, 26).float()
            return SimpleNamespace(last_hidden_state=hidden)

    def load_tokenizer(folder, local_files_only):
        return tokenize

    def load_model(folder, local_files_only, use_safetensors):
        assert local_files_only
        assert use_safetensors
        return Model()

    fake = SimpleNamespace(
        AutoTokenizer=SimpleNamespace(from_pretrained=load_tokenizer),
        AutoModel=SimpleNamespace(from_pretrained=load_model),
        utils=SimpleNamespace(logging=SimpleNamespace(disable_progress_bar=lambda: None)),
    )
    monkeypatch.setitem(sys.modules, "transformers", fake)


def test_transformer_embeddings_are_means_over_real_tokens(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "t.csv").write_text("text,label\nxyz,a\nxyzxyzxyzz,b\nmm,a\nmnmn,b\n")
    options = SourceOptions(text_column="text", text_model=tmp_path / "model")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(BadInput, match=r'pip install "labelproof\[text\]"'):
        load(tmp_path / "t.csv", options)
    fake_transformers(monkeypatch)
    examples = load(tmp_path / "t.csv", options)
    x = taken(examples)
    letters = [ord(c) % 26 for c in "xyz"]
    want = np.zeros(26)
    want[letters] = 1 / np.sqrt(3)
    assert np.allclose(x[0], want, atol=1e-6)  # padding has no part in it
    save_like(examples, tmp_path / "run")
    again = load(tmp_path / "t.csv", like=load_like(tmp_path / "run"))
    assert np.array_equal(taken(again), x)
    (tmp_path / "model" / "config.json").write_text('{"changed": 1}')
    with pytest.raises(BadInput, match="has changed"):
        load(tmp_path / "t.csv", like=examples)
    with pytest.raises(BadInput, match=r"config\.json"):
        load(tmp_path / "t.csv", SourceOptions(text_column="text", text_model=tmp_path))
