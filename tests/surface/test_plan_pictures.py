"""`plan` on pictures: a few are decoded, whatever the number; advice where pixels take too long."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from labelproof.data.readers import SourceOptions, load, picture_inputs
from labelproof.data.readers.sampling import PICTURES, QUICK
from labelproof.runs.forecast import duration


@pytest.fixture
def photos(tmp_path):
    """More pictures than are read in full, of three classes."""
    rng = np.random.default_rng(0)
    for number in range(QUICK + 40):
        (tmp_path / "photos" / "abc"[number % 3]).mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 255, (40, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"photos/{'abc'[number % 3]}/{number}.png")
    return tmp_path / "photos"


def test_a_plan_decodes_a_few_pictures_and_counts_all(photos, monkeypatch):
    decoded = []
    whole = picture_inputs.decode
    monkeypatch.setattr(picture_inputs, "decode", lambda *of: decoded.append(1) or whole(*of))
    examples = load(photos, SourceOptions(sample=10))
    assert len(decoded) == PICTURES
    assert len(examples) == len(examples.labels) == QUICK + 40
    assert examples.about["sample"] == {"read": PICTURES, "of": QUICK + 40}
    assert np.bincount(examples.labels).tolist() == [184, 184, 184]


def test_plan_names_the_encoder_where_pixels_take_hours(photos, labelproof):
    net = ("--encoder", "none", "--net", "resnet50")
    code, out, _ = labelproof("plan", photos, "--test", photos, *net)
    assert code == 0
    assert "learn from the pixels, from scratch (resnet50)" in out
    assert "--encoder efficientnet-lite2" in out
    assert f"{PICTURES} of them were read" in out
    assert f"Test:    {QUICK + 40} examples\n" in out
    assert f"not searched, because a plan reads only {PICTURES} of {QUICK + 40} examples" in out


def test_the_total_of_a_plan_includes_the_sentence_encoder(labelproof, tmp_path, monkeypatch):
    monkeypatch.setattr("labelproof.cli.plan_lines.minilm_folder", lambda: tmp_path)
    monkeypatch.setattr("labelproof.cli.plan_lines.MINILM_SECONDS", 60.0)
    words = ("the cat sat on a mat today", "a dog ran in the park and barked")
    rows = "".join(f"{words[i % 2]} {i} times,{'ab'[i % 2]}\n" for i in range(120))
    (tmp_path / "t.csv").write_text("text,label\n" + rows)
    code, out, _ = labelproof("plan", "t.csv", "--text-column", "text", "--method", "ce")
    assert code == 0
    assert "takes about 2 hours for these texts" in out
    assert "Time:    about 2 hours on this machine" in out
    assert "encoding     2 hours, once" in out


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "1 second"),
        (45, "45 seconds"),
        (90, "1.5 minutes"),
        (9000, "2 hours"),
        (9e5, "10 days"),
    ],
)
def test_durations_in_words(seconds, words):
    assert duration(seconds) == words
