"""JSON files of a run folder: what a schema promises is there at every depth."""

from __future__ import annotations

import msgspec
import pytest

from labelproof.errors import BadInput
from labelproof.files import parse_json
from labelproof.runs.schemas import RunRecord, SummaryRecord


def parsed(content, schema):
    return parse_json(msgspec.json.encode(content), schema, "a file", "restore it")


def test_defaults_are_put_in_at_every_depth_and_nothing_is_lost():
    classes = [{"name": "a", "judged": True, "more": 1}]
    classes += [{"name": "b", "judged": False, "reason": "few"}]
    told = parsed({"noise_rate_estimate": None, "by_class": classes}, SummaryRecord)
    assert [part["reason"] for part in told["by_class"]] == ["", "few"]
    assert told["by_class"][0]["more"] == 1


def test_what_the_seal_covers_stays_as_it_was_written():
    task = {"digest": "d", "size": 1, "kind": "vectors", "shape": [2], "classes": ["a"]}
    written = {"format": 2, "method": "ce", "settings": {}, "net": "mlp", "task": task,
               "data": {"path": "x"}, "test": {}, "reviewed": {"run": "r", "count": 1},
               "noise": {"kind": "symmetric", "realised": 0.2}}  # fmt: skip
    found = parsed(written, RunRecord)
    assert {key: found[key] for key in written} == written


def test_a_record_that_breaks_its_schema_deep_inside_is_refused():
    with pytest.raises(BadInput, match=r"a file is damaged .*by_class"):
        parsed({"noise_rate_estimate": None, "by_class": [{"name": 3}]}, SummaryRecord)
