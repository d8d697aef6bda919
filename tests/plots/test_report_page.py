"""Reports in the same browser, the network off: they draw, answer to the mouse, fit a phone, run nothing of data."""

import json
import shutil

import pytest

from fluxctl.report.gather import gather
from fluxctl.report.page import render
from fluxctl.runs.index import list_runs, read_info
from fluxctl.runs.layout import RunFolder

EVIL = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
NUM_FIGURES = 9  # of E1 to E5


@pytest.fixture(scope="module")
def reports(recorded_runs, tmp_path_factory):
    """A report of three runs, and one of a crashed run whose names are long and hold markup."""
    folder = tmp_path_factory.mktemp("reports")
    (folder / "three.html").write_text(render(gather("three runs", list_runs(recorded_runs))))
    source = list_runs(recorded_runs)[0].folder
    crashed = RunFolder(folder / source.id)
    shutil.copytree(source.path, crashed.path)
    crashed.verdict.unlink()
    lines = crashed.events.read_text().splitlines(keepends=True)
    crashed.events.write_text("".join(lines[: len(lines) * 2 // 3]) + lines[-2][:40])
    record = json.loads(crashed.run.read_text())
    crashed.run.write_text(json.dumps({**record, "baseline": EVIL, "variant": "x" * 300}))
    (folder / "hostile.html").write_text(render(gather(EVIL + "y" * 300, [read_info(crashed)])))
    return folder


def num_drawn(page):
    return page.run("document.querySelectorAll('.js-plotly-plot').length")


@pytest.mark.feature("F7", "G7")
@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("three", 1200),
        ("hostile", 390),
        pytest.param("three", 390, marks=pytest.mark.nightly),
        pytest.param("hostile", 1200, marks=pytest.mark.nightly),
    ],
)
def test_a_report_draws_fits_and_complains_of_nothing(browser, reports, name, width):
    page = browser.open(reports / f"{name}.html", width)
    assert num_drawn(page) >= NUM_FIGURES
    page.run("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    places = page.run("figures.length")
    assert places > NUM_FIGURES
    # what a closed part holds is drawn when it is opened
    assert page.until(f"() => document.querySelectorAll('.js-plotly-plot .main-svg').length >= {places}")
    assert num_drawn(page) == places
    assert page.faults() == []
    assert page.complaints() == []
    assert page.run("window.hacked ?? null") is None


@pytest.mark.feature("F7")
def test_a_report_answers_to_the_mouse(browser, reports):
    page = browser.open(reports / "three.html")
    x, y = page.run(
        """(() => {
          const plot = document.getElementById("e1_accuracy"), layout = plot._fullLayout;
          plot.scrollIntoView({block: "center"});
          const raw = plot.data[0], last = raw.x.length - 1, box = plot.getBoundingClientRect();
          return [box.left + layout.xaxis._offset + layout.xaxis.l2p(raw.x[last]),
                  box.top + layout.yaxis._offset + layout.yaxis.l2p(raw.y[last])];
        })()"""
    )
    page.move(x - 30, y - 30)
    page.move(x, y)
    assert page.until("() => document.querySelectorAll('#e1_accuracy .hovertext').length")
    x, y = page.run(
        """(() => {
          const box = document.querySelector("#e1_accuracy .legendtoggle").getBoundingClientRect();
          return [box.left + box.width / 2, box.top + box.height / 2];
        })()"""
    )
    page.click(x, y)
    hidden = "document.getElementById('e1_accuracy')._fullData.filter(trace => trace.visible === 'legendonly').length"
    assert page.until(f"() => {hidden}")
    assert page.complaints() == []
