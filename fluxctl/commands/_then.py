"""``--then``: what is done with the runs of a launch after the last of them has ended.

A follow-up is the verb itself, called as a user would call it, with the ids of the launch's runs; its module is
imported only then. One more is one function and one entry.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, TypeAlias

import typer

from fluxctl.commands._talk import Talk, plain_text, print_json
from fluxctl.errors import ConfigError, ExitCode, FluxError
from fluxctl.runs.layout import RunFolder
from fluxctl.types import JSON, Mode

_RESULTS: Final = (int(ExitCode.OK), int(ExitCode.ANSWER_IS_NO))


@dataclass(frozen=True, slots=True)
class LaunchedRun:
    """A run of the launch that ended with a result.

    Args:
        id: Its id.
        mode: Its clock.
        pair: Shared with its run on the other clock; None if it is alone.
    """

    id: str
    mode: Mode
    pair: str | None = None


@dataclass(frozen=True, slots=True)
class Launched:
    """What a follow-up works on.

    Args:
        runs: The runs, in the order of the plan.
        folder: Where they live.
        talk: How to speak.
        as_json: Whether to speak JSON.
    """

    runs: tuple[LaunchedRun, ...]
    folder: Path
    talk: Talk
    as_json: bool

    def pairs(self) -> list[tuple[str, str]]:
        """Ids of the real and the sim run of each pair that is complete."""
        found: dict[str, dict[Mode, str]] = {}
        for run in self.runs:
            if run.pair is not None:
                found.setdefault(run.pair, {})[run.mode] = run.id
        return [(pair[Mode.REAL], pair[Mode.SIM]) for pair in found.values() if len(pair) == 2]

    def call(self, verb: str, *args: str) -> int:
        """Call a verb in this process; returns its exit code."""
        app = import_module(f"fluxctl.commands.{verb}").app
        words = [*args, "--runs-dir", str(self.folder), *(["--json"] if self.as_json else [])]
        command = typer.main.get_command(app)
        code = command.main(words, prog_name=f"fluxctl {verb}", standalone_mode=False, obj=self.talk)
        return code if isinstance(code, int) else int(ExitCode.OK)


FollowUp: TypeAlias = Callable[[Launched], Iterator[int]]


def _parity(launched: Launched) -> Iterator[int]:
    """Compare each pair."""
    pairs = launched.pairs()
    if not pairs:
        launched.talk.say("parity: there is no pair; --mode both makes some")
    for real, sim in pairs:
        yield launched.call("parity", real, sim)


def _sanity(launched: Launched) -> Iterator[int]:
    """Check each run by itself."""
    from fluxctl.analyses.sanity import check_run

    for run in launched.runs:
        findings = check_run(RunFolder(launched.folder / run.id))
        is_sane = all(finding.is_ok for finding in findings)
        if launched.as_json:
            checks: list[JSON] = [finding.to_json() for finding in findings]
            print_json({"event": "sanity", "id": run.id, "is_sane": is_sane, "checks": checks})
        else:
            console = launched.talk.out()
            word = "OK" if is_sane else "FAIL"
            console.print(plain_text(f"sanity {word}  {run.id}: {len(findings)} checks"), soft_wrap=True)
            for finding in findings:
                if not finding.is_ok:
                    console.print(plain_text(f"  FAIL {finding.check}: {finding.message}"), soft_wrap=True)
        yield int(ExitCode.OK if is_sane else ExitCode.ANSWER_IS_NO)


def _plot(launched: Launched) -> Iterator[int]:
    """Draw the launch's runs; those of one condition together, since others must not share a figure."""
    groups: dict[str, list[str]] = {}
    for run in launched.runs:
        record = RunFolder(launched.folder / run.id).read_run()
        condition = "" if record is None else record.fingerprints.get("condition", "")
        groups.setdefault(condition, []).append(run.id)
    for ids in groups.values():
        yield launched.call("plot", "all", *ids)


FOLLOW_UPS: Final[Mapping[str, FollowUp]] = {"parity": _parity, "sanity": _sanity, "plot": _plot}


def read_follow_ups(text: str | None) -> list[str]:
    """Read ``--then parity,sanity``, in the order given, without repetitions.

    Raises:
        ConfigError: If one does not exist.
    """
    names = list(dict.fromkeys(filter(None, (part.strip() for part in (text or "").split(",")))))
    for name in names:
        if name not in FOLLOW_UPS:
            close = difflib.get_close_matches(name, FOLLOW_UPS, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(FOLLOW_UPS)}"
            raise ConfigError(f"there is no follow-up '{name}'", where=f"--then {text}", hint=hint)
    return names


def follow_up(names: Sequence[str], launched: Launched, *, stops_on_failure: bool) -> tuple[int, ...]:
    """Do what shall be done after a launch.

    Args:
        names: What, in this order.
        launched: With which runs.
        stops_on_failure: Whether a bad answer keeps the rest from being done.

    Returns:
        Exit codes, as far as they say something about the runs. What one of them fails on, is told and does not keep
        the others from being done.
    """
    codes: list[int] = []
    for name in names:
        try:
            for code in FOLLOW_UPS[name](launched):
                codes.append(code)
                if stops_on_failure and code != ExitCode.OK:
                    return tuple(codes)
        except FluxError as error:
            launched.talk.error(error)
            if error.exit_code != ExitCode.NOTHING_TO_DO:
                codes.append(int(error.exit_code))
                if stops_on_failure:
                    return tuple(codes)
    return tuple(code for code in codes if code != ExitCode.NOTHING_TO_DO)


def launched_runs(rows: Sequence[Mapping[str, JSON]], codes: Sequence[int]) -> tuple[LaunchedRun, ...]:
    """The runs of a launch that ended with a result, from its rows and the exit code of each."""
    return tuple(
        LaunchedRun(str(row["id"]), Mode(str(row["mode"])), None if row["pair"] is None else str(row["pair"]))
        for row, code in zip(rows, codes, strict=True)
        if code in _RESULTS
    )
