"""A report as one HTML page that needs no network: everything that it shows, its style and its scripts are in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fluxctl.analyses.page import figure_html
from fluxctl.analyses.result import Analysis, Chart, handy_bytes, handy_seconds
from fluxctl.report.curves import progress_charts
from fluxctl.report.gather import LeftOut, Report, RunPart
from fluxctl.report.markup import Html, element, folded, grid_table, join, table
from fluxctl.report.style import RESIZE, STYLE

_GOOD: Final = ("COMPLETED", "CONVERGED")


class _Figures:
    """Draws figures into the page; the first one brings the drawing library along."""

    def __init__(self) -> None:
        self._has_library = False

    def draw(self, chart: Chart) -> Html:
        markup = figure_html(chart, with_library=not self._has_library)
        self._has_library = True
        return element("div", element("h4", chart.title), Html(markup), class_="figure")


def render(report: Report) -> str:
    """The page of a report."""
    figures = _Figures()
    sections = [
        ("verdicts", "Verdicts", _verdicts(report)),
        ("progress", "Progress", _progress(report, figures)),
        ("cost", "Cost to a common accuracy", _comparison(report, figures)),
        ("parity", "Parity", _parity(report)),
        ("gate", "Gate", _gate(report)),
        ("runs", "Analyses", join(_run(run, figures, is_open=len(report.runs) == 1) for run in report.runs)),
        ("config", "Configuration, with the origin of every value", _configs(report)),
        ("provenance", "Provenance", _provenance(report)),
    ]
    shown = [(name, title, body) for name, title, body in sections if body]
    links = element("nav", *(element("a", title, href=f"#{name}") for name, title, _ in shown))
    body = [element("h1", report.title), links]
    body += [element("section", element("h2", title), content, id=name) for name, title, content in shown]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"fluxctl: {report.title}"),
        element("style", Html(STYLE)),
    )
    body.append(element("script", Html(RESIZE)))
    return f"<!DOCTYPE html>\n{element('html', head, element('body', *body), lang='en')}\n"


def _verdicts(report: Report) -> Html:
    titles = ["run", "system", "mode", "seed", "verdict", "bins", "best acc", "final acc"]
    titles += ["engine time", "wall time", "passes", "down", "up"]
    numbers = [False, False, False, True, False, *[True] * 8]
    rows = [_verdict_row(run) for run in report.runs]
    reasons = [
        element("li", f"{run.info.record.id}: {run.info.verdict.reason}")
        for run in report.runs
        if run.info.verdict is not None and run.info.verdict.reason
    ]
    return join([table(titles, rows, numbers), element("ul", *reasons), *_missing(report.left_out)])


def _verdict_row(run: RunPart) -> list[str]:
    record, fields = run.info.record, run.info.fields()
    verdict = str(fields["verdict"] or fields["status"])
    texts = [
        record.id,
        f"{record.baseline} {record.variant}".rstrip(),
        record.mode.value,
        str(record.seed),
        verdict if verdict in _GOOD else element("span", verdict, class_="no"),
        _number(fields["bins"], ",.0f"),
        _number(fields["best_accuracy"], ".3f"),
        _number(fields["final_accuracy"], ".3f"),
    ]
    texts += [_number(fields[name], "s") for name in ("engine_s", "wall_s")]
    return [
        *texts,
        _number(fields["forward_passes"], ",.0f"),
        *(_number(fields[f"bytes_{way}"], "B") for way in ("down", "up")),
    ]


def _number(value: object, pattern: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "-"
    if pattern == "s":
        return handy_seconds(value)
    return handy_bytes(value) if pattern == "B" else format(value, pattern)


def _progress(report: Report, figures: _Figures) -> Html:
    return join(figures.draw(chart) for chart in progress_charts(report.series))


def _comparison(report: Report, figures: _Figures) -> Html:
    return Html() if report.comparison is None else _analysis(report.comparison, figures)


def _analysis(analysis: Analysis, figures: _Figures) -> Html:
    parts: list[str] = [element("p", analysis.conclusion)]
    parts += [grid_table(grid) for grid in analysis.grids if grid.rows]
    parts += [figures.draw(chart) for chart in analysis.charts if chart.points]
    parts += [element("p", note, class_="small") for note in analysis.notes]
    return join(parts)


def _run(run: RunPart, figures: _Figures, *, is_open: bool) -> Html:
    parts = [
        folded(
            f"{analysis.name}: {analysis.conclusion}",
            *(grid_table(grid) for grid in analysis.grids if grid.rows),
            *(figures.draw(chart) for chart in analysis.charts if chart.points),
            *(element("p", note, class_="small") for note in analysis.notes),
            is_open=is_open or not analysis.is_ok,
        )
        for analysis in run.analyses
    ]
    return join([element("h3", run.info.record.id), *parts, *_missing(run.left_out)])


def _missing(left_out: Sequence[LeftOut]) -> Iterator[Html]:
    for item in left_out:
        yield element("p", f"Left out: {item.what}; {item.why}.", class_="small")


def _parity(report: Report) -> Html:
    seen: set[tuple[str, str]] = set()
    parts: list[str] = []
    for run in report.runs:
        for name, data in run.parity.items():
            pair = _pair(data)
            key = (str(pair.get("left") or run.info.record.id), str(pair.get("right") or name))
            if key in seen:
                continue
            seen.add(key)
            parts.append(_parity_pair(key, pair))
    return join(parts)


def _pair(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The pair within what the parity verb wrote: the object itself, or the first of its ``pairs``."""
    inner = data.get("data", data)
    pairs = inner.get("pairs") if isinstance(inner, dict) else None
    if isinstance(pairs, list) and pairs and isinstance(pairs[0], dict):
        return pairs[0]
    return inner if isinstance(inner, dict) else {}


