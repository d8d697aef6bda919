"""The look of a report, from a phone to a wide screen."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root { color-scheme: light }
body { font: 15px/1.5 "DejaVu Sans", Verdana, Arial, sans-serif; margin: 0 auto; max-width: 75rem; padding: 1rem }
body { color: #1a1a1a; background: #fff }
h1 { font-size: 1.5rem; margin: .2em 0 }
h2 { font-size: 1.2rem; border-bottom: 2px solid #0072b2; margin-top: 2em; padding-bottom: .2em }
h3 { font-size: 1.05rem; margin-bottom: .3em }
h4 { font-size: .95rem; margin: 1em 0 .3em }
p,summary,li,h1,h2,h3,h4 { overflow-wrap: anywhere }
.wide { overflow-x: auto; max-width: 100% }
table { border-collapse: collapse; font-size: .85rem }
th,td { padding: .25em .5em; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top }
th { border-bottom: 2px solid #888 }
td.number,th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.id { display: inline-block; min-width: 11rem }
.short { white-space: nowrap }
td.word:last-child:not(.short) { min-width: 15rem }
details { margin: .5em 0; padding: .2em .6em; border-left: 3px solid #ccc }
summary { cursor: pointer }
pre { overflow-x: auto; background: #f6f6f6; padding: .7em; font-size: .8rem; line-height: 1.4 }
.no { font-weight: bold }
.small { color: #555; font-size: .85rem }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1rem 2rem }
article { min-width: 0 }
nav { display: flex; flex-wrap: wrap; gap: 0 1em }
a { color: #005a8c }
"""
