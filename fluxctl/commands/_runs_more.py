"""``fluxctl runs fields``, ``diff`` and ``rm``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console

from fluxctl.analyses.result import percent
from fluxctl.commands._options import JsonFlag, RunsDir
from fluxctl.commands._render import Column, number, print_grid
from fluxctl.commands._talk import Talk, plain_text
from fluxctl.config.fingerprint import condition_differences, config_differences
from fluxctl.config.load import read_config
from fluxctl.config.model import Config
from fluxctl.config.saved import scalar
from fluxctl.errors import ConfigError, ExitCode
from fluxctl.runs.index import SUMMARY_FIELDS, RunInfo, find_run, list_runs
from fluxctl.runs.layout import runs_dir
from fluxctl.runs.removal import check_removable, remove_runs
from fluxctl.telemetry.manifest import FieldUse, Manifest, read_manifest
from fluxctl.types import JSON

_WORD_HELP = "latest, latest~1, the beginning of an id, baseline:mode, path"
_IDENTITY = ("run_set", "baseline", "variant", "mode", "seed")


def fields(
    ctx: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help=_WORD_HELP)] = "latest",
    event: Annotated[str | None, typer.Option("--event", metavar="KIND", help="Only this kind of event.")] = None,
    missing: Annotated[bool, typer.Option("--missing", help="Only fields that are promised and absent.")] = False,
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """List the fields that a run's events have, how often, and in which mode if it is one of a pair."""
    talk: Talk = ctx.obj
    folder = runs_dir(runs_folder, os.environ)
    infos = _with_partner(find_run(run, folder))
    manifests = [read_manifest(info.folder.events) for info in infos]
    if as_json:
        rows: list[JSON] = [
            {
                "run": info.record.id,
                "mode": manifest.mode,
                "num_events": dict(manifest.num_events),
                "num_damaged": manifest.num_damaged,
                "fields": [use.to_json() for use in manifest.fields if _is_wanted(use, event, missing)],
            }
            for info, manifest in zip(infos, manifests, strict=True)
        ]
        talk.envelope("runs fields", "ok", {"runs": rows})
        return
    for info, manifest in zip(infos, manifests, strict=True):
        num = sum(manifest.num_events.values())
        damaged = f", {manifest.num_damaged} damaged lines" if manifest.num_damaged else ""
        talk.out().print(plain_text(f"{manifest.mode}: {info.record.id}, {num:,} events{damaged}"), soft_wrap=True)
    talk.out().print()
    _print_fields(talk.out(), manifests, event, missing=missing)


def _with_partner(info: RunInfo) -> list[RunInfo]:
    """The run, and the run of the same request in the other mode if there is one."""
    if info.record.pair is None:
        return [info]
    others = list_runs(info.folder.path.parent)
    return [info, *(other for other in others if _is_partner(other, info))][:2]


def _is_partner(other: RunInfo, info: RunInfo) -> bool:
    same = (other.record.pair, other.record.baseline, other.record.variant, other.record.seed)
    return other.record.mode is not info.record.mode and same == (
        info.record.pair,
        info.record.baseline,
        info.record.variant,
        info.record.seed,
    )


def _is_wanted(use: FieldUse, event: str | None, missing: bool) -> bool:
    return (event is None or use.event == event) and (use.is_missing or not missing)


def _print_fields(console: Console, manifests: Sequence[Manifest], event: str | None, *, missing: bool) -> None:
    tables = [{(use.event, use.path): use for use in manifest.fields} for manifest in manifests]
    wanted = [
        key
        for key in dict.fromkeys(key for table in tables for key in table)
        if any(key in table and _is_wanted(table[key], event, missing) for table in tables)
    ]
    if not wanted:
        console.print(plain_text("no field is missing" if missing else "no such field"))
        return
    first = [next(table[key] for table in tables if key in table) for key in wanted]
    columns = [
        Column("event", [key[0] for key in wanted]),
        Column("field", [key[1] for key in wanted]),
        Column("holds", ["/".join(use.kinds) or "-" for use in first]),
        *(
            Column(manifest.mode or "present", [_density(table.get(key)) for key in wanted], True)
            for manifest, table in zip(manifests, tables, strict=True)
        ),
        Column("", [_remark([table[key] for table in tables if key in table]) for key in wanted]),
    ]
    print_grid(console, columns, num_keys=2)


def _density(use: FieldUse | None) -> str:
    return "none" if use is None or not use.num_present else percent(use.density)


