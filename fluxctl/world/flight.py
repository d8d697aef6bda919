"""What becomes of one dispatch: when the client is done, when it can deliver, and when the aggregator gives up.

Everything is known at dispatch, because durations, traces and beliefs are pure functions. So both clocks plan the
same, and the engine only waits for what is due.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Final, Literal

from fluxctl.types import NEVER, ClientId, Ns
from fluxctl.world.availability.states import AVAILABLE, STATES, States
from fluxctl.world.availability.synthetic import AlwaysAvailable
from fluxctl.world.availability.trace import Trace
from fluxctl.world.bandwidth import ClientBandwidth, Direction
from fluxctl.world.delays import ClientDelays, straggler_offset_ns
from fluxctl.world.knowledge import Knowledge, Unaware

_ALL: Final = frozenset(STATES)


class GiveUp(StrEnum):
    """Why the aggregator frees a slot without an update."""

    SILENT = "silent"  # nothing was heard for `abandon_after`
    BOUNDARY = "boundary"  # the update is due and the client is believed to be unavailable


@dataclass(frozen=True, slots=True)
class FlightPlan:
    """One dispatch, foreseen.

    Attributes:
        dispatch_ns: When the client starts.
        due_ns: When its update is ready to be delivered; NEVER if its work is lost.
        delivery_ns: When it arrives: at the due time, or when the client can be reached again; NEVER if that is never.
        duration_ns: Modelled duration D.
        give_up_ns: When the aggregator frees the slot, if the update has not arrived by then; None = it will have.
        give_up: Why.
        back_ns: When a client whose work is lost can be asked again; NEVER if its update will come, or it will not.
    """

    dispatch_ns: Ns
    due_ns: Ns
    delivery_ns: Ns
    duration_ns: Ns
    give_up_ns: Ns | None = None
    give_up: GiveUp | None = None
    back_ns: Ns = NEVER


@dataclass(frozen=True)
class ClientWorld:
    """Clients as the engine meets them.

    Attributes:
        delays: Modelled durations.
        trace: When a client can be reached.
        knowledge: What the aggregator believes of it.
        bandwidth: Transfer times.
        eligible: States in which a client can work and deliver.
        on_unavailable: What compute does meanwhile: go on, pause, or be lost.
        straggler_spread_s: Largest fixed extra time of a client's messages in seconds.
        abandon_after_ns: Silence after which a client is given up.
        evicts: Whether a slot is freed when its update is due and the client is believed unavailable.
    """

    delays: ClientDelays
    trace: Trace
    knowledge: Knowledge
    bandwidth: ClientBandwidth
    eligible: States
    on_unavailable: Literal["continue", "pause", "abort"]
    straggler_spread_s: float
    abandon_after_ns: Ns
    evicts: bool

    def for_evaluation(self) -> ClientWorld:
        """The same world for tasks that only evaluate: they need no training state."""
        return replace(self, eligible=AVAILABLE)

    @property
    def always_available(self) -> bool:
        """Whether availability never matters."""
        return isinstance(self.trace, AlwaysAvailable)

    @property
    def sees_everyone(self) -> bool:
        """Whether the aggregator believes every client to be reachable at any time."""
        return self.always_available or isinstance(self.knowledge, Unaware)

    def plan(self, client: ClientId, t: Ns, passes: int, bytes_down: int, bytes_up: int) -> FlightPlan:
        """Foresee a dispatch.

        Args:
            client: Who is asked.
            t: When it starts.
            passes: Forward passes of the step.
            bytes_down: Size of the message to the client.
            bytes_up: Size of its update.
        """
        work = self._work_ns(client, passes)
        if self._is_plain:
            silent = t + self.abandon_after_ns
            given_up = (silent, GiveUp.SILENT) if work > self.abandon_after_ns else (None, None)
            return FlightPlan(t, t + work, t + work, work, *given_up)
        leg = straggler_offset_ns(client, self.straggler_spread_s) if self.straggler_spread_s else 0
        leg += self.bandwidth.transfer_ns(client, bytes_down, Direction.DOWN)
        leg += self.bandwidth.transfer_ns(client, bytes_up, Direction.UP)
        done = self._done_ns(client, t, work)
        due = NEVER if done is None else done + leg
        delivery = self.delivery_ns(client, due)
        reached, why = self._give_up(client, t, due, delivery)
        back = self._back_ns(client, t, reached) if due >= NEVER and reached is not None else NEVER
        return FlightPlan(t, due, delivery, work + leg, reached, why, back)

    def delivery_ns(self, client: ClientId, due: Ns) -> Ns:
        """When an update that is ready at ``due`` arrives."""
        if due >= NEVER or self.always_available:
            return due
        reachable = self.trace.next_available(client, due, self.eligible)
        return NEVER if reachable is None else reachable

    def is_believed_eligible(self, client: ClientId, t: Ns) -> bool:
        """Whether the aggregator would ask ``client`` at ``t``."""
        return self.knowledge.believed_state(client, t) in self.eligible

    @cached_property
    def _is_plain(self) -> bool:
        """Whether a dispatch takes its modelled duration and nothing else, as in most runs."""
        return self.always_available and self.bandwidth.cfg.model == "off" and not self.straggler_spread_s

    def _work_ns(self, client: ClientId, passes: int) -> Ns:
        """Time from start to end; where transfers are charged from bytes, D's network share is left out."""
        if self.bandwidth.cfg.model == "off":
            return self.delays.task_duration_ns(client, passes)
        return self.delays.compute_ns(client, passes)

    def _done_ns(self, client: ClientId, t: Ns, work: Ns) -> Ns | None:
        """End of compute; None if it is lost or never ends."""
        if self.on_unavailable == "continue" or self.always_available:
            return t + work
        if self.on_unavailable == "abort":
            stays = self.trace.available_ns(client, t, t + work, self.eligible) == work
            return t + work if stays else None
        return self._paused_done_ns(client, t, work)

    def _paused_done_ns(self, client: ClientId, t: Ns, work: Ns) -> Ns | None:
        """End of compute that goes on only while the client is available."""
        at, left = t, work
        while left > 0:
            start = self.trace.next_available(client, at, self.eligible)
            if start is None or start >= NEVER:
                return None
            change = self.trace.next_change(client, start)
            end = start + left if change is None else min(change, start + left)
            left -= end - start
            at = end
        return at

    def _back_ns(self, client: ClientId, t: Ns, given_up: Ns) -> Ns:
        """When a client that lost its work comes back: its first availability after it went and was given up."""
        gone = self.trace.next_available(client, t, _ALL - self.eligible)
        back = None if gone is None else self.trace.next_available(client, max(gone, given_up), self.eligible)
        return NEVER if back is None else back

    def _give_up(self, client: ClientId, t: Ns, due: Ns, delivery: Ns) -> tuple[Ns | None, GiveUp | None]:
        silent = t + self.abandon_after_ns
        candidates = [(silent, GiveUp.SILENT)] if delivery > silent else []
        if self.evicts and delivery > due:
            noticed = self._noticed_ns(client, due, min(delivery, silent))
            if noticed is not None:
                candidates.append((noticed, GiveUp.BOUNDARY))
        return min(candidates, default=(None, None))

    def _noticed_ns(self, client: ClientId, due: Ns, until: Ns) -> Ns | None:
        """The first time in ``[due, until)`` at which the client is believed unavailable."""
        at: Ns | None = due
        while at is not None and at < until:
            if not self.is_believed_eligible(client, at):
                return at
            at = self.knowledge.next_belief_change(client, at, until)
        return None
