"""The commands as one application.

What a command does is imported when it is called: most need PyTorch, and `labelproof --help` should
not wait for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from inspect import cleandoc
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

import labelproof
from labelproof.cli import commands as own
from labelproof.cli.run_options import fit, plan
from labelproof.errors import BadInput

Command = Callable[..., None]
# in the order of help
FIRST: tuple[Command, ...] = (own.demo, fit, own.report, own.review, own.predict, own.export)
LAST: tuple[Command, ...] = (plan, own.methods, own.embed, own.encoders, own.corrupt)
USAGE: type[Exception] = typer.BadParameter.__bases__[0]  # its place differs between versions


class Once(TyperCommand):
    """A command that refuses an option given twice where one value counts, or without its value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Look at the options before they are read."""
        options = [option for option in self.params if isinstance(option, TyperOption)]
        known = {name: option for option in options for name in option.opts}
        flags = {name for option in options for name in option.secondary_opts}  # --no-...
        valued = {name: option for name, option in known.items() if not option.is_flag}
        single = {name: one.opts[-1] for name, one in valued.items() if not one.multiple}
        words = args[: args.index("--")] if "--" in args else args
        given = [single[word.split("=")[0]] for word in words if word.split("=")[0] in single]
        twice = next((name for name in given if given.count(name) > 1), None)
        if twice is not None:
            raise typer.BadParameter(f"{twice} was given {given.count(twice)} times; give it once.")
        for word, after in pairwise(words):
            following = after.split("=")[0]
            if word in valued and (following in known or following in flags):
                raise typer.BadParameter(f"{word} needs a value, but {following} follows it.")
        try:
            return super().parse_args(ctx, args)
        except USAGE as error:
            beyond = re.search(r"unexpected extra argument\S* \((.*)\)", str(error))
            if beyond is None:
                raise
            raise BadInput(_too_many(self, ctx, beyond[1])) from None

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters; help shows no type for flags, which take no value."""
        return _without_types(super().get_params(ctx))


def _too_many(command: TyperCommand, ctx: Any, beyond: str) -> str:
    """What to say of words that belong to no argument."""
    arguments = [p for p in command.params if not isinstance(p, TyperOption)]
    names = [str(one.metavar or one.name).upper() for one in arguments]
    takes = f"one {' and one '.join(names)}" if names else "no argument"
    return (
        f"{ctx.info_name} takes {takes}, but {beyond} came too; leave it out, give the "
        "command once for each, or quote a name with blanks."
    )


def _without_types(params: Sequence[Any]) -> list[Any]:
    for param in params:
        if isinstance(param, TyperOption) and param.is_flag:
            param.metavar = ""
    return [*params]


def flowing(text: str | None) -> str:
    """A docstring with every paragraph in one line, so that help breaks lines where it must."""
    paragraphs = cleandoc(text or "").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in paragraphs)


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
    """Train a classifier on partly wrong labels, and find out which ones are wrong."""


class Commands(TyperGroup):
    """The commands; help shows no type for flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters of the application itself."""
        return _without_types(super().get_params(ctx))


def with_commands(*more: Command) -> typer.Typer:
    """The application; commands of packages that this one does not know come in the middle."""
    made = typer.Typer(
        name="labelproof",
        help="Train a classifier on partly wrong labels, and find out which ones are wrong.",
        epilog="Start with: labelproof demo. Then, on your data: labelproof fit DATA.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        cls=Commands,
    )
    made.callback()(_options)
    for function in (*FIRST, *more, *LAST):
        made.command(cls=Once, help=flowing(function.__doc__))(function)
    return made


app = with_commands()
