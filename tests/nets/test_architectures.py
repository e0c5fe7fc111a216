"""The networks against published counts of parameters and operations, and blocks worked by hand."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from labelproof.nets import (
    NETS,
    InceptionResNetV2,
    MultiHead,
    heads,
    preact_resnet18,
    resnet34,
    resnet50,
)
from labelproof.nets.inception_resnet_v2 import BLOCK_8, Residual
from labelproof.nets.resnet import BasicBlock, Bottleneck, HePreActBlock, PreActBlock


def on_meta(make, classes, head=heads.linear):
    """A classifier without memory for weights, so that even the largest one costs nothing."""
    with torch.device("meta"):
        trunk = make()
        return MultiHead(trunk, {"label": head(trunk.features, classes)})


def parameters(net):
    return sum(p.numel() for p in net.parameters())


@pytest.mark.parametrize(
    ("make", "classes", "count"),
    [
        (preact_resnet18, 10, 11_171_274),
        (preact_resnet18, 100, 11_217_444),
        (resnet34, 10, 21_282_122),
        (resnet34, 100, 21_328_292),
        (lambda: resnet50(stem="imagenet"), 1000, 25_557_032),
        (lambda: resnet50(stem="cifar"), 10, 23_520_842),
        (InceptionResNetV2, 1000, 55_843_464),
    ],
)
def test_parameter_counts_are_the_published_ones(make, classes, count):
    assert parameters(on_meta(make, classes)) == count


def test_two_headed_preact18_has_the_published_count():
    with torch.device("meta"):
        both = {"label": heads.linear(512, 10), "mix": heads.mlp(512, 10)}
        assert parameters(MultiHead(preact_resnet18(), both)) == 11_706_836


@pytest.mark.parametrize(
    ("make", "classes", "side", "giga_macs"),
    [
        (preact_resnet18, 10, 32, 0.56),
        (resnet34, 10, 32, 1.16),
        (lambda: resnet50(stem="imagenet"), 1000, 224, 4.09),
        (lambda: resnet50(stem="cifar"), 10, 32, 1.30),
        (InceptionResNetV2, 1000, 299, 13.16),  # 13.18 where BN counts two a value
    ],
)
def test_operation_counts_are_the_published_ones(make, classes, side, giga_macs):
    net = on_meta(make, classes).eval()
    with FlopCounterMode(display=False) as counter:
        net(torch.empty(1, 3, side, side, device="meta"))
    assert round(counter.get_total_flops() / 2e9, 2) == giga_macs


@pytest.mark.parametrize("stride", [1, 2])
def test_preact_block_takes_its_shortcut_after_the_first_activation(stride):
    torch.manual_seed(0)
    block = PreActBlock(4, 6, stride).eval()
    block.bn1.running_mean.normal_()
    x = torch.randn(2, 4, 8, 8)
    active = (block.bn1(x)).clamp(min=0)
    inner = F.conv2d(active, block.conv1.weight, stride=stride, padding=1)
    branch = F.conv2d(block.bn2(inner).clamp(min=0), block.conv2.weight, padding=1)
    shortcut = F.conv2d(active, block.shortcut.weight, stride=stride)
    torch.testing.assert_close(block(x), branch + shortcut)


def test_an_identity_shortcut_passes_the_first_activation_on_and_he_passes_the_input():
    x = torch.randn(2, 4, 8, 8)
    for make, kept in ((PreActBlock, x.clamp(min=0)), (HePreActBlock, x)):
        block = make(4, 4, 1).eval()
        nn.init.zeros_(block.conv2.weight)
        assert block.shortcut is None
        torch.testing.assert_close(block(x), kept, rtol=0, atol=1e-4)


@pytest.mark.parametrize("make", [BasicBlock, Bottleneck])
def test_postact_block_ends_in_relu_of_branch_and_normalised_shortcut(make):
    block = make(4, 8, 2).eval()
    x = torch.randn(2, 4, 8, 8)
    wide = 8 * make.expansion
    assert isinstance(block.shortcut[1], nn.BatchNorm2d)
    assert block(x).shape == (2, wide, 4, 4)
    assert (block(x) >= 0).all()
    nn.init.zeros_(block.branch[-1].weight)
    torch.testing.assert_close(block(x), block.shortcut(x).relu())


def test_preact18_has_no_activation_after_its_last_block():
    torch.manual_seed(0)
    trunk = preact_resnet18(width=8)
    norms = [m for m in trunk.modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(norms) == 17  # one in the stem and two a block
    assert (trunk(torch.randn(4, 3, 32, 32)) < 0).any()


@pytest.mark.parametrize("side", [16, 32, 33, 64])
def test_residual_trunks_take_other_image_sizes(side):
    trunk = preact_resnet18(width=4)
    assert trunk(torch.randn(2, 3, side, side)).shape == (2, trunk.features) == (2, 32)


def test_bottleneck_takes_its_stride_in_the_middle():
    block = Bottleneck(8, 4, 2)
    strides = [m.stride for m in block.branch if isinstance(m, nn.Conv2d)]
    assert strides == [(1, 1), (2, 2), (1, 1)]


def inception_maps(side):
    with torch.device("meta"):
        trunk = InceptionResNetV2().eval()
        maps = [trunk.stem(torch.empty(1, 3, side, side))]
        for part in trunk.body:
            maps.append(part(maps[-1]))
    return [tuple(m.shape[1:]) for m in maps]


def test_inception_resnet_maps_have_the_published_sizes():
    sizes = inception_maps(299)
    assert sizes[0] == (192, 35, 35)
    assert sizes[1:12] == [(320, 35, 35)] * 11
    assert sizes[12:33] == [(1088, 17, 17)] * 21
    assert sizes[33:44] == [(2080, 8, 8)] * 11
    assert sizes[44:] == [(1536, 8, 8)]


def test_inception_resnet_scales_its_residuals_and_leaves_the_last_one_open():
    with torch.device("meta"):
        trunk = InceptionResNetV2()
    blocks = [m for m in trunk.body if isinstance(m, Residual)]
    assert [b.scale for b in blocks] == [0.17] * 10 + [0.10] * 20 + [0.20] * 9 + [1.0]
    assert [b.relu for b in blocks] == [True] * 39 + [False]
    assert {m.eps for m in trunk.modules() if isinstance(m, nn.BatchNorm2d)} == {1e-3}


def test_inception_residual_adds_the_scaled_projection():
    block = Residual(8, BLOCK_8, scale=0.2, relu=False).eval()
    x = torch.randn(1, 8, 3, 3)
    nn.init.zeros_(block.project.weight)
    nn.init.constant_(block.project.bias, 5.0)
    torch.testing.assert_close(block(x), x + 1.0)


def test_inception_average_pool_leaves_the_border_as_bright_as_the_middle():
    with torch.device("meta"):
        (pool,) = [m for m in InceptionResNetV2().modules() if isinstance(m, nn.AvgPool2d)]
    ones = torch.ones(1, 1, 4, 4)
    assert torch.equal(pool(ones), ones)


def test_inception_resnet_runs_on_75_pixels():
    torch.manual_seed(0)
    trunk = NETS["inception_resnet_v2"]((3, 75, 75)).eval()
    with torch.no_grad():
        out = trunk(torch.randn(1, 3, 75, 75))
    assert out.shape == (1, 1536)
    assert (out >= 0).all()
    assert out.std() > 0
