"""One way through: examples in, a trained model and a verdict on every label out."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from labelproof import report
from labelproof.data.examples import Examples
from labelproof.data.task import Task
from labelproof.judging import How, calibrate
from labelproof.judging.tune import choose_lambda_u, decided, undecided
from labelproof.nets import build_trunk, choose_net, feature_width
from labelproof.runs import folder as runfolder
from labelproof.runs.prepare import prepare
from labelproof.runs.reviewed import hold, write_held
from labelproof.training.log import Reporter
from labelproof.training.loop import Result, train
from labelproof.training.protocol import Method
from labelproof.training.run import Trunk, pick_device

Net = str | nn.Module | Callable[[], nn.Module]


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
    reporter: Reporter | None = None,
    how: How = "folds",
    reading: Mapping[str, Any] | None = None,
    command: Sequence[str] = (),
) -> Result:
    """Train `method` on `data`; with `out`, leave a run folder that can be resumed and reported.

    Args:
        data: what a source read, for example `labelproof.data.load("digits")`.
        method: a record of hyper-parameters, for example `recipes.own_data("dpc", data.kind)`.
        name: what the method is called in the record.
        test: test data, for the curve alone; the part that came with the data where None.
        noise: label noise to put in on purpose, such as `symmetric:0.4`.
        reviewed: the folder of an earlier run on the same data, whose reviewed labels are put in
            and held fixed.
        net: a network's name, a module that maps inputs to features (copied), or a function that
            makes one (called for every network the method needs).
        seed: decides everything random.
        device: `auto`, `cpu`, `cuda` or `mps`.
        out: the run folder; None keeps nothing on disk.
        resume: continue the run in `out`.
        reporter: follows the progress.
        how: how the run folder's probabilities are calibrated, see `calibrate`; "folds" takes about
            as long as the training itself.
        reading: how the data was read, for the record: `data`, `test` and the source's options.
        command: the command line, for the record.
    """
    prepared = prepare(data, test, noise, seed)
    held = None
    if reviewed:
        prepared, held = hold(prepared, data, reviewed)
    where = pick_device(device)
    trunk, net_name = make_trunk(net, prepared.task)
    if out:
        record = runfolder.describe(
            name=name,
            method=method,
            net=net_name,
            seed=seed,
            device=where,
            task=prepared.task,
            train=data,
            test=test or data.test,
            noise=prepared.noise,
            reviewed=held.describe() if held else None,
            reading=reading,
            command=command,
        )
        runfolder.begin(out, record, resume)
        if held:
            write_held(out, held, prepared.task.classes, data.ids)
    chosen: dict[str, Any] = {}
    if undecided(method):
        chosen = _settled(prepared.task, method, trunk, seed, where, out, reporter)
        method = decided(method, chosen["lambda_u"]["value"])
    result = train(
        prepared.task,
        method,
        trunk,
        audit=prepared.audit,
        seed=seed,
        device=where,
        folder=out,
        resume=resume,
        reporter=reporter,
        name=name,
    )
    result = replace(result, chosen=chosen)
    if out and not (resume and runfolder.finished(out, how)):
        aside = out / "calibration"
        found = calibrate(result, trunk, how, seed=seed, folder=aside, reporter=reporter)
        judged = runfolder.finish(out, result, found, prepared.audit, data)
        report.finish(out, judged, prepared.audit, data)
        shutil.rmtree(aside, ignore_errors=True)
    return result


def _settled(
    task: Task,
    method: Method,
    trunk: Trunk,
    seed: int,
    device: torch.device,
    out: Path | None,
    reporter: Reporter | None,
) -> dict[str, Any]:
    """The settings left open: as the run folder has them, or chosen now and written into it."""
    before = runfolder.decisions(out) if out else {}
    if before:
        return before
    aside = out / "trials" if out else None
    choice = choose_lambda_u(
        task, method, trunk, seed=seed, device=device, folder=aside, reporter=reporter
    )
    chosen = {"lambda_u": choice.describe()}
    if out:
        runfolder.decide(out, chosen)
        shutil.rmtree(out / "trials", ignore_errors=True)
    return chosen


def make_trunk(net: Net, task: Task) -> tuple[Trunk, str]:
    """A function that makes a trunk for this task, and the name that run.json gives it."""
    example = task.views.plain(task.x.take(torch.arange(min(2, task.size))))
    shape = tuple(example.shape[1:])
    if isinstance(net, str):
        name = choose_net(shape, task.size) if net == "auto" else net
        with torch.device("meta"):
            build_trunk(name, shape, task.size)  # a network that does not fit is said now
        return lambda: build_trunk(name, shape, task.size), name
    if isinstance(net, nn.Module):
        module = net
        feature_width(module, example)
        return lambda: copy.deepcopy(module), type(module).__name__
    return net, getattr(net, "__name__", type(net).__name__)
