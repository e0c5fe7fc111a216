"""From the options of a command to a `RunSpec`: those given, over another run's or defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import typer

from labelproof.data.readers import SourceOptions
from labelproof.errors import BadInput
from labelproof.recipes.recipe import read_settings
from labelproof.run_files import RUN
from labelproof.runs.spec import RunSpec, load_spec
from labelproof.training.run import Precision
from labelproof.training.settings import split_settings

RENAMED = {"drop_column": "drop_columns"}  # repeated options, named for one of them
READING = {field.name for field in fields(SourceOptions)}
SAID = ("COMMANDLINE", "ENVIRONMENT")  # where an option that a person gave comes from
SPEC = {field.name for field in fields(RunSpec)} - {"reading", "settings", "precision"}


def spec_from(ctx: typer.Context) -> RunSpec:
    """The spec that a command asks for.

    With `--from`, that spec with the options that were given in their places; else the options over
    the defaults. `--out RUN --resume` without data is from RUN. Settings are checked against the
    method before any data is read.
    """
    given = _given(ctx)
    start = given.get("from_") or _stopped_run(given)
    base = load_spec(start, given.get("data")) if start else RunSpec()
    if start and "out" not in given:
        base = replace(base, out=None)
    spec = with_options(base, given)
    if spec.data is None:
        raise BadInput("expected DATA, but none was given; name the data, or a run with --from.")
    return spec


def _stopped_run(given: Mapping[str, Any]) -> Path | None:
    """The run to continue, where nothing but its folder was named."""
    out: Path | None = given.get("out")
    if out is None or "data" in given or not given.get("resume"):
        return None
    return out if (out / RUN).is_file() else None


def with_options(base: RunSpec, given: Mapping[str, Any]) -> RunSpec:
    """The spec with options of a command line in the places of its own."""
    own = {name: value for name, value in given.items() if name in SPEC} | _precision(given)
    reading = {RENAMED.get(name, name): value for name, value in given.items()}
    reading = {name: value for name, value in reading.items() if name in READING}
    for name in ("drop_columns", "annotators"):
        if name in reading:
            reading[name] = tuple(reading[name] or ())
    spec = replace(base, **own, reading=replace(base.reading, **reading))
    return replace(spec, settings=_settings(spec, base, given))


def _precision(given: Mapping[str, Any]) -> dict[str, Any]:
    """--precision: a number is the precision of the suspects, a word the trunk's number type."""
    if "precision" not in given:
        return {}
    text = given["precision"]
    if text in get_args(Precision):
        return {"precision": text}
    try:
        return {"suspect_precision": float(text)}
    except ValueError:
        raise BadInput(
            f"expected --precision to be {' or '.join(get_args(Precision))} for the network's "
            f"number type, or a number such as 0.8 for the suspects, but it is {text!r}."
        ) from None


def _settings(spec: RunSpec, base: RunSpec, given: Mapping[str, Any]) -> dict[str, Any]:
    """Changes of the method's settings; those of a spec with another method do not carry over."""
    kept = dict(base.settings) if (spec.trained, spec.recipe) == (base.trained, base.recipe) else {}
    changes = split_settings(given.get("set_") or [])
    if given.get("epochs") is not None:
        if "epochs" in changes:
            raise BadInput("epochs was given twice, with --epochs and with --set; give it once.")
        changes["epochs"] = str(given["epochs"])
    return kept | read_settings(spec.trained, changes, spec.recipe)


def _given(ctx: typer.Context) -> dict[str, Any]:
    """The options that a person gave, by name."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    said = [name for name, source in sources.items() if source and source.name in SAID]
    return {name: ctx.params[name] for name in said}
