"""Every published network against numbers that released code gives for the same weights.

The numbers were recorded in double precision and eval mode, with weights and a picture by formula
(`filled`): PreAct ResNet-18, ResNet-34 and ResNet-50 from the DivideMix release; He et al.'s form
of PreAct ResNet-18 after pytorch-cifar; ResNet-18 after the layout of ProMix's release; the small
ResNets after the one of Meta-Weight-Net; Inception-ResNet-v2 from the package pretrainedmodels
0.7.4 with a mean for its fixed pooling; the nine-layer, six-layer and LeNet networks of Co-teaching
and Co-teaching+; after their Keras definition the eight-layer network of D2L; a narrower Wide
ResNet after that of Meta-Weight-Net.
"""

import pytest
import torch
import torch.nn.functional as F
from filled import fill, picture, wave
from torch import nn

from labelproof.nets import MultiHead, build_trunk, heads
from labelproof.nets.resnet import WideResNet

RELEASED = {
    "preact18": (0.290392004, 0.136078575, -0.148363775, -0.351500417),
    "preact18_he": (0.435537472, 0.015900268, -0.434405337, -0.566674964),
    "preact32": (-6.49280993, 1.06416045, 6.7012226, 0.414267392),
    "resnet14": (0.252126128, -0.148125936, -0.32928223, -0.0295669425),
    "resnet32": (1.77360643, 2.21021301, -1.29522717, -2.61544594),
    "resnet44": (27.0284884, -15.5606666, -30.7362554, 8.22024222),
    "resnet56": (29.080486, 21.8790398, -23.968876, -27.6253258),
    "resnet18": (-0.313915343, -0.143924144, 0.127670608, 0.252122821),
    "resnet34": (0.124008424, 0.168175266, 0.05564971, -0.144413317),
    "resnet50": (-3.84450942, 5.1166454, -4.47790863, 1.87162681),
    "resnet101": (0.462074273, -0.350875734, 0.011402422, 0.116952266),
    "cnn8": (-0.0905660282, -0.0891445442, -0.0947970725, -0.0985932966),
    "cnn9": (0.171457184, -0.209846518, 0.136723874, -0.292612489),
    "cnn6": (-0.0785234581, -0.117144414, -0.131549576, -0.120536476),
    "lenet": (-0.446122347, 0.0126954019, 0.262061503, -0.250977249),
    "inception_resnet_v2": (0.0464444801, -0.0527464215, -0.0447673076, -0.0961093533),
}


def classifier(name, side, **heads_by_name):
    trunk = build_trunk(name, (3, side, side), 10**5)
    made = {key: head(trunk.features, 10) for key, head in heads_by_name.items()}
    return fill(MultiHead(trunk, made).double().eval())


@pytest.mark.parametrize("name", list(RELEASED))
def test_outputs_are_those_of_released_code(name):
    side = 107 if name.startswith("inception") else 32
    net = classifier(name, side, label=heads.linear)
    with torch.no_grad():
        logits = net(picture(side))[0, :4]
    torch.testing.assert_close(logits, torch.tensor(RELEASED[name]).double(), rtol=1e-7, atol=1e-8)


def test_a_wide_resnet_is_that_of_meta_weight_net():
    trunk = WideResNet(28, 2)
    net = fill(MultiHead(trunk, {"label": heads.linear(trunk.features, 10)}).double().eval())
    with torch.no_grad():
        logits = net(picture(32))[0, :4]
    expected = torch.tensor((1.73101802, -1.59219808, 1.26516014, -1.10451707)).double()
    torch.testing.assert_close(logits, expected, rtol=1e-7, atol=1e-8)


def test_the_two_forms_of_preact18_differ_although_their_weights_are_the_same():
    ours, he = (classifier(n, 32, label=heads.linear) for n in ("preact18", "preact18_he"))
    for one, other in zip(ours.parameters(), he.parameters(), strict=True):
        assert torch.equal(one, other)
    with torch.no_grad():
        assert (ours(picture(32)) - he(picture(32))).abs().max() > 0.1


def test_both_heads_of_dpc_worked_by_hand():
    net = classifier("preact18", 32, label=heads.linear, mix=heads.mlp)
    with torch.no_grad():
        label, mix = net(picture(32), "label", "mix")
        features = net.trunk(picture(32))
    linear, first, second = (m for m in net.heads.modules() if isinstance(m, nn.Linear))
    torch.testing.assert_close(label, features @ linear.weight.T + linear.bias)
    hidden = (features @ first.weight.T + first.bias).clamp(min=0)
    torch.testing.assert_close(mix, hidden @ second.weight.T + second.bias)
    assert first.weight.shape == (1024, 512)
    assert torch.equal(linear.weight, 2 * wave(linear.weight.shape, 0) / 512**0.5)


def test_compact_worked_by_hand():
    trunk = fill(build_trunk("compact", (3, 32, 32), 10**5).double().eval())
    convolutions = [m for m in trunk.modules() if isinstance(m, nn.Conv2d)]
    norms = [m for m in trunk.modules() if isinstance(m, nn.BatchNorm2d)]
    maps = F.gelu(F.conv2d(picture(32), convolutions[0].weight, convolutions[0].bias))
    for number in range(6):
        maps = F.conv2d(maps, convolutions[number + 1].weight, padding=1)
        if number % 2 == 0:
            maps = F.max_pool2d(maps, 2, ceil_mode=True)
        norm = norms[number]
        spread = (norm.running_var + norm.eps).sqrt()[:, None, None]
        scaled = (maps - norm.running_mean[:, None, None]) / spread
        maps = F.gelu(scaled * norm.weight[:, None, None] + norm.bias[:, None, None])
    with torch.no_grad():
        torch.testing.assert_close(trunk(picture(32)), maps.mean((2, 3)))
    assert [c.out_channels for c in convolutions] == [24, 32, 32, 128, 128, 128, 128]
    assert sum(p.numel() for p in trunk.parameters()) == 496_824


def test_nine_layers_drop_channels_in_training_alone():
    trunk = build_trunk("cnn9", (3, 32, 32), 10**5)
    x = torch.randn(4, 3, 32, 32)
    with torch.no_grad():
        assert not torch.equal(trunk(x), trunk(x))
        trunk.eval()
        assert torch.equal(trunk(x), trunk(x))


@pytest.mark.parametrize(("name", "pixels"), [("cnn9", 28), ("cnn6", 8), ("lenet", 16)])
def test_the_smallest_image_goes_through(name, pixels):
    trunk = build_trunk(name, (1, pixels, pixels), 10).eval()
    assert trunk(torch.zeros(2, 1, pixels, pixels)).shape == (2, trunk.features)
