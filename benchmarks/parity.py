"""What a comparison costs: seconds and peak memory of `fluxctl parity` on two event files of a given size.

::

    python benchmarks/parity.py                    # a pair of 2 x 512 MB
    python benchmarks/parity.py --megabytes 64     # each file; for a quick look

The events come from the engine with a null learner, asynchronous, ten updates a cycle. The real run is the simulated
one under another header, so clock rungs fail and the answer does not matter; its cost does.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fluxctl.config.load import Resolved, resolve
from fluxctl.config.override import from_set
from fluxctl.runs.layout import create_run, run_folders
from fluxctl.runs.records import VerdictRecord
from fluxctl.types import Verdict

_SETTINGS = (
    "model.name=tiny", "model.adapter_blocks=[]", "data.source=synthetic", "data.train_per_class=2000",
    "clients.num_clients=100", "gate.enabled=false", "aggregation.style=async", "aggregation.goal=10",
    "aggregation.concurrency=30", "aggregation.staleness=downweight", "limits.max_runtime_s=1e9",
)  # fmt: skip
_BYTES_PER_CYCLE = 17_500


def asked(mode: str, num_cycles: int) -> Resolved:
    """The configuration of one side."""
    return resolve([], [from_set(text) for text in (*_SETTINGS, f"mode={mode}", f"limits.max_bins={num_cycles}")])


def write_pair(folder: Path, num_cycles: int) -> None:
    """Run the engine once, and put its events into the directories of a simulated and a real run."""
    from engine_overhead import NullWorkload  # these load torch, which whoever measures must not

    from fluxctl.engine.run import build_engine
    from fluxctl.telemetry.writer import EventWriter
    from fluxctl.whatif.stub import NoLearner, even_shards, trainable_layout

    sim, real = (create_run(folder, asked(mode, num_cycles), pair="bench", group="bench") for mode in ("sim", "real"))
    config = asked("sim", num_cycles).config
    learner = NoLearner(trainable_layout(config), len(config.data.classes))
    with EventWriter(sim.path) as writer:
        writer.header({"run": sim.id, "mode": "sim"})
        workload = NullWorkload(learner.layout.num_params)
        build_engine(config, learner, even_shards(config), writer, workload=workload).run()
    with sim.events.open("rb") as source, real.events.open("wb") as target:
        target.write(source.readline().replace(b'"mode":"sim"', b'"mode":"real"'))
        while block := source.read(1 << 20):
            target.write(block)
    for run in (sim, real):
        run.write_verdict(VerdictRecord(Verdict.COMPLETED))
        run.mark_ended()


def compare(folder: Path) -> None:
    """Compare the pair in a process of its own, and print what that took."""
    size = sum(run.events.stat().st_size for run in run_folders(folder)) / 1e6
    command = [sys.executable, "-m", "fluxctl.cli", "parity", "--runs-dir", str(folder), "--json"]
    start = time.perf_counter()
    answer = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    elapsed = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{size:,.0f} MB compared in {elapsed:.1f} s ({size / elapsed:.0f} MB/s), peak memory {peak:,.0f} MiB")
    print(f"exit code {answer.returncode}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=512, help="size of each event file")
    parser.add_argument("--folder", type=Path, help="keep the runs here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch)
        start = time.perf_counter()
        writer = multiprocessing.get_context("spawn").Process(
            target=write_pair, args=(folder, args.megabytes * 1_000_000 // _BYTES_PER_CYCLE)
        )
        writer.start()
        writer.join()
        print(f"wrote the pair in {time.perf_counter() - start:.0f} s")
        # The peak of a child counts that of its parent at birth, so the writer's must be out of the way.
        measurer = multiprocessing.get_context("spawn").Process(target=compare, args=(folder,))
        measurer.start()
        measurer.join()


if __name__ == "__main__":
    main()
