"""Networks of the library timm as encoders of pictures: `timm:NAME`.

The weights come from the hub's cache, or are downloaded where the network can be reached.
"""

from __future__ import annotations

import hashlib
import importlib
from typing import Any

from torch import nn

from labelproof.data.encoders.encoder_protocol import InputRule, rule_of_shares
from labelproof.data.encoders.module_graph import NetworkEncoder
from labelproof.errors import BadInput

TIMM = "timm:"


class TimmEncoder(NetworkEncoder):
    """A pretrained network of timm without its classifier."""

    def module(self) -> nn.Module:
        """The network, from normalised pictures to features."""
        return timm_network(self.name.removeprefix(TIMM))


def timm_pictures(name: str) -> TimmEncoder:
    """The encoder `timm:name`."""
    network: Any = timm_network(name)
    return TimmEncoder(
        name=f"{TIMM}{name}",
        digest=state_digest(network),
        rule=timm_rule(network),
        licence=str((network.pretrained_cfg or {}).get("license") or "not stated"),
    )


def timm_rule(network: Any) -> InputRule:
    """Size and normalisation that a network of timm was trained with."""
    about = import_timm().data.resolve_model_data_config(network)
    return rule_of_shares(int(about["input_size"][-1]), about["mean"], about["std"])


def timm_network(name: str, pretrained: bool = True) -> nn.Module:
    """A network of timm without its classifier, in evaluation mode."""
    timm = import_timm()
    if not timm.is_model(name):
        near = timm.list_models(f"*{name.split('.')[0].split('_')[0]}*")[:3]
        hint = f"such as {', '.join(near)}" if near else "see timm.list_models()"
        raise BadInput(f"timm has no network {name!r}; choose another, {hint}")
    try:
        network: nn.Module = timm.create_model(name, pretrained=pretrained, num_classes=0)
    except Exception as error:  # the hub raises many kinds where it cannot be reached
        first = " ".join(str(error).split())[:120]
        raise BadInput(
            f"expected the weights of timm:{name} in the hub's cache or on the hub, but they "
            f"could not be loaded ({first}); download them on a machine with network access, and "
            "copy the cache"
        ) from None
    return network.eval()


def import_timm() -> Any:
    """The library timm."""
    try:
        return importlib.import_module("timm")
    except ImportError as error:
        raise BadInput(
            f"expected the package timm for timm:NAME, but it cannot be imported ({error}); "
            'run: pip install "labelproof[timm]"'
        ) from None
    except Exception as error:  # a torchvision built for another torch fails in its own ways
        first = " ".join(str(error).split())[:120]
        raise BadInput(
            f"timm is installed, but torchvision, which it needs, does not work here ({first}); "
            "install the torchvision that matches your version of torch"
        ) from None


def state_digest(network: nn.Module) -> str:
    """A hash of all weights of a network."""
    digest = hashlib.sha256()
    for name, tensor in network.state_dict().items():
        digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).numpy().tobytes())
    return digest.hexdigest()
