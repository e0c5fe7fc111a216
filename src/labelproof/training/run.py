"""`Run`: the toolbox a method trains with. It knows data, device and randomness, and no method."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from labelproof.data.examples import Inputs, Resident
from labelproof.data.task import Task
from labelproof.errors import BadInput, RunFailed
from labelproof.nets.heads import MultiHead, feature_width
from labelproof.nets.sharded import Sharded, Share
from labelproof.training import ranks
from labelproof.training.batches import Batches, View, draw_view, inputs_on, read_ahead
from labelproof.training.learner import SGD, Adam, Learner, Pair, weights_of
from labelproof.training.ranks import ALONE, Ranks

Head = Callable[[int, int], nn.Module]  # (features, classes) -> module
Trunk = Callable[[], nn.Module]
Precision = Literal["auto", "fp32", "bf16"]
CHUNK_BYTES = 16e6  # raw bytes of inputs in one forward pass without gradients


class Run:
    """What an epoch needs: batches, predictions of the training set, steps, randomness."""

    def __init__(
        self,
        task: Task,
        trunk: Trunk,
        *,
        device: torch.device,
        seed: int,
        precision: Precision = "auto",
    ) -> None:
        self.task = task
        self.device = device
        self.precision = precision
        self.ranks = ranks.now()
        self.y = task.y.to(device)
        self.x = inputs_on(task.x, device)
        self.rng = torch.Generator()
        # of what is as large as a batch; on a GPU its own, so that nothing is copied in a step
        self.device_rng = own_generator(device) or self.rng
        self.on_step: Callable[[], None] = lambda: None
        self._trunk = trunk
        self._seed = seed
        self.begin(-1)  # the set-up's own stream

    def begin(self, epoch: int) -> None:
        """Start `epoch`: its randomness follows from the seed and its number alone."""
        self.epoch = epoch
        self.rng.manual_seed(derive_seed(self._seed, f"epoch {epoch}"))
        if self.device_rng is not self.rng:
            self.device_rng.manual_seed(derive_seed(self._seed, f"views {epoch}"))
        dropout = derive_seed(self._seed, f"dropout {epoch}")
        if self.device.type == "cpu":  # torch.manual_seed would write down the stack, three times
            torch.default_generator.manual_seed(dropout)
        else:
            torch.manual_seed(dropout)
        self._loss_sum = torch.zeros((), device=self.device)
        self._steps = 0

    def learner(self, optimiser: SGD | Adam, **heads: Head) -> Learner:
        """A new network with these heads (the first one classifies) and its optimiser."""
        trunk = self._trunk()
        width = feature_width(trunk, self._example())
        built = {name: head(width, self.task.num_classes) for name, head in heads.items()}
        net = self._network(trunk, built).to(self.device)
        if self.task.kind == "images":
            net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        learner = Learner(net, optimiser.of(weights_of(net)))
        learner.set_lr(optimiser.lr)
        return learner

    def pair(self, optimiser: SGD | Adam, **heads: Head) -> Pair:
        """Two such networks, drawn one after the other."""
        return self.learner(optimiser, **heads), self.learner(optimiser, **heads)

    def _network(self, trunk: nn.Module, heads: dict[str, nn.Module]) -> MultiHead:
        """One for this process alone, or one that all processes compute together."""
        precision, here = precision_for(self.device, self.precision), self.ranks
        if here.world == 1:
            return MultiHead(trunk, heads, precision)
        return Sharded(trunk, heads, precision, Share(here.rank, here.world))

    def batches(
        self,
        size: int,
        index: Tensor | None = None,
        views: Sequence[View] = ("weak",),
        forever: bool = False,
    ) -> Batches:
        """Shuffled batches of the training set, or of the examples in `index`."""
        chosen = torch.arange(self.task.size) if index is None else index.cpu()
        chosen = ranks.rows_from_first(chosen)
        order = torch.Generator().manual_seed(int(torch.randint(2**62, (1,), generator=self.rng)))
        return Batches(
            task=self.task,
            x=self.x,
            y=self.y,
            index=chosen,
            size=size,
            views=views,
            forever=forever,
            rng=self.device_rng,
            host_rng=self.rng,
            order=order,
            device=self.device,
            ranks=self.ranks,
        )

    def predict(self, net: MultiHead, view: View = "plain") -> Tensor:
        """Logits (N, C) of the training set, eval mode."""
        return self._whole(net, net, view)

    def width(self) -> int:
        """D, how many numbers the plain view of an example has."""
        return self._example()[0].numel()

    def plain(self) -> Tensor:
        """The plain view of the training set as rows (N, D), on the CPU."""
        parts = forward_all(self.task.x, self.task, lambda x: x.flatten(1), self.device)
        return collected((part.cpu() for part in parts), self.task.size)

    def features(self, net: MultiHead, view: View = "plain") -> Tensor:
        """Trunk features (N, F) of the training set, eval mode."""
        return self._whole(net, net.trunk_features, view)

    def trusted(self, clean: Tensor) -> Tensor:
        """Clean probabilities (N,) with those of labels that a person has confirmed set to one."""
        fixed = self.task.fixed
        return clean if fixed is None else clean.masked_fill(fixed.to(clean.device), 1.0)

    def step(self, learner: Learner, *losses: Tensor) -> None:
        """One optimiser step on the sum of the losses (scalars)."""
        loss = torch.stack(losses).sum()
        learner.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        learner.optimiser.step()
        self._loss_sum += loss.detach()
        self._steps += 1
        self.on_step()

    def mean_loss(self) -> float:
        """Mean loss of this epoch's steps; stops the run when it is no longer a number."""
        mean = (self._loss_sum / max(1, self._steps)).item()
        if mean != mean or mean in (float("inf"), float("-inf")):
            raise RunFailed(
                f"the loss became {mean} in epoch {self.epoch + 1}; "
                "try a smaller learning rate (--set lr=...) or look for extreme input values."
            )
        return mean

    def _whole(self, net: MultiHead, forward: Callable[[Tensor], Tensor], view: View) -> Tensor:
        training = net.training
        net.eval()
        make = partial(draw_view, self.task.views, view, rng=self.rng)
        # what is on the device need not be copied there; margins are for random crops alone
        x = self.x if view != "plain" or isinstance(self.x, Resident) else self.task.x
        parts = forward_all(x, self.task, forward, self.device, make, self.ranks)
        out = collected(parts, self.task.size)
        net.train(training)
        return out

    def _example(self) -> Tensor:
        kind = torch.uint8 if self.task.kind == "images" else torch.float32
        raw = torch.zeros(2, *self.task.x.shape, dtype=kind)
        return self.task.views.plain(raw)


