"""What each tier of the gate shows.

Tier 1 is what to review before every run: the condition, with notes. Tier 2 is what makes each system the one it is:
baselines as rows, knobs as columns. Tier 3 is every other value. Each value of a configuration is in one of them, in
full: a test changes each and looks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from pydantic import BaseModel

from fluxctl.config.durations import show_duration
from fluxctl.config.model import Choice, Config
from fluxctl.config.saved import scalar
from fluxctl.gate.checks import Finding
from fluxctl.gate.facts import Case

Show: TypeAlias = Callable[[Config], str]


class Status(StrEnum):
    """How a reviewed value stands."""

    OK = "ok"
    CHECK = "check"  # a check has something to say about it
    DEFAULT = "default"  # nobody has set it


@dataclass(frozen=True, slots=True)
class Row:
    """A line of tier 1."""

    label: str
    value: str
    note: str
    status: Status
    is_overridden: bool


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of tier 2."""

    text: str
    is_overridden: bool


@dataclass(frozen=True, slots=True)
class Knob:
    """A column of tier 2."""

    title: str
    cells: tuple[Cell, ...]

    @property
    def differs(self) -> bool:
        """Whether the baselines have different values."""
        return len({cell.text for cell in self.cells}) > 1


@dataclass(frozen=True, slots=True)
class Rest:
    """A line of tier 3."""

    path: str
    value: str
    origin: str
    is_overridden: bool


