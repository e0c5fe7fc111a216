"""The published tables, what a level means, and how often each operation is drawn."""

import numpy as np
import pytest
import torch
from PIL import Image
from test_views_ops import PILLOW, pictures

from labelproof.views.ops import OPERATIONS
from labelproof.views.policies import (
    CIFAR10,
    CIFAR10_PRINTED,
    IMAGENET,
    NAMES,
    SMOOTH,
    RandAugment,
    apply_policy,
    draw,
    ninths,
    policy_table,
    released,
    tenths,
)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("table", [CIFAR10, IMAGENET])
def test_tables_have_25_pairs_of_known_operations(table):
    assert len(table) == 25
    assert all(len(pair) == 2 for pair in table)
    for pair in table:
        for name, chance, level in pair:
            assert name in OPERATIONS
            assert 0 <= chance <= 1
            assert 0 <= level <= 9


def test_tables_sum_to_the_published_numbers():
    """Sums over the tables as printed: a slip in any cell would show."""
    cells = [cell for pair in CIFAR10 for cell in pair]
    assert sum(chance for _, chance, _ in cells) == pytest.approx(26.5)
    assert sum(level for *_, level in cells) == 265
    assert sum(name == "Equalize" for name, *_ in cells) == 9
    assert sum(name == "TranslateY" for name, *_ in cells) == 5
    cells = [cell for pair in IMAGENET for cell in pair]
    assert sum(chance for _, chance, _ in cells) == pytest.approx(31.0)
    assert sum(level for *_, level in cells) == 287
    assert sum(name == "Equalize" for name, *_ in cells) == 17
    assert sum(name == "Rotate" for name, *_ in cells) == 6


def test_levels_of_the_cifar_policy():
    assert tenths("Rotate", 2) == (6.0, -6.0)
    assert tenths("TranslateX", 9)[0] * 32 == 9
    assert tenths("ShearY", 8)[0] == pytest.approx(0.24)
    assert tenths("Posterize", 7) == (2, 2)
    assert tenths("Solarize", 3) == (180, 180)
    assert tenths("Brightness", 7)[0] == pytest.approx(1.36)
    assert tenths("Color", 0)[0] == pytest.approx(0.1)


def test_levels_of_the_imagenet_policy():
    assert [ninths("Posterize", level)[0] for level in (5, 6, 7, 8)] == [6, 5, 5, 4]
    assert ninths("Rotate", 9) == (30.0, -30.0)
    assert ninths("Contrast", 8) == (pytest.approx(1.8), pytest.approx(0.2))
    assert ninths("Solarize", 0) == (256, 256)


@pytest.mark.parametrize(
    ("policy", "pairs"),
    [("cifar10", CIFAR10), ("cifar10_ninths", CIFAR10_PRINTED), ("imagenet", IMAGENET)],
)
def test_operations_occur_as_often_as_the_table_says(policy, pairs):
    count = 100_000
    for step, (operation, _) in enumerate(draw(policy_table(policy), count, rng())):
        share = torch.bincount(operation + 1, minlength=len(NAMES) + 1)[1:] / count
        expected = torch.zeros(len(NAMES))
        for pair in pairs:
            name = (
                SMOOTH.get(pair[step][0], pair[step][0]) if policy != "cifar10" else pair[step][0]
            )
            expected[NAMES.index(name)] += pair[step][1] / 25
        sigma = (expected * (1 - expected) / count).sqrt()
        assert ((share - expected).abs() <= 4 * sigma + 1e-9).all()


def test_geometric_signs_are_even_and_per_image():
    steps = list(draw(policy_table("cifar10"), 100_000, rng()))
    rotated = steps[0][1][steps[0][0] == NAMES.index("Rotate")]
    assert set(rotated.tolist()) == {6.0, -6.0}
    assert abs((rotated > 0).double().mean() - 0.5) < 4 * 0.5 / len(rotated) ** 0.5


def test_randaugment_draws_n_of_fourteen():
    steps = list(draw(policy_table(RandAugment(n=3, m=30)), 14_000, rng()))
    assert len(steps) == 3
    for operation, magnitude in steps:
        counts = torch.bincount(operation + 1, minlength=len(NAMES) + 1)
        assert counts[NAMES.index("Invert") + 1] == 0
        assert (counts > 0).sum() == 14
        assert counts[counts > 0].min() > 1000 - 4 * 1000**0.5
        assert set(magnitude[operation == NAMES.index("Rotate")].tolist()) == {30.0, -30.0}


def test_promix_draws_three_at_half_strength():
    named, written = policy_table("randaugment_3_15"), policy_table(RandAugment(n=3, m=15))
    assert named.rounds == 3
    assert torch.equal(named.magnitude, written.magnitude)
    assert policy_table("randaugment").rounds == 2


def test_released_policies_turn_left_alone_and_draw_signs_of_the_rest():
    assert released("Rotate", 9) == (30.0, 30.0)
    assert released("ShearX", 3) == (pytest.approx(0.1), pytest.approx(-0.1))
    for policy in ("imagenet", "cifar10_ninths"):
        table = policy_table(policy)
        assert table.fill == 128
        turned = table.magnitude[table.operation == NAMES.index("Rotate")]
        assert (turned > 0).all()
        assert not (table.operation == NAMES.index("ShearX")).any()


def test_the_policy_as_printed_has_one_level_that_fast_autoaugment_changed():
    changed = [(a, b) for a, b in zip(CIFAR10, CIFAR10_PRINTED, strict=True) if a != b]
    assert changed == [
        (
            (("Brightness", 0.9, 6), ("Color", 0.2, 6)),
            (("Brightness", 0.9, 6), ("Color", 0.2, 8)),
        )
    ]


@pytest.mark.parametrize(
    "policy", ["cifar10", "cifar10_ninths", "imagenet", RandAugment(n=2, m=10)]
)
def test_policy_is_the_drawn_operations_one_image_at_a_time(policy):
    x = pictures(32, 32).repeat(3, 1, 1, 1)
    ours = apply_policy(x, policy, rng(3))
    table = policy_table(policy)
    steps = list(draw(table, len(x), rng(3)))
    for row, image in enumerate(x):
        current = image[None]
        for operation, magnitude in steps:
            if operation[row] >= 0:
                run = OPERATIONS[NAMES[operation[row]]]
                current = run(current, magnitude[row : row + 1], table.fill)
        assert torch.equal(ours[row], current[0])


def test_cifar_policy_is_pillows_to_nearly_every_pixel():
    x = pictures(32, 32).repeat(4, 1, 1, 1)
    ours = apply_policy(x, "cifar10", rng(5)).numpy()
    steps = list(draw(policy_table("cifar10"), len(x), rng(5)))
    same = []
    for row, image in enumerate(x.numpy()):
        picture = Image.fromarray(image)
        for operation, magnitude in steps:
            if operation[row] >= 0:
                picture = PILLOW[NAMES[operation[row]]](picture, magnitude[row].item())
        same.append((np.asarray(picture) == ours[row]).mean())
    assert np.mean(same) > 0.995


def test_policy_leaves_the_batch_alone():
    x = pictures(16, 16)
    before = x.clone()
    apply_policy(x, "cifar10", rng())
    assert torch.equal(x, before)
