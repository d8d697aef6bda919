"""``fluxctl sim sweep``: a grid over any settings, one run for each point, baseline and seed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from fluxctl.commands._bands import band
from fluxctl.commands._execute import Outcome, choose_display, execute
from fluxctl.commands._gate_view import print_findings
from fluxctl.commands._options import OUTPUT, ConfigFile, JsonFlag, Only, RunsDir, RunSetName, Sets, seed_list
from fluxctl.commands._render import Column, duration, number, print_grid
from fluxctl.commands._request import Plan
from fluxctl.commands._sim_csv import write_csv
from fluxctl.commands._sim_options import (
    Clients,
    Concurrency,
    CsvFile,
    Data,
    Force,
    Goal,
    MaxBins,
    MaxRuntime,
    Model,
    NoProgress,
    Seed,
    Seeds,
    Trace,
    shared_flags,
    sim_request,
    writable,
)
from fluxctl.commands._sim_points import Point, gated, make_points, read_grid, sweep_id
from fluxctl.commands._starter import new_standby
from fluxctl.commands._talk import Talk, print_json
from fluxctl.errors import ConfigError, ExitCode
from fluxctl.runs.index import SUMMARY_FIELDS, RunInfo, list_runs
from fluxctl.runs.layout import prepare_runs_dir, runs_dir
from fluxctl.types import JSON

REFUSED: Final = "REFUSED"  # a point whose configuration makes no sense
_NUMBERS: Final = {"bins": ",.0f", "best_accuracy": ".3f", "final_accuracy": ".3f", "forward_passes": ",.0f"}
_DONE: Final = (int(ExitCode.OK), int(ExitCode.ANSWER_IS_NO))


def sweep(
    ctx: typer.Context,
    grid: Annotated[
        list[str] | None,
        typer.Option("--grid", "-g", metavar="KEY=A,B,C", help="Values of a setting; may be repeated."),
    ] = None,
    run_set: RunSetName = None,
    only: Only = None,
    file: ConfigFile = None,
    sets: Sets = None,
    seed: Seed = None,
    seeds: Seeds = None,
    model: Model = None,
    data: Data = None,
    clients: Clients = None,
    trace: Trace = None,
    concurrency: Concurrency = None,
    aggregation_goal: Goal = None,
    max_bins: MaxBins = None,
    max_runtime: MaxRuntime = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time.")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the points.", rich_help_panel=OUTPUT)] = False,
    force: Force = False,
    csv: CsvFile = None,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The sweep's runs; by default one in the runs folder, named by the grid."),
    ] = None,
    no_progress: NoProgress = False,
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Run every point of a grid over any settings; what has ended is not run again."""
    talk: Talk = ctx.obj
    if seed is not None and seeds is not None:
        raise ConfigError("--seed and --seeds exclude each other", where=f"--seed {seed} --seeds {seeds}")
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
    request = sim_request(run_set, only, file, sets, flags, seed_list(seeds) if seeds is not None else ())
    wanted = make_points(request, read_grid(grid or ()))
    home = folder or runs_dir(runs_folder, os.environ) / f"sweep-{sweep_id(wanted)}"
    points, findings = gated(wanted, request, forces=force)
    if findings and not as_json and talk.verbosity >= 0:
        print_findings(talk.err(), findings, set())
    known = _ended_runs(home)
    pending = _pending(points, known)
    if dry_run:
        _show_dry_run(talk, points, known, home, as_json=as_json)
        return
    writable(csv, "--csv")
    prepare_runs_dir(home)
    outcome = _run(pending, points, home, talk, jobs=jobs, shows_progress=not no_progress, as_json=as_json)
    rows = [_row(point, _latest(home).get(point.print or "")) for point in points]
    _write(csv or home / "sweep.csv", points, rows)
    code = _exit_code(outcome, points)
    if as_json:
        status = {int(ExitCode.OK): "ok", int(ExitCode.ANSWER_IS_NO): "no"}.get(code, "error")
        told: list[JSON] = list(rows)
        refusal = next((point.refusal for point in points if point.refusal is not None), None)
        error = outcome.error() or (refusal if status == "error" else None)
        talk.envelope("sim sweep", status, {"folder": str(home), "points": told}, error)
    else:
        _print(talk.out(), points, rows)
        talk.say(f"runs and table are in {home}")
    raise typer.Exit(code)


def _latest(home: Path) -> dict[str, RunInfo]:
    """The newest run of each fingerprint."""
    return {info.record.fingerprints.get("run", ""): info for info in list_runs(home)}


def _ended_runs(home: Path) -> dict[str, RunInfo]:
    """Runs that need not be made again: they ended with a result, whatever it was."""
    found: dict[str, RunInfo] = {}
    for info in list_runs(home):
        if info.verdict is not None and info.verdict.launch_code in _DONE:
            found[info.record.fingerprints.get("run", "")] = info
    return found


def _pending(points: Sequence[Point], known: Mapping[str, RunInfo]) -> Plan:
    """What is left to run; points of one configuration are one run."""
    left = {point.print: point.planned for point in points if point.planned is not None and point.print not in known}
    return Plan(None, tuple(left.values()))


