"""The parity report: one HTML page that needs no network and no script.

All text is escaped, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from fluxctl.parity.comparison import Comparison, title_of
from fluxctl.parity.ladder import PairVerdict
from fluxctl.parity.registry import STAGE_TITLES
from fluxctl.parity.result import Cause, RungResult, Status
from fluxctl.parity.svg import picture

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8886; --soft: #8882; --bad: #b3261e; --open: #8a5a00; --good: #19692c; }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --open: #ffcc66; --good: #7fd894; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1080px; margin: 0 auto; padding: 16px; }
h1 { font-size: 1.5em; } h2 { font-size: 1.25em; margin-top: 2em; border-top: 1px solid var(--line); padding-top: 1em; }
h2, p, li { overflow-wrap: anywhere; } td { overflow-wrap: break-word; }
table { border-collapse: collapse; width: 100%; font-size: .93em; }
th, td { text-align: left; padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.wide { overflow-x: auto; }
.banner { padding: 10px 14px; border-left: 6px solid; background: var(--soft); }
.FAIL { color: var(--bad); } .PASS { color: var(--good); } .WARN, .INCONCLUSIVE, .LOW_CONF { color: var(--open); }
.status { font-weight: 600; white-space: nowrap; }
.small { font-size: .87em; opacity: .8; }
.message { min-width: 18em; } .name { min-width: 10em; }
details > summary { cursor: pointer; padding: 6px 0; }
svg { background: #fff; width: 100%; min-width: 540px; height: auto; margin: 6px 0; border: 1px solid var(--line); }
svg text { font: 12px system-ui, sans-serif; fill: #222; } svg .title { font-weight: 600; font-size: 13px; }
svg .grid { stroke: #ddd; }
@media (max-width: 640px) {
  tr.head { display: none; }
  table, tbody, tr, td.name, td.message { display: block; }
  tr { border-bottom: 1px solid var(--line); padding: 6px 0; }
  td, td.number { display: inline-block; border: 0; padding: 0 14px 0 0; text-align: left; }
  td.message { min-width: 0; }
  td[data-label]:not(:empty)::before { content: attr(data-label) " "; opacity: .7; }
}
"""
_SHORT: Final = {Status.INCONCLUSIVE: "OPEN", Status.LOW_CONF: "LOW"}  # heads of narrow columns


def page(comparisons: Sequence[Comparison], title: str = "Parity") -> str:
    """Render comparisons as one HTML document."""
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>",
        _scoreboard(comparisons),
        *(_pair(comparison) for comparison in comparisons),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _scoreboard(comparisons: Sequence[Comparison]) -> str:
    heads = "".join(f'<th class="number">{_SHORT.get(status, status)}</th>' for status in Status)
    rows = []
    for comparison in comparisons:
        counts = "".join(
            f'<td class="number" data-label="{_SHORT.get(status, status)}">{num}</td>'
            for status, num in comparison.ladder.counts.items()
        )
        causes = comparison.causes()
        rows.append(
            f'<tr><td class="name"><a href="#{_anchor(comparison)}">{escape(comparison.pair.baseline)}</a></td>'
            f"<td>{_badge(comparison.verdict)}</td>{counts}"
            f'<td class="message">{escape(causes[0]) if causes else ""}</td></tr>'
        )
    head = f"<tr class='head'><th>baseline</th><th>verdict</th>{heads}<th>root cause</th></tr>"
    return f'<div class="wide"><table>{head}{"".join(rows)}</table></div>'


def _pair(comparison: Comparison) -> str:
    pair, ladder = comparison.pair, comparison.ladder
    left, right = pair.labels
    facts = [
        *(arrivals.sentence() for arrivals in ladder.arrivals),
        f"gated rungs are {'' if ladder.determinism.is_enforced else 'not '}enforced: {ladder.determinism.reason}",
        *comparison.notes,
    ]
    return "\n".join(
        [
            f'<h2 id="{_anchor(comparison)}">{escape(pair.baseline)}</h2>',
            f'<p class="small">{left}: {escape(pair.left.id)}<br>{right}: {escape(pair.right.id)}</p>',
            _banner(comparison),
            "<ul>" + "".join(f"<li>{escape(fact)}</li>" for fact in facts) + "</ul>",
            f'<div class="wide">{picture(comparison.sketch)}</div>',
            *(_stage(stage, comparison) for stage in STAGE_TITLES),
        ]
    )


def _anchor(comparison: Comparison) -> str:
    return escape(f"{comparison.pair.left.id}--{comparison.pair.right.id}")


def _banner(comparison: Comparison) -> str:
    causes = "".join(f"<li>{escape(cause)}</li>" for cause in comparison.causes())
    return (
        f'<div class="banner {comparison.verdict.value}"><strong>{comparison.verdict.value}</strong> '
        f"{escape(comparison.headline())}{f'<ol>{causes}</ol>' if causes else ''}</div>"
    )


def _stage(stage: str, comparison: Comparison) -> str:
    results = [result for result in comparison.ladder.results if result.rung.stage == stage]
    if not results:
        return ""
    counts = {status: sum(result.finding.status is status for result in results) for status in Status}
    told = " ".join(f'<span class="{status}">{num} {status}</span>' for status, num in counts.items() if num)
    is_open = any(counts[status] for status in (Status.FAIL, Status.WARN, Status.INCONCLUSIVE))
    head = (
        "<tr class='head'><th>rung</th><th>status</th><th class='number'>value</th><th>threshold</th>"
        "<th class='number'>noise</th><th class='number'>n</th><th>what was found</th></tr>"
    )
    rows = "".join(_row(result, comparison.ladder.options.noise) for result in results)
    return (
        f"<details{' open' if is_open else ''}><summary>stage {stage} <strong>{STAGE_TITLES[stage]}</strong> {told}"
        f'</summary><div class="wide"><table>{head}{rows}</table></div></details>'
    )


def _row(result: RungResult, noise: Mapping[str, float]) -> str:
    rung, finding = result.rung, result.finding
    cause = "" if result.cause is None else f" {'root cause' if result.cause is Cause.ROOT else 'downstream'}"
    told = escape(finding.message)
    if result.cause is Cause.ROOT:
        told = f"<strong>{escape(rung.broken)}</strong><br>{told}"
    floor = noise.get(rung.id)
    return (
        f'<tr><td class="name" title="{escape(rung.question)}">{escape(rung.id)} {escape(title_of(rung))} '
        f'<span class="small">{rung.tier.value}</span></td><td>{_badge(finding.status)}{cause}</td>'
        f'<td class="number" data-label="value">{number(finding.value)}</td>'
        f'<td data-label="threshold">{escape(finding.threshold)}</td>'
        f'<td class="number" data-label="noise">{number(floor)}</td>'
        f'<td class="number" data-label="n">{"" if finding.n is None else finding.n}</td>'
        f'<td class="message">{told}</td></tr>'
    )


def _badge(status: Status | PairVerdict) -> str:
    return f'<span class="status {status.value}">{status.value}</span>'


def number(value: float | None) -> str:
    """A measured number in a table."""
    return "" if value is None else f"{value:.4g}"
