"""What ``launch`` shows beside the gate: a dry run, the plan for programs, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fluxctl.commands._bands import group_by_seed, print_bands
from fluxctl.commands._execute import Outcome
from fluxctl.commands._gate import Gate, GateBlockedError
from fluxctl.commands._gate_view import print_gate
from fluxctl.commands._render import print_results
from fluxctl.commands._request import Plan
from fluxctl.commands._talk import Talk
from fluxctl.errors import ExitCode
from fluxctl.runs.layout import RunFolder
from fluxctl.types import JSON, Verdict


def plan_json(plan: Plan) -> list[dict[str, JSON]]:
    """The runs of a plan for programs."""
    rows: list[dict[str, JSON]] = []
    for run in plan.runs:
        prints = run.prints
        rows.append(
            {
                "baseline": run.config.baseline,
                "mode": run.config.mode.value,
                "seed": run.config.seed,
                "pair": run.pair,
                "fingerprints": {"condition": prints.condition, "run": prints.run, "seedless": prints.seedless},
                "config": run.config.model_dump(mode="json"),
                "origins": dict(run.resolved.origins()),
            }
        )
    return rows


def show_dry_run(plan: Plan, gate: Gate, talk: Talk, *, as_json: bool, shows_all: bool) -> int:
    """Show what would run; returns the exit code."""
    error = GateBlockedError(gate.findings) if gate.is_blocked else None
    code = ExitCode.OK if error is None else error.exit_code
    if as_json:
        data: dict[str, JSON] = {"runs": plan_json(plan), "gate": gate.to_json()}
        talk.envelope("launch", "ok" if error is None else "error", data, error)
        return int(code)
    print_gate(talk.out(), gate, title=title(plan), shows_all=shows_all)
    talk.say("nothing was started (--dry-run); `fluxctl config show` with the same options prints every value")
    return int(code)


def title(plan: Plan) -> str:
    """What is about to run, one sentence."""
    if plan.run_set is None:
        return "a run of its own" if len(plan.runs) == 1 else f"{len(plan.runs)} runs"
    return f"{plan.run_set.name}: {plan.run_set.description}"


def show_outcome(
    outcome: Outcome, folder: Path, talk: Talk, code: int, *, commands: Sequence[str], as_json: bool
) -> None:
    """Show what came of the runs.

    Args:
        outcome: What came of them.
        folder: Where they live.
        talk: How to speak.
        code: The exit code.
        commands: Commands that start again what was interrupted.
        as_json: Whether to speak JSON.
    """
    groups = group_by_seed(outcome.rows)
    has_bands = any(group.num_runs > 1 for group in groups)
    if as_json:
        status = {int(ExitCode.OK): "ok", int(ExitCode.ANSWER_IS_NO): "no"}.get(code, "error")
        data: dict[str, JSON] = {"runs": outcome.rows, "num_not_started": outcome.num_not_started}
        if has_bands:
            data["bands"] = [group.to_json() for group in groups]
        if outcome.interrupts.count:
            data["again"] = list(commands)
        talk.envelope("launch", status, data, outcome.error())
        return
    if outcome.rows:
        print_results(talk.out(), outcome.rows)
    if has_bands:
        print_bands(talk.out(), groups)
    if outcome.num_not_started:
        runs = "1 run was" if outcome.num_not_started == 1 else f"{outcome.num_not_started} runs were"
        talk.say(f"{runs} not started")
    if outcome.interrupts.count:
        _tell_how_to_go_on(outcome, folder, talk, commands)
    talk.say(f"runs are in {folder}; look at one with `fluxctl runs show latest`")


def _tell_how_to_go_on(outcome: Outcome, folder: Path, talk: Talk, commands: Sequence[str]) -> None:
    """After an interrupt: which models are kept, and what starts the rest."""
    for row, verdict in zip(outcome.rows, outcome.verdicts, strict=True):
        weights = RunFolder(folder / str(row["id"])).weights
        if verdict.verdict is Verdict.INTERRUPTED and weights.is_file():
            talk.say(f"the model so far is kept: {weights}")
    if commands:
        talk.say("start what was interrupted, and what is left, with")
    for command in commands:
        talk.say(f"  {command}")
