"""One engine process: reads a run directory, runs it, and writes there how it ended.

Whatever happens, ``verdict.json`` says what it was: the engine's own errors become CRASHED with their message, and
only a process that was killed leaves the verdict to its supervisor.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from fluxctl import wall
from fluxctl.config.choices import choice_check
from fluxctl.config.fingerprint import fingerprints
from fluxctl.config.load import read_config
from fluxctl.config.model import Config
from fluxctl.engine.prepare import Task, prepare_task
from fluxctl.engine.run import Engine, build_engine, save_weights
from fluxctl.errors import ExitCode, FluxError
from fluxctl.policies import REGISTRIES
from fluxctl.policies.stopping import StopDecision
from fluxctl.runs.files import write_json
from fluxctl.runs.layout import RunFolder
from fluxctl.runs.outcomes import convergence, stagnation
from fluxctl.runs.process import SUPERVISED
from fluxctl.runs.provenance import provenance
from fluxctl.runs.records import EXIT_CODES, ProcessMark, VerdictRecord
from fluxctl.telemetry.evaluations import evaluations
from fluxctl.telemetry.hashing import canonical_hash
from fluxctl.telemetry.writer import EventWriter
from fluxctl.types import JSON, Verdict, s_from_ns

PREPARE_EVERY_S = 0.5


def main(argv: list[str]) -> int:
    """Run the engine on the run directory ``argv[0]``; returns the exit code."""
    if len(argv) != 1:
        print("usage: python -m fluxctl.engine RUN_DIR", file=sys.stderr)
        return int(ExitCode.CHANGE_REQUEST)
    folder = RunFolder(Path(argv[0]))
    return run_folder(folder).exit_code


def run_folder(folder: RunFolder, on_tick: Callable[[], None] = lambda: None) -> VerdictRecord:
    """Run what a run directory asks for, in this process.

    Args:
        folder: The run directory, as ``launch`` makes it.
        on_tick: Called about five times a second of real time while clients train.

    Returns:
        How it ended, as written to the directory.
    """
    folder.mark_running(ProcessMark.of())
    verdict = Session(folder, on_tick=on_tick).run()
    folder.write_verdict(verdict)
    folder.mark_ended()
    return verdict


class _StopAskedError(Exception):
    """Somebody asked the run to end before it had begun to train."""


@dataclass
class Session:
    """The life of one run in this process.

    Args:
        folder: The run directory.
        is_supervised: Whether the end of standard input means that the supervisor is gone.
        on_tick: Called now and then while clients train.
    """

    folder: RunFolder
    is_supervised: bool = field(default_factory=lambda: os.environ.get(SUPERVISED) == "1")
    on_tick: Callable[[], None] = lambda: None
    _engine: Engine | None = None
    _stop_reason: str | None = None

    def run(self) -> VerdictRecord:
        """Run to the end; never raises."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        try:
            config = read_config(self.folder.config, check=choice_check(REGISTRIES)).config
            with EventWriter(self.folder.path) as writer:
                return self._run(config, writer)
        except _StopAskedError as request:
            return VerdictRecord(Verdict.INTERRUPTED, str(request), int(ExitCode.INTERRUPTED))
        except FluxError as error:
            print(traceback.format_exc(), file=sys.stderr)
            return self._crashed(
                error.code, error.message, error.hint, error.where, int(error.exit_code), _detail(error)
            )
        except Exception as error:  # the last line of defence: the verdict must tell
            detail = traceback.format_exc()
            print(detail, file=sys.stderr)
            message = f"{type(error).__name__}: {error}"
            hint = "this is a bug in fluxctl; the traceback is in run.log"
            return self._crashed("bug", message, hint, None, int(ExitCode.BUG), detail)

    def _run(self, config: Config, writer: EventWriter) -> VerdictRecord:
        task = prepare_task(config, _Preparation(writer, self._heed_stop).report)
        for problem in task.problems:
            print(f"warning: {problem}", file=sys.stderr)
        origin = provenance()
        writer.header({"run": self.folder.id, "mode": config.mode.value}, config_hash=fingerprints(config).run)
        writer.emit(0, "run_meta", _meta(config, task), wall={"versions": origin["versions"], "host": origin["host"]})
        self._engine = engine = build_engine(config, task.learner, task.shards, writer)
        if self._stop_reason is not None:
            engine.request_stop(self._stop_reason)
        try:
            stop = engine.run(self._tick)
        finally:
            self._save(engine, task)
        aggregator, recorder = engine.aggregator, engine.recorder
        recorder.progress(aggregator.logical_now, aggregator.cadence, 0, force=True)
        code = int(EXIT_CODES[stop.verdict])
        writer.emit(
            aggregator.logical_now, "verdict", {"verdict": stop.verdict.value, "reason": stop.reason, "exit_code": code}
        )
        writer.close()
        self._write_outcome(engine, stop)
        return VerdictRecord(stop.verdict, stop.reason, code, None, self._summary(engine))

    def _write_outcome(self, engine: Engine, stop: StopDecision) -> None:
        state = engine.aggregator.stopping
        if stop.rule == "target":
            _, wall_s, _ = engine.recorder.pace_to_last_commit()
            points = tuple(evaluations(self.folder.events))
            write_json(self.folder.converge, convergence(state, points, wall_s))
        elif stop.rule == "stall":
            write_json(self.folder.stall, stagnation(state, s_from_ns(engine.aggregator.logical_now)))

    def _save(self, engine: Engine, task: Task) -> None:
        layout = task.learner.layout
        save_weights(
            self.folder.path / "checkpoints",
            engine,
            {spec.name: (spec.offset, spec.offset + spec.size) for spec in layout.specs},
        )

    def _summary(self, engine: Engine) -> dict[str, JSON]:
        cadence, recorder = engine.aggregator.cadence, engine.recorder
        totals = recorder.totals
        engine_s, wall_s, sim_rate = recorder.pace_to_last_commit()
        return {
            "bins": cadence.num_commits,
            "cycles": cadence.num_cycles,
            "rounds": cadence.round,
            "best_accuracy": totals.best_accuracy,
            "final_accuracy": totals.final_accuracy,
            "engine_s": engine_s,
            "wall_s": wall_s,
            "sim_rate": sim_rate,
            "forward_passes": totals.forward_passes,
            "updates": totals.updates,
            "bytes_down": totals.bytes_down,
            "bytes_up": totals.bytes_up,
            "hash": canonical_hash(self.folder.events),
        }

    def _crashed(
        self, code: str, message: str, hint: str | None, where: str | None, exit_code: int, detail: str | None
    ) -> VerdictRecord:
        error = {"code": code, "message": message, "hint": hint, "where": where, "detail": detail}
        return VerdictRecord(Verdict.CRASHED, message, exit_code, error)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._ask_to_stop(f"received {signal.Signals(number).name}")

    def _tick(self) -> None:
        self._check_stop()
        self.on_tick()

    def _check_stop(self) -> None:
        """Look for the stop file, and whether the supervisor still lives."""
        try:
            self._ask_to_stop(self.folder.stop.read_text(encoding="utf-8").strip() or "asked to stop")
        except FileNotFoundError:
            if self.is_supervised and _has_ended(sys.stdin.fileno()):
                self.is_supervised = False  # once is enough
                self._ask_to_stop("the supervisor is gone")

    def _heed_stop(self) -> None:
        """End the preparation if the run shall end."""
        self._tick()
        if self._stop_reason is not None:
            raise _StopAskedError(self._stop_reason)

    def _ask_to_stop(self, reason: str) -> None:
        self._stop_reason = reason
        if self._engine is not None:
            self._engine.request_stop(reason)


