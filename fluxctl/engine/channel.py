"""Mailboxes: how threads of the engine hand things to each other.

A mailbox holds messages; whoever wants to block on one does so through the clock, so that the clock always knows who is
waiting for what. Only clocks call :meth:`Mailbox.append`; engine code sends with ``clock.put``.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

M = TypeVar("M")


class Mailbox(Generic[M]):
    """An unbounded queue with one reader.

    Args:
        name: Who reads it; appears in deadlock reports.
    """

    __slots__ = ("_messages", "name", "urgent")

    def __init__(self, name: str) -> None:
        self.name = name
        self.urgent = False
        self._messages: deque[M] = deque()

    def __len__(self) -> int:
        return len(self._messages)

    def append(self, message: M, *, urgent: bool = False) -> None:
        """Add a message; ``urgent`` makes :meth:`ready` true whatever number the reader waits for."""
        self._messages.append(message)
        self.urgent = self.urgent or urgent

    def ready(self, at_least: int) -> bool:
        """Whether a reader that waits for ``at_least`` messages may go on."""
        return self.urgent or len(self._messages) >= at_least

    def drain(self) -> list[M]:
        """Take all messages, oldest first."""
        messages = list(self._messages)
        self._messages.clear()
        self.urgent = False
        return messages

    def take(self) -> M:
        """Take the oldest message.

        Raises:
            IndexError: If the mailbox is empty.
        """
        message = self._messages.popleft()
        if not self._messages:
            self.urgent = False
        return message
