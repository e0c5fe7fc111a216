"""MultiHead: names, one trunk pass, precision; and the width of a user's own trunk."""

import copy

import pytest
import torch
from torch import nn

from labelproof.errors import BadInput
from labelproof.nets import MLP, MultiHead, SmallCNN, feature_width, heads


class Counting(nn.Module):
    """A trunk that counts its passes and remembers the type it computed in."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 6)
        self.features = 6
        self.passes = 0

    def forward(self, x):
        self.passes += 1
        out = self.layer(x)
        self.dtype = out.dtype
        return out


def two_heads(precision=None):
    torch.manual_seed(0)
    both = {"label": heads.linear(6, 3), "mix": heads.mlp(6, 3)}
    return MultiHead(Counting(), both, precision).eval()


@pytest.fixture
def x():
    return torch.randn(5, 4, generator=torch.Generator().manual_seed(1))


def test_plain_call_is_the_first_head(x):
    net = two_heads()
    assert torch.equal(net(x), net.heads["label"](net.trunk(x)))


def test_named_heads_share_one_trunk_pass(x):
    net = two_heads()
    label, mix = net(x, "label", "mix")
    assert net.trunk.passes == 1
    assert torch.equal(label, net(x))
    assert torch.equal(mix, net.heads["mix"](net.trunk(x)))


def test_order_of_names_is_order_of_outputs(x):
    net = two_heads()
    mix, label = net(x, "mix", "label")
    assert torch.equal(label, net(x))
    assert torch.equal(mix, net(x, "mix"))


def test_trunk_features_are_what_the_heads_see(x):
    net = two_heads()
    assert torch.equal(net.heads["label"](net.trunk_features(x)), net(x))


def test_unused_head_gets_no_gradient(x):
    net = two_heads()
    net(x).sum().backward()
    assert all(p.grad is None for p in net.heads["mix"].parameters())
    assert all(p.grad is not None for p in net.heads["label"].parameters())


def test_precision_lowers_the_inside_and_keeps_float32_outside(x):
    net, full = two_heads(torch.bfloat16), two_heads()
    label, mix = net(x, "label", "mix")
    assert net.trunk.dtype == torch.bfloat16
    assert {label.dtype, mix.dtype, net.trunk_features(x).dtype} == {torch.float32}
    torch.testing.assert_close(label, full(x), rtol=0.05, atol=0.05)
    assert not torch.equal(label, full(x))
    label.sum().backward()
    assert net.trunk.layer.weight.grad.dtype == torch.float32


def test_without_precision_an_outer_autocast_still_rules(x):
    net = two_heads()
    with torch.autocast("cpu", torch.bfloat16):
        out = net(x)
    assert net.trunk.dtype == torch.bfloat16
    assert out.dtype == torch.float32


def test_works_with_functional_call_and_deepcopy(x):
    net = two_heads(torch.bfloat16)
    zeros = {name: torch.zeros_like(p) for name, p in net.named_parameters()}
    assert (torch.func.functional_call(net, zeros, (x,)) == 0).all()
    assert torch.equal(copy.deepcopy(net)(x), net(x))


def test_weights_survive_a_state_dict(x):
    net, other = two_heads(), two_heads()
    for p in other.parameters():
        nn.init.normal_(p)
    other.load_state_dict(net.state_dict())
    assert torch.equal(net(x), other(x))


def test_no_heads_is_bad_input():
    with pytest.raises(BadInput, match="at least one head"):
        MultiHead(Counting(), {})


def test_mlp_head_doubles_the_features():
    first, relu, dropout, last = heads.mlp(512, 10)
    assert (first.out_features, last.in_features, last.out_features) == (1024, 1024, 10)
    assert isinstance(relu, nn.ReLU)
    assert dropout.p == 0.5


def test_width_of_our_own_trunks_needs_no_pass(x):
    trunk = Counting()
    assert feature_width(trunk, x) == 6
    assert trunk.passes == 0


def test_width_of_a_foreign_trunk_is_found_by_a_pass(x):
    trunk = nn.Sequential(nn.Linear(4, 9), nn.BatchNorm1d(9))
    before = copy.deepcopy(trunk.state_dict())
    assert feature_width(trunk, x) == 9
    assert trunk.training
    assert all(torch.equal(before[k], v) for k, v in trunk.state_dict().items())


def test_width_pass_keeps_frozen_parts_frozen(x):
    trunk = nn.Sequential(nn.Linear(4, 9), nn.BatchNorm1d(9), nn.ReLU())
    trunk[1].eval()
    feature_width(trunk, x)
    assert [m.training for m in trunk] == [True, False, True]


def test_a_features_module_is_not_a_width(x):
    class Published(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Linear(4, 11)

        def forward(self, x):
            return self.features(x)

    assert feature_width(Published(), x) == 11


@pytest.mark.parametrize(
    ("trunk", "named"),
    [(nn.Conv2d(3, 5, 1), r"\(2, 5, 8, 8\)"), (nn.MaxPool2d(2, return_indices=True), "tuple")],
)
def test_a_trunk_without_flat_features_is_refused(trunk, named):
    with pytest.raises(BadInput, match=named):
        feature_width(trunk, torch.rand(2, 3, 8, 8))


@pytest.mark.parametrize("trunk", [SmallCNN(width=4), MLP(12, hidden=10)])
def test_declared_width_is_true(trunk):
    x = torch.rand(2, 3, 8, 8) if isinstance(trunk, SmallCNN) else torch.rand(2, 12)
    assert trunk(x).shape[1] == trunk.features
