"""What running ahead of compute saves: one compute-bound run with and without lookahead.

::

    python benchmarks/lookahead.py                  # pretrained model, adapters in the last two blocks

Both runs are simulations in this process, in turn. Without lookahead every step runs in its trainer's thread when it is
due, so one core works at a time; with it, one compute thread per core but one takes steps before they are due. The
canonical hashes must be equal. Wall times depend on the machine; their ratio is what to compare.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from fluxctl.config.model import Config
from fluxctl.engine.prepare import Task, prepare_task
from fluxctl.engine.run import build_engine
from fluxctl.telemetry.hashing import canonical_hash
from fluxctl.telemetry.writer import EventWriter


def config_of(model: str, data: str, num_cycles: int, workers: int | None) -> Config:
    """Asynchronous, 30 of 100 clients in flight, ten directions, adapters in the last two blocks."""
    return Config.model_validate(
        {
            "model": {"name": model, "adapter_blocks": [-2, -1]},
            "data": {"source": data},
            "selection": {"policy": {"name": "async_oort"}},
            "step": {"perturbation": "max_jvp", "num_directions": 10},
            "gate": {"enabled": False},
            "aggregation": {
                "style": "async",
                "goal": 10,
                "concurrency": 30,
                "staleness": {"name": "downweight"},
            },
            "limits": {"max_bins": num_cycles, "max_runtime_s": 1e9},
            "engine": {"num_workers": workers},
        }
    )


def run(config: Config, task: Task) -> tuple[float, str]:
    """Wall seconds and canonical hash of one run."""
    with tempfile.TemporaryDirectory() as folder:
        with EventWriter(Path(folder)) as writer:
            writer.header({"run": "benchmark"})
            engine = build_engine(config, task.learner, task.shards, writer)
            start = time.perf_counter()
            engine.run()
            seconds = time.perf_counter() - start
        return seconds, canonical_hash(Path(folder) / "events.jsonl")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--data", default="wordnet-gloss")
    parser.add_argument("--cycles", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()

    ahead = config_of(args.model, args.data, args.cycles, None)
    due = config_of(args.model, args.data, args.cycles, 0)
    task = prepare_task(ahead, lambda *_: None)
    run(due, task)  # warm-up: mini-batches are prepared once
    ratios = []
    for _ in range(args.repeats):
        (ahead_s, one), (due_s, other) = run(ahead, task), run(due, task)
        ratios.append(due_s / ahead_s)
        print(f"with lookahead {ahead_s:6.1f} s, without {due_s:6.1f} s, ratio {ratios[-1]:.2f}")
        if one != other:
            raise SystemExit(f"lookahead changed the run: {one} is not {other}")
    cores = len(os.sched_getaffinity(0))
    print(f"median ratio {statistics.median(ratios):.2f} on {cores} cores; same canonical hash {one[:16]}")


if __name__ == "__main__":
    main()
