"""``fluxctl sim``: runs on the virtual clock, and questions that need no run."""

from __future__ import annotations

from typing import Final

import typer

from fluxctl.commands._options import HELP
from fluxctl.commands._sim_check import check_determinism
from fluxctl.commands._sim_plan import plan
from fluxctl.commands._sim_run import run
from fluxctl.commands._sim_sweep import sweep
from fluxctl.commands._sim_trace import trace_app

_EPILOG: Final = """Examples:

fluxctl sim run --run-set main --only fluxtune

fluxctl sim plan --run-set main --trace mobiperf_2st --until 6d

fluxctl sim sweep --run-set smoke --only fluxtune --grid server.lr=0.005,0.01,0.02 --seeds 0..2

fluxctl sim trace show mobiperf_3st_50 --clients 30"""

app = typer.Typer(
    add_completion=False,
    help="Plan runs without training, sweep settings, look at traces.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=_EPILOG,
    context_settings=HELP,
)
app.command("run", context_settings=HELP)(run)
app.command("plan", context_settings=HELP)(plan)
app.command("sweep", context_settings=HELP)(sweep)
app.command("check-determinism", context_settings=HELP)(check_determinism)
app.add_typer(trace_app, name="trace")
