"""The small trunks: shapes, a perceptron by hand, and that they learn."""

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

from labelproof.nets import MLP, MultiHead, SmallCNN, heads


@pytest.mark.parametrize("side", [1, 3, 8, 28, 64])
def test_cnn_takes_small_images_of_any_size(side):
    trunk = SmallCNN(width=4).eval()
    assert trunk(torch.randn(2, 3, side, side)).shape == (2, trunk.features) == (2, 16)


def test_mlp_is_linear_and_relu():
    trunk = MLP(5, hidden=7, depth=2)
    assert [type(m) for m in trunk.layers] == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU]
    first, second = trunk.layers[0], trunk.layers[2]
    x = torch.randn(3, 5)
    hidden = (x @ first.weight.T + first.bias).clamp(min=0)
    expected = (hidden @ second.weight.T + second.bias).clamp(min=0)
    torch.testing.assert_close(trunk(x), expected)
    assert trunk.features == 7


def test_mlp_can_have_norm_and_dropout():
    trunk = MLP(5, dropout=0.3, batch_norm=True)
    kinds = [type(m) for m in trunk.layers]
    assert kinds == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Dropout]
    assert trunk.layers[3].p == 0.3
    assert trunk.features == 512


def learn(trunk, x, y, steps=40):
    torch.manual_seed(0)
    net = MultiHead(trunk, {"label": heads.linear(trunk.features, 10)})
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        rows = torch.arange(step * 64, step * 64 + 64) % 1000
        loss = F.cross_entropy(net(x[rows]), y[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    net.eval()
    with torch.no_grad():
        return (net(x[1000:]).argmax(1) == y[1000:]).float().mean().item()


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    return torch.tensor(data.images / 16, dtype=torch.float32), torch.tensor(data.target)


def test_cnn_learns_digits(digits):
    x, y = digits
    torch.manual_seed(0)
    assert learn(SmallCNN(), x[:, None].expand(-1, 3, -1, -1), y) > 0.85


def test_mlp_learns_digits(digits):
    x, y = digits
    torch.manual_seed(0)
    assert learn(MLP(64, hidden=64), x.flatten(1), y) > 0.85
