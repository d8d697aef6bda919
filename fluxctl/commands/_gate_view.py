"""The gate on a terminal: three tiers and the findings, aligned at any width, with words beside every colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fluxctl.commands._gate import Gate, GateBlockedError, pass_gate, refuses
from fluxctl.commands._request import Plan, Request
from fluxctl.commands._talk import Talk, plain_text
from fluxctl.gate.checks import CHECKS, Finding, Level
from fluxctl.gate.tiers import Knob, Review, Row, Status, review

_DOT: Final = "●"
_ICONS: Final = {Status.OK: ("✓", "green"), Status.CHECK: ("!", "yellow"), Status.DEFAULT: ("·", "dim")}
_WORDS: Final = {Level.BLOCK: ("✗ BLOCK", "bold red"), Level.WARN: ("! CHECK", "yellow")}
_GAP: Final = 2  # blanks between columns
_MIN_NOTE: Final = 24  # a narrower note column is given up, and notes go under their values
_HANG: Final = 2  # continuation lines of a note are indented by this


def print_gate(console: Console, gate: Gate, *, title: str, shows_all: bool) -> None:
    """Print the tiers and the findings.

    Args:
        console: Where to.
        gate: What to say.
        title: What is about to run, one sentence.
        shows_all: Whether to list tier 3.
    """
    shown = review(gate.cases, gate.findings)
    console.print(plain_text(title))
    _bar(console, "1  review every run")
    for line in layout_rows(shown.rows, console.width):
        console.print(line, no_wrap=True, crop=False, soft_wrap=True)
    _bar(console, "2  systems")
    _print_knobs(console, shown)
    _bar(console, "3  everything else")
    _print_rest(console, shown, shows_all=shows_all)
    _bar(console, "gate")
    _print_findings(console, gate)


def _bar(console: Console, title: str) -> None:
    """A solid bar over the full width."""
    text = plain_text(f"━━ {title} ", "bold blue")
    console.print(text.append("━" * max(0, console.width - cell_len(text.plain))), no_wrap=True)


def layout_rows(rows: Sequence[Row], width: int) -> list[Text]:
    """Tier 1 as lines: status, label, value and note in aligned columns.

    The value column is as wide as the rows with notes need, others may run over it; a note is wrapped inside the width,
    its continuation lines indented.
    """
    labels = max(cell_len(row.label) for row in rows)
    words = max(len(status) for status in Status)
    indent = 2 + words + _GAP + labels + _GAP
    values = max((cell_len(row.value) + _GAP for row in rows if row.note), default=0)
    is_beside = width - indent - 2 - values >= _MIN_NOTE
    lines: list[Text] = []
    for row in rows:
        icon, style = _ICONS[row.status]
        head = plain_text(f"{icon} {row.status.value:<{words}}", style).append(" " * _GAP)
        head.append_text(_padded(plain_text(row.label, "bold"), labels)).append(" " * _GAP)
        mark = Text(f"{_DOT} " if row.is_overridden else "  ", "green")
        start = indent + 2
        value_lines = _wrapped(plain_text(row.value), width - start, hang=0)
        first = head.append_text(mark).append_text(value_lines[0])
        block = [first, *(Text(" " * start).append_text(line) for line in value_lines[1:])]
        note_at = start + values if is_beside else start + _HANG
        notes = _wrapped(plain_text(row.note, "dim"), width - note_at, hang=_HANG) if row.note else []
        if notes and is_beside and len(value_lines) == 1:
            first.append(" " * (note_at - cell_len(first.plain))).append_text(notes.pop(0))
        lines += [*block, *(Text(" " * note_at).append_text(note) for note in notes)]
    return lines


def _padded(text: Text, width: int) -> Text:
    return text.append(" " * max(0, width - cell_len(text.plain)))


def _wrapped(text: Text, width: int, *, hang: int) -> list[Text]:
    """Break a text into lines of at most ``width`` cells, all but the first indented by ``hang``."""
    console = Console(width=max(8, width))
    first, *rest = text.wrap(console, max(8, width)) or [text]
    first.rstrip()
    if not rest:
        return [first]
    left = Text(text.plain[len(first.plain) :].lstrip(), style=text.style)
    lines = [first]
    for line in left.wrap(console, max(8, width - hang)):
        line.rstrip()
        lines.append(Text(" " * hang).append_text(line))
    return lines


def _print_knobs(console: Console, shown: Review) -> None:
    """Tier 2: baselines as rows, knobs as columns, in as many tables as the width needs."""
    for number, part in enumerate(_parts(shown, console.width)):
        if number:
            console.print()
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), collapse_padding=True)
        table.add_column(plain_text("baseline", "not bold dim"), overflow="fold")
        for knob in part:
            table.add_column(plain_text(knob.title, "bold yellow" if knob.differs else "not bold dim"), overflow="fold")
        for index, name in enumerate(shown.baselines):
            table.add_row(plain_text(name, "cyan"), *(_cell(knob, index) for knob in part))
        console.print(table)
    differing = [knob.title for knob in shown.knobs if knob.differs]
    legend = Text()
    if differing:
        legend.append("differ: ").append(", ".join(differing), "bold yellow")
    elif len(shown.baselines) > 1:
        legend.append("no knob differs", "dim")
    if any(cell.is_overridden for knob in shown.knobs for cell in knob.cells) or any(
        r.is_overridden for r in shown.rows
    ):
        legend.append("; " if legend.plain else "").append(_DOT, "green").append(" set for this launch")
    if legend.plain:
        console.print(legend)


def _cell(knob: Knob, index: int) -> Text:
    cell = knob.cells[index]
    text = Text()
    if any(other.is_overridden for other in knob.cells):
        text.append(f"{_DOT} " if cell.is_overridden else "  ", "green")
    return text.append_text(plain_text(cell.text, "" if knob.differs else "dim"))


def _knob_width(knob: Knob) -> int:
    return max(cell_len(knob.title), *(cell_len(_cell(knob, index).plain) for index in range(len(knob.cells))))


def _parts(shown: Review, width: int) -> list[list[Knob]]:
    room = width - max(map(cell_len, ("baseline", *shown.baselines))) - _GAP
    parts: list[list[Knob]] = []
    left = 0
    for knob in shown.knobs:
        needed = _knob_width(knob) + _GAP
        if not parts or needed > left + _GAP:  # the last column needs no gap
            parts.append([])
            left = room
        parts[-1].append(knob)
        left -= needed
    return parts


def _print_rest(console: Console, shown: Review, *, shows_all: bool) -> None:
    if not shows_all:
        default = sum(item.origin == "default" for item in shown.rest)
        changed = [item for item in shown.rest if item.is_overridden]
        told = f"{len(shown.rest)} values, {default} of them defaults; --show-all lists them"
        line = plain_text(told, "dim")
        if changed:
            line.append("; ").append(_DOT, "green")
            line.append_text(plain_text(" " + ", ".join(f"{item.path} = {item.value}" for item in changed), "not dim"))
        console.print(line)
        return
    paths = max(cell_len(item.path) for item in shown.rest)
    for item in shown.rest:
        line = Text(f"{_DOT} " if item.is_overridden else "  ", "green")
        line.append_text(_padded(plain_text(item.path), paths)).append("  ")
        lines = _wrapped(plain_text(f"{item.value}  ({item.origin})"), console.width - paths - 4, hang=_HANG)
        console.print(line.append_text(lines[0]), no_wrap=True, soft_wrap=True)
        for more in lines[1:]:
            console.print(Text(" " * (paths + 4)).append_text(more), no_wrap=True, soft_wrap=True)


def guarded(plan: Plan, request: Request, talk: Talk, *, forces: bool, as_json: bool) -> Plan:
    """A plan that has passed the gate, each run with its record; only what was found is shown.

    Raises:
        GateBlockedError: If a check blocks it and it is not forced.
    """
    gate = pass_gate(plan, request)
    if gate.findings and not as_json and (talk.verbosity >= 0 or gate.is_blocked):
        print_findings(talk.err(), gate.findings, {case.config.label for case in gate.cases})
    if refuses(gate.findings, forces=forces):
        raise GateBlockedError(gate.findings)
    return gate.recorded(plan, forced=forces)


def print_findings(console: Console, findings: Sequence[Finding], labels: set[str]) -> None:
    """Print what checks found.

    Args:
        console: Where to.
        findings: What to say.
        labels: All runs of the launch; a finding in all of them names none.
    """
    for finding in findings:
        word, style = _WORDS[finding.level]
        runs = "" if len(finding.runs) == len(labels) else f"{', '.join(finding.runs)}: "
        head = plain_text(word, style).append("  ")
        indent = cell_len(head.plain)
        message = _wrapped(plain_text(f"{runs}{finding.told.message}"), console.width - indent, hang=0)
        hint = _wrapped(plain_text(f"try: {finding.told.hint}", "cyan"), console.width - indent, hang=5)
        console.print(head.append_text(message[0]), no_wrap=True, soft_wrap=True)
        for line in (*message[1:], *hint):
            console.print(Text(" " * indent).append_text(line), no_wrap=True, soft_wrap=True)


def _print_findings(console: Console, gate: Gate) -> None:
    print_findings(console, gate.findings, {case.config.label for case in gate.cases})
    blocks = sum(finding.level is Level.BLOCK for finding in gate.findings)
    told = f"{len(CHECKS)} checks: {blocks} block, {len(gate.findings) - blocks} to look at"
    if blocks:
        console.print(plain_text(f"✗ BLOCKED  {told}", "bold red"))
    else:
        console.print(plain_text(f"✓ PASS  {told}", "bold green"))
