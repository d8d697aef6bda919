"""From what the user asked for to the runs that will happen; the printed plan and the runs are the same objects."""

from __future__ import annotations

import difflib
import itertools
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fluxctl.config.choices import choice_check
from fluxctl.config.fingerprint import Fingerprints, fingerprints
from fluxctl.config.load import Resolved, load_layer, resolve
from fluxctl.config.model import Config
from fluxctl.config.override import Override, fixed, from_flag, overrides_of
from fluxctl.config.presets import RunSet, load_baseline, load_run_set, preset_names
from fluxctl.config.source import read_text
from fluxctl.config.tree import Node
from fluxctl.errors import ConfigError, ConfigProblemsError, UnknownNameError
from fluxctl.policies import REGISTRIES
from fluxctl.types import JSON, Mode


@dataclass(frozen=True)
class Request:
    """What the user asked for.

    Args:
        run_set: Name or file of a run set; None = the file alone says what to run.
        only: Baselines to run, of those in the run set; empty = all.
        file: A part of a configuration over the run set.
        sets: ``path=value`` texts.
        flags: Values of flags, in order of precedence.
        modes: Modes to run, ``both`` being two; empty = as configured.
        seeds: Seeds to run; empty = as configured.
        traces: Availability traces, for aggregator, trainers and notifications alike; empty = as configured. Under
            several, each run is made once under each, as a variant.
        environ: Environment with ``FLUXCTL_SET_*``.
    """

    run_set: str | None = None
    only: Sequence[str] = ()
    file: Path | None = None
    sets: Sequence[str] = ()
    flags: Sequence[Override] = ()
    modes: Sequence[Mode] = ()
    seeds: Sequence[int] = ()
    traces: Sequence[str] = ()
    environ: Mapping[str, str] = field(default_factory=dict)

    def values(self) -> list[Override]:
        """Single values, lowest precedence first."""
        return [*overrides_of(self.sets, self.environ), *self.flags]


@dataclass(frozen=True)
class PlannedRun:
    """One run that will happen.

    Args:
        resolved: What it is asked to do.
        pair: Id that it shares with its run on the other clock.
        gate: What the gate found, for ``gate.json``.
    """

    resolved: Resolved
    pair: str | None = None
    gate: Mapping[str, JSON] | None = None

    @property
    def config(self) -> Config:
        """What it will do."""
        return self.resolved.config

    @property
    def prints(self) -> Fingerprints:
        """Its fingerprints."""
        return fingerprints(self.config)


@dataclass(frozen=True)
class Plan:
    """All runs of one request, in order, with what they are for."""

    run_set: RunSet | None
    runs: tuple[PlannedRun, ...]


def make_plan(request: Request) -> Plan:
    """Resolve every run of a request.

    Raises:
        ConfigError: If any of it does not make sense.
        UnknownNameError: If a preset does not exist.
    """
    run_set = load_run_set(request.run_set) if request.run_set is not None else None
    file = load_layer(read_text(request.file)) if request.file is not None else None
    if run_set is None and file is None and not request.only:
        known = ", ".join(preset_names("run_sets"))
        raise ConfigError("nothing to run: no --run-set, --only or --file", hint=f"run sets: {known}")
    variants = tuple(run_set.variants) if run_set is not None and run_set.variants else ("",)
    layers = {
        (variant, name): _layers(run_set, name, file, variant)
        for variant in variants
        for name in _baselines(run_set, file, request.only)
    }
    traces = _traces(request.traces, run_set)
    given = request.values()
    modes: Sequence[Mode | None] = request.modes or (None,)
    seeds: Sequence[int | None] = request.seeds or (None,)
    runs = []
    for seed in seeds:
        for under, ((variant, baseline), parts) in itertools.product(traces, layers.items()):
            pair = secrets.token_hex(4) if len(modes) > 1 else None
            for mode in modes:
                overrides = [*given, *under, *_identity(run_set, baseline, mode, seed, variant)]
                runs.append(PlannedRun(_resolve(parts, overrides, baseline), pair))
    return Plan(run_set, tuple(runs))


def _traces(names: Sequence[str], run_set: RunSet | None) -> list[list[Override]]:
    """What each trace that was asked for means; one empty part if none was.

    Raises:
        ConfigError: If the run set varies the trace itself, or two traces cannot be told apart.
    """
    if not names:
        return [[]]
    where = f"--avail-trace {','.join(names)}"
    if run_set is not None and any(map(_sets_trace, run_set.variants.values())):
        variants = ", ".join(run_set.variants)
        raise ConfigError(
            f"run set '{run_set.name}' varies the trace itself: {variants}",
            where=where,
            hint="leave --avail-trace out, or choose a run set of one trace",
        )
    if len(names) == 1:
        return [[from_flag("--avail-trace", "availability.trace", names[0])]]
    if run_set is not None and run_set.variants:
        raise ConfigError(f"run set '{run_set.name}' has variants of its own", where=where, hint="name one trace")
    labels = [Path(name).stem for name in names]
    if len(set(labels)) < len(labels):
        raise ConfigError("two traces have the same name", where=where, hint="name each trace once")
    return [
        [from_flag("--avail-trace", "availability.trace", name), fixed("variant", label, "flag --avail-trace")]
        for name, label in zip(names, labels, strict=True)
    ]


def _sets_trace(part: Node) -> bool:
    section = part.child("availability")
    return section is not None and section.child("trace") is not None


def _resolve(layers: Sequence[Node], overrides: Sequence[Override], baseline: str | None) -> Resolved:
    try:
        return resolve(layers, overrides, check=choice_check(REGISTRIES))
    except ConfigProblemsError:
        raise
    except ConfigError as error:
        # a flag that suits one system may not suit another
        if baseline is not None and (error.where or "").startswith("--"):
            raise ConfigError(f"{baseline}: {error.message}", hint=error.hint, where=error.where) from None
        raise


def _baselines(run_set: RunSet | None, file: Node | None, only: Sequence[str]) -> list[str | None]:
    """Names in the order of the run set; None stands for a configuration without a preset."""
    known = list(run_set.baselines) if run_set is not None else preset_names("baselines")
    for name in only:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known)}"
            what = f"run set '{run_set.name}' has no baseline" if run_set is not None else "there is no baseline"
            raise UnknownNameError(f"{what} '{name}'", where=f"--only {name}", hint=hint)
    if only:
        return [name for name in known if name in only]
    if run_set is not None:
        return list(run_set.baselines)
    named = file.child("baseline") if file is not None else None
    return [str(named.value) if named is not None and named.value in known else None]


def _layers(run_set: RunSet | None, baseline: str | None, file: Node | None, variant: str) -> list[Node]:
    layers = [load_baseline(baseline).layer] if baseline is not None else []
    if run_set is not None:
        layers += run_set.layers(str(baseline), variant)
    return [*layers, file] if file is not None else layers


def _identity(
    run_set: RunSet | None, baseline: str | None, mode: Mode | None, seed: int | None, variant: str
) -> list[Override]:
    """What makes this run the one it is; nothing may override it."""
    identity = []
    if run_set is not None:
        identity.append(fixed("run_set", run_set.name, "flag --run-set"))
    if baseline is not None:
        identity.append(fixed("baseline", baseline, f"run set {run_set.name}" if run_set else "flag --only"))
    if variant and run_set is not None:
        identity.append(fixed("variant", variant, f"run set {run_set.name}"))
    if mode is not None:
        identity.append(from_flag("--mode", "mode", mode.value))
    if seed is not None:
        identity.append(from_flag("--seeds", "seed", seed))
    return identity
