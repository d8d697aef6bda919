"""Records to tables; the only place that builds them.

A table that is wider than the screen is split into several that share their first columns: nothing is cut or dropped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich import box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table

from fluxctl.commands._request import Plan
from fluxctl.commands._talk import plain_text
from fluxctl.config.model import Config, GateConfig
from fluxctl.types import JSON

_GAP: Final = 2  # blanks between columns


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, its cells and how they are set."""

    title: str
    cells: Sequence[str]
    is_number: bool = False

    @property
    def width(self) -> int:
        """Characters of the widest cell."""
        return max(map(cell_len, (self.title, *self.cells)))


def print_grid(console: Console, columns: Sequence[Column], num_keys: int = 1) -> None:
    """Print columns, split into as many tables as the screen needs.

    Args:
        console: Where to print.
        columns: All of the same length; columns without any content are left out.
        num_keys: How many of the first are repeated in each part.
    """
    keys = list(columns[:num_keys])
    rest = [column for column in columns[num_keys:] if any(cell not in ("", "-") for cell in column.cells)]
    for part in _parts(keys, rest, console.width):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, _GAP - 1, 0, 0), show_edge=False)
        for column in part:
            # a single cell wider than the screen is folded, never cut
            justify: JustifyMethod = "right" if column.is_number else "left"
            table.add_column(plain_text(column.title), justify=justify, overflow="fold")
        for row in zip(*(column.cells for column in part), strict=True):
            table.add_row(*(plain_text(cell) for cell in row))
        console.print(table)
        console.print()


def _parts(keys: list[Column], rest: Sequence[Column], width: int) -> list[list[Column]]:
    room = width - sum(column.width + _GAP for column in keys)
    parts: list[list[Column]] = []
    left = 0
    for column in rest:
        needed = column.width + _GAP
        if not parts or needed > left:
            parts.append(list(keys))
            left = room
        parts[-1].append(column)
        left -= needed
    return parts or [keys]


def duration(seconds: float | None) -> str:
    """``9.5 h``, ``12.3 min``, ``45.0 s``."""
    if seconds is None or not math.isfinite(seconds):
        return "-"
    if seconds >= 7200:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 120 else f"{seconds:.1f} s"


