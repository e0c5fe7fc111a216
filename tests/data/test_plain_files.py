"""Pickles and archives as plain data: what is understood, and that nothing else ever is."""

from __future__ import annotations

import contextlib
import copyreg
import io
import os
import pickle
import random
import struct
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
import torch

from labelproof.data.plain_files import (
    Refused,
    numpy_files,
    read_npy,
    read_npz,
    read_plain,
    read_saved,
)

ARRAYS = [
    np.arange(6, dtype=np.uint8).reshape(2, 3),
    np.arange(6, dtype=">i4").reshape(3, 2),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array([True, False]),
    np.zeros((0, 3), np.float16),
    np.array(7),
]
PLAIN = {"a": [1, -1, 2**40, 2.5, None, True, False, "ä\n", b"\x00\xff", ()], b"b": (1, (2, 3))}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_and_arrays_come_back(protocol):
    assert read_plain(pickle.dumps(PLAIN, protocol)) == PLAIN
    for array in ARRAYS:
        found = read_plain(pickle.dumps({"x": array, "again": array}, protocol))
        for name in ("x", "again"):
            assert found[name].dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
            assert np.array_equal(found[name], array)
    assert read_plain(pickle.dumps([np.int64(3), np.float32(0.5)], protocol)) == [3, 0.5]


class Calls:
    """Pickles as a call of anything."""

    def __init__(self, function, *arguments, state=None):
        self.parts = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self):
        return self.parts


REBUILD = np.zeros(1).__reduce__()[0]
SCALAR = np.float64(0).__reduce__()[0]
OBJECTS = np.dtype([("a", "O")])
HOSTILE = {
    "object array over chosen bytes": Calls(np.ndarray, (1,), "O", b"A" * 8),
    "array class called": Calls(np.ndarray, (1,), "u1", b"A"),
    "dtype of objects in an array": np.zeros(2, [("a", "O")]),
    "object scalar": Calls(SCALAR, np.dtype("O"), b"A" * 8),
    "record scalar": Calls(SCALAR, OBJECTS, b"A" * 8),
    "flags cleared": Calls(np.dtype, "V8", False, True,
                           state=(3, "|", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 1, 0)),
    "subarray": Calls(np.dtype, "V8", False, True,
                      state=(3, "|", (np.dtype("O"), (1,)), None, None, 8, 1, 0)),
    "rebuild with bytes": Calls(REBUILD, np.ndarray, (0,), b"b",
                                state=(1, (1,), np.dtype("O"), False, b"A" * 8)),
    "rebuild of records": Calls(REBUILD, np.ndarray, (0,), b"b",
                                state=(1, (1,), OBJECTS, False, b"A" * 8)),
    "rebuild larger than its bytes": Calls(REBUILD, np.ndarray, (0,), b"b",
                                           state=(1, (2**40,), np.dtype("u1"), False, b"A")),
    "negative shape": Calls(REBUILD, np.ndarray, (0,), b"b",
                            state=(1, (-1,), np.dtype("u1"), False, b"A")),
    "rebuild of another class": Calls(REBUILD, np.memmap, (0,), b"b"),
    "getattr": Calls(getattr, "", "format"),
    "eval": Calls(eval, "1"),
    "dates": np.datetime64("2020-01-01"),
    "strings": np.array(["a", "b"]),
    "records": np.zeros(2, [("a", "i4")]),
    "objects in an array": np.array([{}, {}], dtype=object),
    "a function": print,
    "complex": 1j,
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_everything_else_is_refused(what):
    for protocol in (2, 4, 5):
        with pytest.raises(Refused):
            read_plain(pickle.dumps({"x": HOSTILE[what]}, protocol))


@pytest.mark.parametrize(
    "data",
    [
        b"", b".", b"\x80\x02.", b"(.", b"}(]K\x00u.", b"cos\nsystem\n.",
        b"cnumpy\nndarray\n(tR.", b"cnumpy\nndarray\n)\x81.", b"i__builtin__\neval\n(.",
        b"\x80\x02(cposix\nsystem\no.", b"X\xff\xff\xff\xffab.", b"P1\n.", b"K\x01Q.", b"\x97.",
        b"I" + b"9" * 5000 + b"\n.", b"\x82\x01.", b"0.", b"1.",
        b"\x80\x02c_codecs\nencode\n}X\x01\x00\x00\x00aK\x01sb.",
    ],
)  # fmt: skip
def test_opcodes_that_do_not_add_up_are_refused(data):
    with pytest.raises(Refused):
        read_plain(data)


def test_a_number_that_stands_for_a_name_is_refused_even_where_it_is_known():
    copyreg.add_extension("os", "system", 240)
    try:
        pickle.loads(b"\x82\xf0.")  # now Python knows it without looking it up again
        with pytest.raises(Refused, match="extension 240"):
            read_plain(b"\x82\xf0.")
    finally:
        copyreg.remove_extension("os", "system", 240)


@pytest.mark.parametrize("zipped", [True, False])
def test_what_a_file_calls_is_named_in_a_few_words(tmp_path, zipped):
    made = tmp_path / "executed"
    data = saved({"x": Calls(os.mkdir, str(made))}, zipped)
    for read, content in ((read_saved, data), (read_plain, pickle.dumps(Calls(os.mkdir, "x")))):
        with pytest.raises(Refused, match=r"^it calls \w+\.mkdir$"):
            read(content)
    assert not made.exists()


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("zipped", [True, False])
def test_torch_files_hold_nothing_else_either(what, zipped):
    if what == "complex":  # a plain number to PyTorch
        return
    with pytest.raises(Refused) as caught:
        read_saved(saved({"x": HOSTILE[what]}, zipped))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def saved(content, zipped=True):
    file = io.BytesIO()
    torch.save(content, file, _use_new_zipfile_serialization=zipped)
    return file.getvalue()


TENSORS = {
    "a": torch.arange(6.0).reshape(2, 3),
    "turned": torch.arange(6).reshape(2, 3).T,
    "part": torch.arange(10, dtype=torch.int16)[3:7],
    "channels last": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
    "half": torch.ones(3, dtype=torch.bfloat16),
    "flags": torch.tensor([True, False]),
    "none": torch.zeros(0, 4),
    "one": torch.tensor(2.5),
}


@pytest.mark.parametrize("zipped", [True, False])
def test_tensors_come_back_with_their_layout(zipped):
    content = OrderedDict(**TENSORS, net=torch.nn.Linear(2, 2).state_dict(), array=ARRAYS[0])
    found = read_saved(saved(content, zipped))
    for name, tensor in TENSORS.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].stride() == tensor.stride()
        assert torch.equal(found[name], tensor)
    assert torch.equal(found["net"]["weight"], content["net"]["weight"])
    assert np.array_equal(found["array"], ARRAYS[0])


