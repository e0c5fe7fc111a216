"""What options can be, for commands that show their help without loading what does the work."""

from typing import Literal

How = Literal["folds", "quick", "off"]  # how labels are judged

Option = str | bool  # of a kind of noise

_EXACT: dict[str, tuple[Option, ...]] = {"exact": (True, False)}
_SELECT: dict[str, tuple[Option, ...]] = {"select": ("bernoulli", "global", "per-class")}

# every kind of label noise, with its options and what they may be
NOISE_KINDS: dict[str, dict[str, tuple[Option, ...]]] = {
    "symmetric": _EXACT,
    "symmetric-exclusive": _EXACT,
    "asymmetric": _SELECT,
    "asymmetric-cifar10": _SELECT,
    "asymmetric-cifar100": _SELECT,
    "asymmetric-cifar100-blocks": _SELECT,
    "pair": _SELECT,
    "instance": {"scaling": ("raw", "standard"), "shared": (True, False)},
    "pmd-1": {},
    "pmd-2": {},
    "pmd-3": {},
    "matrix": {},
}
