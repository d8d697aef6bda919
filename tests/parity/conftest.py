"""Synthetic runs for the rungs: a small, complete and valid event file in which a test changes one field.

``make_run(path, mode=Mode.SIM, edit=None, config=None)`` writes a run directory and returns it. ``edit(event)`` sees
each event as a dictionary before it is written and returns it (changed or not), or None to leave it out.

``observe(folder_or_file, mode)`` reads one as a rung sees it.

``pair(left=edit, right=edit, modes=(Mode.REAL, Mode.SIM), config=...)`` makes a real run and its simulated twin that
agree in everything, but for what the edits change, and returns both as :class:`Observed`.

The run: 10 clients, K = C = 5, 30 bins of two iterations (one retry, one commit), 60 cycles, 300 updates, every kind of
event of ``telemetry/events.py``. Client i takes ``0.2 + 0.05 i`` seconds; cycles start with those clients whose turn it
is; a real run's wall values trail its engine values by a millisecond.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fluxctl.config.fingerprint import fingerprints
from fluxctl.config.model import Config
from fluxctl.parity.observed import Observed, observe_events
from fluxctl.runs.layout import RunFolder
from fluxctl.runs.records import RunRecord, VerdictRecord
from fluxctl.telemetry.events import order_of
from fluxctl.types import NS_PER_S, Mode, Verdict

Event = dict[str, Any]
Edit = Callable[[Event], Event | None]
NUM_CLIENTS, GOAL, NUM_BINS, ITERATIONS, BINS_PER_ROUND = 10, 5, 30, 2, 10
LATE_S = 0.001  # how far a real run's wall trails its engine time


def wave(*parts: int) -> float:
    """A fixed number from 0 to 1 for these integers: varied, and the same in both runs."""
    return zlib.crc32(repr(parts).encode()) / 2**32


def duration_s(client: int) -> float:
    return 0.2 + 0.05 * client


def synthetic_events(mode: Mode = Mode.SIM, num_bins: int = NUM_BINS) -> Iterator[Event]:
    """The events of the run in the order in which they happen; the caller sorts them as the writer does."""
    is_real = mode is Mode.REAL
    yield {
        "event": "run_meta",
        "t_ns": 0,
        "config_hash": "00",
        "seed": 0,
        "policies": {"selector": "random"},
        "wall": {"identity": {}, "versions": {}, "host": {}, "device": "cpu"},
    }
    now, task, passes = 0, 0, 0
    yield evaluation(0, 0)
    yield from availability_at(0)
    for cycle in range(num_bins * ITERATIONS):
        count, iteration = divmod(cycle, ITERATIONS)
        cadence = {"round": count // BINS_PER_ROUND, "bin": count % BINS_PER_ROUND, "iteration": iteration}
        chosen = [(cycle * 3 + step) % NUM_CLIENTS for step in range(GOAL)]
        due = {client: now + round(duration_s(client) * NS_PER_S) for client in chosen}
        yield selection(now, cadence, chosen, cycle)
        for place, client in enumerate(chosen):
            stamp = {"t_ns": now, "client": client, "dispatch_ns": now}
            yield {
                "event": "dispatch",
                **stamp,
                "task": task + place,
                "due_ns": due[client],
                "attempt": 0,
                "stagger_s": 0.0,
            }
            yield message("down", now, client, cadence)
            yield {
                "event": "task_recv",
                **stamp,
                "round": cadence["round"],
                "avail_state": "AVL_TRAIN",
                "wall": {"mode": mode.value},
            }
        order = sorted(chosen, key=lambda client: (due[client], client))
        for client in order:
            passes += 2
            yield update(due[client], client, cadence, count, cycle, passes)
            yield sent(due[client], client, task + chosen.index(client), now, is_real=is_real)
            yield message("up", due[client], client, cadence)
        end = max(due.values())
        commits = iteration == ITERATIONS - 1
        yield {
            "event": "residence",
            "t_ns": end,
            "in_flight_before": GOAL,
            "in_flight_after": 0,
            "num_selected": 0,
            "num_committed": GOAL,
            "num_cleaned": 0,
            "num_stale_rejected": 0,
            "ages_s": [duration_s(client) for client in order],
        }
        yield cycle_event(end, now, cadence, cycle, order, commits, is_real=is_real)
        if commits:
            yield evaluation(end, count + 1)
            yield from rarities(end, count, order[0])
        now, task = end, task + GOAL
    yield {
        "event": "verdict",
        "t_ns": now,
        "verdict": "COMPLETED",
        "reason": "the bin budget is used up",
        "exit_code": 0,
    }


def evaluation(t_ns: int, version: int) -> Event:
    return {
        "event": "agg_eval",
        "t_ns": t_ns,
        "round": version // BINS_PER_ROUND,
        "bin": version % BINS_PER_ROUND,
        "iteration": 0,
        "version": version,
        "test_accuracy": 0.8 - 0.55 / (1 + version / 5),
        "test_loss": 0.5 + 0.9 / (1 + version / 5),
        "mcc": 0.7 - 0.7 / (1 + version / 5),
        "predicted_counts": [20, 20],
        "label_counts": [20, 20],
    }


def availability_at(t_ns: int) -> Iterator[Event]:
    for client in range(NUM_CLIENTS):
        yield {
            "event": "avail_change",
            "t_ns": t_ns,
            "client": client,
            "old": "UN_AVL",
            "new": "AVL_TRAIN",
            "engine_s": t_ns / NS_PER_S,
        }


def selection(t_ns: int, cadence: Event, chosen: list[int], cycle: int) -> Event:
    scores = [1 + wave(cycle, client) for client in chosen]
    return {
        "event": "selection",
        "t_ns": t_ns,
        **cadence,
        "task": "train",
        "selector": "random",
        "num_candidates": NUM_CLIENTS,
        "num_eligible": NUM_CLIENTS,
        "avail_composition": {"AVL_TRAIN": NUM_CLIENTS - 2, "AVL_EVAL": 1, "UN_AVL": 1},
        "chosen": chosen,
        "num_chosen": GOAL,
        "requested": GOAL,
        "kept": False,
        "in_flight": 0,
        "seed": 0,
        "eligible_fingerprint": "e0",
        "decision_fingerprint": f"{zlib.crc32(bytes(chosen)):08x}",
        "effective_c": GOAL,
        "preferred_duration_s": 0.4,
        "in_pending_commit": 0,
        "detail": {
            "score": scores,
            "utility": [score - 0.5 for score in scores],
            "duration_s": [duration_s(client) for client in chosen],
        },
    }


def message(direction: str, t_ns: int, client: int, cadence: Event) -> Event:
    payload = "weights" if direction == "down" else "gradient"
    return {
        "event": "comm",
        "t_ns": t_ns,
        "direction": direction,
        "bytes": 4000,
        "peer": client,
        **cadence,
        "payload": payload,
        "tensors": 1,
    }


def update(t_ns: int, client: int, cadence: Event, version: int, cycle: int, passes: int) -> Event:
    compute_s = 0.002 + 0.001 * wave(client, cycle, 1)
    return {
        "event": "trainer_round",
        "t_ns": t_ns,
        "client": client,
        **cadence,
        "version": version,
        "modelled_d_s": duration_s(client),
        "wait_s": duration_s(client),
        "avail_state": "AVL_TRAIN",
        "num_samples": 8,
        "stat_utility": 10 + 5 * wave(client, cycle, 2),
        "loss": 1.5 - 0.5 * wave(client, cycle, 3),
        "update_norm": 100 + 10 * wave(client, cycle, 4),
        "training_budget_s": duration_s(client),
        "forward_passes": 2,
        "num_directions": 1,
        "forward_passes_total": passes,
        "num_directions_total": passes // 2,
        "wall": {
            "compute_s": compute_s,
            "pre_train_s": 0.0001,
            "to_device_s": 0.0,
            "train_s": compute_s - 0.0002,
            "from_device_s": 0.0,
            "fetch_s": 0.0001,
            "post_train_s": 0.0001,
            "overran": False,
        },
    }


def sent(t_ns: int, client: int, task: int, dispatch_ns: int, *, is_real: bool) -> Event:
    late = LATE_S if is_real else 0.0
    return {
        "event": "task_send",
        "t_ns": t_ns,
        "client": client,
        "task": task,
        "recv_ns": dispatch_ns,
        "send_ns": t_ns,
        "send_gate_wait_s": 0.0,
        "due_ns": t_ns,
        "staleness": 0,
        "wall": {"recv_s": dispatch_ns / NS_PER_S + late, "send_s": t_ns / NS_PER_S + late},
    }


def cycle_event(
    t_ns: int, start_ns: int, cadence: Event, cycle: int, order: list[int], commits: bool, *, is_real: bool
) -> Event:
    count = cycle // ITERATIONS
    span_s = (t_ns - start_ns) / NS_PER_S
    var = 1.0 + wave(cycle, 5) if commits else 4.0 + wave(cycle, 5)
    after = {"bin": (count + 1) % BINS_PER_ROUND, "iteration": 0, "version": count + 1}
    retry = {"bin": cadence["bin"], "iteration": cadence["iteration"] + 1, "version": count}
    wall_s = t_ns / NS_PER_S if is_real else 0.01 * (cycle + 1)
    return {
        "event": "agg_round",
        "t_ns": t_ns,
        "round": cadence["round"],
        "cycle": cycle,
        "goal": GOAL,
        "goal_count": GOAL,
        "in_flight": 0,
        "updates_in_queue": 0,
        "staleness": [0] * GOAL,
        "stat_utility": [10 + 5 * wave(client, cycle, 2) for client in order],
        "trainer_speed_s": [duration_s(client) for client in order],
        "contributing_trainers": order,
        "contributor_intervals": [
            {"client": client, "dispatch": start_ns / NS_PER_S, "commit": t_ns / NS_PER_S} for client in order
        ],
        "visibility_lag_s": [span_s - duration_s(client) for client in order],
        "barrier_wait_s": span_s - duration_s(order[0]),
        "cycle_bin": cadence["bin"],
        "cycle_iteration": cadence["iteration"],
        "grad_pool_size": GOAL,
        "cached_pool_size": GOAL * (cadence["iteration"] + 1),
        **(after if commits else retry),
        "engine_s": t_ns / NS_PER_S,
        "var": var,
        "var_threshold": 2.0,
        "var_good": commits,
        "commit_reason": "natural" if commits else None,
        "stopping_policy": "off",
        "agg_rate_type": "fedavg",
        "rates": None,
        "gated_total": 0,
        "redundant_suppressed_total": 0,
        "surplus_total": 0,
        "dynamic_c": GOAL,
        "num_eligible": NUM_CLIENTS,
        "grad_norm": 50 + 10 * wave(cycle, 6) if commits else None,
        "model_checksum": f"{zlib.crc32(b'model %d' % (count + commits)):08x}",
        "forward_passes_total": (cycle + 1) * GOAL * 2,
        "stop_reason": None,
        "wall": {
            "drain_tail_s": 0.0,
            "aggregate_s": 0.001,
            "eval_s": 0.002 if commits else 0.0,
            "wait_s": span_s if is_real else 0.009,
            "intrinsic_span_s": span_s + LATE_S / 10 if is_real else 0.01,
            "arrival_order": order,
            "inversions": 0,
            "worst_lateness_s": LATE_S if is_real else 0.0,
            "wall_s": wall_s,
            "sim_rate": t_ns / NS_PER_S / wall_s,
        },
    }


def rarities(t_ns: int, count: int, client: int) -> Iterator[Event]:
    """Once per bin what a run with unavailable clients and a controller also has."""
    s = t_ns / NS_PER_S
    away = "UN_AVL" if count % 2 else "AVL_EVAL"
    yield {"event": "avail_change", "t_ns": t_ns, "client": client, "old": "AVL_TRAIN", "new": away, "engine_s": s}
    yield {
        "event": "agg_belief_change",
        "t_ns": t_ns,
        "client": client,
        "state": away,
        "observed_s": s,
        "source": "oracular",
    }
    yield {"event": "utility_belief", "t_ns": t_ns, "client": client, "believed": 10.0, "actual": 10.5, "staleness": 0}
    yield {
        "event": "withheld_delivery",
        "t_ns": t_ns,
        "client": client,
        "due_ns": t_ns - NS_PER_S // 10,
        "delivery_ns": t_ns,
        "delay_s": 0.1,
        "staleness": 0,
        "accepted": True,
        "after_abandon": False,
        "commit_ns": t_ns,
    }
    yield {
        "event": "abandon",
        "t_ns": t_ns,
        "client": client,
        "dispatch_ns": t_ns - 95 * NS_PER_S,
        "now_ns": t_ns,
        "age_s": 95.0,
        "reason": "timeout",
    }
    yield {
        "event": "control",
        "t_ns": t_ns,
        "controller": "iterations",
        "goal_before": GOAL,
        "goal": GOAL,
        "concurrency_before": GOAL,
        "concurrency": GOAL,
        "inputs": {},
    }
    yield {"event": "avail_change", "t_ns": t_ns, "client": client, "old": away, "new": "AVL_TRAIN", "engine_s": s}


def synthetic_config(mode: Mode, **sections: Any) -> Config:
    """The configuration that goes with the synthetic run."""
    values: dict[str, Any] = {
        "run_set": "synthetic",
        "baseline": "fwdllm",
        "mode": mode,
        "clients": {"num_clients": NUM_CLIENTS},
        "aggregation": {"goal": GOAL, "concurrency": GOAL},
        "limits": {"max_bins": NUM_BINS},
        **sections,
    }
    return Config.model_validate(values)


def write_run(
    path: Path,
    mode: Mode = Mode.SIM,
    edit: Edit | None = None,
    config: Config | None = None,
    *,
    pair: str | None = "pair0001",
    group: str | None = "group001",
    created: str = "2026-01-01T00:00:00+00:00",
    num_bins: int = NUM_BINS,
) -> Path:
    """Write a run directory with everything that readers need."""
    config = config or synthetic_config(mode)
    path.mkdir(parents=True)
    header = {"event": "header", "schema_version": 1, "identity": {"run": path.name, "mode": mode.value}}
    events = sorted(
        synthetic_events(mode, num_bins), key=lambda event: (event["t_ns"], order_of(event["event"], event))
    )
    edited = [event if edit is None else edit(event) for event in events]
    lines = [json.dumps(event, separators=(",", ":")) for event in (header, *edited) if event is not None]
    folder = RunFolder(path)
    folder.events.write_text("\n".join(lines) + "\n")
    folder.wall_events.write_text("")
    folder.config.write_text(config.model_dump_json(indent=1))  # JSON is YAML
    prints = fingerprints(config)
    record = RunRecord(
        id=path.name,
        run_set=config.run_set,
        baseline=config.baseline,
        variant=config.variant,
        mode=mode,
        seed=config.seed,
        created=created,
        pair=pair,
        group=group,
        fingerprints={"condition": prints.condition, "run": prints.run, "seedless": prints.seedless},
        status="ended",
    )
    folder.run.write_text(json.dumps(record.to_json()))
    folder.write_verdict(VerdictRecord(Verdict.COMPLETED, "the bin budget is used up"))
    return path


@pytest.fixture
def make_config() -> Callable[..., Config]:
    return synthetic_config


@pytest.fixture
def make_run() -> Callable[..., Path]:
    return write_run


def observe_run(path: Path, mode: Mode, config: Config | None = None) -> Observed:
    """Read a run directory, or an event file, as a rung sees it."""
    if path.is_dir():
        return observe_events(mode.value, path / "events.jsonl", mode, config or synthetic_config(mode), path)
    return observe_events(mode.value, path, mode, config)


@pytest.fixture
def observe() -> Callable[..., Observed]:
    return observe_run


def build_pair(
    root: Path,
    left: Edit | None = None,
    right: Edit | None = None,
    modes: tuple[Mode, Mode] = (Mode.REAL, Mode.SIM),
    configs: tuple[Config | None, Config | None] = (None, None),
    num_bins: int = NUM_BINS,
) -> tuple[Observed, Observed]:
    sides = []
    for name, mode, edit, config in zip(("left", "right"), modes, (left, right), configs, strict=True):
        sides.append(observe_run(write_run(root / name, mode, edit, config, num_bins=num_bins), mode, config))
    return sides[0], sides[1]


@pytest.fixture
def pair(tmp_path: Path) -> Callable[..., tuple[Observed, Observed]]:
    """Build a pair whose sides differ in what the edits change and in nothing else."""
    numbers = count()
    return lambda *args, **kwargs: build_pair(tmp_path / f"pair{next(numbers)}", *args, **kwargs)


@pytest.fixture(scope="session")
def twins(tmp_path_factory: pytest.TempPathFactory) -> tuple[Observed, Observed]:
    """A pair that agrees, made once; nobody may change it."""
    return build_pair(tmp_path_factory.mktemp("twins"))
