"""The look of a report, from a phone to a wide screen, and the little behaviour that it has."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root { color-scheme: light }
body { font: 15px/1.5 "DejaVu Sans", Arial, sans-serif; margin: 0 auto; max-width: 75rem; padding: 1rem }
body { color: #1a1a1a; background: #fff }
h1 { font-size: 1.5rem; margin: .2em 0 }
h2 { font-size: 1.2rem; border-bottom: 2px solid #0072b2; margin-top: 2em; padding-bottom: .2em }
h3 { font-size: 1.05rem; margin-bottom: .3em }
h4 { font-size: .95rem; margin: 1em 0 .3em }
p,summary,li,h1,h2,h3 { overflow-wrap: anywhere }
.wide { overflow-x: auto; max-width: 100% }
table { border-collapse: collapse; font-size: .88rem }
th,td { padding: .25em .7em; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top }
th { border-bottom: 2px solid #888 }
td.number,th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
details { margin: .5em 0; padding: .2em .6em; border-left: 3px solid #ccc }
summary { cursor: pointer }
pre { overflow-x: auto; background: #f6f6f6; padding: .7em; font-size: .8rem; line-height: 1.4 }
.no { font-weight: bold }
.small { color: #555; font-size: .85rem }
.figure { min-height: 20rem }
nav a { margin-right: 1em }
a { color: #005a8c }
"""

# A figure that was drawn in a closed part has no width yet; it takes its own when the part opens.
RESIZE: Final = """
document.querySelectorAll("details").forEach(part => part.addEventListener("toggle", () => {
  if (part.open) part.querySelectorAll(".plotly-graph-div").forEach(figure => Plotly.Plots.resize(figure));
}));
"""