def with_plain(data, change):
    """An archive of torch.save with its plain object changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            content = old.read(info)
            new.writestr(info, change(content) if info.filename.endswith("data.pkl") else content)
    return out.getvalue()


@pytest.mark.parametrize("core", [b"numpy.core", b"numpy._core"])
def test_arrays_of_old_and_new_numpy_are_read(core):
    content = {"x": ARRAYS[0], "one": np.int64(3)}

    def renamed(plain):
        return plain.replace(b"numpy._core", core).replace(b"numpy.core", core)

    plain = renamed(pickle.dumps(content, protocol=2))
    assert core in plain
    for found in (read_plain(plain), read_saved(with_plain(saved(content), renamed))):
        assert np.array_equal(found["x"], ARRAYS[0])
        assert found["one"] == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: plain.replace(b"K\x03\x86", b"K\x7f\x86"),  # a size beyond the bytes
        lambda plain: plain.replace(b"FloatStorage", b"UntypedStorage"),
        lambda plain: plain.replace(b"_rebuild_tensor_v2", b"_rebuild_sparse_tensor"),
        lambda plain: plain.replace(b"torch._utils", b"torch.jit"),
        lambda plain: plain[:-20],
        lambda plain: b"cposix\nsystem\n(U\x02idtR.",
    ],
)
def test_archives_that_ask_for_more_are_refused(change):
    whole = saved({"a": TENSORS["a"]})
    read_saved(with_plain(whole, lambda plain: plain))
    with pytest.raises(Refused):
        read_saved(with_plain(whole, change))


def test_a_compressed_or_doubled_member_is_refused():
    for twice, method in ((1, zipfile.ZIP_DEFLATED), (2, zipfile.ZIP_STORED)):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as archive:
            for _ in range(twice):
                with pytest.warns(UserWarning, match="Duplicate") if _ else nothing():
                    archive.writestr("a/data.pkl", pickle.dumps(1))
        with pytest.raises(Refused):
            read_saved(out.getvalue())


def nothing():
    import contextlib

    return contextlib.nullcontext()


def test_one_flipped_bit_in_the_numbers_is_seen():
    whole, rng = bytearray(saved({"a": torch.zeros(500)})), random.Random(0)
    start = whole.find(bytes(1900))
    for _ in range(50):
        place = start + rng.randrange(1900)
        whole[place] ^= 1 << rng.randrange(8)
        with pytest.raises(Refused):
            read_saved(bytes(whole))
        whole[place] = 0


@pytest.mark.parametrize("zipped", [True, False])
def test_mutated_files_are_read_or_refused_and_nothing_else(zipped):
    rng = random.Random(1)
    wholes = [
        saved({**TENSORS, "x": ARRAYS[1]}, zipped),
        pickle.dumps({"x": ARRAYS[0], "y": PLAIN}),
    ]
    for _ in range(1500):
        data = bytearray(rng.choice(wholes))
        for _ in range(rng.choice((1, 1, 2, 20))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.3:
            del data[rng.randrange(len(data)) :]
        for read in (read_plain, read_saved):
            with contextlib.suppress(Refused):
                read(bytes(data))


def test_old_files_with_wrong_counts_are_refused():
    whole = saved({"a": TENSORS["a"]}, zipped=False)
    with pytest.raises(Refused):
        read_saved(whole[:-4])
    with pytest.raises(Refused):
        read_saved(struct.pack("<I", 5) + whole)


def test_texts_that_are_no_unicode_are_refused():
    for letter in (0x110000, 0xD800, 0xFFFFFFFF):
        file = io.BytesIO()
        np.save(file, np.array(["ab", "cd"]))
        data = bytearray(file.getvalue())
        data[-4:] = struct.pack("<I", letter)
        with pytest.raises(Refused, match="no Unicode"):
            read_npy(bytes(data))


def test_a_small_file_cannot_ask_for_much_memory(tmp_path, monkeypatch):
    text = b"X" + struct.pack("<I", 100_000) + b"a" * 100_000
    encode = b"\x80\x02](c_codecs\nencode\nq\x01" + text + b"X\x06\0\0\0latin1\x86q\x03R"
    with pytest.raises(Refused, match="more than its bytes"):
        read_plain(encode + b"h\x01h\x03R" * 1000 + b"e.")
    many = saved([torch.zeros(1000)[: k + 1] for k in range(3)])
    assert len(read_saved(many)) == 3
    shared = torch.zeros(100_000)
    found = read_saved(saved([shared[k:] for k in range(1000)]))
    assert found[0].untyped_storage().data_ptr() == found[999].untyped_storage().data_ptr()
    monkeypatch.setattr(numpy_files, "LARGE", 2**20)  # 1 GiB takes seconds to pack
    path = tmp_path / "zeros.npz"
    head = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (2, 2**17)}
    np.lib.format.write_array_header_1_0(head, shape)
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w") as member,
    ):
        member.write(head.getvalue())
        member.write(bytes(2**21))
    with pytest.raises(Refused, match="more than the file holds"):
        read_npz(path, lambda name: True)


def test_a_billion_texts_of_no_letter_take_no_memory(tmp_path):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": "<U0", "fortran_order": False, "shape": (10**9,)}
    )
    with pytest.raises(Refused, match="more than the file holds"):
        read_npy(file.getvalue())


@pytest.mark.parametrize("shape", [(0, 2**47, 2**47), (0, 2**30, 2**30)])
def test_an_empty_array_with_edges_beyond_all_memory_is_refused(shape):
    plain = pickle.dumps(np.zeros((0, 3, 5), np.uint8), protocol=2)
    assert read_plain(plain).shape == (0, 3, 5)
    edges = b"".join(b"\x8a\x08" + struct.pack("<q", edge) for edge in shape)
    changed = plain.replace(b"K\x00K\x03K\x05", edges)
    assert changed != plain
    with pytest.raises(Refused, match="shape"):
        read_plain(changed)
