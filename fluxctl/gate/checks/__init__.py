"""Gate checks: each a pure function of what is known before a run, in words that say what to change.

A check that blocks says why the run cannot mean anything, with the numbers, and the smallest change that would make it
feasible. One that warns names something that is allowed and often a slip. Goals beyond concurrency or clients, and more
registered trainers than clients, never get here: no engine could run them, so a configuration that says so is refused
when it is read, and ``--force`` does not help.

Importing this package registers the checks, in the order in which they are asked.
"""

from fluxctl.gate.checks import parts, clients, setup, machine, comparison  # noqa: F401, I001 - in this order
from fluxctl.gate.checks.parts import FAMILIES
from fluxctl.gate.registry import CHECKS, Check, Finding, Level, Told, examine, run_check, set_check

__all__ = ["CHECKS", "FAMILIES", "Check", "Finding", "Level", "Told", "examine", "run_check", "set_check"]
