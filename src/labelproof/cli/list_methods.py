"""`labelproof methods`: what there is to choose from."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from labelproof.methods import METHODS
from labelproof.recipes.recipe import departure, is_ours, published_names

JSON_HELP = (
    "Print JSON, with every setting and its default. `recipes` lists the names for --recipe; "
    "`recipes_ours` lists those for which the authors gave no values."
)


def methods(
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """List all methods with their paper, year and cost."""
    if as_json:
        typer.echo(json.dumps(catalogue(), indent=2, default=str, ensure_ascii=False))
        return
    table = Table("name", "method", "paper", "year", "cost of an epoch", box=None, pad_edge=False)
    for row in catalogue():
        table.add_row(*(str(row[key]) for key in ("name", "title", "paper", "year", "cost")))
    console = Console()
    console.print(table)
    console.print(
        "\nCost: a forward pass of one example counts 1, a backward pass 2. N is the number of "
        "training examples, X the number of labels kept.\nSettings, defaults and recipes: "
        "labelproof methods --json\nRecipes are published settings. Some are ours, because the "
        f"authors gave no values: {ours()}."
    )
    for row in catalogue():
        if row["differs"]:
            console.print(f"Defaults of {row['name']} for your own data: {row['differs']}.")


def ours() -> str:
    """How many recipes of which methods are our reading, such as edl 2 of 3."""
    rows = [row for row in catalogue() if row["recipes_ours"]]
    return ", ".join(
        f"{row['name']} {len(row['recipes_ours'])} of {len(row['recipes'])}" for row in rows
    )


def catalogue() -> list[dict[str, Any]]:
    """Every method as plain values; settings with the published defaults."""
    return [
        {
            "name": name,
            "title": method.about.title,
            "paper": method.about.paper,
            "year": method.about.year,
            "link": method.about.link,
            "code": method.about.code,
            "cost": method.about.cost,
            "recipes": published_names(name),
            "recipes_ours": [r for r in published_names(name) if is_ours(name, r)],
            "differs": departure(name, None),
            "settings": {f.name: f.default for f in fields(method)},  # type: ignore[arg-type]
        }
        for name, method in METHODS.items()
    ]
