"""A page of figures: one HTML file that needs no network, readable on a phone and on paper."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template
from typing import Final

from fluxctl.plots.embed import CSP, Embedded, library, script
from fluxctl.plots.figure import Figure
from fluxctl.plots.group import Group, mode_name

_PAGE: Final = Template(
    """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="$csp">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<link rel="icon" href="data:,">
<style>$style</style>
</head><body>
<header><h1>$title</h1>$warning<p class="small">$subtitle</p></header>
<main>$figures</main>
<section><h2>Runs</h2><div class="wide"><table><thead><tr>$head</tr></thead><tbody>$runs</tbody></table></div></section>
<script>$library</script>
<script>$draw</script>
</body></html>
"""
)
_STYLE: Final = """
:root { color-scheme: light }
body { font: 15px/1.5 "DejaVu Sans", Verdana, Arial, sans-serif; margin: 0 auto; max-width: 100rem; padding: 1rem }
body { color: #1a1a1a; background: #fff }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 34rem), 1fr)); gap: 1.5rem 2rem }
h1 { font-size: 1.4rem; margin: .2em 0 } h2 { font-size: 1.1rem; margin: .4em 0 }
h1, h2, p, li, td { overflow-wrap: anywhere }
article { min-width: 0 }
.small, .notes { color: #555; font-size: .85rem; margin: .3em 0 }
.notes { padding-left: 1.2em }
.warning { border-left: 4px solid #9a4200; padding: .3em .8em; font-weight: bold }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: .85rem }
th, td { padding: .25em .8em .25em 0; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top }
td { white-space: nowrap }
td:first-child { white-space: normal; min-width: 7rem; max-width: 24rem }
"""
_HEAD: Final = ("label", "run", "clock", "seed", "verdict", "condition")


def render(title: str, figures: Sequence[Figure], groups: Sequence[Group], warning: str = "") -> str:
    """The page as HTML.

    Args:
        title: Of the page.
        figures: In order.
        groups: What the figures show; listed below them.
        warning: What must be seen before the figures; empty without.
    """
    return _PAGE.substitute(
        csp=CSP,
        title=escape(title),
        warning=f'<p class="warning">{escape(warning)}</p>' if warning else "",
        subtitle=escape(_subtitle(groups)),
        style=_STYLE,
        figures="".join(map(_article, figures)),
        head="".join(f"<th>{name}</th>" for name in _HEAD),
        runs="".join(map(_rows, groups)),
        library=library(),
        draw=script([Embedded.of(figure) for figure in figures]),
    )


def _article(figure: Figure) -> str:
    items = "".join(f"<li>{escape(note)}</li>" for note in figure.notes)
    notes = f'<ul class="notes">{items}</ul>' if items else ""
    return (
        f"<article><h2>{escape(figure.title)}</h2>"
        f'<p class="small">{escape(figure.reading)}</p>'
        f"{Embedded.of(figure).place}{notes}</article>"
    )


def _subtitle(groups: Sequence[Group]) -> str:
    sets = dict.fromkeys(shown.series.facts.run_set or "no run set" for group in groups for shown in group.runs)
    num_runs = sum(len(group.runs) for group in groups)
    return f"{', '.join(sets)}: {num_runs} {'run' if num_runs == 1 else 'runs'}"


def _rows(group: Group) -> str:
    rows = []
    for shown in group.runs:
        facts = shown.series.facts
        cells = (
            group.label,
            facts.id,
            mode_name(facts.mode),
            "" if facts.seed is None else str(facts.seed),
            facts.verdict or "no verdict",
            facts.condition,
        )
        rows.append("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in cells) + "</tr>")
    return "".join(rows)
