"""``fluxctl init``: a run set of one's own, commented, that passes the gate as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from fluxctl.commands._gate import pass_gate
from fluxctl.commands._init_text import run_set_text
from fluxctl.commands._options import HELP, JsonFlag
from fluxctl.commands._request import Request, make_plan
from fluxctl.commands._talk import Talk, plain_text
from fluxctl.data import cache_folder, minilm_folder, wordnet_nouns
from fluxctl.errors import AssetError, ConfigError, os_reason
from fluxctl.runs.files import write_text

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")

_EPILOG: Final = """NAME is the name of the run set, or a path that ends in .yaml.

Examples:

fluxctl init

fluxctl init slow-phones && fluxctl launch --run-set slow-phones.yaml --dry-run"""


@app.command(epilog=_EPILOG, context_settings=HELP)
def init(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the run set, or its file.")] = "my-runs",
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file of that name.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Write a run set to start from, with a comment at each key."""
    talk: Talk = ctx.obj
    path = Path(name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")
    if path.exists() and not force:
        raise ConfigError("the file exists already", where=str(path), hint="choose another name, or add --force")
    has_demo = _has_demo()
    try:
        write_text(path, run_set_text(has_demo=has_demo))
    except OSError as error:
        reason = os_reason(error)
        raise ConfigError(
            f"cannot write the run set: {reason}", where=str(path), hint="choose another name or folder"
        ) from None
    request = Request(run_set=str(path))
    gate = pass_gate(make_plan(request), request)
    if as_json:
        talk.envelope("init", "ok", {"file": str(path), "has_demo": has_demo, "gate": gate.to_json()})
        return
    talk.out().print(plain_text(str(path)), soft_wrap=True)
    if not has_demo:
        talk.say("the demo extra is not installed: the run set uses the tiny model and generated text")
    talk.say(f"look: fluxctl launch --run-set {path} --dry-run\nrun:  fluxctl launch --run-set {path}")


def _has_demo() -> bool:
    """Whether the pretrained model and the texts are installed."""
    try:
        minilm_folder(cache_folder() / "hashes")
        wordnet_nouns()
    except AssetError:
        return False
    return True
