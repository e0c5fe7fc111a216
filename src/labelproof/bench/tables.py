"""Tables of results in Markdown and LaTeX: mean ± standard deviation over seeds, and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from labelproof.bench.cell import Cell
from labelproof.bench.published_numbers import HUMAN_COLUMNS
from labelproof.bench.results import Metric, Record, Results, mean_spread
from labelproof.bench.scales import PAPER_VECTORS
from labelproof.files import write_text
from labelproof.methods import METHODS
from labelproof.recipes.recipe import is_ours, source_of

Published = Mapping[tuple[str, str], str]  # (row, column) to what a paper prints
NONE = ""
VECTORS = "vectors "  # how columns on vectors begin
OTHER_DATA = "Published are CIFAR images and ResNets, ours are vectors: compare differences."
TEX = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "±": r"$\pm$", "β": r"$\beta$"}
TEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "$": r"\$", "{": r"\{", "}": r"\}"}
TEX |= {"<": r"$<$", ">": r"$>$"}
TEX |= {"γ": r"$\gamma$", "λ": r"$\lambda$", "†": r"$\dagger$", "≥": r"$\ge$"}


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table as text, with notes below it."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    words: int = 1  # leading columns that hold words and not numbers

    def markdown(self) -> str:
        """A Markdown table with its title and notes."""
        rule = ["---"] * self.words + ["---:"] * (len(self.header) - self.words)
        lines = [f"**{self.title}**", "", _row(self.header), "|" + "|".join(rule) + "|"]
        lines += [_row(row) for row in self.rows]
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes)]) + "\n"

    def latex(self) -> str:
        """A LaTeX table in booktabs' manner."""
        columns = "l" * self.words + "r" * (len(self.header) - self.words)
        lines = [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
        ]
        lines += [_tex_row(self.header), r"\midrule", *map(_tex_row, self.rows), r"\bottomrule"]
        caption = escaped(" ".join((f"{self.title}.", *self.notes)))
        lines += [r"\end{tabular}", rf"\caption{{{caption}}}", r"\end{table}"]
        return "\n".join(lines) + "\n"

    def write(self, folder: Path, stem: str = "table") -> list[Path]:
        """Write both forms."""
        paths = [folder / f"{stem}.md", folder / f"{stem}.tex"]
        write_text(paths[0], self.markdown())
        write_text(paths[1], self.latex())
        return paths


def grid(
    results: Results,
    metric: Metric,
    *,
    title: str,
    published: Published | None = None,
    beside: str = "published",
    notes: Sequence[str] = (),
) -> Table:
    """Rows by columns for one metric; published numbers, with notes, in their own columns."""
    known = published or {}
    printed = [on_images(column) for column in results.columns]
    shown = [c for c in printed if any((row, c) in known for row in results.rows)]
    rows = [
        (
            row,
            *(entry(metric, results.at(row, column)) for column in results.columns),
            *(known.get((row, column), NONE) for column in shown),
        )
        for row in results.rows
    ]
    other = (OTHER_DATA,) if printed != results.columns else ()
    return Table(
        title=f"{title}: {metric.title}",
        header=("", *results.columns, *(f"{beside}: {column}" for column in shown)),
        rows=tuple(rows),
        notes=(*((*notes, *other) if shown else ()), *closing(results)),
    )


def on_images(column: str) -> str:
    """The published column that a column of vectors asks the same question as."""
    if not column.startswith(VECTORS):
        return column
    noise = column.removeprefix(VECTORS)
    return f"CIFAR-10 {noise}" if "sym." in noise else noise


def listing(
    results: Results,
    metrics: Sequence[Metric],
    *,
    title: str,
    notes: Sequence[str] = (),
    columns: str = "data",
    show: Callable[[Metric, Sequence[Record]], str] | None = None,
) -> Table:
    """A line for every place of the grid, a column for every metric, each written by `show`."""
    show = show or entry
    places = [(c, r) for c in results.columns for r in results.rows if results.at(r, c)]
    rows = []
    for column, row in places:
        records = results.at(row, column)
        done = sum(record.state == "done" for record in records)
        rows.append((column, row, *(show(m, records) for m in metrics), str(done)))
    return Table(
        title=title,
        header=(columns, "method", *(metric.title for metric in metrics), "seeds"),
        rows=tuple(rows),
        notes=(*notes, *closing(results)),
        words=2,
    )


