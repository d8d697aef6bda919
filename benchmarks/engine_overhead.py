"""What the engine costs: wake-ups, updates with a null learner, and client steps beside a bare loop.

Run it on an idle machine::

    python benchmarks/engine_overhead.py            # all, tiny model and generated text
    python benchmarks/engine_overhead.py --model minilm --data wordnet-gloss

Absolute numbers depend on the machine; the ratios are measured in one process, the two sides in turn, and are what to
compare.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from fluxctl.config.model import Config
from fluxctl.engine.channel import Mailbox
from fluxctl.engine.messages import StepReport, Train
from fluxctl.engine.payload import Payload, encode
from fluxctl.engine.prepare import Task, prepare_task
from fluxctl.engine.run import build_engine
from fluxctl.engine.trainer import StepOutput
from fluxctl.engine.virtual_clock import VirtualClock
from fluxctl.learn.learner import StepRequest
from fluxctl.learn.server_step import aggregate, sgd_step
from fluxctl.policies.selectors.base import SELECTORS, ClientBeliefs, SelectionView
from fluxctl.telemetry.writer import EventWriter
from fluxctl.types import PayloadKind
from fluxctl.world.seeds import stream

NUM_CLIENTS, GOAL = 100, 10


def head_config(model: str, data: str, num_directions: int, num_cycles: int, per_class: int) -> Config:
    """Head only, sync, 100 clients, 10 a round, batch 8; every cycle commits and is evaluated."""
    perturbation = "random" if num_directions == 1 else "max_jvp"
    return Config.model_validate(
        {
            "model": {"name": model, "adapter_blocks": []},
            "data": {"source": data, "train_per_class": per_class, "test_per_class": 250},
            "clients": {"num_clients": NUM_CLIENTS},
            "step": {"perturbation": perturbation, "num_directions": num_directions},
            "gate": {"enabled": False},
            "aggregation": {"goal": GOAL, "concurrency": GOAL},
            "limits": {"max_bins": num_cycles, "max_runtime_s": 1e9},
        }
    )


class NullWorkload:
    """Sends one fixed gradient: what is left is the engine."""

    def __init__(self, num_params: int) -> None:
        gradient = np.zeros(num_params, dtype=np.float32)
        payload = Payload(PayloadKind.GRADIENT, 0, 0, 0, (gradient,), 1.0, 1.0, 8)
        phases = dict.fromkeys(
            ("fetch_s", "pre_train_s", "to_device_s", "train_s", "from_device_s", "post_train_s"), 0.0
        )
        self._output = StepOutput(encode(payload), StepReport(2, 1, 0.0, phases))

    def receive(self, task: Train) -> None:
        """Keep nothing."""

    def step(self, task: Train) -> StepOutput:  # noqa: ARG002
        """Compute nothing."""
        return self._output


def run_engine(config: Config, task: Task, workload: NullWorkload | None = None) -> tuple[int, float]:
    """Client steps and seconds of one engine run with telemetry."""
    with tempfile.TemporaryDirectory() as folder, EventWriter(Path(folder)) as writer:
        writer.header({"run": "benchmark"})
        engine = build_engine(config, task.learner, task.shards, writer, workload=workload)
        start = time.perf_counter()
        engine.run()
        return engine.recorder.totals.updates, time.perf_counter() - start


def run_bare(config: Config, task: Task, num_cycles: int) -> tuple[int, float]:
    """The same steps, aggregation and evaluations in one loop: no clock, threads, messages, ledger or events."""
    learner, shards, seed = task.learner, task.shards, config.seed
    selector = SELECTORS.build("random", {})
    unknown = np.full(NUM_CLIENTS, np.nan)
    zeros = np.zeros(NUM_CLIENTS, dtype=np.int64)
    beliefs = ClientBeliefs(unknown, unknown, zeros, zeros, zeros)
    everyone = np.arange(NUM_CLIENTS)
    start = time.perf_counter()
    params = learner.initial_params(seed)
    learner.evaluate(params)
    for version in range(num_cycles):
        view = SelectionView(
            version + 1, NUM_CLIENTS, NUM_CLIENTS, lambda _: True, lambda: everyone, beliefs, GOAL, GOAL
        )
        chosen = selector.select(view, GOAL, stream(seed, "selection", version=version, iteration=0, attempt=0), {})
        gradients = []
        for client in chosen.chosen:
            keyed = stream(seed, "tangent", client=client, version=version, iteration=0, attempt=0)
            samples = shards.bin_samples(client, version)
            gradients.append(learner.step(StepRequest(params, samples, keyed)).gradient)
        params = sgd_step(params, aggregate(torch.stack(gradients), torch.full((GOAL,), 1 / GOAL)), config.server.lr)
        learner.evaluate(params)
    return num_cycles * GOAL, time.perf_counter() - start


def evaluation_seconds(task: Task, config: Config) -> float:
    """Seconds of one evaluation."""
    params = task.learner.initial_params(config.seed)
    start = time.perf_counter()
    for _ in range(20):
        task.learner.evaluate(params)
    return (time.perf_counter() - start) / 20


def clock_wakeups(num_threads: int, num_sleeps: int) -> float:
    """Wake-ups a second of a virtual clock whose participants sleep in turn."""
    clock = VirtualClock(min(os.sched_getaffinity(0)))

    def body(offset: int) -> None:
        for index in range(num_sleeps):
            clock.sleep_until(index * 1000 + offset + 1)

    for number in range(num_threads):
        clock.spawn(lambda number=number: body(number), f"sleeper-{number}", key=number)
    start = time.perf_counter()
    clock.run()
    return num_threads * num_sleeps / (time.perf_counter() - start)


def message_wakeups(num_messages: int) -> float:
    """Messages a second between two participants that answer each other."""
    clock = VirtualClock(min(os.sched_getaffinity(0)))
    boxes = [Mailbox[int]("ping"), Mailbox[int]("pong")]

    def body(me: int) -> None:
        for index in range(num_messages // 2):
            if me == 0:
                clock.put(boxes[1], index)
            clock.wait(boxes[me])
            boxes[me].take()
            if me == 1:
                clock.put(boxes[0], index)

    for me in (0, 1):
        clock.spawn(lambda me=me: body(me), f"player-{me}", key=me)
    start = time.perf_counter()
    clock.run()
    return num_messages / (time.perf_counter() - start)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--data", default="synthetic")
    parser.add_argument("--cycles", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    per_class = 2000

    for num_threads in (10, 100, 1000):
        wakeups = clock_wakeups(num_threads, 20000 // num_threads)
        print(f"clock wake-ups per second, {num_threads:>4} threads: {wakeups:>10,.0f}")
    print(f"messages per second between two threads:    {message_wakeups(20000):>10,.0f}")

    for num_directions in (1, 10):
        config = head_config(args.model, args.data, num_directions, args.cycles, per_class)
        task = prepare_task(config, lambda *_: None)
        if num_directions == 1:
            steps, seconds = run_engine(config, task, NullWorkload(task.learner.layout.num_params))
            eval_s = evaluation_seconds(task, config) * (args.cycles + 1)
            print(
                f"updates per second, null learner:           {steps / seconds:>10,.0f}   "
                f"({(seconds - eval_s) / steps * 1e6:.0f} us each without evaluation)"
            )
        run_bare(config, task, args.cycles)  # warm-up: mini-batches are prepared once
        ratios, without = [], []
        for _ in range(args.repeats):
            steps, engine_s = run_engine(config, task)
            _, bare_s = run_bare(config, task, args.cycles)
            eval_s = evaluation_seconds(task, config) * (args.cycles + 1)
            ratios.append(bare_s / engine_s)
            without.append((bare_s - eval_s) / (engine_s - eval_s))
        print(
            f"head, P {num_directions:>2}: engine {steps / engine_s:>8,.0f} steps/s, "
            f"bare loop {steps / bare_s:>8,.0f} steps/s, ratio {statistics.median(ratios):.2f} "
            f"(min {min(ratios):.2f}, max {max(ratios):.2f}); evaluation left out {statistics.median(without):.2f}"
        )


if __name__ == "__main__":
    main()
