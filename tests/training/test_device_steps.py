"""A step on a GPU copies nothing and waits for nothing, shown with a device that computes nothing.

Tensors on the device "meta" have a shape and no content: what needs content on the host (`item`,
`nonzero`) fails there, and what comes from the host shows as an operation that mixes devices.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from labelproof.data.examples import Resident, Subset
from labelproof.data.task import Task
from labelproof.functional import dirichlet
from labelproof.methods.ce import CrossEntropy
from labelproof.methods.dpc import DPC
from labelproof.nets import build_trunk
from labelproof.training import batches
from labelproof.training import run as run_module
from labelproof.training.run import Run
from labelproof.views import ImageViews, VectorViews

META = torch.device("meta")
B, N, C = 8, 64, 5
MOST = {"vectors": 400, "images": 400, "zoomed images": 540}  # operations of losses and views


class Generator(torch.Generator):
    """Stands in for a GPU's generator."""

    device = META


class Drawing(TorchFunctionMode):
    """Lets operations take that generator."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        given = dict(kwargs or {})
        if isinstance(given.get("generator"), Generator):
            del given["generator"]
        return function(*args, **given)


class Watching(TorchDispatchMode):
    """Counts operations that compute, and notes those between host and device."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.between: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        out = function(*args, **(kwargs or {}))
        found = [t for t in tree_leaves((args, kwargs, out)) if isinstance(t, torch.Tensor)]
        # a number (no dimensions) goes along with the operation and is no copy
        if len({t.device for t in found if t.ndim}) > 1:
            self.between.append(str(function))
        alias = [returned.alias_info for returned in function._schema.returns]
        # what only looks at memory in another way starts nothing on a device
        self.count += all(one is None or one.is_write for one in alias)
        return out


def on_device(kind: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(run_module, "own_generator", lambda device: Generator())
    monkeypatch.setattr(
        run_module, "inputs_on", lambda x, device: batches.inputs_on(x, device, room=1e9)
    )
    if kind == "vectors":
        x, views = torch.randn(N, 12), VectorViews(mean=torch.zeros(12), std=torch.ones(12))
        shape, net = (12,), "mlp"
    else:
        x = torch.randint(256, (N, 16, 16, 3), dtype=torch.uint8)
        views, net = ImageViews(mean=(0.5,) * 3, std=(0.2,) * 3), "cnn"  # type: ignore[assignment]
        shape = (3, 16, 16)  # type: ignore[assignment]
        if kind == "zoomed images":
            views = ImageViews(mean=(0.5,) * 3, std=(0.2,) * 3, crop="resized")  # type: ignore[assignment]
    task = Task(
        x=Resident(x),
        y=torch.arange(N) % C,
        classes=tuple("abcde"),
        views=views,
        kind="vectors" if kind == "vectors" else "images",
    )
    return Run(task, lambda: build_trunk(net, shape, N), device=META, seed=0)


KINDS = ("vectors", "images", "zoomed images")


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_of_dpc_neither_copies_nor_waits(kind, monkeypatch):
    with Drawing():
        run = on_device(kind, monkeypatch)
        dpc = DPC(batch=B, lambda_u=25.0)
        first, second = dpc.setup(run).learners
        x, u = (iter(run.batches(B, rows, ("weak", "weak"), forever=True))
                for rows in (torch.arange(32), torch.arange(32, N)))  # fmt: skip
        clean = torch.ones(N, device=META)

        def step() -> None:
            one, two = next(x), next(u)
            mixed = dpc.mix(first, second, one, two, clean[one.index], run)
            run.step(first, *dpc.losses(first, mixed, 20.0))

        step()  # the first makes what is kept for later: the order of a pass, constants of views
        with Watching() as seen:
            step()
        passes = Watching()
        views = torch.zeros(4 * B, *run.task.views.plain(run.x.take(torch.arange(1))).shape[1:])
        views = views.to(META)
        with passes:
            for net in (first.net, first.net, second.net):
                with torch.no_grad():
                    net(views[: 2 * B])
            features = first.net.trunk_features(views)
            heads = first.net.head("label", features).sum() + first.net.head("mix", features).sum()
            heads.backward()
            first.optimiser.step()
    assert seen.between == []
    assert seen.count - passes.count <= MOST[kind]


def test_the_first_split_by_linear_models_is_on_the_device(monkeypatch):
    own = DPC(epochs=3, warmup=0, start="crossfit", selector="confident")
    with Drawing():
        run = on_device("vectors", monkeypatch)
        state = own.setup(run)
        assert state.clean.device != META  # numbers of the device cannot pick from these
        run.epoch = 1
        assert {clean.device for clean in own.splits(state, run)} == {META}


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_of_cross_entropy_neither_copies_nor_waits(kind, monkeypatch):
    with Drawing():
        run = on_device(kind, monkeypatch)
        method = CrossEntropy(batch=B)
        state = method.setup(run)
        stream = iter(run.batches(B, forever=True))
        next(stream)
        with Watching() as seen:
            batch = next(stream)
            loss = method.objective.of_labels(state.learner.net(batch.views[0]), batch.y)
            run.step(state.learner, loss.mean())
    assert seen.between == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_set_is_predicted_where_it_is(kind, monkeypatch):
    with Drawing():
        run = on_device(kind, monkeypatch)
        net = CrossEntropy().setup(run).learner.net
        run.predict(net)  # the first makes the constants of views
        with Watching() as seen:
            run.predict(net)
    assert seen.between == ["aten.index.Tensor"]  # rows are named by numbers of the host


def test_what_is_copied_in_a_step_is_seen(monkeypatch):
    with Drawing():
        run = on_device("vectors", monkeypatch)
        with Watching() as seen:
            torch.arange(3).to(META)
            with pytest.raises(RuntimeError):
                run.y.sum().item()
    assert seen.between == ["aten._to_copy.default"]


def test_inputs_go_to_the_device_where_they_fit(monkeypatch):
    data = torch.arange(60).view(10, 6).float()
    whole, part = Resident(data), Subset(Resident(data), torch.tensor([7, 2]))
    assert batches.inputs_on(whole, torch.device("cpu")) is whole
    assert batches.inputs_on(whole, META, room=239) is whole
    for x, size in ((whole, 10), (part, 2)):
        there = batches.inputs_on(x, META, room=240)
        assert isinstance(there, Resident)
        assert there.data.shape == (size, 6)
        assert there.data.device == META


@pytest.mark.parametrize("name", ["R_SERIES", "XQ_SERIES", "TRIGAMMA_SERIES"])
def test_the_series_of_a_device_are_those_of_the_cpu(name):
    u = torch.linspace(0, 1 / 16, 1001, dtype=torch.float64, requires_grad=True)
    found = dirichlet._by_powers(u, vars(dirichlet)[name])
    expected = dirichlet._odd_series(u, vars(dirichlet)[name])
    torch.testing.assert_close(found, expected, rtol=1e-14, atol=0)
    slopes = [torch.autograd.grad(value.sum(), u)[0] for value in (found, expected)]
    torch.testing.assert_close(*slopes, rtol=1e-13, atol=1e-15)
