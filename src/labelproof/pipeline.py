"""From a spec to a run folder: read, assemble, train, judge, write. The only assembly of a run.

spec -> read -> assemble -> settle what was left open -> train -> judge -> write
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labelproof import report
from labelproof.data.encoders.apply import encoded
from labelproof.data.encoders.picture_encoding import AUTO, NONE
from labelproof.data.examples import Examples
from labelproof.data.readers import Progress, load
from labelproof.data.readers.duplicates import trained_on
from labelproof.data.readers.file_names import printable
from labelproof.data.readers.published.named import NAMES
from labelproof.data.task import Task
from labelproof.errors import BadInput
from labelproof.judging.crossfit import Retraining
from labelproof.judging.tune import choose_lambda_u, decided, undecided
from labelproof.judging.unseen import begun_beside, folds_after
from labelproof.judging.verdict import Judged, judge
from labelproof.nets import VECTOR_NETS
from labelproof.nets.pretrained import colours, is_timm
from labelproof.noise import NoiseSpec, apply_noise, parse_noise
from labelproof.noise.apply_noise import INSTANCEWISE
from labelproof.process_memory import give_back
from labelproof.recipes.recipe import chosen_method, chosen_net, with_views
from labelproof.run_files import FOLDS, TENSORBOARD, TRIALS
from labelproof.runs import folder as runfolder
from labelproof.runs.hold_reviewed import hold, write_held
from labelproof.runs.journal import locked
from labelproof.runs.prepare import Assembled, prepare
from labelproof.runs.spec import RunSpec
from labelproof.training import ranks
from labelproof.training.log import Reporter, Tensorboard
from labelproof.training.loop import train
from labelproof.training.protocol import Method
from labelproof.training.run import Trunk, pick_device
from labelproof.training.trunk import Net, fused, make_trunk, reproducible


@dataclass(frozen=True, kw_only=True)
class Given:
    """What Python can hand over instead of naming it in the spec."""

    data: Examples | None = None
    test: Examples | None = None
    method: Method | None = None  # a record, used as it stands
    net: Net | None = None
    command: tuple[str, ...] = ()  # what a person typed, for the record


NOTHING = Given()


def read(
    spec: RunSpec,
    progress: Progress | None = None,
    encoding: Progress | None = None,
    raw: Examples | None = None,
) -> Given:
    """The data that the spec names, encoded; test data is read as the training data was.

    Args:
        spec: what to read.
        progress: called with files read and all files.
        encoding: called with examples encoded and all examples.
        raw: what `read_raw` gave, where that was called before.
    """
    data = raw if raw is not None else read_raw(spec, progress)
    data = _encoded(data, spec, encoding)
    test = load(spec.test, spec.reading, data, progress) if spec.test else None
    return Given(data=_compared(data, test or data.test, spec), test=test)


def _encoded(data: Examples, spec: RunSpec, progress: Progress | None) -> Examples:
    """The data as the network will see it; labels are as they were read."""
    name, cache = wanted_encoder(spec), spec.reading.cache
    seen = replace(data, labels=_labels_to_choose_by(data, spec)) if name == AUTO else data
    return replace(encoded(seen, name, cache=cache, progress=progress), labels=data.labels)


def _labels_to_choose_by(data: Examples, spec: RunSpec) -> Any:
    """The labels that choose an encoder: with the noise that was asked for, or they are true.

    Noise that depends on the examples is put in once they are encoded. Until then as many labels
    are wrong at random.
    """
    if not spec.noise or data.labels is None or data.classes is None or data.votes is not None:
        return data.labels
    noise, y = parse_noise(spec.noise), np.asarray(data.labels, dtype=np.int64)
    if noise.kind in INSTANCEWISE:
        noise = NoiseSpec(kind="symmetric-exclusive", rate=noise.rate)
    return apply_noise(noise, y, data.classes, None, spec.seed).labels


def _compared(data: Examples, test: Examples | None, spec: RunSpec) -> Examples:
    """The data, with a warning if the test data, which is not a published set's, repeats it."""
    if test is None or test.labels is None or spec.data in NAMES:
        return data
    return data.noted(trained_on(data, test))


