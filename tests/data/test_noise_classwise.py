"""Classwise noise against the definitions: rates within three deviations, maps, exact counts."""

import json

import numpy as np
import pytest
import torch

from labelproof.errors import BadInput
from labelproof.noise import apply_noise, classwise, from_matrix, parse_noise, symmetric
from labelproof.noise.classwise import CIFAR100_SUPERCLASS, TARGETS

N = 50_000
Y10 = np.arange(N) % 10
Y100 = np.arange(N) % 100


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def near(share: float, expected: float, count: int) -> bool:
    """Within three deviations of a binomial share."""
    return abs(share - expected) <= 3 * (expected * (1 - expected) / count) ** 0.5 + 1e-12


@pytest.mark.parametrize(("y", "classes"), [(Y10, 10), (Y100, 100)])
@pytest.mark.parametrize("rate", [0.2, 0.5, 0.8])
def test_symmetric_redraws_over_all_classes(y, classes, rate):
    noise = symmetric(y, classes, rate, rng())
    changed = (noise.labels != y).sum()
    assert changed <= int(rate * N)
    # of int(rate N) redrawn labels, (C - 1) / C come out wrong
    assert near(changed / int(rate * N), 1 - 1 / classes, int(rate * N))
    assert noise.realised == changed / N
    off = noise.matrix[~np.eye(classes, dtype=bool)]
    assert abs(off.mean() - rate / classes) < 0.01
    assert noise.labels.min() == 0
    assert noise.labels.max() == classes - 1


def test_symmetric_without_exact_counts_is_binomial():
    counts = [(symmetric(Y10, 10, 0.5, rng(s), exact=False).labels != Y10).sum() for s in range(8)]
    assert len(set(counts)) > 1
    assert near(np.mean(counts) / N, 0.45, 8 * N)


@pytest.mark.parametrize("rate", [0.2, 0.45, 1.0])
def test_symmetric_exclusive_changes_exactly_its_share(rate):
    noise = classwise("symmetric-exclusive", Y10, 10, rate, rng())
    assert (noise.labels != Y10).sum() == int(rate * N)
    off = noise.matrix[~np.eye(10, dtype=bool)]
    assert abs(off - rate / 9).max() < 4 * (rate / 9 / 5000) ** 0.5
    loose = classwise("symmetric-exclusive", Y10, 10, rate, rng(), exact=False)
    assert near(loose.realised, rate, N)


@pytest.mark.parametrize("select", ["bernoulli", "global", "per-class"])
@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_asymmetric_cifar10_moves_five_classes(select, rate):
    noise = classwise("asymmetric-cifar10", Y10, 10, rate, rng(), select=select)
    assert near(noise.realised * 2, rate, N // 2)
    moves = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}
    for label in range(10):
        row = noise.matrix[label].copy()
        if label in moves:
            assert near(row[moves[label]], rate, 5000)
            row[moves[label]] = 0
        assert row[label] == row.sum()
    if select == "per-class":
        assert noise.realised == rate / 2


def test_asymmetric_cifar10_histogram():
    counts = np.bincount(classwise("asymmetric-cifar10", Y10, 10, 0.4, rng()).labels)
    expected = np.array([7000, 7000, 3000, 5000, 3000, 5000, 5000, 7000, 5000, 3000])
    assert abs(counts - expected).max() < 3 * (5000 * 0.4 * 0.6) ** 0.5 * 1.5
    assert counts[6] == counts[8] == 5000


def test_superclasses_are_the_published_ones():
    groups = [np.flatnonzero(np.array(CIFAR100_SUPERCLASS) == g).tolist() for g in range(20)]
    assert all(len(group) == 5 for group in groups)
    assert groups[1] == [1, 32, 67, 73, 91]  # fish
    assert groups[0] == [4, 30, 55, 72, 95]  # aquatic mammals
    assert groups[18] == [8, 13, 48, 58, 90]  # vehicles 1


def test_rings_stay_in_their_groups():
    group = np.array(CIFAR100_SUPERCLASS)
    true, blocks = TARGETS["asymmetric-cifar100"], TARGETS["asymmetric-cifar100-blocks"]
    assert sorted(true) == sorted(blocks) == list(range(100))
    assert (group[true] == group).sum() == 100
    assert (group[blocks] == group).sum() == 6
    assert blocks[:5].tolist() == [1, 2, 3, 4, 0]
    assert true[[1, 32, 67, 73, 91]].tolist() == [32, 67, 73, 91, 1]
    assert not (true == np.arange(100)).any()


@pytest.mark.parametrize("kind", ["asymmetric-cifar100", "asymmetric-cifar100-blocks"])
def test_asymmetric_cifar100_has_its_nominal_rate(kind):
    noise = classwise(kind, Y100, 100, 0.3, rng())
    assert near(noise.realised, 0.3, N)
    wrong = noise.labels != Y100
    assert np.array_equal(noise.labels[wrong], TARGETS[kind][Y100[wrong]])


def test_pair_moves_to_the_next_class():
    noise = classwise("pair", Y10, 10, 0.45, rng())
    assert near(noise.realised, 0.45, N)
    shift = (noise.labels - Y10) % 10
    assert set(shift) == {0, 1}


def test_matrix_rows_are_followed():
    matrix = np.array([[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]])
    y = np.arange(30_000) % 3
    noise = from_matrix(y, matrix, rng())
    for i in range(3):
        for j in range(3):
            assert near(noise.matrix[i, j], matrix[i, j], 10_000)
    assert noise.rate == pytest.approx((0.3 + 0 + 0.5) / 3)


