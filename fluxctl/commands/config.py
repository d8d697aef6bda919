"""``fluxctl config``: what a run would be asked to do, what can be asked for, and whether a file is right."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from fluxctl.commands._options import HELP, ConfigFile, JsonFlag, Only, RunSetName, Sets, names
from fluxctl.commands._request import Request, make_plan
from fluxctl.commands._talk import Talk, plain_text
from fluxctl.config.choices import choice_check
from fluxctl.config.load import load_layer, resolve
from fluxctl.config.model import Config
from fluxctl.config.problems import dotted
from fluxctl.config.saved import render, scalar
from fluxctl.config.source import parse, read_text
from fluxctl.policies import REGISTRIES
from fluxctl.types import JSON

_EPILOG: Final = """Examples:

fluxctl config show --run-set main --only fluxtune --origin

fluxctl config schema > config.schema.json

fluxctl config validate my.yaml"""

app = typer.Typer(
    add_completion=False,
    help="Show, describe and check configurations.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=_EPILOG,
    context_settings=HELP,
)


@app.command(context_settings=HELP)
def show(
    ctx: typer.Context,
    run_set: RunSetName = None,
    only: Only = None,
    file: ConfigFile = None,
    sets: Sets = None,
    origin: Annotated[bool, typer.Option("--origin", help="Print one value per line with its origin.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show the resolved configuration of each run; without arguments the defaults."""
    talk: Talk = ctx.obj
    if run_set is None and file is None and not only:
        overridden = Request(sets=sets or (), environ=os.environ)
        resolved = [resolve([], overridden.values(), check=choice_check(REGISTRIES))]
    else:
        request = Request(run_set=run_set, only=names(only), file=file, sets=sets or (), environ=os.environ)
        resolved = [run.resolved for run in make_plan(request).runs]
    if as_json:
        rows: list[JSON] = [
            {"config": item.config.model_dump(mode="json"), "origins": dict(item.origins())} for item in resolved
        ]
        talk.envelope("config show", "ok", {"configs": rows})
        return
    for number, item in enumerate(resolved):
        if number:
            sys.stdout.write("---\n")
        if origin:
            for path, node in item.tree.leaves():
                line = f"{dotted(path)} = {scalar(node.plain())}  ({node.place.origin})"
                talk.out().print(plain_text(line), soft_wrap=True)
        else:
            sys.stdout.write(render(item))


@app.command(context_settings=HELP)
def schema(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """Print the JSON Schema of a configuration, for editors."""
    described = Config.model_json_schema()
    if as_json:
        talk: Talk = ctx.obj
        talk.envelope("config schema", "ok", {"schema": described})
    else:
        sys.stdout.write(json.dumps(described, indent=2) + "\n")


@app.command(context_settings=HELP)
def validate(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A configuration, a part of one, or a run set.")],
    as_json: JsonFlag = False,
) -> None:
    """Check a file: exit code 0 if it is right, 2 with every problem if not."""
    talk: Talk = ctx.obj
    source = read_text(file)
    top = parse(source).value
    if isinstance(top, dict) and "baselines" in top:
        kind = "run set"
        make_plan(Request(run_set=str(file)))
    else:
        kind = "configuration"
        resolve([load_layer(source)], check=choice_check(REGISTRIES))
    if as_json:
        talk.envelope("config validate", "ok", {"file": str(file), "kind": kind})
    else:
        talk.out().print(plain_text(f"{file}: a valid {kind}"), soft_wrap=True)
