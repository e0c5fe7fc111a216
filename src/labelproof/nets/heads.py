"""Heads, and the network of one trunk with several of them.

A trunk maps network input to features (B, F), a head maps features to (B, C). The user supplies the
trunk, the method names its heads.

Shapes: B batch, C classes (or the width of another head), F features.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Literal, overload

import torch
from torch import Tensor, nn

from labelproof.errors import BadInput
from labelproof.functional.dirichlet import at_least_single

FEATURES = "trunk"  # names what the trunk gives, where a head's name is expected
Start = Literal["input", "features"]  # what a network is given


def linear(features: int, classes: int) -> nn.Module:
    """The usual head: one linear layer."""
    return nn.Linear(features, classes)


def mlp(features: int, classes: int) -> nn.Module:
    """A head with one hidden layer of twice the features and dropout, as DPC's second head."""
    return nn.Sequential(
        nn.Linear(features, 2 * features),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(2 * features, classes),
    )


class MultiHead(nn.Module):
    """A trunk with named heads; the first one is the classifier.

    `net(x)` gives the classifier's logits, `net(x, "mix")` those of the head "mix", and
    `net(x, "label", "mix")` a tuple of both from one pass through the trunk. All outputs are
    float32, or float64 where the network is. Everything goes through `forward`, so what wraps a
    network sees all of it.

    Args:
        trunk: Maps network input to features (B, F).
        heads: A module per name, the classifier first.
        precision: Runs the trunk under autocast to this type, such as `torch.bfloat16`. Heads stay
            in float32: in bfloat16 many margins would be the same number.
    """

    def __init__(
        self,
        trunk: nn.Module,
        heads: Mapping[str, nn.Module],
        precision: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if not heads:
            raise BadInput("MultiHead needs at least one head, the classifier; none was given.")
        if FEATURES in heads:
            raise BadInput(f"A head cannot be called {FEATURES!r}; give it another name.")
        self.trunk = trunk
        self.heads = nn.ModuleDict(heads)
        self.classifier = next(iter(heads))
        self.precision = precision

    def forward(
        self, x: Tensor, *names: str, start: Start = "input"
    ) -> Tensor | tuple[Tensor, ...]:
        """Outputs of the named heads, of the classifier where no name is given."""
        features = self._features(x) if start == "input" else x
        out = [
            features if name == FEATURES else self.heads[name](features)
            for name in names or (self.classifier,)
        ]
        return at_least_single(out[0]) if len(out) == 1 else tuple(map(at_least_single, out))

    if TYPE_CHECKING:  # nn.Module's own __call__ runs; this tells the checker what comes back

        @overload
        def __call__(self, x: Tensor, name: str = ..., /, *, start: Start = ...) -> Tensor: ...
        @overload
        def __call__(self, x: Tensor, first: str, second: str, /) -> tuple[Tensor, Tensor]: ...
        @overload
        def __call__(self, x: Tensor, *names: str) -> tuple[Tensor, ...]: ...
        def __call__(
            self, x: Tensor, *names: str, start: Start = "input"
        ) -> Tensor | tuple[Tensor, ...]:
            """See `forward`."""

    def trunk_features(self, x: Tensor) -> Tensor:
        """What the heads see, (B, F)."""
        return self(x, FEATURES)

    def head(self, name: str, features: Tensor) -> Tensor:
        """Output of one head for features of the trunk, where only some rows need that head."""
        return self(features, name, start="features")

    def _features(self, x: Tensor) -> Tensor:
        with self._autocast(x):
            features: Tensor = self.trunk(x)
        return at_least_single(features)

    def _autocast(self, x: Tensor) -> AbstractContextManager[object]:
        if self.precision is None:
            return nullcontext()
        return torch.autocast(x.device.type, self.precision)


def feature_width(trunk: nn.Module, example: Tensor) -> int:
    """F of a trunk: its `features` attribute, or else found by a forward pass in eval mode.

    Args:
        trunk: Any module that maps network input to features; left as it was found.
        example: A batch of network input, of which two rows are used.

    Raises:
        BadInput: The module returns something other than a matrix of features.
    """
    known = getattr(trunk, "features", None)
    if isinstance(known, int):  # in many published networks `features` is a module instead
        return known
    out = _two_in_eval_mode(trunk, example[:2])
    if not isinstance(out, Tensor) or out.ndim != 2:
        got = f"shape {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
        raise BadInput(
            f"A network must return features of shape (batch, features), but "
            f"{type(trunk).__name__} returned {got}; flatten or pool its output."
        )
    return out.shape[1]


def _two_in_eval_mode(trunk: nn.Module, example: Tensor) -> object:
    # A frozen part may be in eval mode on purpose, so each module gets its own mode back.
    modes = [(module, module.training) for module in trunk.modules()]
    trunk.eval()
    try:
        with torch.no_grad():
            return trunk(example)
    finally:
        for module, training in modes:
            module.training = training
