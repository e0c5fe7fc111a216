"""What Label Studio's own library does with our tasks; run by an interpreter that has it.

    python label_studio_program.py TASKS.json SETUP.xml ANSWERS.json OUT

ANSWERS maps the index of an example to a chosen class, or to null where the task was skipped. The
library checks the set-up, every task and every answer, and then writes its exports into OUT:
json.json, min.json and answers.csv.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from label_studio_sdk.converter import Converter
from label_studio_sdk.label_interface import LabelInterface
from label_studio_sdk.label_interface.objects import TaskValue


def main(tasks: Path, setup: Path, answers: Path, out: Path) -> None:
    config = setup.read_text(encoding="utf-8")
    interface = LabelInterface(config)
    interface.validate()
    chosen = json.loads(answers.read_text(encoding="utf-8"))
    done = []
    for number, task in enumerate(json.loads(tasks.read_text(encoding="utf-8")), 1):
        for annotation in task.get("annotations", ()):
            assert interface.validate_annotation(annotation), annotation
        for prediction in task["predictions"]:
            assert not interface.validate_prediction(prediction, return_errors=True), prediction
        bare = {key: value for key, value in task.items() if key == "data"}
        assert interface.validate_task(bare), task
        TaskValue(data=task["data"], predictions=task["predictions"])
        done.append({**task, "id": 100 + number, "annotations": answer(task, number, chosen)})
    out.mkdir()
    (out / "json.json").write_text(json.dumps(done), encoding="utf-8")
    converter = Converter(config, str(out))
    converter.convert_to_json_min(str(out / "json.json"), str(out / "min"), is_dir=False)
    shutil.move(out / "min" / "result.json", out / "min.json")
    converter.convert_to_csv(str(out / "json.json"), str(out / "csv"), is_dir=False, sep=",")
    shutil.move(out / "csv" / "result.csv", out / "answers.csv")


def answer(task: dict, number: int, chosen: dict) -> list[dict]:
    """The annotation that a person made, as the server exports it."""
    index = str(task["data"]["index"])
    if index not in chosen:
        return []
    guess = task["predictions"][0]["result"][0]
    value = {"choices": [chosen[index]]}
    skipped = chosen[index] is None
    return [
        {
            "id": 7000 + number,
            "completed_by": 3,
            "was_cancelled": skipped,
            "result": [] if skipped else [{**guess, "id": f"r{number}", "value": value}],
            "created_at": "2025-03-01T10:00:00Z",
            "updated_at": "2025-03-01T10:00:05Z",
            "lead_time": 4.2,
        }
    ]


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
