"""``fluxctl plot``: figures of one run, or of several under one condition."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from fluxctl.commands._options import HELP, OUTPUT, JsonFlag, RunsDir
from fluxctl.commands._plot_runs import Pick, parse_pins, pick_runs
from fluxctl.commands._plot_view import print_comparison
from fluxctl.commands._talk import Talk, plain_text
from fluxctl.errors import AssetError, ConfigError, NothingToDoError
from fluxctl.plots.catalogue import EXPERIMENTS, draw
from fluxctl.plots.conditions import mixed_warning, refuse_mixed
from fluxctl.plots.cut import Cut
from fluxctl.plots.group import Group, Options, make_groups
from fluxctl.plots.images import FORMATS, write_images
from fluxctl.plots.manifest import FigureManifest, load_manifest
from fluxctl.plots.output import Written, images_of, new_folder, prepare_folder, write_figures
from fluxctl.plots.style import SYSTEM
from fluxctl.plots.summary import summaries
from fluxctl.runs.layout import runs_dir
from fluxctl.telemetry.series import Axis, RunSeries, read_series
from fluxctl.types import JSON

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")

_EPILOG: Final = """Without arguments: all figures of the newest run of each baseline of the newest run set. A RUN is
latest, latest~1, an id or the beginning of one, a path, baseline:mode, or the name of a run set. Seeds of one thing
become a mean with its 95 % interval. Figures go to figures/TIME in the runs folder, or in the run's own folder when
there is one run. The PDF of a figure with several panels comes with one of each panel.

Exit code 2: the request cannot be met (unknown run, mixed conditions, no browser for images); 5: there is no run.

Examples:

fluxctl plot

fluxctl plot e1 main --x passes --cut none

fluxctl plot e1 --run 'K = 10=latest' --run 'K = 20=latest~1' --format html,pdf

fluxctl plot all --figs ablation"""


class What(StrEnum):
    """Which experiments to draw."""

    E1 = "e1"
    E2 = "e2"
    E3 = "e3"
    E4 = "e4"
    E5 = "e5"
    ALL = "all"


@app.command(epilog=_EPILOG, context_settings=HELP)
def plot(
    ctx: typer.Context,
    what: Annotated[
        What, typer.Argument(help="e1 accuracy and loss, e2 utilisation, e3 productivity, e4 network, e5 sessions.")
    ] = What.ALL,
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]...", help="Which runs.", show_default=False)
    ] = None,
    figs: Annotated[
        str | None, typer.Option("--figs", metavar="FILE", help="A figure manifest, shipped or a file.")
    ] = None,
    run: Annotated[
        list[str] | None, typer.Option("--run", metavar="LABEL=RUN", help="Show a run under a name; may be repeated.")
    ] = None,
    x: Annotated[Axis | None, typer.Option("--x", help="What E1 runs along.", show_default="engine")] = None,
    smooth: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Evaluations in E1's moving average; for the eye only.", show_default="5"),
    ] = None,
    cut: Annotated[Cut | None, typer.Option(help="Where curves end.", show_default="peak_acc")] = None,
    allow_mixed: Annotated[
        bool, typer.Option("--allow-mixed", help="Show runs of different conditions; the figures say so.")
    ] = False,
    system_name: Annotated[str, typer.Option(metavar="NAME", help="What to call the system itself.")] = SYSTEM,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Write here instead.", rich_help_panel=OUTPUT)
    ] = None,
    formats: Annotated[
        str,
        typer.Option("--format", metavar="A,B", help="html, png, svg, pdf; html always.", rich_help_panel=OUTPUT),
    ] = "html",
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Draw figures of runs, with the numbers that they show."""
    talk: Talk = ctx.obj
    images = _image_formats(formats)
    manifest = None if figs is None else load_manifest(figs)
    folder = runs_dir(runs_folder, os.environ)
    picks = pick_runs(runs or [], parse_pins(run or []), manifest, folder)
    loaded = [(pick.label, _read(pick, talk)) for pick in picks]
    facts = [series.facts for _, series in loaded]
    if not (allow_mixed or (manifest is not None and manifest.allow_mixed)):
        refuse_mixed(facts)
    options = _options(x, smooth, cut, manifest, system_name, mixed_warning(facts))
    groups = make_groups(loaded, options)
    names = _names(what, manifest)
    figures = draw(names, groups, options)
    target = prepare_folder(out) if out is not None else new_folder(_home(picks, folder))
    request: dict[str, JSON] = {"argv": list(sys.argv), "what": what.value}
    written = write_figures(figures, groups, options, target, formats=images, request=request)
    result = _Result(target, written, groups, options)
    try:
        write_images(images_of(written))
    except AssetError as error:  # the pages are there all the same
        error.where = error.where or str(target)
        error.hint = f"{error.hint}; pages and tables are complete in {target}"
        raise
    result.tell(talk, as_json=as_json, is_comparison=what is What.ALL)


