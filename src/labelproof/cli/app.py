"""The commands, one file each, as one application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

import labelproof
from labelproof.cli.corrupt import corrupt
from labelproof.cli.demo import demo
from labelproof.cli.embed import embed
from labelproof.cli.export_model import export
from labelproof.cli.fit import fit
from labelproof.cli.list_encoders import encoders
from labelproof.cli.list_methods import methods
from labelproof.cli.make_report import report
from labelproof.cli.plan import plan
from labelproof.cli.predict import predict
from labelproof.cli.start_review import review

Command = Callable[..., None]
FIRST: tuple[Command, ...] = (demo, fit, report, review, predict, export)
LAST: tuple[Command, ...] = (plan, methods, embed, encoders, corrupt)


class Once(TyperCommand):
    """A command that refuses an option given twice where only one value can count."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Count the options before they are read."""
        single = {
            name: option.opts[-1]
            for option in self.params
            if isinstance(option, TyperOption) and not option.multiple and not option.is_flag
            for name in option.opts
        }
        words = args[: args.index("--")] if "--" in args else args
        given = [single[word.split("=")[0]] for word in words if word.split("=")[0] in single]
        twice = next((name for name in given if given.count(name) > 1), None)
        if twice is not None:
            raise typer.BadParameter(f"{twice} was given {given.count(twice)} times; give it once.")
        return super().parse_args(ctx, args)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"labelproof {labelproof.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Train a classifier on labels that are partly wrong, and find out which ones are."""


def with_commands(*more: Command) -> typer.Typer:
    """The application; commands of packages that this one does not know come in the middle."""
    made = typer.Typer(
        name="labelproof",
        help="Train a classifier on labels that are partly wrong, and find out which ones are.",
        epilog="Start with: labelproof demo. Then, on your data: labelproof fit DATA.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    made.callback()(_options)
    for command in (*FIRST, *more, *LAST):
        made.command(cls=Once)(command)
    return made


app = with_commands()
