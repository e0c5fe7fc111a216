"""JSON files of a run folder, each read once through a schema: a record as promised, or a sentence.

A schema is a `msgspec.Struct` that lists what the code relies on; other keys may be there. What
comes back is the plain dict, with the schema's defaults put in and nothing lost.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from labelproof.errors import BadInput
from labelproof.files import read_regular

LARGEST = 2**28  # bytes


def read_json(path: Path, schema: Any, advice: str) -> dict[str, Any]:
    """The JSON object in a file, if it fits the schema; `advice` ends the sentence if it does not.

    Raises:
        BadInput: If the file cannot be read, is no JSON, or does not fit the schema.
    """
    return parse_json(read_regular(path, LARGEST), schema, str(path), advice)


def parse_json(content: bytes, schema: Any, name: str, advice: str) -> dict[str, Any]:
    """The same for bytes at hand; `name` is how the sentence calls them."""
    try:
        found = msgspec.json.decode(content)
        promised = msgspec.to_builtins(msgspec.convert(found, schema))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())[:160]
        raise BadInput(f"{name} is damaged ({why}); {advice}.") from None
    assert isinstance(found, dict)
    filled: dict[str, Any] = _filled(found, promised)
    return filled


def _filled(found: Any, promised: Any) -> Any:
    """What was found, with the defaults of the schema at every depth."""
    if isinstance(found, dict) and isinstance(promised, dict):
        inner = {key: _filled(value, promised.get(key)) for key, value in found.items()}
        return {**promised, **inner}
    if isinstance(found, list) and isinstance(promised, list | tuple):
        return [_filled(*pair) for pair in zip(found, promised, strict=True)]
    return found
