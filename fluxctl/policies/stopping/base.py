"""Stop rules as folds: each looks at one evaluation or moment, and remembers a few numbers.

The engine asks after each evaluation and each cycle; a watcher feeds the same rules from an event file and gets the
same answer, so the stopping point is a function of the run and not of who polls. The cost of an evaluation does not
grow with the number of those before it. A rule is one decorated function ``(memory, view) -> (memory, decision)``;
adding one changes nothing here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from fluxctl.config.model import LimitsConfig
from fluxctl.types import Verdict

Memory: TypeAlias = Mapping[str, float]  # what one rule remembers; empty at the start


@dataclass(frozen=True, slots=True)
class EvalPoint:
    """One evaluation of the global model.

    Attributes:
        bins: Bins committed by then; 0 = the untrained model.
        round: Passes over all bins completed by then.
        engine_s: Engine time in seconds.
        accuracy: Share of test samples that were right.
        loss: Mean test loss in nats.
        mcc: Matthews correlation coefficient.
        one_class: Whether every prediction was the same class.
        finite: Whether all weights are finite.
    """

    bins: int
    round: int
    engine_s: float
    accuracy: float
    loss: float
    mcc: float
    one_class: bool
    finite: bool


@dataclass(frozen=True, slots=True)
class StopConditions:
    """What the rules are judged by; constant over a run.

    Attributes:
        limits: Budgets, target and guard as configured.
        budget_s: Engine-clock budget in seconds, with its default resolved.
        chance: Accuracy of guessing, ``1 / number of classes``.
    """

    limits: LimitsConfig
    budget_s: float
    chance: float


@dataclass(frozen=True, slots=True)
class StopView:
    """A moment of a run.

    Attributes:
        conditions: What to judge by.
        bins: Bins committed so far.
        rounds: Passes over all bins completed so far.
        engine_s: Engine time in seconds.
        point: The evaluation just made; None between evaluations.
        best: Best evaluation so far, ``point`` included; None before the first.
    """

    conditions: StopConditions
    bins: int
    rounds: int
    engine_s: float
    point: EvalPoint | None
    best: EvalPoint | None


@dataclass(frozen=True, slots=True)
class StopDecision:
    """The end of a run.

    Attributes:
        verdict: How it ended.
        reason: Why, one sentence with the numbers.
        rule: Name of the rule that ended it; empty if it was none of them.
    """

    verdict: Verdict
    reason: str
    rule: str = ""


Outcome: TypeAlias = tuple[Memory, tuple[Verdict, str] | None]
RuleFunction: TypeAlias = Callable[[Memory, StopView], Outcome]


@dataclass(frozen=True, slots=True)
class StopRule:
    """A registered rule; among rules that fire at once the smallest ``order`` wins."""

    name: str
    order: int
    function: RuleFunction


STOP_RULES: Final[dict[str, StopRule]] = {}


def stop_rule(name: str, *, order: int) -> Callable[[RuleFunction], RuleFunction]:
    """Register a function as a stop rule.

    Args:
        name: Its name in verdicts and messages.
        order: Its place among the rules; unique.

    Raises:
        ValueError: If the name or the place is taken.
    """
    if name in STOP_RULES or order in {rule.order for rule in STOP_RULES.values()}:
        raise ValueError(f"stop rule {name!r} or order {order} is registered twice")

    def add(function: RuleFunction) -> RuleFunction:
        STOP_RULES[name] = StopRule(name, order, function)
        return function

    return add


@dataclass(frozen=True, slots=True)
class StopState:
    """Where the stop rules stand after what they have seen; of constant size.

    Attributes:
        conditions: What to judge by.
        memories: What each rule remembers, by its name.
        last: The latest evaluation.
        best: The evaluation of highest accuracy with finite weights and loss; the first one among equals.
        decision: The end, once a rule has fired; it stays.
    """

    conditions: StopConditions
    memories: Mapping[str, Memory] = field(default_factory=dict)
    last: EvalPoint | None = None
    best: EvalPoint | None = None
    decision: StopDecision | None = None

    def update(self, point: EvalPoint) -> StopState:
        """Take in an evaluation; the first one should be of the untrained model, which the guard compares with."""
        if self.decision is not None:
            return self
        best = point if _is_better(point, self.best) else self.best
        view = StopView(self.conditions, point.bins, point.round, point.engine_s, point, best)
        return replace(self, last=point, best=best)._judge(view)

    def tick(self, engine_s: float) -> StopState:
        """Take in that engine time has passed without an evaluation; only budgets can end a run here."""
        if self.decision is not None:
            return self
        bins, rounds = (self.last.bins, self.last.round) if self.last is not None else (0, 0)
        return self._judge(StopView(self.conditions, bins, rounds, engine_s, None, self.best))

    def _judge(self, view: StopView) -> StopState:
        memories, decision = dict(self.memories), None
        for rule in sorted(STOP_RULES.values(), key=_order):
            memories[rule.name], outcome = rule.function(memories.get(rule.name, {}), view)
            if outcome is not None and decision is None:
                decision = StopDecision(*outcome, rule=rule.name)
        return replace(self, memories=memories, decision=decision)


def _order(rule: StopRule) -> int:
    return rule.order


def _is_better(point: EvalPoint, best: EvalPoint | None) -> bool:
    is_sound = point.finite and math.isfinite(point.loss)
    return is_sound and (best is None or point.accuracy > best.accuracy)


class StopMonitor:
    """The state of a run under way; the same folds, for a caller that sees one thing after the other.

    Args:
        conditions: What to judge by.
    """

    def __init__(self, conditions: StopConditions) -> None:
        self.state = StopState(conditions)

    def observe(self, point: EvalPoint) -> StopDecision | None:
        """Take in an evaluation; returns the end of the run, if this is it."""
        self.state = self.state.update(point)
        return self.state.decision

    def check_clock(self, engine_s: float) -> StopDecision | None:
        """Take in that engine time has passed; returns the end of the run, if this is it."""
        self.state = self.state.tick(engine_s)
        return self.state.decision


def replay(conditions: StopConditions, points: Iterable[EvalPoint]) -> tuple[StopState, int | None]:
    """Feed a recorded run to the rules.

    Returns:
        The final state and the index of the point that ended the run; None if none did.
    """
    state = StopState(conditions)
    for index, point in enumerate(points):
        state = state.update(point)
        if state.decision is not None:
            return state, index
    return state, None