def _run(
    pending: Plan, points: Sequence[Point], home: Path, talk: Talk, *, jobs: int, shows_progress: bool, as_json: bool
) -> Outcome:
    num_refused = sum(point.planned is None for point in points)
    num_known = len({point.print for point in points if point.planned is not None}) - len(pending.runs)
    counted = f"{len(points)} points: {len(pending.runs)} to run, {num_known} ended before, {num_refused} refused"
    if as_json:
        print_json({"event": "sweep", "points": len(points), "to_run": len(pending.runs), "refused": num_refused})
    talk.say(counted)
    refusals = {point.refusal.message: point for point in reversed(points) if point.refusal is not None}
    for point in reversed(refusals.values()):  # the first of each kind
        if point.refusal is not None:
            talk.say(f"refused: {point.label} {point.text}")
            talk.error(point.refusal)
    display = choose_display(talk, len(pending.runs), as_json=as_json, shows_progress=shows_progress)
    with new_standby(home) as standby:
        return execute(pending, home, talk, display, jobs=jobs, stops_on_refusal=False, standby=standby)


def _exit_code(outcome: Outcome, points: Sequence[Point]) -> int:
    code = outcome.exit_code()
    is_refused = any(point.refusal is not None for point in points)
    return int(ExitCode.CHANGE_REQUEST) if is_refused and code in _DONE else code


def _row(point: Point, info: RunInfo | None) -> dict[str, JSON]:
    """The public fields of a point."""
    row: dict[str, JSON] = {
        "values": dict(point.values),
        "baseline": point.label,
        "seed": point.seed,
        "fingerprint": point.print,
        "id": None if info is None else info.record.id,
    }
    if point.refusal is not None:
        return {**row, "verdict": REFUSED, "reason": point.refusal.message, **dict.fromkeys(SUMMARY_FIELDS)}
    verdict = None if info is None else info.verdict
    row["verdict"] = None if verdict is None else verdict.verdict.value
    row["reason"] = None if verdict is None else verdict.reason
    return row | {name: None if verdict is None else verdict.summary.get(name) for name in SUMMARY_FIELDS}


def _write(path: Path, points: Sequence[Point], rows: Sequence[Mapping[str, JSON]]) -> None:
    keys = list(points[0].values)
    fields = [*keys, "baseline", "seed", "verdict", "reason", *SUMMARY_FIELDS, "id", "fingerprint"]
    write_csv(path, fields, [{**row, **point.values} for point, row in zip(points, rows, strict=True)])


def _print(console: Console, points: Sequence[Point], rows: Sequence[Mapping[str, JSON]]) -> None:
    """One line per point and baseline; over several seeds the mean with half its 95 % confidence interval."""
    groups: dict[tuple[str, str], list[tuple[Point, Mapping[str, JSON]]]] = {}
    for point, row in zip(points, rows, strict=True):
        groups.setdefault((point.text, point.label), []).append((point, row))
    members = list(groups.values())
    has_seeds = any(len(group) > 1 for group in members)
    columns = [Column(path, [str(group[0][0].values[path]) for group in members]) for path in points[0].values]
    columns.append(Column("baseline", [group[0][0].label for group in members]))
    num_keys = len(columns)
    if has_seeds:
        columns.append(Column("seeds", [str(len(group)) for group in members], True))
    columns.append(Column("verdict", [_verdicts([row for _, row in group]) for group in members]))
    for name, pattern in _NUMBERS.items():
        title = name.replace("_accuracy", " acc").replace("forward_", "")
        columns.append(Column(title, [_mean([row[name] for _, row in group], pattern) for group in members], True))
    columns.append(
        Column("engine time", [_mean_time([row["engine_s"] for _, row in group]) for group in members], True)
    )
    for name in ("bytes_down", "bytes_up"):
        cells = [_mean([row[name] for _, row in group], ",.1f", 1e-6) for group in members]
        columns.append(Column(name.replace("bytes_", "MB "), cells, True))
    print_grid(console, columns, num_keys=num_keys)


def _verdicts(rows: Sequence[Mapping[str, JSON]]) -> str:
    counts = Counter(str(row["verdict"] or "not run") for row in rows)
    return next(iter(counts)) if len(rows) == 1 else ", ".join(f"{count} {name}" for name, count in counts.items())


def _mean(values: Sequence[JSON], pattern: str, scale: float = 1.0) -> str:
    found = band([float(value) for value in values if isinstance(value, int | float)])
    if found is None:
        return "-"
    spread = "" if found.half_width is None else f" ± {number(found.half_width * scale, pattern)}"
    return number(found.mean * scale, pattern) + spread


def _mean_time(values: Sequence[JSON]) -> str:
    found = band([float(value) for value in values if isinstance(value, int | float)])
    return "-" if found is None else duration(found.mean)


def _show_dry_run(
    talk: Talk, points: Sequence[Point], known: Mapping[str, RunInfo], home: Path, *, as_json: bool
) -> None:
    states = ["refused" if point.print is None else "ended" if point.print in known else "to run" for point in points]
    if as_json:
        rows: list[JSON] = [
            {
                "values": dict(point.values),
                "baseline": point.label,
                "seed": point.seed,
                "fingerprint": point.print,
                "state": state,
                "refusal": None if point.refusal is None else point.refusal.message,
            }
            for point, state in zip(points, states, strict=True)
        ]
        talk.envelope("sim sweep", "ok", {"folder": str(home), "points": rows})
        return
    columns = [Column(path, [str(point.values[path]) for point in points]) for path in points[0].values]
    columns.append(Column("baseline", [point.label for point in points]))
    num_keys = len(columns)
    columns.append(Column("seed", ["-" if point.seed is None else str(point.seed) for point in points], True))
    columns.append(Column("state", states))
    columns.append(Column("why", ["" if point.refusal is None else point.refusal.message for point in points]))
    print_grid(talk.out(), columns, num_keys=num_keys)
    talk.say(f"{Counter(states)['to run']} of {len(points)} would run, in {home}; nothing was started (--dry-run)")
