"""What idle clients cost: updates a second and peak memory with a thousand and with a million clients, null learner.

::

    python benchmarks/scale.py
    python benchmarks/scale.py --selector round_robin

One process, the two populations in turn; the ratio of the costs per update is what to compare.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from pathlib import Path

from engine_overhead import NullWorkload

from fluxctl.config.model import Config
from fluxctl.engine.run import build_engine
from fluxctl.telemetry.writer import EventWriter
from fluxctl.whatif.stub import NoLearner, even_shards, trainable_layout


def config_of(num_clients: int, selector: str, style: str, num_cycles: int) -> Config:
    """Ten updates a cycle, 30 in flight where that makes sense; every cycle commits."""
    is_async = style == "async"
    return Config.model_validate(
        {
            "model": {"name": "tiny", "adapter_blocks": []},
            "data": {"source": "synthetic", "train_per_class": max(2000, 2 * num_clients), "test_per_class": 250},
            "clients": {"num_clients": num_clients},
            "selection": {"policy": {"name": selector}},
            "gate": {"enabled": False},
            "aggregation": {
                "style": style,
                "goal": 10,
                "concurrency": 30 if is_async else 10,
                "staleness": {"name": "downweight" if is_async else "exact"},
            },
            "limits": {"max_bins": num_cycles, "max_runtime_s": 1e9},
        }
    )


def cost_us(config: Config) -> tuple[float, float]:
    """Microseconds per update of one run, and seconds to build it."""
    start = time.perf_counter()
    learner = NoLearner(trainable_layout(config), len(config.data.classes))
    shards = even_shards(config)
    with tempfile.TemporaryDirectory() as folder, EventWriter(Path(folder)) as writer:
        writer.header({"run": "benchmark"})
        workload = NullWorkload(learner.layout.num_params)
        engine = build_engine(config, learner, shards, writer, workload=workload)
        built = time.perf_counter()
        engine.run()
        ended = time.perf_counter()
        return (ended - built) / engine.recorder.totals.updates * 1e6, built - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--selector", default="random")
    parser.add_argument("--style", default="async", choices=("sync", "async"))
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--cycles", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()

    few = config_of(1000, args.selector, args.style, args.cycles)
    many = config_of(args.clients, args.selector, args.style, args.cycles)
    cost_us(few)
    ratios = []
    for _ in range(args.repeats):
        (few_us, _), (many_us, build_s) = cost_us(few), cost_us(many)
        ratios.append(many_us / few_us)
        print(f"1,000 clients {few_us:6.0f} us, {args.clients:,} {many_us:6.0f} us (built in {build_s:.1f} s)")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{args.selector}, {args.style}: median ratio {statistics.median(ratios):.2f}, peak memory {peak:,.0f} MiB")


if __name__ == "__main__":
    main()
