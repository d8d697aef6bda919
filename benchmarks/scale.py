"""What idle clients cost: processor time per update and peak memory with a thousand and a million, null learner.

::

    python benchmarks/scale.py
    python benchmarks/scale.py --selector round_robin --style sync
    python benchmarks/scale.py --selector oort --style sync --cycles 100

One process, the two populations in turn; the ratio of the costs per update is what to compare. Processor time and not
wall time, so that what else the machine does counts little. Random and round-robin selection look at nobody but those
they choose; the others go over all clients at each selection, and their cost for a million is what to look at.
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
from fluxctl.policies.selectors import SELECTORS
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


def cost_us(config: Config) -> tuple[float, float, float]:
    """Processor microseconds per update and per cycle of one run, and seconds to build it."""
    start = time.perf_counter()
    learner = NoLearner(trainable_layout(config), len(config.data.classes))
    shards = even_shards(config)
    with tempfile.TemporaryDirectory() as folder, EventWriter(Path(folder)) as writer:
        writer.header({"run": "benchmark"})
        workload = NullWorkload(learner.layout.num_params)
        engine = build_engine(config, learner, shards, writer, workload=workload)
        built = time.perf_counter()
        before = time.process_time()
        engine.run()
        spent = time.process_time() - before
        num_cycles = engine.aggregator.cadence.num_cycles
        return spent / engine.recorder.totals.updates * 1e6, spent / num_cycles * 1e6, built - start


def measure(selector: str, style: str, num_clients: int, num_cycles: int, repeats: int) -> None:
    """Measure one way to select, and print."""
    few = config_of(1000, selector, style, num_cycles)
    many = config_of(num_clients, selector, style, num_cycles)
    cost_us(few)
    ratios, selections = [], []
    for _ in range(repeats):
        (few_us, few_cycle_us, _), (many_us, many_cycle_us, build_s) = cost_us(few), cost_us(many)
        ratios.append(many_us / few_us)
        selections.append((many_cycle_us - few_cycle_us) / 1000)
        print(f"1,000 clients {few_us:6.0f} us, {num_clients:,} {many_us:6.0f} us (built in {build_s:.1f} s)")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{selector}, {style}: median ratio {statistics.median(ratios):.2f} (min {min(ratios):.2f}, max "
        f"{max(ratios):.2f}), a cycle takes {statistics.median(selections):.1f} ms more, peak memory {peak:,.0f} MiB"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--selector", nargs="+", default=["random"], choices=SELECTORS.names())
    parser.add_argument("--style", default="async", choices=("sync", "async"))
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--cycles", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    for selector in args.selector:
        measure(selector, args.style, args.clients, args.cycles, args.repeats)


if __name__ == "__main__":
    main()
