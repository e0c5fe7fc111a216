"""Networks by name: what "auto" stands for, and what is refused."""

import pytest
import torch
from torch import nn

from labelproof.errors import BadInput
from labelproof.nets import MLP, NETS, SmallCNN, build_trunk, choose_net


@pytest.mark.parametrize(
    ("shape", "size", "name"),
    [
        ((64,), 100, "mlp"),
        ((64,), 10**6, "mlp"),
        ((3, 8, 8), 10**6, "cnn"),
        ((3, 16, 16), 10**6, "cnn"),
        ((3, 17, 17), 5000, "preact18"),
        ((3, 32, 32), 4999, "cnn"),
        ((3, 32, 32), 5000, "preact18"),
        ((3, 33, 33), 10, "preact18"),
        ((3, 16, 64), 10, "preact18"),
        ((3, 64, 64), 10, "preact18"),
        ((3, 65, 65), 10, "resnet50"),
    ],
)
def test_auto_chooses_by_shape_and_size(shape, size, name):
    assert choose_net(shape, size) == name
    with torch.device("meta"):
        auto, named = build_trunk("auto", shape, size), build_trunk(name, shape, size)
    assert repr(auto) == repr(named)


def test_auto_gives_large_images_a_reducing_stem():
    with torch.device("meta"):
        assert build_trunk("auto", (3, 224, 224), 10).stem[0].kernel_size == (7, 7)
        assert build_trunk("resnet50", (3, 64, 64), 10).stem[0].kernel_size == (3, 3)


@pytest.mark.parametrize("name", list(NETS))
def test_every_net_gives_the_features_it_declares(name):
    shape = (20,) if name == "mlp" else (3, 96, 96)
    with torch.device("meta"):
        trunk = build_trunk(name, shape, 100).eval()
        assert isinstance(trunk.features, int)
        assert trunk(torch.empty(2, *shape)).shape == (2, trunk.features)


def test_narrow_is_a_quarter_as_wide():
    with torch.device("meta"):
        narrow, full = (build_trunk(n, (3, 32, 32), 1) for n in ("preact18_narrow", "preact18"))
    assert 4 * narrow.features == full.features == 512


def test_trunks_follow_the_channels_and_the_width_of_the_data():
    assert build_trunk("cnn", (1, 8, 8), 10)(torch.rand(2, 1, 8, 8)).shape == (2, 64)
    assert build_trunk("cnn", (1, 28, 28), 10)(torch.rand(2, 1, 28, 28)).shape == (2, 128)
    assert build_trunk("mlp", (7,), 10)(torch.rand(2, 7)).shape == (2, 512)


def test_trunks_start_from_the_random_state_of_torch():
    made: list[nn.Module] = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        made.append(build_trunk("cnn", (3, 8, 8), 10))
    same, again, other = (m.layers[0].weight for m in made)
    assert torch.equal(same, again)
    assert not torch.equal(same, other)


def test_unknown_name_suggests_the_nearest_and_lists_all():
    with pytest.raises(BadInput) as caught:
        build_trunk("preact_18", (3, 32, 32), 10)
    assert "did you mean 'preact18'?" in str(caught.value)
    assert all(name in str(caught.value) for name in [*NETS, "auto"])


def test_name_like_no_other_gets_the_list_alone():
    with pytest.raises(BadInput, match="There is no net 'zzz'") as caught:
        build_trunk("zzz", (3, 32, 32), 10)
    assert "did you mean" not in str(caught.value)


def test_vector_net_refuses_images():
    with pytest.raises(BadInput, match=r"'mlp' does not take images.*preact18"):
        build_trunk("mlp", (3, 32, 32), 10)


def test_image_nets_refuse_vectors():
    for name in set(NETS) - {"mlp"}:
        with pytest.raises(BadInput, match=r"vectors of 64 numbers; choose one of: auto, mlp\."):
            build_trunk(name, (64,), 10)


def test_inception_refuses_images_too_small_for_it():
    with pytest.raises(BadInput, match="at least 75 pixels"):
        build_trunk("inception_resnet_v2", (3, 74, 200), 10)


def test_kinds_of_the_small_nets():
    assert isinstance(build_trunk("auto", (5,), 10), MLP)
    assert isinstance(build_trunk("auto", (3, 8, 8), 10), SmallCNN)