def read_raw(spec: RunSpec, progress: Progress | None = None) -> Examples:
    """The training data that the spec names, before any encoder."""
    if spec.data is None:
        raise BadInput("the spec names no data; name some, or hand it over.")
    if spec.noise:
        parse_noise(spec.noise)  # a slip must not show after an hour of encoding
    data = load(spec.data, spec.reading, progress=progress)
    _check_enough(data, spec.data)
    return data if spec.flip is None else replace(data, mirrored=spec.flip)


FEWEST = 4  # examples: of fewer, no two classes have two


def _check_enough(data: Examples, name: str) -> None:
    """Refuse data that can teach nothing."""
    counts = torch.bincount(torch.as_tensor(data.labels)) if data.labels is not None else None
    if counts is not None and (len(data) < FEWEST or counts.max() < 2):
        raise BadInput(
            f"expected at least {FEWEST} examples, and two or more of some class, but "
            f"{printable(name)} has {len(data)} in {int((counts > 0).sum())} classes; a model "
            "learns nothing from so few: give more."
        )


def wanted_encoder(spec: RunSpec) -> str:
    """The encoder that the spec names; `auto` is none where pixels are what was asked for."""
    if spec.encoder != AUTO:
        return spec.encoder
    pixels = spec.net not in {"auto", *VECTOR_NETS}
    return NONE if spec.recipe or spec.data in NAMES or pixels else AUTO


def assemble(spec: RunSpec, given: Given = NOTHING) -> Assembled:
    """Everything that training needs: task, method and network for this very data."""
    given = given if given.data is not None else replace(read(spec), command=given.command)
    data = given.data
    assert data is not None
    net = given.net or chosen_net(spec.net, spec.trained, data.kind, spec.recipe)
    if isinstance(net, str) and is_timm(net) and data.kind == "images":
        data = replace(data, normalise=colours(net))
    # a network of the user's own takes vectors as wide as the user's
    waves = isinstance(net, str) and spec.recipe is None  # no publication has them
    prepared = prepare(data, given.test, spec.noise, spec.seed, waves=waves)
    held = None
    if spec.reviewed:
        prepared, data, held = hold(prepared, data, spec.reviewed)
    method = given.method or chosen_method(
        spec.trained, data.kind, spec.settings, spec.recipe, len(data)
    )
    if given.method is None:
        views = with_views(prepared.task.views, spec.trained, spec.recipe)
        prepared = replace(prepared, task=replace(prepared.task, views=views))
    trunk, name = make_trunk(net, prepared.task)
    device = pick_device(spec.device)
    if spec.compile:
        trunk = _fused(trunk, prepared.task, method, device)
    return Assembled(
        spec=spec,
        data=data,
        test=given.test,
        prepared=prepared,
        held=held,
        method=method,
        trunk=trunk,
        net=name,
        device=device,
    )


def _fused(trunk: Trunk, task: Task, method: Method, device: torch.device) -> Trunk:
    if method.about.second_order:
        raise BadInput(
            f"{method.about.title} needs second derivatives, which torch.compile does not "
            "support; leave out --compile."
        )
    return fused(trunk, task.views.plain(task.x.take(torch.arange(min(2, task.size)))), device)


def run(
    spec: RunSpec,
    given: Given = NOTHING,
    *,
    resume: bool = False,
    reporter: Reporter | None = None,
    announce: Callable[[Assembled], None] | None = None,
) -> Judged:
    """Carry out a spec; where it names a folder, leave a run there that can be resumed.

    Args:
        spec: everything that makes the run.
        given: data, a method or a network in memory, in place of what the spec names.
        resume: go on with what the folder holds; where it holds nothing, start.
        reporter: follows the progress.
        announce: told of the run before it begins.
    """
    spec = _writing(spec)
    parts, folder = assemble(spec, given), spec.out
    give_back()
    _check_alike(parts)
    if announce is not None:
        announce(parts)
    with (
        locked(folder) if folder else nullcontext(),
        threads_of(folder if resume else None),
        reproducible(spec.deterministic),
    ):
        return _run(parts, given, resume, reporter)


