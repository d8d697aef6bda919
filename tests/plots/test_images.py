"""Images: made by a browser of their own, with fonts that printers take, or refused in plain words; never hanging."""

import re
import stat
import sys
import zlib

import psutil
import pytest

from fluxctl.errors import AssetError
from fluxctl.plots import images
from fluxctl.plots.catalogue import draw
from fluxctl.plots.figure import Figure
from fluxctl.plots.group import Options, make_groups
from fluxctl.plots.images import Image, find_browser, missing, write_images
from fluxctl.runs.index import list_runs
from fluxctl.runs.process import run_limited
from fluxctl.telemetry.series import read_series


def figure(title="Accuracy <b>"):
    trace = {"type": "scatter", "mode": "lines+markers", "x": [0, 1, 2], "y": [0.2, 0.5, 0.4], "name": "fluxtune"}
    layout = {"xaxis": {"title": {"text": "engine time (s)"}}, "yaxis": {"title": {"text": "test accuracy"}}}
    return Figure("e1_accuracy", "e1", title, "Read it.", [trace, {**trace, "name": "<b>fwdllm</b>"}], layout, (), ())


@pytest.fixture
def with_browser():
    if find_browser() is None:
        pytest.skip("no Chromium is installed")


def objects(pdf):
    """The text of a PDF with its streams inflated."""
    parts = [pdf]
    for match in re.finditer(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL):
        try:
            parts.append(zlib.decompress(match[1]))
        except zlib.error:
            continue
    return b"\n".join(parts)


@pytest.mark.feature("F10")
@pytest.mark.usefixtures("with_browser")
def test_images_in_all_formats_with_embedded_truetype_fonts(tmp_path):
    made = [Image(figure(), tmp_path / f"e1_accuracy.{kind}") for kind in images.FORMATS]
    write_images(made)
    png, svg, pdf = (image.path.read_bytes() for image in made)
    assert png.startswith(b"\x89PNG")
    width, height = int.from_bytes(png[16:20]), int.from_bytes(png[20:24])
    assert width == 2 * images.WIDTH
    assert height > 800
    assert b"fluxtune" in svg
    assert re.search(rb">Accuracy &(lt|#60);b&(gt|#62);<", svg)  # as text, not as markup
    content = objects(pdf)
    assert pdf.startswith(b"%PDF")
    assert b"/FontFile2" in content  # TrueType, embedded
    assert b"/Type3" not in content
    assert len(re.findall(rb"/Type\s*/Page\b", content)) == 1


def test_what_is_missing_is_named(monkeypatch, tmp_path):
    image = Image(figure(), tmp_path / "a.png")
    monkeypatch.delenv("BROWSER_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "Chromium" in missing()
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "absent"))
    assert find_browser() is None
    with pytest.raises(AssetError, match="cannot make images") as caught:
        write_images([image])
    assert "BROWSER_PATH" in caught.value.hint
    monkeypatch.setattr(images.util, "find_spec", lambda _: None)
    assert "fluxctl[pdf]" in missing()
    write_images([])  # nothing asked, nothing needed


def fake_browser(folder, script):
    path = folder / "browser"
    path.write_text(f"#!{sys.executable}\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize("script", ["import signal; signal.pause()", "raise SystemExit(7)"], ids=["hangs", "dies"])
def test_a_browser_that_hangs_or_dies_costs_the_time_limit_at_most(monkeypatch, tmp_path, script):
    monkeypatch.setenv("BROWSER_PATH", fake_browser(tmp_path, script))
    image = Image(figure(), tmp_path / "a.png")
    with pytest.raises(AssetError) as caught:
        write_images([image], limit_s=2.0)
    assert caught.value.hint
    assert not image.path.exists()
    mine = [child for child in psutil.Process().children(recursive=True) if "fluxctl.plots.images" in _command(child)]
    assert mine == []


def _command(process):
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def test_a_tool_is_ended_with_all_that_it_started(tmp_path):
    child = "import subprocess,sys,os;p=subprocess.Popen([sys.executable,'-c','import signal;signal.pause()'],"
    child += "start_new_session=True);print(os.getpid(),p.pid,flush=True);import signal;signal.pause()"
    log = tmp_path / "log"
    assert run_limited([sys.executable, "-c", child], 5.0, log) is None
    pids = [int(word) for word in log.read_text().split()]
    assert len(pids) == 2
    for pid in pids:
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_tool_that_ends_by_itself_gives_its_code_and_its_words(tmp_path):
    log = tmp_path / "log"
    assert run_limited([sys.executable, "-c", "print('said'); raise SystemExit(3)"], 30.0, log) == 3
    assert log.read_text().strip() == "said"


@pytest.mark.feature("F10")
@pytest.mark.usefixtures("with_browser")
def test_the_pdfs_of_panels_have_one_page_each_and_embedded_truetype_fonts(recorded_runs, tmp_path):
    groups = make_groups([("", read_series(info.folder.path)) for info in list_runs(recorded_runs)], Options())
    (whole,) = draw(["e3"], groups, Options())
    made = [Image(one, tmp_path / f"{one.id}.pdf") for one in (whole, *whole.panels)]
    write_images(made)
    assert len(made) == 4
    for image in made:
        content = objects(image.path.read_bytes())
        assert b"/FontFile2" in content, image.path
        assert b"/Type3" not in content, image.path
        assert len(re.findall(rb"/Type\s*/Page\b", content)) == 1
