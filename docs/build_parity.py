"""Fills in the generated parts of ``docs/parity.md``: what each rung asks, and which faults turn it red.

Rungs come from the registry, faults from ``tests/mutation/table.json`` and ``wall.json``, which the mutation suite
asserts::

    python docs/build_parity.py            # rewrite the parts
    python docs/build_parity.py --check    # change nothing; exit 1 if something is wrong

Every rung must be turned red, or made to warn, by a mutation, or say below why none does.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from fluxctl.parity.registry import STAGE_TITLES, STAGES, all_rungs
from fluxctl.parity.result import Rung

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "parity.md"
MUTATIONS = ROOT / "tests" / "mutation" / "table.json"
ON_THE_WALL = ROOT / "tests" / "mutation" / "wall.json"

# Rungs that no run of this engine can fail, and why. They guard against files of other writers and other versions.
NEVER = {
    "D2": "each cycle's event is stamped by the writer that orders the stream; without a stamp there is no event",
    "D3": "logical time is a running maximum, and the writer refuses an event that is earlier than what it has written",
    "D41": "compute runs where the data is; the phase is the constant 0 (it would count with a device)",
    "D44": "as D41",
    "D50": "a task carries its stamps from dispatch to event; one without them cannot be written",
    "D55": "an evaluation is a part of its commit's turn, and engine time does not move within a turn",
    "D57": "a delivery is planned as the later of due time and next availability",
    "D75": "engine time cannot pass its budget, and whoever launched the run ends its process at the wall ceiling",
}
# Rungs that runs can fail, but none of the mutations does; each has its broken fixture under tests/parity.
ELSEWHERE = {
    "D1": "a field that a version of the engine does not write any more; the fixture leaves one out",
    "D4": "a step that takes a hundred times longer than the time it stands for",
    "D5": "a simulation of a model so heavy that reality is faster; compares a real run with its simulation",
    "D12": "reports only: what a real run spends beyond the model",
    "D13": "a trace that leaves more clients available; one that is believed late has the same averages",
    "D15": "a belief that depends on speed; in the mutated worlds availability has nothing to do with it",
    "D17": "a trace with three states; with two, half of all changes make a client available, whatever the trace",
    "D40": "other work before a step, as D42 for the step itself; each phase is a few microseconds here",
    "D43": "as D40",
    "D45": "as D40",
    "D48": "steps of the simulation that take longer than modelled; on the wall clock D47 does the same",
    "D74": "warns on all short runs, also on healthy ones: their cap of bins ends them long before their budget",
}


def numbered(*tables: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """All mutations by the name that the page uses, M1, M2 ...; those on the wall clock come last."""
    return {f"M{number}": line for number, line in enumerate((line for of in tables for line in of.values()), start=1)}


def rungs_table(mutations: dict[str, dict[str, Any]]) -> str:
    """One table a stage."""
    shown = {stage: [rung for rung in all_rungs() if rung.stage == stage] for stage in STAGES}
    parts = []
    for stage, rungs in shown.items():
        if not rungs:
            continue
        title = stage.replace("p", "'")
        rows = [_rung_row(rung, mutations) for rung in rungs]
        head = (
            "| id | name | tier | asks | a failure means | depends on | turned red by |\n|---|---|---|---|---|---|---|"
        )
        parts.append(f"### Stage {title}: {STAGE_TITLES[stage]}\n\n" + "\n".join([head, *rows]))
    return "\n\n".join(parts)


def _rung_row(rung: Rung, mutations: dict[str, dict[str, Any]]) -> str:
    short = "" if rung.short == rung.name else f"{rung.short} "
    tier = f"{rung.tier.value}{', gated' if rung.is_gated else ''}"
    return (
        f"| {rung.id} | {short}`{rung.name}` | {tier} | {rung.question} | {rung.broken} | "
        f"{' '.join(rung.needs) or '-'} | {_red_by(rung.id, mutations)} |"
    )


def _red_by(rung_id: str, mutations: dict[str, dict[str, Any]]) -> str:
    names = [
        f"{name}{'w' if rung_id in line['warned'] else ''}"
        for name, line in mutations.items()
        if rung_id in reacting(line)
    ]
    if names:
        return " ".join(names)
    return "never" if rung_id in NEVER else "see below"


def reacting(line: dict[str, Any]) -> set[str]:
    """Rungs that a mutation turns red, or makes warn."""
    return {rung_id for key in ("roots", "downstream", "failed", "warned") for rung_id in line.get(key, ())}


def mutations_table(mutations: dict[str, Any]) -> str:
    """One row a mutation."""
    head = "| | mutation | what is wrong | world | root causes | follows | warns |\n|---|---|---|---|---|---|---|"
    rows = [
        f"| M{number} | {line['title']} | {line['what']} | {line['world']} | "
        + " | ".join(" ".join(line[key]) or "-" for key in ("roots", "downstream", "warned"))
        + " |"
        for number, line in enumerate(mutations.values(), start=1)
    ]
    return "\n".join([head, *rows])


def walls_table(mutations: dict[str, Any], walls: dict[str, Any]) -> str:
    """One row a mutation of a real run."""
    lines = list(numbered(mutations, walls).items())[len(mutations) :]
    head = "| | mutation | what is wrong | fails | warns |\n|---|---|---|---|---|"
    rows = [
        f"| {name} | {line['title']} | {line['what']} | "
        + " | ".join(" ".join(line[key]) or "-" for key in ("failed", "warned"))
        + " |"
        for name, line in lines
    ]
    return "\n".join([head, *rows])


def reasons_table(reasons: dict[str, str], title: str) -> str:
    """One row a rung, with its reason."""
    names = {rung.id: rung.name for rung in all_rungs()}
    rows = [f"| {rung_id} | `{names.get(rung_id, '?')}` | {reason} |" for rung_id, reason in reasons.items()]
    return "\n".join([f"| id | name | {title} |\n|---|---|---|", *rows])


def parts_of(mutations: dict[str, Any], walls: dict[str, Any]) -> dict[str, str]:
    """The generated parts by name."""
    return {
        "rungs": rungs_table(numbered(mutations, walls)),
        "mutations": mutations_table(mutations),
        "walls": walls_table(mutations, walls),
        "never": reasons_table(NEVER, "why no run can fail it"),
        "elsewhere": reasons_table(ELSEWHERE, "what would turn it red"),
    }


def fill(text: str, parts: dict[str, str]) -> str:
    """The page with its generated parts up to date.

    Raises:
        ValueError: If the page lacks the marks of a part.
    """
    for name, part in parts.items():
        marked = re.compile(rf"(<!-- {name} -->).*?(<!-- /{name} -->)", re.DOTALL)
        if not marked.search(text):
            raise ValueError(f"docs/parity.md lacks the marks of '{name}'")
        text = marked.sub(lambda found, part=part: f"{found[1]}\n\n{part}\n\n{found[2]}", text)
    return text


def complaints(mutations: dict[str, Any], walls: dict[str, Any]) -> list[str]:
    """Rungs without a fault that turns them red and without a reason, and the other way round."""
    red = {rung_id for line in numbered(mutations, walls).values() for rung_id in reacting(line)}
    known = [rung.id for rung in all_rungs()]
    found = [f"{rung_id}: no mutation turns it red, and nobody says why" for rung_id in known]
    found = [line for line in found if line.split(":")[0] not in red | NEVER.keys() | ELSEWHERE.keys()]
    found += [f"{rung_id}: a mutation turns it red" for rung_id in (*NEVER, *ELSEWHERE) if rung_id in red]
    found += [f"{rung_id}: two reasons" for rung_id in NEVER.keys() & ELSEWHERE.keys()]
    found += [
        f"{rung_id}: no such rung" for rung_id in sorted(red | NEVER.keys() | ELSEWHERE.keys()) if rung_id not in known
    ]
    return found


def main(argv: list[str]) -> int:
    """Run the program; 1 if the page is wrong."""
    parser = argparse.ArgumentParser(description="Fill in the generated parts of docs/parity.md.")
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args(argv)
    tables = [json.loads(path.read_text(encoding="utf-8")) for path in (MUTATIONS, ON_THE_WALL)]
    text = PAGE.read_text(encoding="utf-8")
    filled, found = fill(text, parts_of(*tables)), complaints(*tables)
    if filled != text and options.check:
        found.append("the page is out of date: run python docs/build_parity.py")
    elif filled != text:
        PAGE.write_text(filled, encoding="utf-8")
    for complaint in found:
        print(complaint, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
