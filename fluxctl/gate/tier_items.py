"""Which values each tier of the gate shows, and in which words.

Adding a value to tier 1 or 2 is one entry here; whatever has none is in tier 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pydantic import BaseModel

from fluxctl.config.durations import show_duration
from fluxctl.config.model import Choice, Config
from fluxctl.config.saved import scalar
from fluxctl.gate.facts import Case

Show: TypeAlias = Callable[[Config], str]


@dataclass(frozen=True, slots=True)
class Item:
    """A line of tier 1: which values it shows, and how."""

    label: str
    paths: tuple[str, ...]
    value: Show
    note: Callable[[Case], str] = field(default=lambda case: "")  # noqa: ARG005 - no note


@dataclass(frozen=True, slots=True)
class Column:
    """A column of tier 2: which values it shows, and how."""

    title: str
    paths: tuple[str, ...]
    show: Show


def values_of(config: Config) -> dict[str, str]:
    """Every value of a configuration as text, by its dotted path; parameters of a policy are one value."""
    found: dict[str, str] = {}
    _collect(config, "", found)
    return found


def _collect(section: BaseModel, prefix: str, found: dict[str, str]) -> None:
    for name in type(section).model_fields:
        value, path = getattr(section, name), f"{prefix}{name}"
        if isinstance(value, BaseModel):
            _collect(value, f"{path}.", found)
        else:
            found[path] = scalar(section.model_dump(mode="json", include={name})[name])


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.12g}"


def _time(seconds: float | None) -> str:
    return "none" if seconds is None else show_duration(seconds)


def _choice(choice: Choice) -> str:
    parts = ", ".join(f"{name} {scalar(value)}" for name, value in choice.params.items())
    return f"{choice.name} ({parts})" if parts else choice.name


def _budget(config: Config) -> str:
    limits = config.limits
    parts = [] if limits.max_bins is None else [f"{limits.max_bins} bins"]
    parts += [] if limits.max_rounds is None else [f"{limits.max_rounds} rounds"]
    return ", ".join([*parts, show_duration(config.runtime_budget_s())])


def _target(config: Config) -> str:
    limits = config.limits
    if limits.target_accuracy is None:
        return f"none (window {limits.converge_window})"
    return f"{_number(limits.target_accuracy)} for {limits.converge_window} bins"


def _stall(config: Config) -> str:
    limits = config.limits
    window = "off" if limits.stall_window_s is None else show_duration(limits.stall_window_s)
    deltas = f"acc +{_number(limits.stall_min_delta)}, loss -{_number(100 * limits.loss_min_rel_delta)} %"
    return f"{window}, {limits.stall_on} ({deltas})"


def _delays(config: Config) -> str:
    delays = config.delays
    spread = f"{delays.model} {_number(delays.low_s)} to {_number(delays.high_s)} s, factor {_number(delays.factor)}"
    return spread if delays.enabled else f"off ({spread})"


def _gate(config: Config) -> str:
    gate = config.gate
    cap = "" if gate.max_iterations_per_bin is None else f" + cap {gate.max_iterations_per_bin}"
    plateau = f"plateau({gate.plateau_window}, {_number(gate.plateau_min_drop)})"
    rule = (
        plateau if gate.stopping_policy == "plateau" else "" if gate.stopping_policy == "off" else gate.stopping_policy
    )
    parts = [_number(gate.var_threshold) if gate.enabled else f"off ({_number(gate.var_threshold)})", rule]
    return " + ".join(filter(None, parts)) + cap


def _partition_note(case: Case) -> str:
    data = case.data
    if data is None:
        return "could not be looked at"
    low, high = int(data.quantities.min()), int(data.quantities.max())
    texts = f"{low} texts of a client" if low == high else f"{low} to {high} texts of a client"
    return texts if data.measured_alpha is None else f"{texts}; looks like alpha {data.measured_alpha:.2g} as loaded"


def _trace_note(case: Case) -> str:
    world = case.world
    if world is None:
        return "not simulated"
    if world.is_always:
        return "everybody can always be reached"
    low, mean, high = int(world.reachable.min()), float(world.reachable.mean()), int(world.reachable.max())
    return f"{low} to {high} clients can be reached at a time, {mean:.1f} on average"


def _task_note(case: Case) -> str:
    world = case.world
    if world is None:
        return "not simulated"
    low, middle, high = world.task_s[0], world.task_s[len(world.task_s) // 2], world.task_s[-1]
    return f"a task takes {low:.3g} to {high:.3g} s, half of them at most {middle:.3g} s"


def _texts_note(case: Case) -> str:
    data = case.config.data
    return f"{data.train_per_class} texts of each class to train and {data.test_per_class} to test"


IDENTITY: Final = {"run_set", "baseline", "variant", "mode", "seed"}
ITEMS: Final = (
    Item(
        "model", ("model.name",), lambda c: c.model.name, lambda case: f"{case.config.model.max_len} tokens of a text"
    ),
    Item(
        "adapters",
        ("model.adapter_blocks", "model.adapter_dim"),
        lambda c: f"blocks {scalar(list(c.model.adapter_blocks))}, width {c.model.adapter_dim}",
    ),
    Item("data", ("data.source",), lambda c: c.data.source, _texts_note),
    Item("classes", ("data.classes",), lambda c: ", ".join(c.data.classes)),
    Item("batch", ("data.batch_size",), lambda c: str(c.data.batch_size), lambda case: "texts of a bin"),  # noqa: ARG005
    Item(
        "partition",
        ("partition.method", "partition.alpha"),
        lambda c: f"{c.partition.method}, alpha {_number(c.partition.alpha)}",
        _partition_note,
    ),
    Item("clients", ("clients.num_clients",), lambda c: str(c.clients.num_clients)),
    Item("trace", ("availability.trace",), lambda c: c.availability.trace, _trace_note),
    Item(
        "delays",
        ("delays.enabled", "delays.model", "delays.low_s", "delays.high_s", "delays.factor"),
        _delays,
        _task_note,
    ),
    Item(
        "abandon after",
        ("engine.abandon_after_s",),
        lambda c: _time(c.engine.abandon_after_s),
        lambda case: "silence after which a client is given up",  # noqa: ARG005
    ),
    Item("target", ("limits.target_accuracy", "limits.converge_window"), _target),
    Item(
        "budget",
        ("limits.max_bins", "limits.max_rounds", "limits.max_runtime_s"),
        _budget,
        lambda case: "" if case.config.limits.max_runtime_s is not None else "the time is the default",
    ),
    Item(
        "stall",
        ("limits.stall_window_s", "limits.stall_on", "limits.stall_min_delta", "limits.loss_min_rel_delta"),
        _stall,
    ),
)
COLUMNS: Final = (
    Column("style", ("aggregation.style",), lambda c: c.aggregation.style),
    Column("K", ("aggregation.goal",), lambda c: str(c.aggregation.goal)),
    Column("C", ("aggregation.concurrency",), lambda c: str(c.aggregation.concurrency)),
    Column(
        "selector",
        ("selection.policy.name", "selection.policy.params"),
        lambda c: _choice(c.selection.policy),
    ),
    Column("per", ("selection.per",), lambda c: c.selection.per),
    Column("knowledge", ("availability.knowledge",), lambda c: c.availability.knowledge),
    Column("estimator", ("step.estimator",), lambda c: c.step.estimator),
    Column("perturbation", ("step.perturbation",), lambda c: c.step.perturbation),
    Column("P", ("step.num_directions",), lambda c: str(c.step.num_directions)),
    Column("optimizer", ("server.optimizer",), lambda c: c.server.optimizer),
    Column("lr", ("server.lr",), lambda c: _number(c.server.lr)),
    Column(
        "control",
        ("aggregation.control.name", "aggregation.control.params"),
        lambda c: _choice(c.aggregation.control),
    ),
    Column(
        "gate",
        (
            "gate.enabled",
            "gate.var_threshold",
            "gate.stopping_policy",
            "gate.max_iterations_per_bin",
        ),
        _gate,
    ),
    Column("rate", ("aggregation.rate.name", "aggregation.rate.params"), lambda c: _choice(c.aggregation.rate)),
    Column(
        "staleness",
        ("aggregation.staleness.name", "aggregation.staleness.params"),
        lambda c: _choice(c.aggregation.staleness),
    ),
)