@dataclass(frozen=True, slots=True)
class Review:
    """The three tiers of a launch, and what was found."""

    rows: tuple[Row, ...]
    baselines: tuple[str, ...]
    knobs: tuple[Knob, ...]
    rest: tuple[Rest, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class _Item:
    """A line of tier 1: which values it shows, and how."""

    label: str
    paths: tuple[str, ...]
    value: Show
    note: Callable[[Case], str] = field(default=lambda case: "")  # noqa: ARG005 - no note


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of tier 2: which values it shows, and how."""

    title: str
    paths: tuple[str, ...]
    show: Show


def review(cases: Sequence[Case], findings: Sequence[Finding]) -> Review:
    """Put what is known about runs into the tiers.

    Args:
        cases: The runs; the first of each baseline speaks for its repetitions on other clocks and seeds.
        findings: What the checks found.
    """
    first: dict[str, Case] = {}
    for case in cases:
        first.setdefault(case.config.label, case)
    systems = list(first.values())
    suspect = {path for finding in findings for path in finding.told.paths}
    rows = [_identity(cases), *(_row(item, systems, suspect) for item in _ITEMS), _fingerprints(cases)]
    return Review(
        rows=tuple(rows),
        baselines=tuple(first),
        knobs=tuple(_knob(column, systems) for column in _COLUMNS),
        rest=tuple(_rest(systems)),
        findings=tuple(findings),
    )


def _identity(cases: Sequence[Case]) -> Row:
    configs = [case.config for case in cases]
    modes = ", ".join(dict.fromkeys(config.mode.value for config in configs))
    seeds = ", ".join(dict.fromkeys(str(config.seed) for config in configs))
    runs = "1 run" if len(configs) == 1 else f"{len(configs)} runs"
    overridden = any({"mode", "seed"} & case.overridden for case in cases)
    return Row("runs", configs[0].run_set, f"{runs}: mode {modes}; seed {seeds}", Status.OK, overridden)


def _fingerprints(cases: Sequence[Case]) -> Row:
    conditions = ", ".join(dict.fromkeys(case.prints.condition for case in cases))
    return Row("condition", conditions, "runs of one condition may share a figure", Status.OK, is_overridden=False)


def _row(item: _Item, systems: Sequence[Case], suspect: set[str]) -> Row:
    status = Status.OK
    if suspect & set(item.paths):
        status = Status.CHECK
    elif all(case.is_default(item.paths) for case in systems):
        status = Status.DEFAULT
    overridden = any(case.overridden & set(item.paths) for case in systems)
    return Row(item.label, _each(item.value, systems), item.note(systems[0]), status, overridden)


def _knob(column: _Column, systems: Sequence[Case]) -> Knob:
    paths = set(column.paths)
    return Knob(column.title, tuple(Cell(column.show(case.config), bool(case.overridden & paths)) for case in systems))


def _rest(systems: Sequence[Case]) -> Iterator[Rest]:
    shown = {path for part in (*_ITEMS, *_COLUMNS) for path in part.paths} | _IDENTITY
    for path in values_of(systems[0].config):
        if path not in shown:
            origins = dict.fromkeys(case.origins.get(path, "default") for case in systems)
            overridden = any(path in case.overridden for case in systems)
            value = _each(lambda config, path=path: values_of(config)[path], systems)  # type: ignore[misc]
            yield Rest(path, value, ", ".join(origins), overridden)


def _each(show: Show, systems: Sequence[Case]) -> str:
    """One value if all systems have it, else each one's."""
    values = {case.config.label: show(case.config) for case in systems}
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return "; ".join(f"{label} {value}" for label, value in values.items())


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


_IDENTITY: Final = {"run_set", "baseline", "variant", "mode", "seed"}
_ITEMS: Final = (
    _Item(
        "model", ("model.name",), lambda c: c.model.name, lambda case: f"{case.config.model.max_len} tokens of a text"
    ),
    _Item(
        "adapters",
        ("model.adapter_blocks", "model.adapter_dim"),
        lambda c: f"blocks {scalar(list(c.model.adapter_blocks))}, width {c.model.adapter_dim}",
    ),
    _Item("data", ("data.source",), lambda c: c.data.source, _texts_note),
    _Item("classes", ("data.classes",), lambda c: ", ".join(c.data.classes)),
    _Item("batch", ("data.batch_size",), lambda c: str(c.data.batch_size), lambda case: "texts of a bin"),  # noqa: ARG005
    _Item(
        "partition",
        ("partition.method", "partition.alpha"),
        lambda c: f"{c.partition.method}, alpha {_number(c.partition.alpha)}",
        _partition_note,
    ),
    _Item("clients", ("clients.num_clients",), lambda c: str(c.clients.num_clients)),
    _Item("trace", ("availability.trace",), lambda c: c.availability.trace, _trace_note),
    _Item(
        "delays",
        ("delays.enabled", "delays.model", "delays.low_s", "delays.high_s", "delays.factor"),
        _delays,
        _task_note,
    ),
    _Item(
        "abandon after",
        ("engine.abandon_after_s",),
        lambda c: _time(c.engine.abandon_after_s),
        lambda case: "silence after which a client is given up",  # noqa: ARG005
    ),
    _Item("target", ("limits.target_accuracy", "limits.converge_window"), _target),
    _Item(
        "budget",
        ("limits.max_bins", "limits.max_rounds", "limits.max_runtime_s"),
        _budget,
        lambda case: "" if case.config.limits.max_runtime_s is not None else "the time is the default",
    ),
    _Item(
        "stall",
        ("limits.stall_window_s", "limits.stall_on", "limits.stall_min_delta", "limits.loss_min_rel_delta"),
        _stall,
    ),
)
_COLUMNS: Final = (
    _Column("style", ("aggregation.style",), lambda c: c.aggregation.style),
    _Column("K", ("aggregation.goal",), lambda c: str(c.aggregation.goal)),
    _Column("C", ("aggregation.concurrency",), lambda c: str(c.aggregation.concurrency)),
    _Column(
        "selector",
        ("selection.policy.name", "selection.policy.params"),
        lambda c: _choice(c.selection.policy),
    ),
    _Column("per", ("selection.per",), lambda c: c.selection.per),
    _Column("knowledge", ("availability.knowledge",), lambda c: c.availability.knowledge),
    _Column("estimator", ("step.estimator",), lambda c: c.step.estimator),
    _Column("perturbation", ("step.perturbation",), lambda c: c.step.perturbation),
    _Column("P", ("step.num_directions",), lambda c: str(c.step.num_directions)),
    _Column("optimizer", ("server.optimizer",), lambda c: c.server.optimizer),
    _Column("lr", ("server.lr",), lambda c: _number(c.server.lr)),
    _Column(
        "control",
        ("aggregation.control.name", "aggregation.control.params"),
        lambda c: _choice(c.aggregation.control),
    ),
    _Column(
        "gate",
        (
            "gate.enabled",
            "gate.var_threshold",
            "gate.stopping_policy",
            "gate.max_iterations_per_bin",
        ),
        _gate,
    ),
    _Column("rate", ("aggregation.rate.name", "aggregation.rate.params"), lambda c: _choice(c.aggregation.rate)),
    _Column(
        "staleness",
        ("aggregation.staleness.name", "aggregation.staleness.params"),
        lambda c: _choice(c.aggregation.staleness),
    ),
)
