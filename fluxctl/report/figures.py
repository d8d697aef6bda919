"""The figures of a report: E1 to E5 of its runs, and those of its analyses.

A figure never mixes conditions, so runs of several conditions get a set of figures each.
"""

from __future__ import annotations

from collections.abc import Sequence

from fluxctl.analyses.page import embedded
from fluxctl.analyses.result import Chart
from fluxctl.plots.catalogue import EXPERIMENTS, draw
from fluxctl.plots.conditions import by_condition, mixed_warning
from fluxctl.plots.embed import Embedded, library, script
from fluxctl.plots.figure import Figure
from fluxctl.plots.group import Group, Options, make_groups
from fluxctl.report.markup import Html, element, folded, join
from fluxctl.telemetry.series import RunSeries


class Figures:
    """Collects the figures of a page while it is written; :meth:`scripts` draws them at its end."""

    def __init__(self) -> None:
        self._drawn: list[Embedded] = []

    def chart(self, chart: Chart, prefix: str) -> Html:
        """A figure of an analysis; the prefix keeps it apart from those of other runs."""
        return element("div", element("h4", chart.title), self._place(embedded(chart, prefix)), class_="figure")

    def experiments(self, runs: Sequence[RunSeries]) -> Html:
        """E1 to E5 of runs, one set for each condition."""
        sets = by_condition(runs)
        if len(sets) == 1:
            return self._set(sets[0], "")
        first = next(run.facts for run in sets[0] if run.facts.condition)
        parts = [
            folded(
                f"condition {number} of {len(sets)}: {', '.join(group.label for group in _groups(members))}",
                *([element("p", mixed_warning([first, members[0].facts]))] if number > 1 else []),
                self._set(members, f"c{number}-"),
                is_open=number == 1,
            )
            for number, members in enumerate(sets, start=1)
        ]
        return join([element("p", "Runs of different conditions are not drawn together."), *parts])

    def scripts(self) -> Html:
        """What draws them: the library, once, and their specifications."""
        if not self._drawn:
            return Html()
        return join([element("script", Html(library())), element("script", Html(script(self._drawn)))])

    def _set(self, runs: Sequence[RunSeries], prefix: str) -> Html:
        figures = draw(list(EXPERIMENTS), _groups(runs), Options())
        parts: list[Html] = []
        for page, (title, _) in EXPERIMENTS.items():
            own = [self._article(figure, prefix) for figure in figures if figure.page == page]
            parts += [element("h3", f"{page.upper()}  {title}"), element("div", *own, class_="figures")]
        return join(parts)

    def _article(self, figure: Figure, prefix: str) -> Html:
        notes = [element("li", note) for note in figure.notes]
        body: list[str] = [element("h4", figure.title)]
        if figure.traces:
            body += [element("p", figure.reading, class_="small"), self._place(Embedded.of(figure, prefix))]
        else:
            body.append(element("p", f"No figure: {figure.lack}."))
        return element("article", *body, *([element("ul", *notes, class_="small")] if notes else []))

    def _place(self, figure: Embedded) -> Html:
        self._drawn.append(figure)
        return Html(figure.place)


def _groups(runs: Sequence[RunSeries]) -> list[Group]:
    return make_groups([("", run) for run in runs], Options())
