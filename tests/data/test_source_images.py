"""Pictures: every mode and turn comes out as RGB of one size; bad files are set aside."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from source_files import picture

from labelproof.data.readers import SourceOptions, find_duplicates, load
from labelproof.data.readers.pixels import TURNS, Unreadable, choose_size, decode, fit, measure
from labelproof.errors import BadInput, RunFailed

STREAM = SourceOptions(memory_gb=0)


def encoded(image, kind="PNG", **options):
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def taken(examples):
    return examples.x.take(torch.arange(len(examples))).numpy()


@pytest.mark.parametrize("mode", ["RGB", "L", "1", "P", "RGBA", "LA", "CMYK", "YCbCr"])
def test_modes_come_out_as_rgb(mode):
    image = picture(0).convert(mode)
    kind = "TIFF" if mode in ("CMYK", "YCbCr") else "PNG"
    want = np.asarray(image.convert("RGB"), dtype=int)
    assert np.abs(decode(encoded(image, kind), (16, 16)).astype(int) - want).max() <= 1


@pytest.mark.parametrize(("kind", "least"), [("JPEG", 30), ("WEBP", 30), ("BMP", 99), ("GIF", 25)])
def test_formats(kind, least):
    image = picture(1, (32, 32))
    got = decode(encoded(image, kind), (32, 32)).astype(float)
    error = np.mean((got - np.asarray(image, dtype=float)) ** 2)
    assert 10 * np.log10(255**2 / (error + 1e-9)) > least  # peak signal-to-noise ratio in dB


def test_transparent_parts_are_shown_over_white():
    image = Image.new("RGBA", (4, 4), (10, 20, 30, 0))
    assert (decode(encoded(image), (4, 4)) == 255).all()
    palette = Image.new("P", (4, 4), 0)
    palette.putpalette([10, 20, 30] * 256)
    assert (decode(encoded(palette, "PNG", transparency=0), (4, 4)) == 255).all()


def test_16_bit_grey_keeps_its_shades():
    shades = np.linspace(0, 65535, 16).astype(np.uint16).reshape(4, 4)
    got = decode(encoded(Image.fromarray(shades)), (4, 4))
    assert np.array_equal(got[..., 0], np.rint(shades / 257).astype(np.uint8))


@pytest.mark.parametrize("turn", range(1, 9))
def test_exif_turns_agree_with_pillow(turn):
    image = picture(2, (24, 16))
    exif = Image.Exif()
    exif[0x0112] = turn
    data = encoded(image, "PNG", exif=exif)
    upright = ImageOps.exif_transpose(Image.open(BytesIO(data)))
    assert measure(BytesIO(data)) == (upright.height, upright.width)
    assert np.array_equal(decode(data, (upright.height, upright.width)), np.asarray(upright))
    assert (turn in TURNS) == (turn != 1)


def test_shorter_edge_is_resized_and_the_centre_cut_out():
    image = Image.new("RGB", (60, 20), "red")
    image.paste("blue", (20, 0, 40, 20))
    want = image.resize((30, 10), Image.Resampling.BILINEAR).crop((10, 0, 20, 10))
    got = fit(image, (10, 10)).astype(int)
    assert np.abs(got - np.asarray(want, dtype=int)).max() <= 1
    assert (got[:, 2:-2] == (0, 0, 255)).all()


def test_large_jpeg_is_close_to_a_plain_resize():
    image = picture(3, (1200, 900))
    got = decode(encoded(image, "JPEG", quality=95), (64, 64)).astype(int)
    box = (150, 0, 1050, 900)
    want = np.asarray(image.resize((64, 64), Image.Resampling.BILINEAR, box=box), dtype=int)
    assert np.abs(got - want).mean() < 2


def test_a_strip_does_not_become_a_huge_picture():
    assert decode(encoded(Image.new("L", (30_000, 1), 7)), (64, 64)).shape == (64, 64, 3)


def test_size_is_chosen_from_the_data():
    assert choose_size(np.array([[30, 40]] * 3)) == (30, 40)
    assert choose_size(np.array([[30, 40], [100, 50], [60, 300]])) == (50, 50)
    assert choose_size(np.array([[900, 1200], [1000, 800], [900, 900]])) == (224, 224)
    assert choose_size(np.array([[3000, 4000]] * 2)) == (224, 224)
    assert choose_size(np.array([[256, 256]] * 2)) == (256, 256)


def test_bad_pictures_say_why(tmp_path):
    whole = encoded(picture(4, (64, 64)), "JPEG")
    with pytest.raises(Unreadable, match=r"(?i)truncated"):
        decode(whole[: len(whole) // 2], (8, 8))
    with pytest.raises(Unreadable, match="known format"):
        decode(b"hello", (8, 8))
    bomb = encoded(Image.new("1", (20_000, 20_000)))
    with pytest.raises(Unreadable, match="pixels"):
        decode(bomb, (8, 8))
    almost = encoded(Image.new("1", (10_000, 9_000)))
    with pytest.warns(Image.DecompressionBombWarning), pytest.raises(Unreadable, match="pixels"):
        measure(BytesIO(almost))


def test_class_folders(class_folder):
    root = class_folder(("cat", "dog", "emu"), 3)
    (root / "cat" / "notes.txt").write_text("not a picture")
    (root / "cat" / ".hidden.png").write_text("not shown")
    examples = load(root)
    assert examples.classes == ("cat", "dog", "emu")
    assert examples.ids[:2] == ["cat/0.png", "cat/1.png"]
    assert examples.labels.tolist() == [0] * 3 + [1] * 3 + [2] * 3
    assert examples.x.resident
    for row, name in enumerate(examples.ids):
        assert np.array_equal(taken(examples)[row], np.asarray(Image.open(root / name)))


def test_streamed_cached_and_resident_give_the_same_pixels(class_folder, tmp_path):
    root = class_folder(size=(40, 30), per_class=5, suffix=".jpg")
    (root / "dog" / "2.jpg").write_bytes(b"no picture")
    few = SourceOptions(image_size=24, max_bad=0.2)
    want = load(root, few)
    cache = tmp_path / "cache"
    for options in (
        SourceOptions(image_size=24, max_bad=0.2, memory_gb=0),
        SourceOptions(image_size=24, max_bad=0.2, memory_gb=0, cache=cache),
        SourceOptions(image_size=24, max_bad=0.2, cache=cache),
    ):
        got = load(root, options)
        assert got.x.resident == (options.memory_gb > 0)
        assert np.array_equal(taken(got), taken(want))
        order = torch.tensor([7, 0, 3])
        assert np.array_equal(got.x.take(order).numpy(), taken(want)[[7, 0, 3]])
        assert (got.labels.tolist(), got.ids) == (want.labels.tolist(), want.ids)
        assert got.about["unreadable"] == want.about["unreadable"]
        reason = "not a picture in a known format"
        assert got.about["unreadable"] == [{"path": "dog/2.jpg", "reason": reason}]


def test_cache_is_used_again_and_renewed_when_a_file_changes(class_folder, tmp_path, monkeypatch):
    root, cache = class_folder(), tmp_path / "cache"
    options = SourceOptions(memory_gb=0, cache=cache, image_size=8)
    first = load(root, options)
    entries = sorted(cache.iterdir())
    assert len(entries) == 1
    assert sorted(path.name for path in entries[0].iterdir()) == [
        "entry.json",
        "hashes.npy",
        "pixels.bin",
    ]
    monkeypatch.setattr(
        "labelproof.data.readers.pixel_cache.decode", lambda *_: pytest.fail("decoded again")
    )
    second = load(root, options)
    assert second.x.digest() == first.x.digest()
    monkeypatch.undo()
    picture(99).save(root / "cat" / "0.png")
    os.utime(root / "cat" / "0.png", ns=(1, 1))
    third = load(root, options)
    assert len(sorted(cache.iterdir())) == 2
    assert third.x.digest() != first.x.digest()


def test_a_cache_that_fails_half_way_leaves_nothing(class_folder, tmp_path, monkeypatch):
    root, cache = class_folder(), tmp_path / "cache"

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("labelproof.data.readers.pixel_cache._decode_into", fail)
    with pytest.raises(BadInput, match="No space left"):
        load(root, SourceOptions(memory_gb=0, cache=cache))
    assert list(cache.iterdir()) == []


def test_digest_depends_on_bytes_and_not_on_where_they_lie(class_folder):
    here, there = class_folder(name="here"), class_folder(name="there")
    assert load(here, STREAM).x.digest() == load(there, STREAM).x.digest()
    picture(77).save(there / "cat" / "1.png")
    assert load(here, STREAM).x.digest() != load(there, STREAM).x.digest()


def test_a_file_that_vanishes_during_the_run(class_folder):
    root = class_folder()
    examples = load(root, STREAM)
    (root / "cat" / "0.png").unlink()
    with pytest.raises(RunFailed, match=r"cat/0\.png"):
        examples.x.take(torch.tensor([0]))


def test_too_many_bad_files_stop_the_run(class_folder):
    root = class_folder(per_class=50)
    (root / "cat" / "7.png").write_bytes(b"")
    assert len(load(root)) == 99
    (root / "cat" / "8.png").write_bytes(b"")
    with pytest.raises(BadInput, match=r"1.0% of the 100.*2 are \(cat/7.png: .*max-bad"):
        load(root)
    assert len(load(root, SourceOptions(max_bad=0.02))) == 98


def test_progress_is_told(class_folder):
    told = []
    load(class_folder(per_class=150), progress=lambda done, count: told.append((done, count)))
    assert told == [(256, 300), (300, 300)]


def test_duplicates_and_disagreeing_ones(class_folder):
    root = class_folder()
    (root / "dog" / "copy.png").write_bytes((root / "cat" / "1.png").read_bytes())
    (root / "dog" / "same.png").write_bytes((root / "dog" / "0.png").read_bytes())
    for options in (SourceOptions(), STREAM):
        examples = load(root, options)
        found = find_duplicates(examples)
        names = [tuple(examples.ids[row] for row in group) for group in found.groups]
        assert names == [("cat/1.png", "dog/copy.png"), ("dog/0.png", "dog/same.png")]
        assert [tuple(examples.ids[row] for row in group) for group in found.conflicting] == names[
            :1
        ]
        assert found.extra == 2


@pytest.mark.parametrize("name", ["entry.json", "hashes.npy", "pixels.bin"])
def test_a_damaged_cache_is_made_again_or_refused(class_folder, tmp_path, name):
    root, cache = class_folder(), tmp_path / "cache"
    options = SourceOptions(memory_gb=0, cache=cache, image_size=8)
    first = load(root, options)
    pixels = first.x.take(torch.arange(len(first)))
    path = next(cache.iterdir()) / name
    path.write_bytes(path.read_bytes()[:-1])  # cut short: made again
    assert torch.equal(load(root, options).x.take(torch.arange(len(first))), pixels)
    content = bytearray(path.read_bytes())
    content[-5] ^= 4  # one bit: made again, or refused when the row is read
    path.write_bytes(content)
    if name == "pixels.bin":
        with pytest.raises(RunFailed, match="damaged; delete it"):
            load(root, options).x.take(torch.arange(len(first)))
    else:
        assert torch.equal(load(root, options).x.take(torch.arange(len(first))), pixels)


def test_pipes_and_devices_are_listed_as_unreadable(class_folder):
    root = class_folder()
    folder = next(path for path in sorted(root.iterdir()) if path.is_dir())
    os.mkfifo(folder / "pipe.png")
    (folder / "zero.png").symlink_to("/dev/zero")
    found = load(root, SourceOptions(max_bad=0.9, image_size=8)).about["unreadable"]
    assert {Path(entry["path"]).name for entry in found} >= {"pipe.png", "zero.png"}
    assert {entry["reason"] for entry in found if "p" in entry["path"]} >= {"not a regular file"}
