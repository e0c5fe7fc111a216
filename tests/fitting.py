"""A run on data in memory, through the pipeline, for tests that need a run folder or a result."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labelproof import pipeline
from labelproof.data.examples import Examples
from labelproof.data.readers import SourceOptions
from labelproof.judging import How
from labelproof.runs.spec import RunSpec
from labelproof.training.loop import Result
from labelproof.training.protocol import Method
from labelproof.training.trunk import Net


def fit(
    data: Examples,
    method: Method,
    *,
    name: str = "method",
    test: Examples | None = None,
    noise: str | None = None,
    reviewed: Path | None = None,
    net: Net = "auto",
    seed: int = 0,
    device: str = "auto",
    out: Path | None = None,
    resume: bool = False,
    reporter: Any = None,
    how: How | None = None,
    reading: Mapping[str, Any] | None = None,
) -> Result:
    """Run `method` on `data`; without a folder nothing is calibrated, unless `how` says so.

    `reading` names the data, so that a run folder can read it again.
    """
    named = reading or {}
    spec = RunSpec(
        data=named.get("data") and str(named["data"]),
        test=named.get("test") and str(named["test"]),
        reading=SourceOptions(**named.get("options", {})),
        noise=noise,
        reviewed=reviewed,
        method=name,
        calibrate=how or ("folds" if out else "off"),
        seed=seed,
        device=device,
        out=out,
    )
    given = pipeline.Given(data=data, test=test, method=method, net=net)
    return pipeline.run(spec, given, resume=resume, reporter=reporter).result
