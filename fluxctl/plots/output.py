"""The files of a set of figures, in a folder of their own: pages, specifications, numbers, images, origins."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import metadata
from pathlib import Path
from typing import Final

from fluxctl import wall
from fluxctl.errors import ConfigError, os_reason
from fluxctl.plots.catalogue import EXPERIMENTS
from fluxctl.plots.figure import Figure
from fluxctl.plots.group import Group, Options
from fluxctl.plots.images import FORMATS, Image
from fluxctl.plots.page import render
from fluxctl.plots.summary import summaries
from fluxctl.runs.files import csv_text, make_folder, point_latest, write_json, write_text
from fluxctl.types import JSON

FIGURES: Final = "figures"


@dataclass(frozen=True)
class Written:
    """Files of one figure.

    Attributes:
        figure: The figure.
        html: Its page.
        json: Its specification.
        csv: Its numbers.
        images: By format, those that were asked for.
        panels: A PDF for each of its panels, if PDF was asked for and it has several.
    """

    figure: Figure
    html: Path
    json: Path
    csv: Path
    images: Mapping[str, Path]
    panels: Mapping[str, Path]

    def fields(self) -> dict[str, JSON]:
        """The figure as the command reports it."""
        return {
            "id": self.figure.id,
            "title": self.figure.title,
            "html": str(self.html),
            "json": str(self.json),
            "csv": str(self.csv),
            **{name: str(self.images[name]) if name in self.images else None for name in FORMATS},
            "panels": [{"id": id, "pdf": str(path)} for id, path in self.panels.items()],
        }

    @property
    def made(self) -> list[Path]:
        """Its images and panels, in order."""
        return [*self.images.values(), *self.panels.values()]


def new_folder(parent: Path) -> Path:
    """Make ``figures/<time>`` in a folder and let ``figures/latest`` point to it.

    Raises:
        ConfigError: If it cannot be made.
    """
    root = parent / FIGURES
    stamp = f"{wall.utc_now():%Y%m%d-%H%M%S}"
    for number in range(1000):
        folder = root / (stamp if number == 0 else f"{stamp}-{number + 1}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if folder.parent.is_dir():
                continue
            raise _cannot_write(folder, "a file is in the way") from None
        except OSError as error:
            raise _cannot_write(folder, os_reason(error)) from None
        point_latest(root, folder.name)
        return folder
    raise _cannot_write(root, "no name is free")


def prepare_folder(folder: Path) -> Path:
    """Make a folder that the user named; files in it may be replaced.

    Raises:
        ConfigError: If it cannot be made or written.
    """
    try:
        make_folder(folder)
    except OSError as error:
        raise _cannot_write(folder, os_reason(error)) from None
    return folder


def write_figures(
    figures: Sequence[Figure],
    groups: Sequence[Group],
    options: Options,
    folder: Path,
    *,
    formats: Sequence[str],
    request: Mapping[str, JSON],
) -> list[Written]:
    """Write pages, specifications, numbers, the summary of the runs, and the manifest; images are left to the caller.

    Args:
        figures: What to write.
        groups: The runs that they show.
        options: How they were drawn.
        folder: Exists.
        formats: Image formats for which paths are reserved.
        request: How the program was called, for the manifest.

    Raises:
        ConfigError: If something cannot be written.
    """
    try:
        return _write(figures, groups, options, folder, formats=formats, request=request)
    except OSError as error:
        raise _cannot_write(folder, os_reason(error)) from None


def _write(
    figures: Sequence[Figure],
    groups: Sequence[Group],
    options: Options,
    folder: Path,
    *,
    formats: Sequence[str],
    request: Mapping[str, JSON],
) -> list[Written]:
    pages = list(dict.fromkeys(figure.page for figure in figures))
    for page in pages:
        own = [figure for figure in figures if figure.page == page]
        title = f"{page.upper()}  {EXPERIMENTS[page][0]}"
        write_text(folder / f"{page}.html", render(title, own, groups, options.warning))
    written = [_write_one(figure, folder, formats) for figure in figures]
    runs = summaries(groups)
    write_json(folder / "summary.json", {"schema_version": 1, "cut": options.cut.value, "runs": runs})
    write_text(folder / "compare.csv", csv_text(list(runs[0]) if runs else [], [list(run.values()) for run in runs]))
    write_text(folder / "index.html", _index(pages, options))
    write_json(folder / "manifest.json", _manifest(written, groups, options, request))
    return written


def _write_one(figure: Figure, folder: Path, formats: Sequence[str]) -> Written:
    spec, table = folder / f"{figure.id}.json", folder / f"{figure.id}.csv"
    write_text(spec, json.dumps(figure.spec, allow_nan=False) + "\n")
    write_text(table, csv_text(figure.header, figure.rows))
    images = {name: folder / f"{figure.id}.{name}" for name in formats}
    panels = {panel.id: folder / f"{panel.id}.pdf" for panel in figure.panels} if "pdf" in images else {}
    return Written(figure, folder / f"{figure.page}.html", spec, table, images, panels)


def images_of(written: Sequence[Written]) -> list[Image]:
    """The images for which paths are reserved."""
    images = []
    for one in written:
        images += [Image(one.figure, path) for path in one.images.values()]
        images += [Image(panel, one.panels[panel.id]) for panel in one.figure.panels if panel.id in one.panels]
    return images


def _manifest(
    written: Sequence[Written], groups: Sequence[Group], options: Options, request: Mapping[str, JSON]
) -> dict[str, JSON]:
    inputs: list[JSON] = []
    for group in groups:
        for shown in group.runs:
            facts = shown.series.facts
            inputs.append(
                {
                    "label": group.label,
                    "run": facts.id,
                    "events": str(facts.events),
                    "sha256": _sha256(facts.events),
                    "canonical_hash": facts.summary.get("hash"),
                    "condition": facts.condition,
                    "seed": facts.seed,
                    "damaged_lines": len(shown.series.problems),
                }
            )
    files = [path.name for one in written for path in (one.html, one.json, one.csv, *one.made)]
    return {
        "schema_version": 1,
        "created": wall.utc_now().isoformat(),
        "fluxctl": metadata.version("fluxctl"),
        "plotly": metadata.version("plotly"),
        "command": request,
        "axis": options.axis.value,
        "smooth": options.smooth,
        "cut": options.cut.value,
        "warning": options.warning or None,
        "inputs": inputs,
        "files": [*dict.fromkeys(files), "index.html", "summary.json", "compare.csv"],
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _index(pages: Sequence[str], options: Options) -> str:
    links = "".join(
        f'<li><a href="{page}.html">{page.upper()}  {escape(EXPERIMENTS[page][0])}</a></li>' for page in pages
    )
    warning = f"<p><b>{escape(options.warning)}</b></p>" if options.warning else ""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Figures</title></head>'
        '<body style="font: 16px/1.6 sans-serif; max-width: 40rem; margin: 1rem auto; padding: 0 1rem">'
        f'<h1>Figures</h1>{warning}<ul>{links}</ul><p>Numbers: <a href="compare.csv">compare.csv</a>, '
        '<a href="summary.json">summary.json</a>; made from: <a href="manifest.json">manifest.json</a></p>'
        "</body></html>\n"
    )


def _cannot_write(place: Path, reason: str) -> ConfigError:
    return ConfigError(f"cannot write the figures: {reason}", where=str(place), hint="choose a folder with --out")
