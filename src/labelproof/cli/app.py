"""The commands, one file each."""

from __future__ import annotations

import typer

from labelproof.cli.bench import bench
from labelproof.cli.corrupt import corrupt
from labelproof.cli.demo import demo
from labelproof.cli.export import export
from labelproof.cli.fit import fit
from labelproof.cli.methods import methods
from labelproof.cli.plan import plan
from labelproof.cli.predict import predict
from labelproof.cli.report import report
from labelproof.cli.review import review

app = typer.Typer(
    name="labelproof",
    help="Train a classifier on labels that are partly wrong, and find out which ones are.",
    epilog="Start with: labelproof demo. Then, on your data: labelproof fit DATA.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (demo, fit, report, review, predict, export, bench, plan, methods, corrupt):
    app.command()(command)
