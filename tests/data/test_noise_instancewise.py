"""Noise that depends on the example."""

import numpy as np
import pytest
import torch

from labelproof.data.examples import Resident
from labelproof.errors import BadInput
from labelproof.noise import apply_noise, instance, parse_noise, pmd, probe_probabilities

CLASSES = tuple("abcdefghij")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def images(count: int, seed: int = 0) -> Resident:
    draws = torch.Generator().manual_seed(seed)
    return Resident(torch.randint(256, (count, 8, 8, 3), generator=draws, dtype=torch.uint8))


@pytest.mark.parametrize(("rate", "mean"), [(0.2, 0.2055), (0.4, 0.4), (0.6, 0.6)])
@pytest.mark.parametrize("scaling", ["raw", "standard"])
def test_instance_rate_is_the_mean_of_the_cut_normal(rate, mean, scaling):
    y = np.arange(20_000) % 10
    noise = instance(y, 10, rate, rng(), inputs=images(20_000), scaling=scaling)
    assert abs(noise.realised - mean) < 3 * (mean * (1 - mean) / 20_000) ** 0.5
    assert np.allclose(noise.matrix.sum(1), 1)


def test_instance_probabilities_are_xias_formula():
    """Shares over many draws for a few inputs, against softmax(x W) with the weights replayed."""
    x = torch.tensor([[0.3, -0.2], [-0.5, 0.4]])
    repeats = 20_000
    y = np.repeat([0, 1], repeats)
    noise = instance(y, 3, 1.0, rng(4), inputs=Resident(x.repeat_interleave(repeats, 0)))
    replay = rng(4)
    share = replay.normal(1.0, 0.1, 2 * repeats)
    while ((share < 0) | (share > 1)).any():
        outside = (share < 0) | (share > 1)
        share[outside] = replay.normal(1.0, 0.1, int(outside.sum()))
    replay.random(2 * repeats), replay.random(2 * repeats)
    for label in (0, 1):
        weights = replay.standard_normal((2, 3), dtype=np.float32)
        scores = np.exp(x[label].numpy() @ weights)
        scores[label] = 0
        expected = scores / scores.sum() * share.mean()
        expected[label] = 1 - share.mean()
        assert abs(noise.matrix[label] - expected).max() < 0.02


def test_raw_pixels_give_one_hot_choices_and_standard_ones_spread():
    """Twenty copies of each picture: with raw pixels all copies agree on the wrong class."""
    base = images(200).data.repeat_interleave(20, 0)
    y = np.repeat(np.arange(200) % 10, 20)
    kinds = {}
    for scaling in ("raw", "standard"):
        noise = instance(y, 10, 0.9, rng(), inputs=Resident(base), scaling=scaling)
        wrong = np.where(noise.labels == y, -1, noise.labels).reshape(200, 20)
        kinds[scaling] = np.mean([len(set(row) - {-1}) for row in wrong.tolist()])
    assert kinds["raw"] < 1.02
    assert kinds["standard"] > 1.2


def test_shared_weights_make_twins_of_two_classes_agree():
    base = images(300).data.repeat(2, 1, 1, 1)
    y = np.repeat([0, 1], 300)
    for shared, low, high in ((True, 0.7, 1.0), (False, 0.0, 0.4)):
        noise = instance(y, 10, 1.0, rng(2), inputs=Resident(base), shared=shared)
        first, second = noise.labels.reshape(2, 300)
        both = (first > 1) & (second > 1)
        assert low <= (first == second)[both].mean() <= high


def test_instance_at_rate_zero_is_the_identity_and_follows_the_seed():
    y, x = np.arange(500) % 10, images(500)
    assert np.array_equal(instance(y, 10, 0.0, rng(), inputs=x).labels, y)
    spec = parse_noise("instance:0.4,scaling=standard")
    first, again = (apply_noise(spec, y, CLASSES, x, 7) for _ in range(2))
    assert np.array_equal(first.labels, again.labels)
    assert first.options == {"scaling": "standard", "shared": False}
    assert not np.array_equal(first.labels, apply_noise(spec, y, CLASSES, x, 8).labels)


def posterior(count: int, classes: int = 10) -> np.ndarray:
    return rng(1).dirichlet(np.full(classes, 0.3), count)


@pytest.mark.parametrize("kind", [1, 2, 3])
@pytest.mark.parametrize("rate", [0.0, 0.35, 0.7])
def test_pmd_reaches_its_rate_and_gives_labels_to_the_runner_up(kind, rate):
    eta = posterior(20_000)
    y, runner_up = eta.argmax(1), eta.argsort(1)[:, -2]
    noise = pmd(y, 10, rate, rng(), eta=eta, kind=kind)
    assert abs(noise.realised - rate) <= 3 * (rate * (1 - rate) / 20_000) ** 0.5
    assert ((noise.labels == y) | (noise.labels == runner_up)).all()
    assert noise.kind == f"pmd-{kind}"


@pytest.mark.parametrize(
    ("kind", "keep"),
    [
        (1, lambda d: max(0.5 + 0.5 * d**2, 0.5)),
        (2, lambda d: d**3),
        (3, lambda d: (d**3 + d**2 + d) / 3),
    ],
)
@pytest.mark.parametrize("margin", [0.2, 0.6, 1.0])
def test_pmd_keeps_by_its_polynomial_over_the_factor(kind, keep, margin):
    eta = np.tile([0.5 + margin / 2, 0.5 - margin / 2, 0.0], (20_000, 1))
    noise = pmd(np.zeros(20_000, int), 3, 0.35, rng(), eta=eta, kind=kind, factor=1.4)
    expected = 1 - keep(margin) / 1.4
    assert abs(noise.realised - expected) < 4 * (expected * (1 - expected) / 20_000) ** 0.5


def test_pmd_rate_holds_where_the_model_is_wrong():
    y = np.arange(20_000) % 10
    noise = pmd(y, 10, 0.3, rng(), eta=posterior(20_000), kind=2)
    assert abs(noise.realised - 0.3) < 0.01


def test_pmd_refuses_probabilities_of_another_shape():
    with pytest.raises(BadInput, match=r"\(4, 3\)"):
        pmd([0, 1, 2, 0], 3, 0.3, rng(), eta=np.ones((4, 2)) / 2)


def test_probe_learns_and_never_judges_what_it_saw():
    draws = rng(3)
    y = np.arange(300) % 3
    x = draws.normal(size=(300, 6)) + 3 * np.eye(3, 6)[y]
    inputs = Resident(torch.from_numpy(x).float())
    eta = probe_probabilities(inputs, y, 3, seed=0)
    assert eta.shape == (300, 3)
    assert np.allclose(eta.sum(1), 1)
    assert (eta.argmax(1) == y).mean() > 0.9
    shuffled = draws.permutation(y)
    blind = probe_probabilities(inputs, shuffled, 3, seed=0)
    assert (blind.argmax(1) == shuffled).mean() < 0.5


@pytest.mark.parametrize("kind", ["pmd-1", "pmd-2", "pmd-3"])
def test_pmd_by_name_probes_the_data(kind):
    noise = apply_noise(parse_noise(f"{kind}:0.4"), np.arange(600) % 10, CLASSES, images(600), 0)
    assert abs(noise.realised - 0.4) < 4 * (0.24 / 600) ** 0.5


def test_instance_noise_without_inputs_says_what_to_do():
    with pytest.raises(BadInput, match="labelproof fit DATA --noise instance"):
        apply_noise(parse_noise("instance:0.2"), [0, 1], ("a", "b"), None, 0)
