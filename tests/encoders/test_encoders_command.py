"""`labelproof encoders`: every encoder with what there is to know of it."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from labelproof.cli.app import app


def test_encoders_are_listed_with_their_speed() -> None:
    rows = json.loads(CliRunner().invoke(app, ["encoders", "--json"]).output)
    names = ["efficientnet-lite0", "efficientnet-lite2", "tf-idf", "minilm"]
    assert [row["name"] for row in rows] == names
    for row in rows:
        assert (row["milliseconds"] is not None) == row["installed"]
