"""`labelproof methods`: what there is to choose from."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from labelproof.methods import METHODS
from labelproof.recipes import published_names


def methods(
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """List every method with its paper and what an epoch costs."""
    if as_json:
        typer.echo(json.dumps(catalogue(), indent=2, default=str, ensure_ascii=False))
        return
    table = Table("name", "method", "paper", "year", "cost of an epoch", box=None, pad_edge=False)
    for row in catalogue():
        table.add_row(*(str(row[key]) for key in ("name", "title", "paper", "year", "cost")))
    console = Console()
    console.print(table)
    console.print(
        "\nCost: the forward pass of one example is 1, its backward pass 2; N training examples, "
        "X of them kept as labelled.\nSettings and their defaults: labelproof methods --json"
    )


def catalogue() -> list[dict[str, Any]]:
    """Every method as plain values; settings with the published defaults."""
    return [
        {
            "name": name,
            "title": method.title,
            "paper": method.paper,
            "year": method.year,
            "cost": method.cost,
            "recipes": published_names(name),
            "settings": {f.name: f.default for f in fields(method)},  # type: ignore[arg-type]
        }
        for name, method in METHODS.items()
    ]