def test_matrix_rounded_to_three_digits_is_accepted():
    noise = from_matrix([0, 1, 2], np.full((3, 3), 0.333), rng())
    assert set(noise.labels) <= {0, 1, 2}


@pytest.mark.parametrize(
    "matrix",
    [[[0.5, 0.4], [0, 1]], [[1.5, -0.5], [0, 1]], [[1.0, 0.0]], [[np.nan, 1], [0, 1]], [1.0, 0.0]],
)
def test_matrix_that_is_none_is_refused(matrix):
    with pytest.raises(BadInput, match="transition matrix"):
        from_matrix([0, 1], matrix, rng())


ALL = [
    "symmetric",
    "symmetric-exclusive",
    "asymmetric-cifar10",
    "asymmetric",
    "pair",
]


@pytest.mark.parametrize("kind", ALL)
def test_rate_zero_changes_nothing(kind):
    noise = apply_noise(parse_noise(f"{kind}:0"), Y10, list("abcdefghij"), None, 0)
    assert np.array_equal(noise.labels, Y10)
    assert noise.realised == 0
    assert np.array_equal(noise.matrix, np.eye(10))


@pytest.mark.parametrize("kind", ALL)
def test_draws_follow_the_seed_alone(kind):
    spec = parse_noise(f"{kind}:0.4")
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - the global state is what is watched
    first = apply_noise(spec, Y10, list("abcdefghij"), None, 1)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    again = apply_noise(spec, torch.from_numpy(Y10), list("abcdefghij"), None, 1)
    other = apply_noise(spec, Y10, list("abcdefghij"), None, 2)
    assert np.array_equal(first.labels, again.labels)
    assert not np.array_equal(first.labels, other.labels)
    assert first.labels.dtype == np.int64
    assert first.describe()["labels_sha256"] == again.describe()["labels_sha256"]


def test_given_labels_are_left_alone_and_the_record_is_json():
    y = Y10[:100].copy()
    noise = apply_noise(parse_noise("symmetric:0.4"), y, list("abcdefghij"), None, 3)
    assert np.array_equal(y, Y10[:100])
    about = json.loads(json.dumps(noise.describe()))
    assert about["kind"] == "symmetric"
    assert about["rate"] == 0.4
    assert about["seed"] == 3
    assert about["realised"] == noise.realised
    assert about["options"] == {"exact": True}
    assert np.allclose(about["matrix"], noise.matrix, atol=1e-6)


def test_many_classes_are_described_by_their_transitions():
    noise = classwise("pair", np.arange(300), 300, 1.0, rng())
    about = noise.describe()
    assert "matrix" not in about
    assert about["transitions"][0] == [0, 1, 1.0]
    assert len(about["transitions"]) == 300


def test_a_class_that_does_not_occur_keeps_its_row():
    noise = symmetric([0, 0, 1], 3, 1.0, rng())
    assert noise.matrix[2].tolist() == [0, 0, 1]
    assert np.allclose(noise.matrix.sum(1), 1)


@pytest.mark.parametrize(
    ("labels", "classes", "rate", "message"),
    [
        ([0, 3], 3, 0.1, "between 0 and 2"),
        ([-1, 0], 3, 0.1, "between 0 and 2"),
        ([0.0, 1.0], 3, 0.1, "integer labels"),
        ([[0, 1]], 3, 0.1, "one-dimensional"),
        ([0, 1], 3, 1.5, "between 0 and 1"),
        ([0, 1], 3, float("nan"), "between 0 and 1"),
        ([0, 0], 1, 0.1, "two classes"),
    ],
)
def test_bad_labels_and_rates_are_one_sentence(labels, classes, rate, message):
    with pytest.raises(BadInput, match=message):
        symmetric(labels, classes, rate, rng())


def test_cifar_maps_refuse_other_class_counts():
    with pytest.raises(BadInput, match="needs 10 classes, but the data have 3"):
        classwise("asymmetric-cifar10", [0, 1], 3, 0.1, rng())
    with pytest.raises(BadInput, match="pair, symmetric, or matrix"):
        apply_noise(parse_noise("asymmetric:0.2"), [0, 1], ("a", "b"), None, 0)


@pytest.mark.parametrize(
    ("noise", "digest"),
    [
        ("symmetric:0.4", "afac55e8c440e0ed"),
        ("symmetric:0.4,exact=false", "b5a4162344d9dc60"),
        ("symmetric-exclusive:0.4", "e7e8113ca92e2488"),
        ("symmetric-exclusive:0.4,exact=false", "693f074e29fd610b"),
        ("pair:0.4", "9afc2d883af69d53"),
        ("pair:0.4,select=per-class", "f19004be337f1322"),
        ("asymmetric-cifar10:0.4", "be9e0a7b14c2e54b"),
        ("asymmetric-cifar10:0.4,select=global", "36f8ce4d6709c398"),
        ("asymmetric-cifar100:0.4", "5236d6d479ef7f9c"),
        ("asymmetric-cifar100-blocks:0.4,select=per-class", "2811fdc7af6ca510"),
    ],
)
def test_the_same_seed_gives_the_labels_of_earlier_versions(noise, digest):
    y = np.random.default_rng(3).integers(0, 100 if "cifar100" in noise else 10, 5000)
    classes = [str(label) for label in range(y.max() + 1)]
    described = apply_noise(parse_noise(noise), y, classes, None, 7).describe()
    assert described["labels_sha256"].startswith(digest)
