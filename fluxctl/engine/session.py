"""One engine process: reads a run directory, runs it, and writes there how it ended.

Whatever happens, ``verdict.json`` says what it was: the engine's own errors become CRASHED with their message, and
only a process that was killed leaves the verdict to its supervisor.
"""

from __future__ import annotations

import contextlib
import errno
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType

from fluxctl import wall
from fluxctl.config.choices import choice_check
from fluxctl.config.fingerprint import fingerprints
from fluxctl.config.load import read_config
from fluxctl.config.model import Config
from fluxctl.engine.lifeline import Lifeline
from fluxctl.engine.prepare import Task, prepare_task
from fluxctl.engine.run import Engine, build_engine, save_weights
from fluxctl.engine.step_memory import measure_step_memory
from fluxctl.errors import ExitCode, FluxError, os_reason
from fluxctl.policies import REGISTRIES
from fluxctl.policies.stopping import StopDecision
from fluxctl.runs.files import write_json
from fluxctl.runs.layout import RunFolder
from fluxctl.runs.outcomes import convergence, stagnation
from fluxctl.runs.provenance import provenance
from fluxctl.runs.records import EXIT_CODES, ProcessMark, VerdictRecord
from fluxctl.runs.wishes import StopWish
from fluxctl.telemetry.evaluations import evaluations
from fluxctl.telemetry.hashing import canonical_hash
from fluxctl.telemetry.writer import EventWriter
from fluxctl.types import JSON, Verdict, s_from_ns

PREPARE_EVERY_S = 0.5
MEMORY_FIELDS = ("forward_memory_bytes", "backprop_memory_bytes")


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
    try:
        folder.mark_running(ProcessMark.of())
        verdict = Session(folder, on_tick=on_tick).run()
        folder.write_verdict(verdict)
        folder.mark_ended()
    except OSError as error:  # no room, or no folder: the exit code is all that is left to say
        _log(f"cannot write how the run ended: {error}")
        return VerdictRecord(Verdict.CRASHED, _cannot_write(error), int(ExitCode.RUN_BROKE))
    return verdict


class _StopAskedError(Exception):
    """Somebody asked the run to end before it had begun to train."""


@dataclass
class Session:
    """The life of one run in this process.

    Args:
        folder: The run directory.
        on_tick: Called now and then while clients train.
    """

    folder: RunFolder
    on_tick: Callable[[], None] = lambda: None
    _engine: Engine | None = None
    _stop_reason: str | None = None
    _wish: StopWish | None = None
    _memory: dict[str, JSON] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lifeline = Lifeline(self.folder)

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
            _log(traceback.format_exc())
            return self._crashed(
                error.code, error.message, error.hint, error.where, int(error.exit_code), _detail(error)
            )
        except OSError as error:
            _log(traceback.format_exc())
            hint = "make room, or choose another place with --runs-dir" if error.errno == errno.ENOSPC else None
            where = None if error.filename is None else str(error.filename)
            return self._crashed("run_broke", _cannot_write(error), hint, where, int(ExitCode.RUN_BROKE), None)
        except Exception as error:  # the last line of defence: the verdict must tell
            detail = traceback.format_exc()
            _log(detail)
            message = f"{type(error).__name__}: {error}"
            hint = "this is a bug in fluxctl; the traceback is in run.log"
            return self._crashed("bug", message, hint, None, int(ExitCode.BUG), detail)

    def _run(self, config: Config, writer: EventWriter) -> VerdictRecord:
        task = prepare_task(config, _Preparation(writer, self._heed_stop).report)
        for problem in task.problems:
            _log(f"warning: {problem}")
        origin = provenance()
        identity = {"run": self.folder.id, "mode": config.mode.value}
        writer.header(identity, config_hash=fingerprints(config).run)
        self._memory = measure_step_memory(config, task, _log)
        measured = {"identity": identity, "versions": origin["versions"], "host": origin["host"]}
        if self._memory:
            measured["step_memory"] = self._memory
        device = str(task.learner.initial_params(config.seed).device)  # where the model is, and so the steps
        writer.emit(0, "run_meta", _meta(config, task), wall={**measured, "device": device})
        self._engine = engine = build_engine(config, task.learner, task.shards, writer)
        writer.note("compute", {"device": device})
        if self._stop_reason is not None:
            engine.request_stop(self._stop_reason)
        try:
            stop = self._as_wished(engine.run(self._tick))
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

    def _as_wished(self, stop: StopDecision) -> StopDecision:
        """The end of the run; one that somebody asked for who has judged it is called as they say."""
        wish = self._wish
        if stop.verdict is not Verdict.INTERRUPTED or wish is None or stop.reason != wish.reason:
            return stop
        return replace(stop, verdict=wish.verdict)

    def _write_outcome(self, engine: Engine, stop: StopDecision) -> None:
        state = engine.aggregator.stopping
        if stop.rule == "target":
            _, wall_s, _ = engine.recorder.pace.to_last_commit()
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
        engine_s, wall_s, sim_rate = recorder.pace.to_last_commit()
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
            **{name: self._memory[name] for name in MEMORY_FIELDS if name in self._memory},
            **({"rollbacks": totals.rollbacks} if totals.rollbacks else {}),
            **({"evaluations": totals.evaluations} if totals.evaluations else {}),
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
        wish = self._lifeline.wish()
        if wish is not None:
            self._wish = wish
            self._ask_to_stop(wish.reason)
        self._lifeline.show(None if self._engine is None else self._engine.clock.now())
        self.on_tick()

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


def _log(text: str) -> None:
    """Say something in ``run.log``, if there is room."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr)


def _cannot_write(error: OSError) -> str:
    return f"a file of the run cannot be read or written: {os_reason(error)}"


def _detail(error: FluxError) -> str | None:
    detail = getattr(error, "detail", None)
    return detail if isinstance(detail, str) else None
