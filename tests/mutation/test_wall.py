"""Faults that only a wall clock can have: a real run that is broken on purpose, against its healthy simulation.

The runs are short and take a few seconds each, so their distributions are of too few samples to be judged. What a
busy machine adds is not asserted: of the rungs that look at a clock, only those that a mutation must turn red.
``wall.json`` says which these are, and ``docs/parity.md`` is made from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from fluxctl import wall
from fluxctl.engine import run
from fluxctl.engine.collector import Collector, TrainerFailedError
from fluxctl.engine.compute import Job
from fluxctl.engine.held import HeldModels
from fluxctl.engine.intake import Intake
from fluxctl.engine.messages import Train
from fluxctl.engine.trainer import StepOutput, Trainer
from fluxctl.engine.workload import ClientWorkload
from fluxctl.parity.ladder import climb
from fluxctl.parity.observed import Observed
from fluxctl.parity.result import Options, Status
from fluxctl.types import NS_PER_S, ClientId, Mode, Ns

pytestmark = pytest.mark.wall
TABLE: Final[dict[str, Any]] = json.loads((Path(__file__).parent / "wall.json").read_text())
Patch = pytest.MonkeyPatch
Mutate = Callable[[Patch], None]
Mutated = Callable[..., tuple[Observed, Observed]]
MUTATIONS: Final[dict[str, Mutate]] = {}
COMPUTE_S: Final = 0.5
LATE_NS: Final = 2 * NS_PER_S


def mutation(mutate: Mutate) -> Mutate:
    """Enter a mutation under its name."""
    MUTATIONS[mutate.__name__] = mutate
    return mutate


@mutation
def hold_twice_as_long(patch: Patch) -> None:
    """Clients deliver when twice their modelled time has passed on the wall."""
    hold = Trainer._hold

    def longer(self: Trainer, task: Train, t: Ns, job: Job[StepOutput] | None = None) -> bool:
        return hold(self, task, 2 * t - task.dispatch_ns, job)

    patch.setattr(Trainer, "_hold", longer)


@mutation
def let_the_wall_decide(patch: Patch) -> None:
    """Updates are committed as they arrive, and those of some clients arrive two seconds late."""
    hold = Trainer._hold

    def late(self: Trainer, task: Train, t: Ns, job: Job[StepOutput] | None = None) -> bool:
        return hold(self, task, t + (task.client % 3 == 0) * LATE_NS, job)

    patch.setattr(Trainer, "_hold", late)
    patch.setattr(run, "Collector", lambda *parts, **named: replace(Collector(*parts, **named), logical_order=False))


@mutation
def take_one_more_than_k(patch: Patch) -> None:
    """A cycle of the real run closes one update late."""
    collect = Intake.collect
    patch.setattr(Intake, "collect", lambda self, goal, *rest: collect(self, goal + 1, *rest))


@mutation
def mix_up_messages(patch: Patch) -> None:
    """A client has the weights of its last task when it works on the next one, and does not notice."""
    hand_over_late(patch)
    patch.setattr(HeldModels, "of", lambda self, task: self._models[task.client])


def hand_over_late(patch: Patch) -> None:
    """Messages reach a client out of order: each when the next one should."""
    receive, waiting = ClientWorkload.receive, dict[ClientId, Train]()

    def one_late(self: ClientWorkload, task: Train) -> None:
        receive(self, waiting.get(task.client, task))
        waiting[task.client] = task

    patch.setattr(ClientWorkload, "receive", one_late)


@mutation
def compute_for_too_long(patch: Patch) -> None:
    """A step takes half a second of the wall, five of engine time, which is more than many clients are modelled to."""
    step = ClientWorkload.step

    def waiting(self: ClientWorkload, task: Train) -> StepOutput:
        output = step(self, task)
        wall.pause(COMPUTE_S)
        report = replace(output.report, compute_wall_s=output.report.compute_wall_s + COMPUTE_S)
        return replace(output, report=report)

    patch.setattr(ClientWorkload, "step", waiting)


@mutation
def compute_something_else(patch: Patch) -> None:
    """A step of the real run does work that the simulated one does not."""
    step = ClientWorkload.step

    def busy(self: ClientWorkload, task: Train) -> StepOutput:
        output = step(self, task)
        phases_s = output.report.phases_s
        more = {"train_s": phases_s["train_s"] + 0.03 + 0.001 * task.client}
        return replace(output, report=replace(output.report, phases_s={**phases_s, **more}))

    patch.setattr(ClientWorkload, "step", busy)


# Warns on all runs that end by their cap of bins.
UNRELATED: Final = frozenset({"D74"})


def red(left: Observed, right: Observed) -> tuple[dict[str, list[str]], list[str]]:
    """Ids of the rungs that fail and that warn, lowest stage first; and of those that look at a clock."""
    results = [of for of in climb(left, right, Options()).results if of.rung.id not in UNRELATED]
    found = {
        key: [result.rung.id for result in results if result.finding.status is status]
        for key, status in (("failed", Status.FAIL), ("warned", Status.WARN))
    }
    return found, [result.rung.id for result in results if result.rung.is_timed]


def test_every_mutation_has_its_line() -> None:
    assert list(TABLE) == list(MUTATIONS)


@pytest.mark.parametrize("name", MUTATIONS)
def test_these_rungs_turn_red(name: str, mutated: Mutated) -> None:
    """All that the table names; and no others, but for clocks, which a busy machine may add."""
    line = TABLE[name]
    found, timed = red(*mutated(MUTATIONS[name], "wall", Mode.REAL))
    for key in ("failed", "warned"):
        assert set(line[key]) <= set(found[key]), found
        assert set(found[key]) - set(line[key]) <= set(timed), found


def test_without_a_mutation_the_real_run_decides_as_its_simulation(mutated: Mutated) -> None:
    left, right = mutated(lambda _: None, "wall", Mode.REAL)
    found, timed = red(left, right)
    assert set(found["failed"]) | set(found["warned"]) <= set(timed), found
    ladder = climb(left, right, Options(strip_time=True))
    assert not ladder.roots
    exact = {result.rung.id: result.finding.value for result in ladder.results}
    assert (exact["D61"], exact["model_checksum"]) == (1.0, 1.0)


def test_a_wall_that_decides_shows_how_often_it_decides_otherwise(mutated: Mutated) -> None:
    """Inversions are counted against due times, not against the order of commits, which here is that of arrival."""
    (arrivals,) = climb(*mutated(let_the_wall_decide, "wall", Mode.REAL), Options()).arrivals
    assert arrivals.flip_frac is not None
    assert arrivals.flip_frac > 0.05


def test_a_client_that_is_told_of_weights_that_it_does_not_have_ends_the_run(mutated: Mutated) -> None:
    """What the engine makes of messages out of order, when nobody breaks that check as well."""
    with pytest.raises(TrainerFailedError, match=r"must train version \d+, but has version \d+"):
        mutated(hand_over_late, "wall", Mode.REAL)
