"""What each part of DPC adds, and what L_edl adds to other methods."""

from __future__ import annotations

from pathlib import Path

from labelproof.bench import published_numbers as published
from labelproof.bench.cell import Cell, Experiment, Scale, Sources, seeded
from labelproof.bench.results import AUROC_OWN, BEST, ECE, LAST, LAST10, Results
from labelproof.bench.scales import of_vectors, published_form, synthetic_settings
from labelproof.bench.tables import grid

COLUMNS: dict[Scale, tuple[str, ...]] = {
    "paper": tuple(
        f"{data}-symmetric-{rate}" for data in ("cifar10", "cifar100") for rate in (0.2, 0.5, 0.8)
    ),
    "small": ("cifar10-symmetric-0.5", "cifar10-symmetric-0.8"),
    "tiny": ("cifar10-symmetric-0.5",),
}
PARTS: dict[str, dict[str, object]] = {
    "DPC": {},
    "without L_edl": {"loss": "ce"},
    "without large margin": {"criterion": "loss"},
    "without two heads": {"two_heads": False},
}
# methods that take L_edl
TAKERS = ("ce", "mixup", "coteaching", "dividemix", "sop", "sop_plus", "unicon", "mlnt")
PLUGGED: dict[Scale, tuple[str, ...]] = {
    "paper": TAKERS,
    "small": TAKERS,
    "tiny": ("dividemix", "sop_plus"),
}


def cells(scale: Scale, sources: Sources, seeds: int) -> list[Cell]:
    """A cell for every part that is left out, every method with and without L_edl.

    On small images there is more than one seed only for the parts of DPC under the first noise.
    """
    found = list[Cell]()
    costly = scale == "small" and not of_vectors(scale, sources)
    for number, setting in enumerate(synthetic_settings(scale, sources, COLUMNS[scale])):
        rows = {row: ("dpc", changes) for row, changes in PARTS.items()}
        rows |= _plugged(scale) if number == 0 or not costly else {}
        for row, (method, changes) in rows.items():
            spare = costly and (number > 0 or row not in PARTS)
            spec = published_form(setting, method, scale, sources, changes)
            found += seeded(row, setting.column, spec, 1 if spare else seeds)
    return found


def _plugged(scale: Scale) -> dict[str, tuple[str, dict[str, object]]]:
    """Every method with its own loss and with L_edl."""
    rows: dict[str, tuple[str, dict[str, object]]] = {}
    for method in PLUGGED[scale]:
        rows |= {method: (method, {}), f"{method} with L_edl": (method, {"loss": "edl"})}
    return rows


def finish(results: Results, folder: Path) -> list[Path]:
    """Accuracy last and best, calibration error and how well wrong labels are found."""
    last = LAST10 if results.scale == "paper" else LAST
    lasts = published.numbers(published.ABLATION_LAST, published.ABLATION_COLUMNS)
    bests = published.numbers(published.ABLATION_BEST, published.ABLATION_COLUMNS)
    notes = (published.ABLATION_NOTE,) if results.scale != "tiny" else ()
    title = "What the parts of DPC add"
    files = grid(results, last, title=title, published=lasts, notes=notes).write(folder)
    files += grid(results, BEST, title=title, published=bests, notes=notes).write(
        folder, "table-best"
    )
    files += grid(results, ECE, title=title).write(folder, "table-ece")
    files += grid(results, AUROC_OWN, title=title).write(folder, "table-auroc")
    return files


EXPERIMENT = Experiment(
    name="ablation",
    title="DPC without L_edl, large margin or two heads; L_edl in other methods (table 4)",
    seeds={"paper": 3, "small": 2, "tiny": 1},
    cells=cells,
    finish=finish,
)
