"""What a page says about something that it cannot show."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LeftOut:
    """Something that could not be shown.

    Attributes:
        what: Its name.
        why: The reason.
    """

    what: str
    why: str
