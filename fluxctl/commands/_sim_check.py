"""``fluxctl sim check-determinism``: the same run twice must say the same."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from fluxctl.commands._execute import Outcome, choose_display, execute
from fluxctl.commands._options import ConfigFile, JsonFlag, Only, RunsDir, RunSetName, Sets
from fluxctl.commands._request import Plan, Request, make_plan
from fluxctl.commands._sim_options import (
    Clients,
    Concurrency,
    Data,
    Goal,
    MaxBins,
    MaxRuntime,
    Model,
    NoProgress,
    Seed,
    Trace,
    shared_flags,
    sim_request,
)
from fluxctl.commands._talk import Talk, plain_text
from fluxctl.config.override import Override, fixed
from fluxctl.config.tree import Plain
from fluxctl.errors import ExitCode
from fluxctl.runs.layout import RunFolder, prepare_runs_dir, runs_dir
from fluxctl.telemetry.diff import Divergence, first_difference
from fluxctl.telemetry.hashing import canonical_hash
from fluxctl.telemetry.reader import Event
from fluxctl.types import JSON

_DEFAULT_BINS: Final = 5
_WORKERS: Final = (1, 3)  # compute threads of the two runs: they must not show
_ORIGIN: Final = "check-determinism"
_LONGEST_LINE: Final = 400


@dataclass(frozen=True)
class _Pair:
    """Two runs of one configuration."""

    name: str
    ids: tuple[str, str]
    hashes: tuple[str, str]
    difference: Divergence | None


def check_determinism(
    ctx: typer.Context,
    run_set: RunSetName = None,
    only: Only = None,
    file: ConfigFile = None,
    sets: Sets = None,
    seed: Seed = None,
    model: Model = None,
    data: Data = None,
    clients: Clients = None,
    trace: Trace = None,
    concurrency: Concurrency = None,
    aggregation_goal: Goal = None,
    max_bins: MaxBins = _DEFAULT_BINS,
    max_runtime: MaxRuntime = None,
    context: Annotated[int, typer.Option(min=0, max=50, help="Events to show around a difference.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time.")] = 1,
    no_progress: NoProgress = False,
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Run each baseline twice and show the first event that differs; by default one tiny run."""
    talk: Talk = ctx.obj
    flags = shared_flags(
        seed=seed,
        model=model,
        data=data,
        clients=clients,
        trace=trace,
        concurrency=concurrency,
        goal=aggregation_goal,
        max_bins=max_bins,
        max_runtime=max_runtime,
    )
    request = sim_request(run_set, only, file, sets, flags)
    if run_set is None and file is None and not request.only:
        request = replace(request, run_set="smoke", only=["fluxtune"], flags=[*_tiny(), *flags])
    plan = _twice(request)
    folder = runs_dir(runs_folder, os.environ)
    prepare_runs_dir(folder)
    display = choose_display(talk, len(plan.runs), as_json=as_json, shows_progress=not no_progress)
    outcome = execute(plan, folder, talk, display, jobs=jobs, stops_on_failure=True)
    code = outcome.exit_code()
    pairs = _compared(plan, outcome, folder, context)
    # A run that starves or diverges twice in the same way is as good as any.
    if code in (ExitCode.OK, ExitCode.ANSWER_IS_NO):
        code = int(ExitCode.ANSWER_IS_NO if any(pair.difference is not None for pair in pairs) else ExitCode.OK)
    if as_json:
        status = {int(ExitCode.OK): "ok", int(ExitCode.ANSWER_IS_NO): "no"}.get(code, "error")
        talk.envelope("sim check-determinism", status, {"pairs": [_json(pair) for pair in pairs]}, outcome.error())
    else:
        for pair in pairs:
            _print(talk.out(), pair)
    raise typer.Exit(code)


def _tiny() -> list[Override]:
    values: dict[str, Plain] = {
        "model.name": "tiny",
        "data.source": "synthetic",
        "data.train_per_class": 60,
        "data.test_per_class": 20,
    }
    return [fixed(path, value, _ORIGIN) for path, value in values.items()]


def _twice(request: Request) -> Plan:
    """Each run two times in a row, with different numbers of compute threads."""
    plans = [
        make_plan(replace(request, flags=[fixed("engine.num_workers", number, _ORIGIN), *request.flags]))
        for number in _WORKERS
    ]
    runs = [run for pair in zip(*(plan.runs for plan in plans), strict=True) for run in pair]
    return Plan(plans[0].run_set, tuple(runs))


def _compared(plan: Plan, outcome: Outcome, folder: Path, context: int) -> list[_Pair]:
    """The pairs of which both runs have ended well enough to have events."""
    pairs = []
    sound = [int(ExitCode.OK), int(ExitCode.ANSWER_IS_NO)]
    if any(verdict.launch_code not in sound for verdict in outcome.verdicts):
        return []
    ids = [str(row["id"]) for row in outcome.rows]
    for index in range(0, len(ids) - 1, 2):
        one, other = (RunFolder(folder / ids[number]).events for number in (index, index + 1))
        pairs.append(
            _Pair(
                plan.runs[index].config.label,
                (ids[index], ids[index + 1]),
                (canonical_hash(one), canonical_hash(other)),
                first_difference(one, other, context=context),
            )
        )
    return pairs


def _json(pair: _Pair) -> dict[str, JSON]:
    found = pair.difference
    difference = None if found is None else found.to_json()
    return {
        "baseline": pair.name,
        "runs": list(pair.ids),
        "hashes": list(pair.hashes),
        "equal": found is None,
        "difference": difference,
    }


def _print(console: Console, pair: _Pair) -> None:
    if pair.difference is None:
        console.print(plain_text(f"PASS  {pair.name}: both runs have hash {pair.hashes[0]}"), soft_wrap=True)
        return
    console.print(plain_text(f"FAIL  {pair.name}: the runs differ"), soft_wrap=True)
    for line in difference_lines(pair.difference, pair.ids):
        console.print(plain_text(line), soft_wrap=True)


def difference_lines(found: Divergence, names: Sequence[str]) -> list[str]:
    """A difference as lines of text: what both have, then each side."""
    what = "the header" if found.index == 0 else f"event {found.index}"
    where = f" in {', '.join(found.paths)}" if found.paths else ", where one of them has ended"
    lines = [f"they first differ at {what}{where}"]
    lines += [f"    {_line(event)}" for event in found.before]
    for sign, name, side in (("-", names[0], found.left), ("+", names[1], found.right)):
        lines.append(f"{sign}{sign}{sign} {name}")
        lines += [f"  {sign} {_line(event)}" for event in side] or [f"  {sign} (nothing)"]
    return lines


def _line(event: Event) -> str:
    text = json.dumps(event, separators=(",", ":"))
    return text if len(text) <= _LONGEST_LINE else f"{text[: _LONGEST_LINE - 3]}..."