def number(value: Any, pattern: str = ",.0f") -> str:  # noqa: ANN401 - a field of a JSON file
    """A number by a format, or a dash."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return "-"
    return format(value, pattern)


def megabytes(value: Any) -> str:  # noqa: ANN401
    """Bytes in millions."""
    return number(value / 1e6, ",.1f") if isinstance(value, int | float) else "-"


def rate(value: Any) -> str:  # noqa: ANN401
    """A sim rate: engine seconds per wall second."""
    return number(value, ",.0f" if isinstance(value, int | float) and value >= 20 else ".2f")


def print_results(console: Console, rows: Sequence[Mapping[str, JSON]]) -> None:
    """The final table of a launch, one line per run."""
    has_seeds = len({row["seed"] for row in rows}) > 1
    columns = [
        Column("baseline", [str(row["baseline"]) for row in rows]),
        Column("mode", [str(row["mode"]) for row in rows]),
        *([Column("seed", [str(row["seed"]) for row in rows], True)] if has_seeds else []),
        Column("verdict", [str(row["verdict"]) for row in rows]),
        Column("bins", [number(row["bins"]) for row in rows], True),
        Column("best acc", [number(row["best_accuracy"], ".3f") for row in rows], True),
        Column("final acc", [number(row["final_accuracy"], ".3f") for row in rows], True),
        Column("engine time", [_duration_of(row["engine_s"]) for row in rows], True),
        Column("wall time", [_duration_of(row["wall_s"]) for row in rows], True),
        Column("sim rate", [rate(row["sim_rate"]) for row in rows], True),
        Column("passes", [number(row["forward_passes"]) for row in rows], True),
        Column("MB down", [megabytes(row["bytes_down"]) for row in rows], True),
        Column("MB up", [megabytes(row["bytes_up"]) for row in rows], True),
    ]
    print_grid(console, columns, num_keys=3 if has_seeds else 2)


def print_plan(console: Console, plan: Plan) -> None:
    """What will run: the systems with the knobs that make them what they are, then what they share."""
    first: dict[str, Config] = {}
    for run in plan.runs:
        first.setdefault(run.config.baseline, run.config)
    configs = list(first.values())
    columns = [
        Column("baseline", list(first)),
        Column("style", [config.aggregation.style for config in configs]),
        Column("K", [str(config.aggregation.goal) for config in configs], True),
        Column("C", [str(config.aggregation.concurrency) for config in configs], True),
        Column("selector", [_selector(config) for config in configs]),
        Column("knowledge", [config.availability.knowledge for config in configs]),
        Column("perturbation", [_perturbation(config) for config in configs]),
        Column("gate", [_gate(config.gate) for config in configs]),
        Column("rate", [config.aggregation.rate.name for config in configs]),
        Column("staleness", [config.aggregation.staleness.name for config in configs]),
    ]
    if plan.run_set is not None:
        console.print(plain_text(f"{plan.run_set.name}: {plan.run_set.description}"), soft_wrap=True)
    console.print()
    print_grid(console, columns)
    for label, text in _shared(plan):
        console.print(plain_text(f"{label:<10} {text}"), soft_wrap=True)


def _shared(plan: Plan) -> list[tuple[str, str]]:
    config = plan.runs[0].config
    limits, delays = config.limits, config.delays
    blocks = ", ".join(map(str, config.model.adapter_blocks)) or "none"
    target = "none" if limits.target_accuracy is None else f"{limits.target_accuracy:g}"
    budget = [duration(config.runtime_budget_s()) + " of engine time"]
    if limits.max_bins is not None:
        budget.insert(0, f"{limits.max_bins} bins")
    skew = f"alpha {config.partition.alpha:g}" if config.partition.method == "dirichlet" else "no skew"
    spread = f"{delays.low_s / delays.factor:g} to {delays.high_s / delays.factor:g} s, {delays.compute_model}"
    modes = ", ".join(dict.fromkeys(run.config.mode.value for run in plan.runs))
    seeds = ", ".join(dict.fromkeys(str(run.config.seed) for run in plan.runs))
    conditions = dict.fromkeys(run.prints.condition for run in plan.runs)
    return [
        ("model", f"{config.model.name}, adapters in blocks: {blocks}, width {config.model.adapter_dim}"),
        ("data", f"{config.data.source}, {config.clients.num_clients} clients, {skew}, batch {config.data.batch_size}"),
        ("delays", f"D of {spread}" if delays.enabled else "off"),
        ("target", f"{target}, held for {limits.converge_window} bins" if limits.target_accuracy else target),
        ("budget", ", ".join(budget)),
        ("runs", f"{len(plan.runs)}: mode {modes}; seed {seeds}"),
        ("condition", ", ".join(conditions)),
    ]


def _duration_of(value: JSON) -> str:
    return duration(float(value)) if isinstance(value, int | float) else "-"


def _selector(config: Config) -> str:
    per = f" per {config.selection.per}" if config.aggregation.style == "sync" else ""
    return config.selection.policy.name + per


def _perturbation(config: Config) -> str:
    step = config.step
    return step.perturbation + (f", P {step.num_directions}" if step.num_directions > 1 else "")


def _gate(gate: GateConfig) -> str:
    if not gate.enabled:
        return "off"
    parts = [f"{gate.var_threshold:g}"]
    if gate.stopping_policy == "plateau":
        parts.append(f"plateau({gate.plateau_window}, {gate.plateau_min_drop:g})")
    if gate.stopping_policy != "off" and gate.max_iterations_per_bin is not None:
        parts.append(f"cap {gate.max_iterations_per_bin}")
    return " + ".join(parts)
