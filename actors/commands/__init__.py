"""The commands of `aisim-actors`, a module each. What only a run needs is imported where it is used."""

from __future__ import annotations

from typing import Annotated

import typer

from actors.cli import PROGRAM, SUCCESS
from actors.commands.calibrate import calibrate_timing
from actors.commands.check import print_schema, validate_spec
from actors.commands.compare import compare_runs
from actors.commands.examples import show_examples
from actors.commands.replay import replay_spec
from actors.commands.report import report_directory
from actors.commands.sweep import sweep_spec
from actors.commands.timing import timing_app

app = typer.Typer(
    name=PROGRAM,
    help="Replay LLM traffic on a simulated cluster of inference engines.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("replay")(replay_spec)
app.command("compare")(compare_runs)
app.command("report")(report_directory)
app.command("sweep")(sweep_spec)
app.command("validate")(validate_spec)
app.command("calibrate")(calibrate_timing)
app.command("examples")(show_examples)
app.command("schema")(print_schema)
app.add_typer(timing_app, name="timing")


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> int:
    if version:
        print(f"{PROGRAM} {_version()}")
    elif context.invoked_subcommand is None:
        print(context.get_help())
    return SUCCESS


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version(PROGRAM)
    except metadata.PackageNotFoundError:
        return "(not installed)"
