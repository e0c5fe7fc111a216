"""Damage to files, drawn from a seed: flipped bits, cuts, repeats, other values in JSON and CSV."""

from __future__ import annotations

import copy
import io
import json
import random
import zipfile
from collections.abc import Callable
from typing import Any

STRANGE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**63, -(2**63), 10**40, 0.5, -0.0, 1e308, 1e-320, "", "x", "-1",
    "../../etc/passwd", "/dev/zero", "\u0000", "\ud83d\ude00", "a" * 5000, [], {}, [[]], [{}],
    {"": {}}, [1, 2, 3], ["a"], {"a": 1}, [None],
)  # fmt: skip


def mutated(data: bytes, rng: random.Random) -> bytes:
    """One damaged version of a file."""
    ways: list[Callable[[bytes, random.Random], bytes]] = [flipped, cut, spliced, replaced_bytes]
    if data[:1] in (b"{", b"["):
        ways += [other_json] * 6
    if data[:2] == b"PK":
        ways += [other_member] * 6
    if data[:2].isalpha() and b"," in data.split(b"\n", 1)[0]:
        ways += [other_cells] * 6
    return rng.choice(ways)(data, rng)


def flipped(data: bytes, rng: random.Random) -> bytes:
    """Some bits the other way."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 3, 30))):
        if out:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def cut(data: bytes, rng: random.Random) -> bytes:
    """The end, the beginning or the middle gone."""
    first, last = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return rng.choice((data[:first], data[first:], data[:first] + data[last:]))


def spliced(data: bytes, rng: random.Random) -> bytes:
    """A part repeated elsewhere."""
    first, last = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    place = rng.randrange(len(data) + 1)
    return data[:place] + data[first : min(last, first + 200)] * rng.choice((1, 2)) + data[place:]


def replaced_bytes(data: bytes, rng: random.Random) -> bytes:
    """Some bytes that mean something to parsers."""
    piece = rng.choice(
        (b"\0", b"\xff" * 4, b"\n", b'"', b",", b"{}", b"NaN", b"-1", b"1e999", b"\xef\xbb\xbf",
         b"9" * 40, b"[" * 3000, b"\x80", b"null")
    )  # fmt: skip
    place = rng.randrange(len(data) + 1)
    return data[:place] + piece + data[place + rng.choice((0, len(piece))) :]


def other_json(data: bytes, rng: random.Random) -> bytes:
    """One value of a JSON file another one, gone, or under another name; lines one by one."""
    try:
        if data[:1] == b"{" and b"\n{" in data:
            lines = data.splitlines(keepends=True)
            place = rng.randrange(len(lines))
            lines[place] = other_json(lines[place], rng) + b"\n"
            return b"".join(lines)
        content = json.loads(data)
    except ValueError:
        return flipped(data, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _change(content, rng)
    return json.dumps(content).encode()


def other_member(data: bytes, rng: random.Random) -> bytes:
    """An archive with one member damaged and all checksums right."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        chosen = rng.choice(old.infolist())
        for info in old.infolist():
            content = old.read(info)
            new.writestr(info, mutated(content, rng) if info is chosen else content)
    return out.getvalue()


def other_cells(data: bytes, rng: random.Random) -> bytes:
    """A CSV file with some cells changed, a row gone or there twice."""
    lines = data.split(b"\n")
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = rng.randrange(len(lines))
        cells = lines[place].split(b",")
        new = str(rng.choice((*STRANGE, "nan", "-inf", "1e999")))
        cells[rng.randrange(len(cells))] = new.encode("utf-8", "surrogatepass")
        lines[place] = b",".join(cells)
        if rng.random() < 0.2:
            lines.insert(rng.randrange(len(lines)), lines.pop(place) if place % 2 else lines[place])
    return b"\n".join(lines)


def _change(content: Any, rng: random.Random) -> None:
    holder = content
    while isinstance(holder, (dict, list)) and holder:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = rng.choice(keys)
        inner = holder[key]
        if isinstance(inner, (dict, list)) and inner and rng.random() < 0.75:
            holder = inner
            continue
        if rng.random() < 0.2:
            del holder[key]
        elif isinstance(holder, dict) and rng.random() < 0.1:
            holder[str(rng.choice(STRANGE))] = holder.pop(key)
        else:
            holder[key] = copy.deepcopy(rng.choice(STRANGE))
        return
