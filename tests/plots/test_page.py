"""Pages in a real browser without a network: they draw, answer to the mouse, complain of nothing, and fit a phone."""

import json
from pathlib import Path

import pytest

from fluxctl.plots.catalogue import EXPERIMENTS, draw
from fluxctl.plots.group import Options, make_groups
from fluxctl.plots.output import write_figures
from fluxctl.runs.index import list_runs
from fluxctl.telemetry.series import read_series

LONG = "a system with a very long name <b>" + "x" * 200
OPTIONS = Options(smooth=3)


@pytest.fixture(scope="module")
def pages(recorded_runs, tmp_path_factory):
    """All pages of the recorded runs, and of one whose name is long and holds markup."""
    folder = tmp_path_factory.mktemp("pages")
    runs = [read_series(info.folder.path) for info in list_runs(recorded_runs)]
    for name, labelled in (("seeds", [("", run) for run in runs]), ("long", [(LONG, runs[0]), ("", runs[-1])])):
        groups = make_groups(labelled, OPTIONS)
        (folder / name).mkdir()
        figures = draw(list(EXPERIMENTS), groups, OPTIONS)
        write_figures(figures, groups, OPTIONS, folder / name, formats=(), request={})
    return folder


@pytest.mark.feature("F7")
@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("seeds", 1200),
        ("long", 390),
        pytest.param("seeds", 390, marks=pytest.mark.nightly),
        pytest.param("long", 1200, marks=pytest.mark.nightly),
    ],
)
def test_every_page_draws_fits_and_complains_of_nothing(browser, pages, name, width):
    for number in range(1, 6):
        page = browser.open(pages / name / f"e{number}.html", width)
        drawn = page.run(
            "[...document.querySelectorAll('.js-plotly-plot')].map(plot => plot.querySelectorAll('svg').length)"
        )
        assert drawn
        assert min(drawn) > 0
        assert page.faults() == []
        assert page.complaints() == []


@pytest.mark.feature("F1")
def test_hovering_shows_the_measured_number(browser, pages):
    page = browser.open(pages / "long" / "e1.html")
    spec = json.loads((pages / "long" / "e1_accuracy.json").read_text())
    raw = spec["data"][0]
    last = len(raw["x"]) - 1
    at = page.run(
        f"""(() => {{
          const plot = document.getElementById("e1_accuracy"), layout = plot._fullLayout;
          const box = plot.getBoundingClientRect();
          return [box.left + layout.xaxis._offset + layout.xaxis.l2p({raw["x"][last]}),
                  box.top + layout.yaxis._offset + layout.yaxis.l2p({raw["y"][last]})];
        }})()"""
    )
    page.move(at[0] - 30, at[1] - 30)
    page.move(*at)
    shown = "() => [...document.querySelectorAll('#e1_accuracy .hovertext')].map(part => part.textContent).join('|')"
    told = page.until(shown)
    assert f"{100 * raw['y'][last]:.0f}" in told.replace("%", "")
    assert "<b>" in told or "a system with a very" in told
    assert page.complaints() == []


@pytest.mark.feature("F10")
def test_a_click_in_the_legend_hides_all_of_a_system(browser, pages):
    page = browser.open(pages / "seeds" / "e1.html")
    x, y = page.run(
        """(() => {
          const box = document.querySelector("#e1_accuracy .legendtoggle").getBoundingClientRect();
          return [box.left + box.width / 2, box.top + box.height / 2];
        })()"""
    )
    shown = "document.getElementById('e1_accuracy')._fullData.map(trace => [trace.legendgroup, trace.visible])"
    before = page.run(shown)
    assert all(visible is True for _, visible in before)
    page.click(x, y)
    changed = f"() => {{ const now = {shown}; return now.some(([, visible]) => visible !== true) && now; }}"
    after = page.until(changed)
    hidden = {group for group, visible in after if visible == "legendonly"}
    assert len(hidden) == 1
    assert all((visible == "legendonly") == (group in hidden) for group, visible in after)
    assert page.complaints() == []


def test_a_page_may_reach_nothing(browser, pages, tmp_path):
    """The browser's ear is good: a page that asks for something outside is heard."""
    text = Path(pages / "long" / "e3.html").read_text()
    bad = tmp_path / "bad.html"
    bad.write_text(text.replace("</main>", '<img src="https:' + '//outside.invalid/x.png" alt=""></main>'))
    assert any("outside.invalid" in told for told in browser.open(bad).complaints())
