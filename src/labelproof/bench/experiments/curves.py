"""Sensitivity to one setting of DPC: a table and a figure of accuracy against its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from labelproof.bench import figures
from labelproof.bench import published_numbers as published
from labelproof.bench.cell import Cell, Experiment, Scale, Sources, crossed, seeded
from labelproof.bench.published_numbers import CURVE_NOTE, Curves, curve
from labelproof.bench.results import BEST, LAST, LAST10, Metric, Results, mean_spread
from labelproof.bench.scales import Setting, of_vectors, published_form, synthetic_settings
from labelproof.bench.tables import Table, grid

COLUMNS: Mapping[Scale, tuple[str, ...]] = {
    "paper": ("cifar10-symmetric-0.5", "cifar100-symmetric-0.5"),
    "small": ("cifar10-symmetric-0.5",),
    "tiny": ("cifar10-symmetric-0.5",),
}


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A setting of DPC and the values it is tried with."""

    setting: str
    symbol: str  # as the paper writes it
    usual: float  # the published value
    values: Mapping[Scale, tuple[float, ...]]
    published: Curves  # for the values of the scale paper

    @property
    def row(self) -> str:
        """How a table names a value."""
        return f"{self.symbol} = {{:g}}"

    def experiment(self, name: str, title: str) -> Experiment:
        """A table and a figure of accuracy against the values."""
        seeds: Mapping[Scale, int] = {"paper": 3, "small": 1, "tiny": 1}
        return Experiment(name=name, title=title, seeds=seeds, cells=self.cells, finish=self.finish)

    def cells(self, scale: Scale, sources: Sources, seeds: int) -> list[Cell]:
        """A cell for every value; the published value is the same run as in other experiments."""
        values = self.values["paper" if of_vectors(scale, sources) else scale]

        def one(setting: Setting, value: float) -> list[Cell]:
            change = {} if value == self.usual else {self.setting: value}
            spec = published_form(setting, "dpc", scale, sources, change)
            return seeded(self.row.format(value), setting.column, spec, seeds)

        return crossed(synthetic_settings(scale, sources, COLUMNS[scale]), values, one)

    def finish(self, results: Results, folder: Path) -> list[Path]:
        """Tables of last and best accuracy, and a figure of both for every column."""
        last, values = LAST10 if results.scale == "paper" else LAST, self.values["paper"]
        title = f"Sensitivity to {self.symbol}"
        files = self.table(results, last, title).write(folder)
        files += self.table(results, BEST, title).write(folder, "table-best")
        for number, column in enumerate(results.columns):
            series = {
                "last": points(results, last, self.row, column, values),
                "best (chosen on the test set)": points(results, BEST, self.row, column, values),
            }
            if any(xs for xs, _, _ in series.values()):
                stem = folder / ("figure" if number == 0 else f"figure-{number + 1}")
                heading = f"{title}, {column}"
                files += figures.lines(stem, heading, self.symbol, "test accuracy (%)", series)
        return files

    def table(self, results: Results, metric: Metric, title: str) -> Table:
        """Accuracy, with the published one beside it."""
        known = curve(self.published, self.values["paper"], self.row, best=metric is BEST)
        notes = (CURVE_NOTE,) if results.scale != "tiny" else ()
        return grid(results, metric, title=title, published=known, notes=notes)


def points(
    results: Results, metric: Metric, row: str, column: str, values: Sequence[float]
) -> tuple[list[float], list[float], list[float]]:
    """Values with mean and spread of the accuracy; values that are missing are left out."""
    found = {v: mean_spread(results.values(metric.read, row.format(v), column)) for v in values}
    known = {value: pair for value, pair in found.items() if pair is not None}
    means, spreads = [pair[0] for pair in known.values()], [pair[1] for pair in known.values()]
    return list(known), means, spreads


BETA = Curve(
    setting="beta",
    symbol="β",
    usual=0.5,
    values={"paper": published.BETAS, "small": (0.0, 0.5, 1.0), "tiny": (0.0, 0.5, 1.0)},
    published=published.BETA_CURVES,
)
GAMMA = Curve(
    setting="gamma_c",
    symbol="γ C",
    usual=10.0,
    values={"paper": published.GAMMAS, "small": (0.0, 5.0, 10.0, 20.0), "tiny": (0.0, 10.0, 20.0)},
    published=published.GAMMA_CURVES,
)
EXPERIMENTS = {
    "beta": BETA.experiment(
        "beta", "sensitivity of DPC to β, the weight of the divergence (figure 3 a, b)"
    ),
    "gamma": GAMMA.experiment(
        "gamma", "sensitivity of DPC to γ, the constant of the calibrated softmax (figure 3 c, d)"
    ),
}
