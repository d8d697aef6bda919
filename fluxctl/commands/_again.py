"""The commands that start again what an interrupted launch did not finish.

A run cannot be continued, so it is started from the beginning; what has ended is left out.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final

import typer

from fluxctl.commands._request import PlannedRun

_CHOOSERS: Final = ("only", "seed", "seeds")  # options that choose among runs; narrowed to what is left


def again(
    ctx: typer.Context, runs: Sequence[PlannedRun], left: Sequence[PlannedRun], environ: Mapping[str, str] | None = None
) -> list[str]:
    """Commands for a shell that start the runs that are left; one for all seeds that miss the same baselines.

    A baseline is started again under a seed as a whole: with all its variants, and on both clocks if it was a pair.

    Args:
        ctx: How the program was called.
        runs: All runs of the launch, in order.
        left: Those that did not end by themselves.
        environ: The environment, whose settings are repeated; None = that of this process.
    """
    settings = sorted((os.environ if environ is None else environ).items())
    prefix = [f"{name}={shlex.quote(value)}" for name, value in settings if name.startswith("FLUXCTL_SET_")]
    words = _written(ctx)
    commands = []
    for seeds, baselines in _groups(left):
        chosen = [*_words_of(ctx, "only")]
        if len(baselines) < len(_baselines(runs)):
            chosen = ["--only", ",".join(baselines)]
        if ctx.params.get("seeds") is not None:
            chosen += ["--seeds", ",".join(map(str, seeds))]
        else:
            chosen += _words_of(ctx, "seed")
        commands.append(" ".join([*prefix, shlex.join(["fluxctl", "launch", *words, *chosen])]))
    return commands


def _baselines(runs: Iterable[PlannedRun]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(run.config.baseline for run in runs))


def _groups(left: Iterable[PlannedRun]) -> list[tuple[list[int], tuple[str, ...]]]:
    """Seeds that miss the same baselines, with those."""
    by_seed: dict[int, list[PlannedRun]] = {}
    for run in left:
        by_seed.setdefault(run.config.seed, []).append(run)
    groups: dict[tuple[str, ...], list[int]] = {}
    for seed, runs in by_seed.items():
        groups.setdefault(_baselines(runs), []).append(seed)
    return [(seeds, baselines) for baselines, seeds in groups.items()]


def _written(ctx: typer.Context) -> list[str]:
    """The options that the user wrote, but for those that choose among runs."""
    names = [param.name for param in ctx.command.params if param.name is not None]
    return [word for name in names if name not in _CHOOSERS for word in _words_of(ctx, name)]


def _words_of(ctx: typer.Context, name: str) -> list[str]:
    """An option as the user wrote it, in its long form; nothing if they did not."""
    source = ctx.get_parameter_source(name)
    if source is None or source.name != "COMMANDLINE":
        return []
    flag = next(param.opts[0] for param in ctx.command.params if param.name == name)
    value = ctx.params[name]
    if isinstance(value, bool):
        return [flag] if value else []
    values = value if isinstance(value, list | tuple) else [value]
    return [word for one in values for word in (flag, str(one.value if isinstance(one, Enum) else one))]