def _check_alike(parts: Assembled) -> None:
    """Several processes, perhaps on several machines, must train one thing."""
    if ranks.now().world == 1:
        return
    spec = parts.spec
    ranks.check_alike(
        parts.prepared.task.digest(),
        "expected the same data for every process, but they read different data; give every "
        "machine the same files at the same path.",
    )
    ranks.check_alike(
        repr((parts.method, parts.net, spec.seed, spec.noise, spec.how, spec.number_type)),
        "expected the same command for every process, but their methods, networks or seeds differ; "
        "start all machines with the same options.",
    )


def _writing(spec: RunSpec) -> RunSpec:
    """The spec, without a folder where another of several processes writes it."""
    return spec if ranks.now().first else replace(spec, out=None, tensorboard=False)


def _run(parts: Assembled, given: Given, resume: bool, reporter: Reporter | None) -> Judged:
    spec, out, audit = parts.spec, parts.spec.out, parts.prepared.audit
    if out and spec.tensorboard:
        reporter = Tensorboard(out / TENSORBOARD, reporter or Reporter())
    record = runfolder.describe(parts, given.command) if out else {}
    if out:
        runfolder.begin(out, record, resume)
        if parts.held:
            write_held(out, parts.held, parts.prepared.task.classes, parts.data.ids)
    parts, chosen = settle(parts, reporter)
    again = _again(parts, FOLDS)
    if reporter and spec.how == "folds":
        reporter.following(folds_after(parts.prepared.task, parts.device))
    with begun_beside(again) if spec.how == "folds" else nullcontext() as begun:
        result = train(
            parts.prepared.task,
            parts.method,
            parts.trunk,
            audit=audit,
            seed=spec.seed,
            device=parts.device,
            precision=spec.number_type,
            folder=out,
            resume=resume and out is not None,
            reporter=reporter,
            name=spec.trained,
        )
        give_back()
        ended = judge(
            replace(result, chosen=chosen),
            again,
            audit,
            spec.how,
            rule=spec.rule,
            joins=spec.joins,
            reporter=reporter,
            begun=begun,
        )
    give_back()
    if out:
        _write(parts, ended, record)
    return ended


def _again(parts: Assembled, place: str) -> Retraining:
    """How the method is trained on parts of the data, in a folder of that name."""
    spec = parts.spec
    return Retraining(
        task=parts.prepared.task,
        method=parts.method,
        trunk=parts.trunk,
        seed=spec.seed,
        device=parts.device,
        precision=spec.number_type,
        folder=spec.out / place if spec.out else None,
    )


def settle(parts: Assembled, reporter: Reporter | None) -> tuple[Assembled, Mapping[str, Any]]:
    """Choose the settings that were left open, or take what the run folder says was chosen."""
    if not undecided(parts.method):
        return parts, {}
    out = parts.spec.out
    chosen = ranks.from_first(lambda: runfolder.decisions(out) if out else {})
    if not chosen:
        chosen = {"lambda_u": choose_lambda_u(_again(parts, TRIALS), reporter).describe()}
        if out:
            runfolder.decide(out, chosen)
    return replace(parts, method=decided(parts.method, chosen["lambda_u"]["value"])), chosen


def _write(parts: Assembled, ended: Judged, record: Mapping[str, Any]) -> None:
    """All that a finished run leaves in its folder; the report comes last."""
    out = parts.spec.out
    assert out is not None
    rows = ended.table.rows(parts.data.ids)
    runfolder.finish(out, ended, parts.data, rows, record)
    test = parts.test or parts.data.test
    report.finish(out, ended, parts.prepared.audit, parts.data, rows, test)
    runfolder.tidy(out)


@contextmanager
def threads_of(folder: Path | None) -> Iterator[None]:
    """Compute with as many threads as the run in a folder began with: sums depend on it."""
    before = torch.get_num_threads()
    began = ranks.from_first(lambda: runfolder.began_with(folder, "threads") if folder else None)
    torch.set_num_threads(began or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
