"""How an analysis is shown: one sentence, tables, notes, and where its figures are."""

from __future__ import annotations

from pathlib import Path

from fluxctl.analyses.page import Written, write_charts
from fluxctl.analyses.result import Analysis, Grid
from fluxctl.commands._render import Column, print_grid
from fluxctl.commands._talk import Talk, plain_text
from fluxctl.errors import ConfigError, ExitCode
from fluxctl.types import JSON


def show(analysis: Analysis, talk: Talk, *, as_json: bool, figures: Path | None) -> int:
    """Show an analysis and write its figures.

    Args:
        analysis: What was found.
        talk: How to speak.
        as_json: Whether to print one JSON object instead of text.
        figures: Folder for its figures; None = draw none.

    Returns:
        The exit code: 1 if the answer is no.
    """
    written = _draw(analysis, talk, figures)
    if as_json:
        data: dict[str, JSON] = {
            **analysis.to_json(),
            "figures": [{"html": str(files.html), "csv": str(files.csv)} for files in written],
        }
        talk.envelope(f"analyze {analysis.name}", "ok" if analysis.is_ok else "no", data)
    else:
        _print(analysis, talk, written)
    return int(ExitCode.OK if analysis.is_ok else ExitCode.ANSWER_IS_NO)


def _draw(analysis: Analysis, talk: Talk, folder: Path | None) -> tuple[Written, ...]:
    if folder is None or not analysis.charts:
        return ()
    try:
        return write_charts(analysis, folder)
    except ConfigError as error:  # the answer is not worth less because its picture cannot be kept
        talk.error(error)
        return ()


def _print(analysis: Analysis, talk: Talk, written: tuple[Written, ...]) -> None:
    console = talk.out()
    console.print(plain_text(analysis.conclusion, "bold"))
    console.print()
    for grid in analysis.grids:
        if grid.rows:
            console.print(plain_text(grid.title))
            print_grid(console, columns_of(grid), num_keys=grid.num_keys)
    for note in analysis.notes:
        console.print(plain_text(note))
    for files in written:
        console.print(plain_text(f"figure {files.html}"), soft_wrap=True)


def columns_of(grid: Grid) -> list[Column]:
    """A table of results as columns for the terminal."""
    return [
        Column(measure.title, grid.column_texts(index), bool(measure.pattern))
        for index, measure in enumerate(grid.measures)
    ]
