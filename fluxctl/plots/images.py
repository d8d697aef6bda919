"""Figures as PNG, SVG and PDF: kaleido drives a Chromium in a process of its own, under a time limit.

A browser can hang in more ways than can be foreseen. So a child process does the work (``python -m
fluxctl.plots.images JOB``), one browser for all images, and whatever is left when its time is up is killed with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import Final

from fluxctl.errors import AssetError
from fluxctl.plots.figure import LEGEND_PX, WIDTH, Figure, Spec, merged
from fluxctl.plots.style import plain
from fluxctl.runs.process import run_limited

FORMATS: Final = ("png", "svg", "pdf")
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
START_S: Final = 60.0  # wall seconds that a browser may take to start on a busy machine
IMAGE_S: Final = 20.0  # wall seconds that one image may take
PAPER: Final = (504, 330)  # CSS pixels of a paper figure: 7 by 4.6 in at 72 points an inch, type of 13 points


@dataclass(frozen=True, slots=True)
class Image:
    """One image to make."""

    figure: Figure
    path: Path

    @property
    def format(self) -> str:
        """``png``, ``svg`` or ``pdf``."""
        return self.path.suffix.removeprefix(".")


def find_browser() -> str | None:
    """A Chromium or Chrome: ``BROWSER_PATH``, else one on the search path."""
    named = os.environ.get("BROWSER_PATH")
    if named:
        return named if shutil.which(named) else None
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def missing() -> str | None:
    """What is missing to make images, and what to do; None if nothing is."""
    if util.find_spec("kaleido") is None:
        return "images need kaleido: pip install 'fluxctl[pdf]'"
    if find_browser() is None:
        return "images need Chromium or Chrome: install it (Debian: apt install chromium), or set BROWSER_PATH"
    return None


def write_images(images: Sequence[Image], limit_s: float | None = None) -> None:
    """Make images.

    Args:
        images: What to make.
        limit_s: Wall seconds for all of them; None = a start and a share for each.

    Raises:
        AssetError: If something needed is not installed, the browser fails, or the time is up.
    """
    if not images:
        return
    lack = missing()
    if lack is not None:
        raise AssetError("cannot make images", hint=lack)
    limit = START_S + IMAGE_S * len(images) if limit_s is None else limit_s
    with tempfile.TemporaryDirectory(prefix="fluxctl-images-") as scratch:
        job, log = Path(scratch) / "job.json", Path(scratch) / "log"
        job.write_text(json.dumps([_request(image) for image in images]), encoding="utf-8")
        code = run_limited([sys.executable, "-P", "-m", "fluxctl.plots.images", str(job)], limit, log)
        lost = [image.path for image in images if not image.path.is_file()]
        if code is None:
            raise AssetError(
                f"the browser did not finish {len(images)} images within {limit:g} s; it was ended",
                hint="try again on a quieter machine, or ask for fewer formats",
            )
        if code or lost:
            said = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
            raise AssetError(
                f"the browser could not make {lost[0].name if lost else 'the images'}",
                hint=said[-1][:300] if said else "it said nothing",
                where=find_browser(),
            )


def _request(image: Image) -> dict[str, object]:
    """What the child is told: a figure as it shall look outside a page, with a title unless it is for a paper."""
    figure, is_paper = image.figure, image.format == "pdf"
    layout = figure.whole_layout
    width, height = PAPER if is_paper else (WIDTH, figure.height)
    legend = LEGEND_PX * max(0, figure.num_entries - 3)
    if is_paper:
        # bars are stacked to the pixel; what else is tall stands a little less of it
        height = max(height, figure.height if figure.panels else round(figure.height * 0.8)) + legend
        layout = merged(layout, {"margin": {"t": 24 if figure.is_mixed else 10}})  # no toolbar on paper
    else:
        title: Spec = {"text": plain(figure.title, 80), "x": 0.01, "font": {"size": 15}}
        layout = merged(layout, {"title": title, "margin": {"t": 44}})
        height += 30 + legend
    return {
        "figure": {"data": list(figure.traces), "layout": merged(layout, {"width": width, "height": height})},
        "path": str(image.path),
        "options": {
            "format": image.format,
            "width": width,
            "height": height,
            "scale": 2 if image.format == "png" else 1,
        },
    }


async def _render(requests: Sequence[dict[str, object]]) -> None:
    import kaleido
    import plotly

    library = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    settings = {"plotlyjs": library, "mathjax": False, "path": find_browser()}  # nothing from the network
    async with kaleido.Kaleido(n=1, timeout=IMAGE_S, **settings) as browser:
        for request in requests:
            image = await browser.calc_fig(request["figure"], opts=request["options"])
            Path(str(request["path"])).write_bytes(image)


if __name__ == "__main__":
    asyncio.run(_render(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