@dataclass(frozen=True)
class _Result:
    folder: Path
    written: Sequence[Written]
    groups: Sequence[Group]
    options: Options

    def tell(self, talk: Talk, *, as_json: bool, is_comparison: bool) -> None:
        """Report what was made."""
        if as_json:
            talk.envelope("plot", "ok", self.fields())
            return
        if self.options.warning:
            talk.say(f"warning: {self.options.warning}", verbosity=-1)
        console = talk.out()
        if is_comparison:
            print_comparison(console, summaries(self.groups))
        pages = dict.fromkeys(one.html for one in self.written)
        for page in pages:
            console.print(plain_text(str(page)), soft_wrap=True)
        for path in (path for one in self.written for path in one.made):
            console.print(plain_text(str(path)), soft_wrap=True)

    def fields(self) -> Mapping[str, JSON]:
        """The same for programs."""
        return {
            "folder": str(self.folder),
            "manifest": str(self.folder / "manifest.json"),
            "summary": str(self.folder / "summary.json"),
            "compare": str(self.folder / "compare.csv"),
            "warning": self.options.warning or None,
            "figures": [one.fields() for one in self.written],
            "runs": list(summaries(self.groups)),
        }


def _image_formats(text: str) -> list[str]:
    wanted = list(dict.fromkeys(part.strip().lower() for part in text.split(",") if part.strip()))
    for name in wanted:
        if name not in ("html", *FORMATS):
            raise ConfigError(
                f"there is no format '{name}'", where=f"--format {text}", hint=f"known: html, {', '.join(FORMATS)}"
            )
    return [name for name in wanted if name != "html"]


def _read(pick: Pick, talk: Talk) -> RunSeries:
    try:
        series = read_series(pick.info.folder.path)
    except NothingToDoError as error:
        raise NothingToDoError(f"{pick.info.record.id}: {error.message}", where=error.where) from None
    for problem in series.problems[:3]:
        talk.say(f"{pick.info.record.id}: line {problem.line}: {problem.message}")
    return series


def _options(
    x: Axis | None, smooth: int | None, cut: Cut | None, manifest: FigureManifest | None, name: str, warning: str
) -> Options:
    """Flags before the manifest, the manifest before the defaults."""
    base = Options() if manifest is None else Options(manifest.axis, manifest.smooth, manifest.cut)
    return Options(
        axis=base.axis if x is None else x,
        smooth=base.smooth if smooth is None else smooth,
        cut=base.cut if cut is None else cut,
        system_name=name,
        warning=warning,
    )


def _names(what: What, manifest: FigureManifest | None) -> list[str]:
    if what is not What.ALL:
        return [what.value]
    return list(EXPERIMENTS if manifest is None else dict.fromkeys(manifest.figures))


def _home(picks: Sequence[Pick], folder: Path) -> Path:
    """Where the figures of these runs belong: with the run if there is one, else with all runs."""
    return picks[0].info.folder.path if len(picks) == 1 else folder
