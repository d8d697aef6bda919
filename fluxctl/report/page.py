"""A report as one HTML page that needs no network: everything that it shows, its style and its scripts are in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from fluxctl.analyses.result import Analysis, handy_bytes, handy_seconds
from fluxctl.plots.embed import CSP
from fluxctl.report.figures import Figures
from fluxctl.report.gather import Report, RunPart
from fluxctl.report.left_out import LeftOut
from fluxctl.report.markup import Html, element, folded, grid_table, join, table
from fluxctl.report.parity import pair_html
from fluxctl.report.style import STYLE

_GOOD: Final = ("COMPLETED", "CONVERGED")


def render(report: Report) -> str:
    """The page of a report."""
    figures = Figures()
    sections = [
        ("verdicts", "Verdicts", _verdicts(report)),
        ("figures", "Figures", _experiments(report, figures)),
        ("cost", "Cost to a common accuracy", _comparison(report, figures)),
        ("parity", "Parity", join(pair_html(pair) for pair in report.parity)),
        ("gate", "Gate", _gate(report)),
        ("runs", "Analyses", _runs(report, figures)),
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
        element("meta", **{"http-equiv": "Content-Security-Policy", "content": CSP}),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"fluxctl: {report.title}"),
        element("link", rel="icon", href="data:,"),
        element("style", Html(STYLE)),
    )
    body.append(figures.scripts())
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
        element("span", record.id, class_="id"),
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


def _experiments(report: Report, figures: Figures) -> Html:
    if not report.series:
        return element("p", "No figures: no run has events that can be read.")
    return figures.experiments(report.series)


def _comparison(report: Report, figures: Figures) -> Html:
    return Html() if report.comparison is None else _analysis(report.comparison, figures)


def _analysis(analysis: Analysis, figures: Figures) -> Html:
    parts: list[str] = [element("p", analysis.conclusion)]
    parts += [grid_table(grid) for grid in analysis.grids if grid.rows]
    parts += [figures.chart(chart, "cost-") for chart in analysis.charts if chart.points]
    parts += [element("p", note, class_="small") for note in analysis.notes]
    return join(parts)


def _runs(report: Report, figures: Figures) -> Html:
    is_single = len(report.runs) == 1
    return join(_run(run, figures, f"r{index}-", is_open=is_single) for index, run in enumerate(report.runs))


def _run(run: RunPart, figures: Figures, prefix: str, *, is_open: bool) -> Html:
    parts = [
        folded(
            f"{analysis.name}: {analysis.conclusion}",
            *(grid_table(grid) for grid in analysis.grids if grid.rows),
            *(figures.chart(chart, prefix) for chart in analysis.charts if chart.points),
            *(element("p", note, class_="small") for note in analysis.notes),
            is_open=is_open or not analysis.is_ok,
        )
        for analysis in run.analyses
    ]
    return join([element("h3", run.info.record.id), *parts, *_missing(run.left_out)])


def _missing(left_out: Sequence[LeftOut]) -> Iterator[Html]:
    for item in left_out:
        yield element("p", f"Left out: {item.what}; {item.why}.", class_="small")


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