def _remark(uses: Sequence[FieldUse]) -> str:
    if any(use.is_missing for use in uses):
        return "promised, absent"
    return "" if uses[0].is_promised else "extra"


def diff(
    ctx: typer.Context,
    left: Annotated[str, typer.Argument(metavar="RUN", help=_WORD_HELP)],
    right: Annotated[str, typer.Argument(metavar="RUN", help="The other one.")],
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what differs between two runs: configuration and results."""
    talk: Talk = ctx.obj
    folder = runs_dir(runs_folder, os.environ)
    infos = [find_run(word, folder) for word in (left, right)]
    configs = [read_config(info.folder.config).config for info in infos]
    settings = [(path, *both) for path, both in config_differences(configs[0], configs[1]).items()]
    rows = [info.fields() for info in infos]
    results = [
        (name, rows[0][name], rows[1][name]) for name in ("verdict", *SUMMARY_FIELDS) if rows[0][name] != rows[1][name]
    ]
    if as_json:
        data: dict[str, JSON] = {
            "runs": [info.record.id for info in infos],
            "config": [{"key": key, "left": one, "right": other} for key, one, other in settings],
            "results": [{"field": name, "left": one, "right": other} for name, one, other in results],
            "is_same_condition": _same(infos, "condition"),
            "is_same_run": _same(infos, "run"),
        }
        talk.envelope("runs diff", "ok", data)
        return
    _print_diff(talk.out(), infos, configs, settings, results)


def _same(infos: Sequence[RunInfo], name: str) -> bool:
    return len({info.record.fingerprints.get(name) for info in infos}) == 1


def _print_diff(
    console: Console,
    infos: Sequence[RunInfo],
    configs: Sequence[Config],
    settings: Sequence[tuple[str, JSON, JSON]],
    results: Sequence[tuple[str, JSON, JSON]],
) -> None:
    for side, info in zip(("left ", "right"), infos, strict=True):
        console.print(plain_text(f"{side} {info.record.id}"), soft_wrap=True)
    console.print()
    for title, pairs in (("configuration", settings), ("result", results)):
        if not pairs:
            console.print(plain_text(f"the {title} is the same"))
            continue
        columns = [
            Column(title, [name for name, _, _ in pairs]),
            Column("left", [_value(name, one) for name, one, _ in pairs]),
            Column("right", [_value(name, other) for name, _, other in pairs]),
        ]
        print_grid(console, columns)
    if any(name not in _IDENTITY for name, _, _ in settings):
        console.print(plain_text(_verdict(infos, configs)), soft_wrap=True)


def _verdict(infos: Sequence[RunInfo], configs: Sequence[Config]) -> str:
    """Whether one figure may show both."""
    prints = [info.record.fingerprints.get("condition") for info in infos]
    if prints[0] == prints[1]:
        return f"one figure may show both: the conditions are equal ({prints[0]})"
    paths = ", ".join(condition_differences(configs[0], configs[1]))
    return f"one figure must not show both: the conditions differ in {paths or 'what an earlier version knew'}"


def _value(name: str, value: JSON) -> str:
    if name == "hash" and isinstance(value, str):
        return f"{value[:12]}..."
    if isinstance(value, float):
        return format(value, ".6g")
    if isinstance(value, int) and not isinstance(value, bool):
        return number(value) if abs(value) >= 10_000 else str(value)
    return "-" if value is None else value if isinstance(value, str) else scalar(value)  # type: ignore[arg-type]  # JSON


def rm(
    ctx: typer.Context,
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help=_WORD_HELP)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Remove ended runs with everything in their folders."""
    talk: Talk = ctx.obj
    folder = runs_dir(runs_folder, os.environ)
    found = {info.record.id: info for info in (find_run(word, folder) for word in runs)}
    infos = list(found.values())
    check_removable(infos, folder)
    if not yes and not _is_confirmed(infos, talk, as_json=as_json):
        talk.say("nothing was removed")
        raise typer.Exit(int(ExitCode.ANSWER_IS_NO))
    remove_runs(infos, folder)
    if as_json:
        talk.envelope("runs rm", "ok", {"removed": list(found)})
        return
    for name in found:
        talk.out().print(plain_text(f"removed {name}"), soft_wrap=True)


def _is_confirmed(infos: Sequence[RunInfo], talk: Talk, *, as_json: bool) -> bool:
    if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError("nobody is there to confirm the removal", hint="add --yes")
    for info in infos:
        talk.say(info.record.id)
    return typer.confirm(f"Remove {'this run' if len(infos) == 1 else f'these {len(infos)} runs'}?", err=True)
