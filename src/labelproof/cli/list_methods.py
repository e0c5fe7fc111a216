"""`labelproof methods`: what there is to choose from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from labelproof.errors import BadInput
from labelproof.methods import METHODS
from labelproof.recipes.recipe import departure, is_ours, published_names
from labelproof.training.protocol import About
from labelproof.training.settings import nearest


def list_methods(name: str | None, as_json: bool) -> None:
    """Print all methods, or one."""
    rows = {row["name"]: row for row in catalogue()}
    if name is not None and name not in rows:
        raise BadInput(f"There is no method {name!r}; {nearest(name, list(rows))}.")
    if as_json:
        wanted = [rows[name]] if name else [*rows.values()]
        typer.echo(json.dumps(wanted, indent=2, default=str, ensure_ascii=False))
        return
    console = Console(highlight=False, markup=False)
    if name is not None:
        _show(rows[name], console)
        return
    table = Table("name", "year", "method", box=None, pad_edge=False)
    for row in rows.values():
        table.add_row(row["name"], str(row["year"] or ""), row["title"])
    console.print(table)
    console.print(
        "\nPaper, cost, settings and recipes of one method: labelproof methods NAME\n"
        "Recipes are published settings. Some are ours, because the authors gave no values: "
        f"{ours()}."
    )


def _show(row: Mapping[str, Any], console: Console) -> None:
    """One method, with all that is known of it."""
    unsaid = About(title="")
    paper = row["paper"] if row["paper"] != unsaid.paper else ""
    lines = {
        "Method": f"{row['title']} ({row['year']})" if row["year"] else row["title"],
        "Paper": f"{paper} {row['link']}".strip(),
        "Code": row["code"],
        "Cost": f"{row['cost']} an epoch, where the forward pass of one example is 1, its backward "
        "pass 2, and N are the training examples"
        if row["cost"] != unsaid.cost
        else "",
        "Recipes": ", ".join(
            f"{recipe} (ours)" if recipe in row["recipes_ours"] else recipe
            for recipe in row["recipes"]
        ),
        "Your data": f"other defaults: {row['differs']}" if row["differs"] else "",
        "Settings": ", ".join(f"{key}={value}" for key, value in row["settings"].items()),
    }
    table = Table(box=None, pad_edge=False, show_header=False)
    for heading, text in lines.items():
        if text:
            table.add_row(heading, str(text))
    console.print(table)


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
