"""Which views vectors get: scale and waves are chosen by held-out given labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from labelproof import NoisyLabelClassifier
from labelproof.cli.app import app
from labelproof.data.examples import Examples, Resident
from labelproof.nets.plain import MLP
from labelproof.views.defaults import vector_views

pytestmark = pytest.mark.whole  # what is chosen here is not tried elsewhere


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rings(size: int, seed: int = 0, wrong: float = 0.2) -> tuple[Tensor, Tensor, Tensor]:
    """Two classes, one around the other, and their labels before and after some went wrong."""
    x = torch.randn(size, 2, generator=rng(seed))
    true = (x.norm(dim=1) > 1.18).long()
    flip = torch.rand(size, generator=rng(seed + 1)) < wrong
    return x, true, torch.where(flip, 1 - true, true)


def chosen(x: Tensor, y: Tensor, waves: bool = True):
    return vector_views(Examples(x=Resident(x), labels=None), y, waves)


def test_waves_where_classes_are_no_linear_function_of_few_columns() -> None:
    x, _, y = rings(400)
    views = chosen(x, y)
    assert views.waves > 0
    assert views.plain(x).shape == (400, 2 + views.waves)
    assert chosen(x, y, waves=False).waves == 0


def test_no_waves_where_a_line_is_enough_or_columns_are_many() -> None:
    x = torch.randn(400, 3, generator=rng(3))
    y = (x[:, 0] + 0.3 * torch.randn(400, generator=rng(4)) > 0).long()
    assert chosen(x, y).waves == 0
    near, _, given = rings(400)
    wide = torch.cat([near, 0.01 * torch.randn(400, 120, generator=rng(5))], 1)
    assert chosen(wide, given).waves == 0


def test_each_column_has_its_own_scale_where_that_predicts_better() -> None:
    x = torch.randn(600, 12, generator=rng(6))
    y = (x[:, 0] + 0.5 * torch.randn(600, generator=rng(7)) > 0).long()
    x[:, 1:] *= 15.0  # the column that tells the classes apart is small beside the others
    views = chosen(x, y)
    assert torch.allclose(torch.as_tensor(views.std), x.std(0, correction=0), rtol=1e-4)


def test_too_few_examples_choose_nothing() -> None:
    x, _, y = rings(30)
    assert chosen(x, y).waves == 0


def test_a_plan_says_so(tmp_path: Path) -> None:
    x, _, y = rings(400)
    np.savez(tmp_path / "rings.npz", x=x.numpy(), y=y.numpy())
    plan = ["plan", str(tmp_path / "rings.npz"), "--method", "dpc"]
    told = CliRunner().invoke(app, plan)
    assert "and add 256 random cosine features, as held-out labels prefer" in told.output
    published = CliRunner().invoke(app, [*plan, "--recipe", "paper"])
    assert published.exit_code == 0
    assert "cosine" not in published.output


@pytest.mark.slow
def test_the_default_learns_what_no_line_can_tell_apart() -> None:
    x, _, y = rings(500)
    test, true, _ = rings(1000, seed=50)
    model = NoisyLabelClassifier(settings={"steps": 60}).fit(x.numpy(), y.numpy())
    assert np.mean(model.predict(test.numpy()) == true.numpy()) > 0.85


def test_a_network_of_the_users_own_gets_vectors_as_wide_as_the_users() -> None:
    x, _, y = rings(200)
    model = NoisyLabelClassifier("ce", net=lambda: MLP(2, hidden=8), epochs=1, calibrate=False)
    assert model.fit(x.numpy(), y.numpy()).predict(x.numpy()).shape == (200,)