def own_generator(device: torch.device) -> torch.Generator | None:
    """A generator on a GPU; None elsewhere."""
    return torch.Generator(device) if device.type == "cuda" else None


@torch.no_grad()
def forward_all(
    x: Inputs,
    task: Task,
    forward: Callable[[Tensor], Tensor],
    device: torch.device,
    make: Callable[[Tensor], Tensor] | None = None,
    together: Ranks = ALONE,
) -> Iterator[Tensor]:
    """`forward` of a view of all inputs, plain where no other is made, in order, by chunks.

    With `together`, these processes all call this, and each reads its share of every chunk.
    """
    make = make or task.views.plain
    numbers = torch.Size(x.shape).numel()
    chunk = int(min(max(CHUNK_BYTES // (numbers * 8), 32), 4096))
    rows = (torch.arange(i, min(i + chunk, len(x))) for i in range(0, len(x), chunk))
    for _, raw in read_ahead(x, rows, together):
        yield forward(make(raw.to(device)))


def collected(parts: Iterable[Tensor], size: int) -> Tensor:
    """Parts of `size` rows as one tensor; the parts are never held beside the whole."""
    whole, start = torch.empty(0), 0
    for part in parts:
        if start == 0:
            whole = part.new_empty(size, *part.shape[1:])
        whole[start : start + len(part)] = part
        start += len(part)
    return whole


def derive_seed(seed: int, name: str) -> int:
    """A 63-bit seed for one named use; nearby seeds give unrelated streams."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8], "big") >> 1


def pick_device(name: str) -> torch.device:
    """`auto` is CUDA, then MPS, then the CPU."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    usable = [kind for kind, yes in there.items() if yes] + ["cpu"]
    if name.split(":")[0] in ("auto", "cuda") and there["cuda"] and ranks.now().world > 1:
        return ranks.local_device(name)
    if name == "auto":
        return torch.device(usable[0])
    if name.split(":")[0] not in usable:
        raise BadInput(f"there is no device {name!r} here; use auto or {' or '.join(usable)}.")
    try:
        return torch.empty(0, device=name).device
    except RuntimeError as error:
        raise BadInput(f"there is no device {name!r} here; use auto.") from error


def native_bf16(flags: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether this processor computes in bfloat16, as fast as two float32 at a time.

    Others emulate it, and are two to three times slower than with float32.
    """
    known = flags.read_text() if flags.exists() else ""
    return "avx512_bf16" in known or "amx_bf16" in known


def precision_for(device: torch.device, asked: Precision = "auto") -> torch.dtype | None:
    """bfloat16 where asked for, or where a GPU has it: no loss scaling needed. Else float32."""
    if asked != "auto":
        return torch.bfloat16 if asked == "bf16" else None
    # emulated bfloat16 of older GPUs is slower than float32
    bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if bf16 else None
