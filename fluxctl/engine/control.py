"""Moving K and C while the run goes on: feeds the controller and applies what it decides."""

from __future__ import annotations

from fluxctl.config.model import Config
from fluxctl.engine.cadence import Cadence
from fluxctl.engine.commit import GateOutcome
from fluxctl.engine.dispatcher import Dispatcher
from fluxctl.engine.pool import Contribution
from fluxctl.engine.recorder import Recorder
from fluxctl.policies.control import CONTROLLERS, CommitRecord, ControlState, advance
from fluxctl.types import Ns


class GoalControl:
    """The control loop of a run.

    Args:
        config: The run's configuration.
        dispatcher: Holds K and C.
        recorder: Telemetry.
    """

    def __init__(self, config: Config, dispatcher: Dispatcher, recorder: Recorder) -> None:
        choice = config.aggregation.control
        self._controller = CONTROLLERS.build(choice.name, choice.params)
        self._state = ControlState(dispatcher.goal, dispatcher.concurrency)
        self._config = config
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._first_variance: float | None = None
        self._reachable: list[int] = []  # of each cycle of the open bin
        self._staleness: list[int] = []  # of each update of the open bin

    def after_cycle(
        self, t: Ns, cohort: tuple[Contribution, ...], before: Cadence, outcome: GateOutcome, num_reachable: int
    ) -> None:
        """Take in a cycle; at a commit, ask the controller.

        Args:
            t: Logical time of the end of the cycle.
            cohort: Its updates.
            before: Position of the run during it.
            outcome: What the gate decided.
            num_reachable: Clients that could be asked at its end, idle or in flight.
        """
        if before.iteration == 0:
            self._first_variance = outcome.variance
        self._reachable.append(num_reachable)
        self._staleness += [contribution.staleness for contribution in cohort]
        if outcome.reason is None:
            return
        record = CommitRecord(
            num_iterations=before.iteration + 1,
            first_variance=self._first_variance,
            num_eligible=sum(self._reachable) / len(self._reachable),
            staleness=sum(self._staleness) / max(1, len(self._staleness)),
        )
        self._reachable, self._staleness = [], []
        self._state, decision = advance(
            self._controller,
            self._state,
            record,
            num_clients=self._config.clients.num_clients,
            var_threshold=self._config.gate.var_threshold,
        )
        if decision is not None:
            self._recorder.cycles.control(t, self._config.aggregation.control.name, self._dispatcher, decision)
            self._dispatcher.goal, self._dispatcher.concurrency = decision.goal, decision.concurrency
