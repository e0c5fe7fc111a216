"""How DPC depends on β, the weight of the divergence in L_edl."""

from __future__ import annotations

from pathlib import Path

from labelproof.bench import published_numbers as published
from labelproof.bench.cell import Cell, Experiment, Scale, Sources
from labelproof.bench.curves import curve_cells, curve_files
from labelproof.bench.results import Results
from labelproof.bench.scales import of_vectors

ROW = "β = {:g}"
USUAL = 0.5
VALUES: dict[Scale, tuple[float, ...]] = {
    "paper": published.BETAS,
    "small": (0.0, 0.5, 1.0),
    "tiny": (0.0, 0.5, 1.0),
}


def cells(scale: Scale, sources: Sources, seeds: int) -> list[Cell]:
    """A cell for every β."""
    values = published.BETAS if of_vectors(scale, sources) else VALUES[scale]
    return curve_cells("beta", ROW, values, USUAL, scale, sources, seeds)


def finish(results: Results, folder: Path) -> list[Path]:
    """Table and figure."""
    return curve_files(
        results,
        folder,
        ROW,
        published.BETAS,
        name="β",
        published=published.curve(published.BETA_CURVES, published.BETAS, ROW),
        published_best=published.curve(published.BETA_CURVES, published.BETAS, ROW, best=True),
        note=published.CURVE_NOTE,
    )


EXPERIMENT = Experiment(
    name="beta",
    title="sensitivity of DPC to β, the weight of the divergence (figure 3 a, b)",
    seeds={"paper": 3, "small": 1, "tiny": 1},
    cells=cells,
    finish=finish,
)
