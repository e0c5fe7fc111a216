"""How DPC depends on γ, the constant of the calibrated softmax."""

from __future__ import annotations

from pathlib import Path

from labelproof.bench import published_numbers as published
from labelproof.bench.cell import Cell, Experiment, Scale, Sources
from labelproof.bench.curves import curve_cells, curve_files
from labelproof.bench.results import Results
from labelproof.bench.scales import of_vectors

ROW = "γ C = {:g}"
USUAL = 10.0
VALUES: dict[Scale, tuple[float, ...]] = {
    "paper": published.GAMMAS,
    "small": (0.0, 5.0, 10.0, 20.0),
    "tiny": (0.0, 10.0, 20.0),
}


def cells(scale: Scale, sources: Sources, seeds: int) -> list[Cell]:
    """A cell for every γ C."""
    values = published.GAMMAS if of_vectors(scale, sources) else VALUES[scale]
    return curve_cells("gamma_c", ROW, values, USUAL, scale, sources, seeds)


def finish(results: Results, folder: Path) -> list[Path]:
    """Table and figure."""
    return curve_files(
        results,
        folder,
        ROW,
        published.GAMMAS,
        name="γ C",
        published=published.curve(published.GAMMA_CURVES, published.GAMMAS, ROW),
        published_best=published.curve(published.GAMMA_CURVES, published.GAMMAS, ROW, best=True),
        note=published.CURVE_NOTE,
    )


EXPERIMENT = Experiment(
    name="gamma",
    title="sensitivity of DPC to γ, the constant of the calibrated softmax (figure 3 c, d)",
    seeds={"paper": 3, "small": 1, "tiny": 1},
    cells=cells,
    finish=finish,
)
