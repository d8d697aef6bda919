"""The engine over a stretch of engine time, without learning: its real parts, on a clock without threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fluxctl.config.model import Config
from fluxctl.data.partition import Shards
from fluxctl.engine.run import build_engine
from fluxctl.learn.layout import ParamLayout
from fluxctl.policies.stopping import StopDecision
from fluxctl.types import NEVER, Ns, Verdict
from fluxctl.whatif.server import NoTraining
from fluxctl.whatif.solo_clock import SoloClock
from fluxctl.whatif.stub import Answers, NoLearner, NoWork, without_learning
from fluxctl.whatif.tally import Tally
from fluxctl.world.flight import ClientWorld

_PATIENCE: Final = 1.5  # times the wanted updates, to reach the end of a bin


@dataclass(frozen=True)
class Setup:
    """What every stretch of a plan shares.

    Args:
        config: The run.
        layout: Its trainable tensors.
        world: Its modelled world.
        shards: Who owns how much.
        cycles_per_bin: Cycles after which a bin commits.
        span_ns: Resolution of the counts.
    """

    config: Config
    layout: ParamLayout
    world: ClientWorld
    shards: Shards
    cycles_per_bin: int
    span_ns: Ns


@dataclass(frozen=True)
class Walk:
    """A stretch of a run.

    Args:
        tally: What was counted.
        end: Why the run would end within the stretch; None if it would go on.
        num_bins: Bins committed.
    """

    tally: Tally
    end: StopDecision | None
    num_bins: int


def walk(setup: Setup) -> Walk:
    """Walk from 0 until the run ends."""
    return _Walker(setup, 0).go()


def sample(setup: Setup, start_ns: Ns, until_ns: Ns, num_updates: int) -> Walk:
    """Walk some way from ``start_ns``, with empty slots at first.

    Bins begin with full payloads, so what is counted are whole bins, from the first commit to the first one after
    ``num_updates``. Where bins are too long for that, counting begins halfway and ends somewhat later. In any case it
    ends at ``until_ns``.

    Args:
        setup: The run.
        start_ns: Where to begin.
        until_ns: Where to stop.
        num_updates: About how many updates to take in.
    """
    return _Walker(setup, start_ns).go(until_ns, num_updates)


class _Walker:
    """Watches an engine at work and says when to begin counting and when to stop."""

    def __init__(self, setup: Setup, start_ns: Ns) -> None:
        config = without_learning(setup.config, setup.layout, setup.cycles_per_bin)
        self._tally = Tally(setup.span_ns, since_ns=start_ns, until_ns=start_ns, on_commit=self._commit)
        num_classes = len(config.data.classes)
        step = config.step if config.messages.update == "seed_scalar" else None
        answers = Answers(setup.layout, config.gate.tracked_tensor, config.data.batch_size, num_classes, step)
        clock = SoloClock(answers, self._update, start_ns)
        learner = NoLearner(setup.layout, num_classes)
        self._engine = build_engine(
            config,
            learner,
            setup.shards,
            self._tally,
            workload=NoWork(),
            server=NoTraining,
            clock=clock,
            world=setup.world,
            start_ns=start_ns,
        )
        self._is_counting = True
        self._until_ns: Ns = NEVER
        self._wanted: int | None = None
        self._num_updates = 0

    def go(self, until_ns: Ns = NEVER, num_updates: int | None = None) -> Walk:
        """Run the engine; with ``num_updates``, for a sample."""
        self._until_ns, self._wanted = until_ns, num_updates
        self._is_counting = num_updates is None
        stop = self._engine.run()
        aggregator = self._engine.aggregator
        self._tally.close(aggregator.logical_now)
        is_over = stop.verdict is not Verdict.INTERRUPTED
        return Walk(self._tally, stop if is_over else None, aggregator.cadence.num_commits)

    def _update(self, t: Ns, count: int) -> None:
        self._num_updates = count
        if self._wanted is not None and not self._is_counting and count >= self._wanted // 2:
            self._begin(t)
        if t >= self._until_ns or (self._wanted is not None and count >= _PATIENCE * self._wanted):
            self._engine.request_stop("the sample is large enough")

    def _commit(self, t: Ns) -> None:
        if not self._is_counting:
            self._begin(t)
        elif self._wanted is not None and self._num_updates >= self._wanted:
            self._engine.request_stop("the sample is large enough")

    def _begin(self, t: Ns) -> None:
        self._is_counting = True
        self._tally.restart(t)
