"""What the run tells the world: the event stream, the notes of the wall, and the totals.

Every event carries logical times and counts, equal on both clocks; what was measured on the wall goes to the event's
``wall`` part. Called from the aggregator's thread only, so the stream has one writer and one order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fluxctl.config.model import Config
from fluxctl.engine.cadence import Cadence
from fluxctl.engine.client_events import ClientEvents
from fluxctl.engine.cycle_events import CycleEvents
from fluxctl.engine.ledger import Flight
from fluxctl.engine.messages import TrainerFailure
from fluxctl.engine.pace import Pace
from fluxctl.engine.timing import FunctionTime, Timer, note_timing, timer
from fluxctl.engine.totals import Totals
from fluxctl.telemetry.writer import EventSink
from fluxctl.types import Availability, ClientId, Ns, s_from_ns


class Recorder:
    """Telemetry of one run.

    Args:
        writer: Where events go.
        config: The run's configuration.
        state: What a client's device could be asked to do at a time.
        factor: Engine seconds that one wall second of compute stands for.

    Attributes:
        totals: Counters.
        pace: Engine time against wall time.
        clients: Events of single clients.
        cycles: Events of the aggregator.
    """

    def __init__(
        self, writer: EventSink, config: Config, state: Callable[[ClientId, Ns], Availability], factor: float = 1.0
    ) -> None:
        self._writer = writer
        self._max_bins = config.limits.max_bins or 0
        self._is_timed = config.telemetry.step_timing
        self._error_policy = config.engine.on_trainer_error.value
        self.totals = Totals()
        self.pace = Pace()
        self.clients = ClientEvents(writer, config, self.totals, self.pace, state, factor)
        self.cycles = CycleEvents(writer, config, self.totals, self.pace)

    def world_event(self, t: Ns, event: str, fields: dict[str, object], client: ClientId) -> None:
        """C8 and C14: availability and what is believed of it."""
        self._writer.emit(t, event, fields, key=client)

    def overdue(self, flight: Flight, slack_ns: Ns) -> None:
        """The reorder slack ran out: an invariant of wall mode is broken."""
        self._writer.note(
            "reorder_slack_exhausted",
            {"client": flight.client, "due_ns": flight.due_ns, "slack_s": s_from_ns(slack_ns), "invariant": "failed"},
        )

    def failed(self, failure: TrainerFailure) -> None:
        """A step raised; told when it is known, whether or not anybody wants its result."""
        self._writer.note(
            "trainer_failed",
            {"client": failure.task.client, "error": failure.error, "policy": self._error_policy},
        )

    def timer(self) -> Timer:
        """A timer for the functions of one cycle."""
        return timer(is_on=self._is_timed)

    def timed(self, times: tuple[FunctionTime, ...], cadence: Cadence) -> None:
        """C15: how long functions of the server took in a cycle that has closed."""
        for time in times:
            note_timing(self._writer, time, cadence, None)

    def note(self, event: str, fields: Mapping[str, object]) -> None:
        """Something that exists on the wall only."""
        self._writer.note(event, fields)

    def advance(self, watermark: Ns) -> None:
        """Everything before ``watermark`` is complete."""
        self._writer.advance(watermark)

    def progress(self, t: Ns, cadence: Cadence, in_flight: int, *, force: bool = False) -> None:
        """A line for whoever watches, at most twice a second."""
        if not self.pace.is_line_due() and not force:
            return
        self._writer.note(
            "progress",
            {
                "phase": "train",
                "what": "bins",
                "done": cadence.num_commits,
                "total": self._max_bins,
                **self.pace.at(t),
                "engine_s": s_from_ns(t),
                "in_flight": in_flight,
                "bins": cadence.num_commits,
                "cycles": cadence.num_cycles,
                "accuracy": self.totals.final_accuracy,
                "best_accuracy": self.totals.best_accuracy,
            },
        )
