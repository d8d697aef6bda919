"""One directory per run: its name, its files, and how a run is found again.

``<UTC date>-<UTC time>-<run set>-<baseline>-<mode>-<4 hex digits>``, with a relative link ``latest`` to the newest. A
directory is never reused, and nothing outside it is written.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from fluxctl import wall
from fluxctl.config.fingerprint import fingerprints
from fluxctl.config.load import Resolved
from fluxctl.config.saved import render
from fluxctl.errors import ConfigError, UnknownNameError, os_reason
from fluxctl.runs.files import make_folder, point_latest, read_json, write_json, write_text
from fluxctl.runs.records import ProcessMark, RunRecord, VerdictRecord
from fluxctl.types import JSON

_ID: Final = re.compile(r"\d{8}-\d{6}-.+-(real|sim)-[0-9a-f]{4}")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The directory of one run."""

    path: Path

    @property
    def id(self) -> str:
        """Name of the directory, which is the run's id."""
        return self.path.name

    @property
    def run(self) -> Path:
        """``run.json``: who the run is."""
        return self.path / "run.json"

    @property
    def config(self) -> Path:
        """``config.yaml``: the resolved configuration with origins."""
        return self.path / "config.yaml"

    @property
    def events(self) -> Path:
        """``events.jsonl``: the ordered event stream."""
        return self.path / "events.jsonl"

    @property
    def wall_events(self) -> Path:
        """``wall.jsonl``: events that exist only because of the wall."""
        return self.path / "wall.jsonl"

    @property
    def verdict(self) -> Path:
        """``verdict.json``: how the run ended."""
        return self.path / "verdict.json"

    @property
    def gate(self) -> Path:
        """``gate.json``: what the gate found before the start, and whether it was overridden."""
        return self.path / "gate.json"

    @property
    def converge(self) -> Path:
        """``converge.json``: when the target was held; only of a run that CONVERGED."""
        return self.path / "converge.json"

    @property
    def stall(self) -> Path:
        """``stall.json``: what stood still; only of a run that STALLED."""
        return self.path / "stall.json"

    @property
    def placement(self) -> Path:
        """``placement.json``: which device each trainer was given; only of a launch that asked for devices."""
        return self.path / "placement.json"

    @property
    def weights(self) -> Path:
        """``checkpoints/final.safetensors``: the trainable weights as the engine left them."""
        return self.path / "checkpoints" / "final.safetensors"

    @property
    def log(self) -> Path:
        """``run.log``: what the engine's process printed."""
        return self.path / "run.log"

    @property
    def stop(self) -> Path:
        """``stop``: its text asks the run to end and says why; see :mod:`fluxctl.runs.wishes`."""
        return self.path / "stop"

    def read_run(self) -> RunRecord | None:
        """Who the run is; None if ``run.json`` is absent or damaged."""
        data = read_json(self.run)
        try:
            return None if data is None else RunRecord.from_json(data)
        except ValueError:
            return None

    def read_verdict(self) -> VerdictRecord | None:
        """How the run ended; None if nobody has said yet."""
        data = read_json(self.verdict)
        try:
            return None if data is None else VerdictRecord.from_json(data)
        except ValueError:
            return None

    def write_verdict(self, verdict: VerdictRecord) -> None:
        """Say how the run ended, in one step."""
        write_json(self.verdict, verdict.to_json())

    def mark_running(self, process: ProcessMark) -> None:
        """Note the process that works on the run."""
        record = self.read_run()
        if record is not None:
            write_json(self.run, replace(record, status="running", process=process).to_json())

    def mark_ended(self) -> None:
        """Note that no process works on the run any more."""
        record = self.read_run()
        if record is not None and record.status != "ended":
            write_json(self.run, replace(record, status="ended").to_json())


def runs_dir(given: Path | None, environ: Mapping[str, str]) -> Path:
    """Where runs live: ``--runs-dir``, else ``FLUXCTL_RUNS_DIR``, else ``./runs``."""
    if given is not None:
        return given
    return Path(environ.get("FLUXCTL_RUNS_DIR") or "runs")


def prepare_runs_dir(folder: Path) -> None:
    """Make sure that runs can be written before anything is computed.

    Raises:
        ConfigError: If the folder cannot be made or written.
    """
    try:
        make_folder(folder)
    except OSError as error:
        reason = os_reason(error)
        raise ConfigError(
            f"cannot write the runs folder: {reason}",
            where=str(folder),
            hint="choose another with --runs-dir or FLUXCTL_RUNS_DIR",
        ) from None


def create_run(
    folder: Path,
    resolved: Resolved,
    *,
    pair: str | None = None,
    group: str | None = None,
    invocation: Mapping[str, JSON] | None = None,
    provenance: Mapping[str, JSON] | None = None,
    starts: bool = True,
) -> RunFolder:
    """Make the directory of a new run with everything that is known before it starts.

    Args:
        folder: Where runs live.
        resolved: What the run is asked to do.
        pair: Id that the real and the sim run of one request share.
        group: Id that all runs of one launch share.
        invocation: How the program was called.
        provenance: On what it ran.
        starts: Whether the run is about to start; one that does not is no ``latest``.

    Raises:
        ConfigError: If the folder cannot be written.
    """
    prepare_runs_dir(folder)
    config = resolved.config
    created = wall.utc_now()
    run = RunFolder(_fresh(folder, created, f"{_word(config.run_set)}-{_word(config.label)}-{config.mode.value}"))
    prints = fingerprints(config)
    write_text(run.config, render(resolved))
    write_json(run.path / "invocation.json", dict(invocation or {}))
    write_json(run.path / "provenance.json", dict(provenance or {}))
    here = ProcessMark.of()
    record = RunRecord(
        id=run.id,
        run_set=config.run_set,
        baseline=config.baseline,
        variant=config.variant,
        mode=config.mode,
        seed=config.seed,
        created=created.isoformat(),
        pair=pair,
        group=group,
        fingerprints={"condition": prints.condition, "run": prints.run, "seedless": prints.seedless},
        process=here,
        supervisor=here,
    )
    write_json(run.run, record.to_json())  # last: a directory without it is no run
    if starts:
        point_latest(folder, run.id)
    return run


def is_run(path: Path) -> bool:
    """Whether a directory is that of a run."""
    return (path / "run.json").is_file()


def run_folders(folder: Path) -> list[RunFolder]:
    """All runs in a folder by name, which is the order in which they were created to the second."""
    try:
        entries = sorted(entry for entry in folder.iterdir() if _ID.fullmatch(entry.name) and not entry.is_symlink())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UnknownNameError(f"cannot read the runs folder: {os_reason(error)}", where=str(folder)) from None
    return [RunFolder(entry) for entry in entries if is_run(entry)]


def _fresh(folder: Path, created: datetime, name: str) -> Path:
    for _ in range(100):
        path = folder / f"{created:%Y%m%d-%H%M%S}-{name}-{secrets.token_hex(2)}"
        try:
            path.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            reason = os_reason(error)
            raise ConfigError(f"cannot make a run directory: {reason}", where=str(path)) from None
        return path
    raise ConfigError("cannot find a free name for the run", where=str(folder))


def _word(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "_", name).strip("._")[:40] or "run"