class _Preparation:
    """Progress of the preparation, at most twice a second and at each change of work.

    Args:
        writer: Takes the progress.
        heed: Called at each report; raises if the run shall end.
    """

    def __init__(self, writer: EventWriter, heed: Callable[[], None]) -> None:
        self._writer = writer
        self._heed = heed
        self._last = ("", 0.0)

    def report(self, what: str, done: int, total: int) -> None:
        """Tell whoever follows the run."""
        self._heed()
        now_s = wall.monotonic_s()
        if what == self._last[0] and done < total and now_s - self._last[1] < PREPARE_EVERY_S:
            return
        self._last = (what, now_s)
        self._writer.note("progress", {"phase": "prepare", "what": what, "done": done, "total": total})


def _meta(config: Config, task: Task) -> dict[str, object]:
    """C1, but for what depends on the machine."""
    prints = fingerprints(config)
    return {
        "config_hash": prints.run,
        "condition": prints.condition,
        "seed": config.seed,
        "baseline": config.baseline,
        "run_set": config.run_set,
        "classes": list(task.classes),
        "num_params": task.learner.layout.num_params,
        "params": {spec.name: list(spec.shape) for spec in task.learner.layout.specs},
        "split_point": task.split_point,
        "model_hash": task.model_hash,
        "data_hash": task.corpus_fingerprint,
        "bins_per_round": task.shards.max_bins,
        "policies": {
            "selector": config.selection.policy.name,
            "rate": config.aggregation.rate.name,
            "staleness": config.aggregation.staleness.name,
            "stopping": config.gate.stopping_policy,
            "perturbation": config.step.perturbation,
            "estimator": config.step.estimator,
            "knowledge": config.availability.knowledge,
        },
    }


def _has_ended(stream: int) -> bool:
    """Whether a pipe has no writer any more; what was written to it is discarded."""
    while select.select([stream], [], [], 0)[0]:
        if not os.read(stream, 1 << 16):
            return True
    return False


def _detail(error: FluxError) -> str | None:
    detail = getattr(error, "detail", None)
    return detail if isinstance(detail, str) else None