def _parity_pair(key: tuple[str, str], pair: Mapping[str, Any]) -> Html:
    counts = pair.get("counts")
    told = ", ".join(f"{name} {num}" for name, num in counts.items()) if isinstance(counts, dict) else ""
    rungs = [rung for rung in pair.get("rungs") or [] if isinstance(rung, dict)]
    rows = [[str(rung.get(name, "") or "") for name in ("id", "name", "status", "cause", "message")] for rung in rungs]
    telling = [row for row in rows if row[2] not in ("PASS", "SKIP")]
    titles = ["id", "rung", "status", "cause", "finding"]
    parts: list[str] = [element("h3", f"{key[0]} against {key[1]}: {pair.get('verdict', 'no verdict')}")]
    parts.append(element("p", told))
    if telling:
        parts.append(table(titles, telling))
    if rows:
        parts.append(folded(f"all {len(rows)} rungs", table(titles, rows)))
    return join(parts)


def _gate(report: Report) -> Html:
    parts: list[str] = []
    seen: set[str] = set()
    for run in report.runs:
        findings = [item for item in run.gate.get("findings") or [] if isinstance(item, dict)]
        forced = ", forced" if run.gate.get("forced") else ""
        rows = [[str(item.get(name) or "") for name in ("level", "check", "message", "hint")] for item in findings]
        told = json.dumps([rows, run.gate.get("status"), forced])
        if not run.gate or told in seen:
            continue  # runs of one launch passed one gate
        seen.add(told)
        parts.append(element("p", f"{run.info.record.id}: {run.gate.get('status')}{forced}"))
        if rows:
            parts.append(table(["level", "check", "finding", "hint"], rows))
    return join(parts)


def _configs(report: Report) -> Html:
    return join(folded(run.info.record.id, element("pre", run.config)) for run in report.runs if run.config)


def _provenance(report: Report) -> Html:
    return join(
        folded(run.info.record.id, element("pre", json.dumps(run.provenance, indent=2, ensure_ascii=False)))
        for run in report.runs
    )
