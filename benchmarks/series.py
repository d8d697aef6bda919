"""How fast, and in how much memory, a large event file is reduced to series.

Repeats the events of a run, later and later, until the file has the size asked for, then reduces it in a process of
its own. Goals: 1 GB in 40 s and 400 MB; exit code 1 if a file of the size asked for takes more than its share.

    python benchmarks/series.py                       # 1 GB, from a small run made for it
    python benchmarks/series.py RUN --gigabytes 0.1   # from a run of yours
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOAL_S_PER_GB = 40.0
GOAL_MB = 400.0
_TIME = re.compile(rb'"t_ns":(\d+)')
_SMALL_RUN = "sim run --run-set smoke --only fluxtune --model tiny --data synthetic --max-bins 8 --no-progress"


def make_run(folder: Path) -> Path:
    """A small run of the real engine; returns its event file."""
    runs = folder / "runs"
    command = [sys.executable, "-m", "fluxctl.cli", *_SMALL_RUN.split(), "--runs-dir", str(runs)]
    environment = {**os.environ, "FLUXCTL_CACHE_DIR": str(folder / "cache")}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    return runs / "latest" / "events.jsonl"


def enlarge(source: Path, target: Path, num_bytes: int) -> None:
    """Repeat the events of a run with shifted times until the file is large enough."""
    with source.open("rb") as file:
        header, meta, *events = file.readlines()
    body = [line for line in events if b'"event":"verdict"' not in line]
    span = int(_TIME.search(body[-1])[1]) + 1
    with target.open("wb") as out:
        size = out.write(header) + out.write(meta)
        shift = 0
        while size < num_bytes:
            for line in body:
                size += out.write(_TIME.sub(lambda match, by=shift: b'"t_ns":%d' % (int(match[1]) + by), line, count=1))
                if size >= num_bytes:
                    break
            shift += span


def measure(path: Path) -> bool:
    """Reduce one file in this process, print what it took, and say whether the goals were met."""
    from fluxctl.telemetry.series import read_series

    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start, start_cpu = time.perf_counter(), time.process_time()
    series = read_series(path)
    took, took_cpu = time.perf_counter() - start, time.process_time() - start_cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = path.stat().st_size / 1e9
    print(f"{size:.2f} GB, {len(series.updates):,} updates, {len(series.cycles):,} cycles")
    print(f"{took:.1f} s ({took / size:.1f} s a GB), {took_cpu:.1f} s of it on the CPU")
    print(f"{peak:.0f} MB at most, {base:.0f} MB of it before reading")
    return took <= GOAL_S_PER_GB * size and peak <= GOAL_MB


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?", help="run folder to repeat, or an event file with --measure")
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--measure", action="store_true", help="only reduce the file that is given")
    args = parser.parse_args()
    if args.measure:
        return 0 if measure(args.run) else 1
    with tempfile.TemporaryDirectory(prefix="fluxctl-series-") as name:
        folder = Path(name)
        source = make_run(folder) if args.run is None else args.run / "events.jsonl"
        enlarge(source, folder / "events.jsonl", int(args.gigabytes * 1e9))
        command = [sys.executable, __file__, "--measure", str(folder / "events.jsonl")]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