def entry(metric: Metric, records: Sequence[Record]) -> str:
    """Mean ± standard deviation of the finished seeds; says what failed or is missing."""
    values = [metric.read(r.summary) for r in records if r.state == "done"]
    numbers = [value for value in values if value is not None]
    failed = sum(r.state == "failed" for r in records)
    note = f"{failed} failed" if failed else ""
    if not numbers:
        return "failed" if failed else NONE
    found = mean_spread(numbers)
    assert found is not None
    text = f"{found[0]:.{metric.digits}f}"
    if len(numbers) > 1:
        text += f" ± {found[1]:.{metric.digits}f}"
    return f"{text} ({note})" if note else text


def closing(results: Results) -> list[str]:
    """Notes that every table ends with."""
    done = [sum(r.state == "done" for r in results.at(*place)) for place in _places(results)]
    count = " to ".join(str(n) for n in dict.fromkeys((min(done), max(done))))
    many = f"Mean ± standard deviation (n - 1) over {count} seeds"
    said = [f"{'One seed' if count == '1' else many}; scale {results.scale}."]
    return [*said, f"Made by: `{results.command}`"] if results.command else said


def _places(results: Results) -> list[tuple[str, str]]:
    return list(dict.fromkeys((r.cell.row, r.cell.column) for r in results.records))


def escaped(text: str) -> str:
    """Text for LaTeX."""
    plain = text.replace("`", "").replace("\\", "/")
    return "".join(TEX.get(letter, letter) for letter in plain).replace("--", "-{}-")


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _tex_row(cells: Sequence[str]) -> str:
    return " & ".join(map(escaped, cells)) + r" \\"


SETTINGS = "settings"  # stem of the file that lists them
KINDS = {"sym.": "symmetric", "asym.": "asymmetric"}


def borrowed(results: Results) -> list[str]:
    """Notes that list the cells whose method has no published settings for their column."""
    found: dict[str, list[str]] = {}
    ours: dict[str, list[str]] = {}
    for record in results.records:
        spec = record.cell.spec
        if spec.recipe in (None, PAPER_VECTORS):
            continue  # vectors: docs/bench.md says what is borrowed there
        recipe = spec.recipe.removesuffix("-star")
        if recipe != wanted(record.cell):
            found.setdefault(f"{record.cell.row} ({recipe})", []).append(record.cell.column)
        elif is_ours(spec.method, spec.recipe):
            ours.setdefault(record.cell.row, []).append(record.cell.column)
    none = "No published settings are known to us for these cells; "
    return [
        *_note(f"{none}the most similar were used", found),
        *_note(f"{none}the authors' trainer was used, told the noise where it asks for it", ours),
    ]


def settings_files(results: Results, folder: Path) -> list[Path]:
    """A table of every place's recipe, changes, network and source, where cells have recipes."""
    cells = {(r.cell.row, r.cell.column): r.cell for r in results.records}.values()
    rows = tuple(_settings(cell) for cell in cells if cell.spec.recipe)
    table = Table(
        title="Settings of every cell",
        header=("row", "data", "recipe", "changes", "network", "source"),
        rows=rows,
        notes=("The page of each method says where its paper and its released code differ.",),
        words=6,
    )
    return table.write(folder, SETTINGS) if rows else []


def _settings(cell: Cell) -> tuple[str, ...]:
    name, recipe, net = cell.spec.method, str(cell.spec.recipe), cell.spec.net
    changes = ", ".join(f"{key}={value}" for key, value in cell.spec.settings.items())
    source = f"{METHODS[name].about.paper}: {source_of(name, recipe)}"
    return (cell.row, cell.column, recipe, changes, net, source)


def _note(text: str, places: dict[str, list[str]]) -> list[str]:
    lines = [f"{name}: {', '.join(dict.fromkeys(columns))}" for name, columns in places.items()]
    return [f"{text}: {'; '.join(lines)}."] if lines else []


def wanted(cell: Cell) -> str:
    """The name of the published setting that a column stands for."""
    if cell.column in HUMAN_COLUMNS:
        return "cifar100n" if cell.column == "noisy100" else f"cifar10n-{cell.column}"
    data, kind, rate = cell.column.rsplit(" ", 2)
    return f"{data.lower().replace('-', '')}-{KINDS[kind]}-{int(rate[:-1]) / 100}"
